"""Conjugate gradients as a part of the study: which products they are timed with, and what is shown of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repro.bench.rows import Row
from repro.campaign.measurement import measure
from repro.campaign.plan import make_plan
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.codegen.templates import render_common
from repro.config.models import Config, StudySettings, Timing
from repro.problems.problem import Outline, describe_pattern
from repro.results.registry import get_artifact
from repro.studies.compound_spmv import CONJUGATE_GRADIENTS
from repro.studies.compound_spmv.study import STUDY as CONTRACT
from repro.studies.compound_spmv.study import fastest_of
from support.benches import QUICK
from support.persistent_solves import laplacian
from support.synthetic_campaign import PROBLEMS, STUDY, Maker

NAME = "body"
TABLE, FIGURE = "table-conjugate-gradients", "figure-conjugate-gradients"


def settings(**keys) -> StudySettings:
    given = {"problems": (NAME,), "space": ("extended",), "layouts": ("Sl-8-AoSoA-AoS",), "precisions": ("double",)}
    return StudySettings(timing=Timing(**QUICK), **{**given, **keys})


@pytest.fixture
def measured(tmp_path, templates, monkeypatch) -> dict[str, pd.DataFrame]:
    """The rows of a small definite matrix, measured on the CPU in one layout."""
    config = Config(campaign="c", device="opencl", studies={STUDY: settings()})
    for key in CONTRACT.modules(settings(), Outline(NAME, entry="real"), "double", CPU):
        source = CONTRACT.render(templates, key, CPU)
        compile_module(source, CPU, manifest_path(CPU.name, STUDY, key, tmp_path / "modules"))
    compile_module(render_common(templates, CPU), CPU, tmp_path / "modules/cpu/common.json")
    monkeypatch.chdir(tmp_path)
    made = laplacian(20)
    statistics = describe_pattern(made.indptr, made.indices)
    replace(made, name=NAME, statistics=statistics).save(Path(f"results/c/problems/{NAME}.npz"))
    return {path.stem: pd.read_parquet(path) for path in measure(config, STUDY, NAME, "double", lambda *_: None)}


@pytest.mark.slow
def test_the_fastest_products_of_each_side_are_timed_in_it_beside_the_chip(measured):
    report = measured["report"]
    solvers = report[report.kind == "solver"]
    assert set(solvers.status) == {"ok"}, solvers.message.tolist()
    assert set(solvers.cache) == {"warm"}
    warm = report[(report.cache == "warm") & (report.ordering == "natural")]
    fastest = {
        name
        for kind in ("variant", "baseline")
        for name in warm[warm.kind == kind].sort_values("graph_median").name[:2]
    }
    assert set(solvers["product"]) == {"persistent", *fastest}
    assert (solvers.error <= 1).all() and (solvers.graph_median > 0).all()
    assert (
        set(solvers[solvers.layout.notna()]["product"]) | set(solvers[solvers.representation.notna()]["product"])
        == fastest
    )
    assert "solver" not in set(measured["search"].kind)


def timed(name: str, seconds: float, **columns) -> Row:
    return Row("k", STUDY, NAME, "double", "variant", name, "ok", "report", graph_median=seconds, **columns)


class Product:
    def __init__(self, name: str, arrangement: str = "AoS@natural") -> None:
        self.name, self.arrangement = name, arrangement


def test_only_products_in_the_matrixs_own_order_count():
    rows = [timed("a", 3.0), timed("b", 2.0), timed("c", 1.0), timed("d", 4.0), timed("c", 0.5, cache="cold")]
    products = [Product("a"), Product("b"), Product("c", "AoS@rcm"), Product("d"), Product("e")]
    assert [product.name for product in fastest_of(products, rows)] == ["a", "b"]


def test_conjugate_gradients_are_a_part_of_our_space_of_matrices_with_values():
    asked = [settings(), settings(space="extended"), settings(parts=()), settings(space="paper", layouts="all")]
    assert [CONJUGATE_GRADIENTS in CONTRACT.parts_of(each, "double") for each in asked] == [True, True, False, False]
    keys = {"solvers/persistent-cg-{}-double", "solvers/cg-double"}
    for entry, solves in (("complex", True), ("pattern", False)):
        modules = set(CONTRACT.modules(settings(layouts="all"), Outline(NAME, entry=entry), "double", CPU))
        assert modules.issuperset(key.format(entry) for key in keys) is solves
        assert any(key.startswith("solvers/") for key in modules) is solves


def test_the_table_and_figure_are_made_where_the_part_is_measured():
    def planned(**keys) -> set[str]:
        config = Config(device="opencl", studies={STUDY: settings(problems=("tiny/poisson",), **keys)})
        study = make_plan(config).studies[STUDY]
        return {*study.tables, *study.figures}

    assert {TABLE, FIGURE} <= planned()
    assert not {TABLE, FIGURE} & planned(parts=())
    assert not {TABLE, FIGURE} & planned(space="paper", layouts="all")
    assert planned() - planned(parts=()) == {TABLE, FIGURE}


#: Microseconds of an iteration: on the chip, over ours, over the library's. By problem, kept and iterations timed.
ITERATIONS = {"surfaces/bunny": (5.0, 9.0, 20.0), "generated/hubs": (10.0, 13.0, 25.0), "fem/nut_37k": (4.0, 6.0, 8.0)}
KEPT = {"surfaces/bunny": 1.0, "generated/hubs": 0.6, "fem/nut_37k": 1.0}
TRIED = tuple(given for given in PROBLEMS if given.name in ITERATIONS or given.name == "mhd1280b")
CHIP, BYTES = 30_000_000, 3_000_000


class SolverMaker(Maker):
    """Adds conjugate gradients to the problems above; in single precision one over the library's product fails."""

    def search(self, given, precision):
        return []

    def report(self, given, precision):
        rows = super().report(given, precision)
        if given.name not in ITERATIONS:
            return rows
        chip, ours, library = ITERATIONS[given.name]
        count = 100 if precision == "double" else 40
        common = {"iterations": count, "to_tolerance": count + 3, "matrix_bytes": BYTES}
        kept = {"kept_bytes": round(KEPT[given.name] * BYTES), "chip_bytes": CHIP, "routine": "persistent cg"}
        made = [
            ("persistent", chip, kept),
            ("Sl-8/slow", 2 * ours, {"routine": "cg", "layout": "Sl-8-AoSoA-AoS"}),
            ("Sl-8/fast", ours, {"routine": "cg", "layout": "Sl-8-AoSoA-AoS"}),
            ("cusparse/csr", library, {"routine": "cg", "representation": "real"}),
        ]
        for product, micro, own in made:
            columns = {"phase": "report", **common, **own, "product": product}
            if product == "cusparse/csr" and precision == "single":
                failed = {"status": "unsupported", "message": "rounding leaves no less"}
                columns = {**columns, **failed, "iterations": None, "to_tolerance": None}
                rows.append(self.timed(given, precision, "solver", f"cg/{product}", None, **columns))
            else:
                rows.append(self.timed(given, precision, "solver", f"cg/{product}", micro * count / 0.8, **columns))
        return rows


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    return SolverMaker(tmp_path_factory.mktemp("solved"), "cuda", extended=True).all(TRIED)


def test_the_table_has_the_time_of_an_iteration_and_the_means(solved, published):
    made = get_artifact(STUDY, TABLE).make(solved, published)
    keys = [column.key for column in made.columns]
    lines = {(row[0].value, row[1].value): dict(zip(keys, row, strict=True)) for row in made.rows}
    assert set(lines) == {(name, precision) for name in ITERATIONS for precision in ("single", "double")}
    hubs = lines["generated/hubs", "double"]
    assert [hubs[key].value for key in ("chip_us", "ours_us", "library_us")] == pytest.approx([10, 13, 25])
    assert (hubs["ours"].value, hubs["library"].value) == ("Sl-8/fast", "cusparse/csr")
    assert (hubs["kept_percent"].value, hubs["to_tolerance"].value) == (pytest.approx(60), 103)
    assert hubs["matrix_MB"].value == pytest.approx(3.0)
    speedups = [hubs[key].value for key in ("speedup_over_ours", "speedup_over_library", "ours_speedup_over_library")]
    assert speedups == pytest.approx([1.3, 2.5, 25 / 13])
    failed = lines["generated/hubs", "single"]["library_us"]
    assert failed.value is None and "rounding leaves no less" in failed.notes[0]
    mean, worst = (dict(zip(keys, row, strict=True)) for row in made.summary)
    assert (mean["problem"].value, worst["problem"].value) == ("geometric mean", "worst")
    assert mean["speedup_over_ours"].value == pytest.approx(np.prod([1.8, 1.3, 1.5]) ** (1 / 3))
    assert worst["speedup_over_ours"].value == pytest.approx(1.3)
    assert mean["speedup_over_library"].value == pytest.approx(np.prod([4, 2.5, 2]) ** (1 / 3))
    assert mean["chip_us"].value is None
    assert "Left out, because not symmetric (complex: Hermitian): mhd1280b." in made.caption


def hubs_on_chip(solved) -> float:
    """Seconds of an iteration on the problem of which a part is kept."""
    rows = solved.report_rows("generated/hubs", "double")
    row = next(row for row in rows if row.name == "cg/persistent")
    return row.graph_median / row["iterations"]


def test_the_figure_has_a_panel_a_precision_and_the_line_of_the_chip(solved, published):
    made = get_artifact(STUDY, FIGURE).make(solved, published)
    assert "The vertical line marks the size of the multiprocessors’ shared memory, 29 MiB" in made.caption
    drawn = made.draw()
    assert [axes.get_title() for axes in drawn.axes] == ["single precision", "double precision"]
    points = [line for line in drawn.axes[1].lines if line.get_marker() == "o"]
    assert sorted(y for line in points for y in line.get_ydata()) == pytest.approx([4, 5, 10])
    [hollow] = [line for line in points if line.get_markerfacecolor() == "white"]
    assert hollow.get_ydata()[0] == pytest.approx(1e6 * hubs_on_chip(solved))
    assert any(line.get_xdata()[0] == pytest.approx(30) for line in drawn.axes[0].lines)


def test_targets_are_of_matrices_that_fit_and_of_those_that_fit_in_part(solved, published):
    made = get_artifact(STUDY, "table-targets").make(solved, published)
    keys = [column.key for column in made.columns]
    lines = [dict(zip(keys, row, strict=True)) for row in made.rows]
    solving = {line["target"].value: line for line in lines if "conjugate gradients" in str(line["target"].value)}
    measured = [line["ours"].value for line in solving.values()]
    assert measured == pytest.approx([np.sqrt(1.8 * 1.5), 1.5, np.sqrt(4 * 2), 1.3])
    assert [line["wanted"].value for line in solving.values()] == [1.6, 1.25, 3.0, 1.2]
    worst = next(line for text, line in solving.items() if "worst case" in text)
    assert worst["worst_case"].value == "fem/nut_37k, SP"


def test_a_campaign_without_such_rows_shows_nothing_of_it(tmp_path, published):
    before = SolverMaker(tmp_path, "cuda", extended=True).all(TRIED[:1])
    made = get_artifact(STUDY, "table-targets").make(before, published)
    assert not any("conjugate gradients" in str(row[0].value) for row in made.rows)
    assert "onjugate" not in made.caption
    for name in (TABLE, FIGURE):
        nothing = get_artifact(STUDY, name).make(before, published)
        assert nothing.is_empty
        assert "Left out" not in nothing.caption
