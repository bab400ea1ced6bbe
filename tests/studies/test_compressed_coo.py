"""The study of compressed coordinates on the CPU: what it searches, chooses and times after that."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from repro.bench.rows import Row
from repro.codegen.compile import compile_module, manifest_path
from repro.codegen.render import render_common
from repro.codegen.solvers import render_solver, solver_manifest
from repro.codegen.targets import CPU, get_target
from repro.config.models import Config, Protocol, Study
from repro.errors import ReproError
from repro.problems.generated import generate
from repro.problems.problem import Problem
from repro.problems.statistics import describe
from repro.studies import compressed_coo as study
from repro.studies.launching import launch
from repro.studies.measuring import measure

NAME = "grid"
QUICK = {
    "screen_launches": 3,
    "finalists": 2,
    "launches": 10,
    "search_graph_launches": 2,
    "search_graph_replays": 5,
    "graph_launches": 2,
    "graph_replays": 6,
    "cold_launches": 6,
    "rounds": 2,
    "cpu_budget": 0.02,
    "noise": 1e9,
}


def settings(**keys) -> Study:
    return Study(space="extended", problems=(NAME,), precisions=("double",), protocol=Protocol(**QUICK), **keys)


def config(**keys) -> Config:
    return Config(campaign="c", device="opencl", studies={study.NAME: settings(**keys)})


@pytest.fixture(scope="module")
def modules(tmp_path_factory, templates):
    """All modules of the study, the solver's and the common one, for the CPU."""
    folder = tmp_path_factory.mktemp("coordinates")
    for space in study.spaces(settings()):
        for layout in study.layouts(settings(), space, "real"):
            source = study.render(templates, space, "real", "double", layout, CPU)
            compile_module(source, CPU, folder / manifest_path(CPU.name, study.NAME, space, "real", "double", layout))
    compile_module(
        render_solver(templates, "bicgstab", "double", CPU), CPU, folder / solver_manifest("cpu", "bicgstab", "double")
    )
    compile_module(render_common(templates, CPU), CPU, folder / "modules/cpu/common.json")
    return folder / "modules"


@pytest.fixture
def campaign(modules, monkeypatch, tmp_path, templates):
    """A folder with modules and a problem; what is measured goes there."""
    (tmp_path / "modules").symlink_to(modules)
    (tmp_path / "kernels").symlink_to(templates)
    monkeypatch.chdir(tmp_path)
    made = generate("diffusion", points=[40, 41], stencil=5, convection=0.5)
    problem = Problem(
        NAME, "real", made.n, made.indptr, made.indices, made.values, statistics=describe(made.indptr, made.indices)
    )
    problem.save(Path(f"results/c/problems/{NAME}.npz"))


def test_products_are_searched_and_solvers_timed_with_the_best(campaign):
    paths = measure(config(), study.NAME, NAME, "double", lambda *_: None)
    found = {path.stem: pd.read_parquet(path) for path in paths}
    search, report = found["search"], found["report"]
    assert set(search.status) == {"ok"}
    assert search.groupby("space").layout.unique().map(set).to_dict() == {
        "paper": {"COO", "CCOO"},
        "extended": {"CCOO-unpadded", "CCOO-aligned"},
    }
    assert set(search.per_thread) == {1, 2, 4, 8}
    compressed = search[search.layout == "CCOO"].iloc[0]
    assert set(json.loads(compressed.encodings)) <= {"8/8/table", "8/16/table"}
    assert compressed.matrix_bytes < search[search.layout == "COO"].matrix_bytes.min()

    choices = found["choices"]
    assert set(choices.tuning) == {"plain", "joint", "extended"}
    layouts = search.set_index("name").layout
    assert set(layouts[choices[choices.tuning == "plain"].name]) == {"COO"}
    assert set(layouts[choices[choices.tuning == "joint"].name]) == {"CCOO"}

    solvers = report[report.kind == "solver"]
    products = set(solvers.name.str.removeprefix("bicgstab-10/"))
    assert set(solvers.status) == {"ok"}
    assert set(solvers.cache) == {"warm"}
    assert (solvers.error <= 1).all()
    assert "scipy/csr/real" in products
    assert products <= set(report.name)
    assert {"COO", "CCOO"} <= set(solvers.layout)
    # ten iterations are twenty products and more
    alone = report[report.cache == "warm"].set_index("name").graph_median
    assert all(row.graph_median > alone[row["name"].removeprefix("bicgstab-10/")] for _, row in solvers.iterrows())


def test_a_variant_is_found_by_its_name_alone(campaign):
    names = ["CCOO-aligned/b64-k2-c8", "COO/b64-k1-c2-cs", "floor"]
    rows = launch(config(), study.NAME, NAME, "double", names, 2)
    assert [row.name for row in rows[:2]] == names[:2]
    assert all(row.error <= 1 for row in rows[:2])
    for name, message in (
        ("ELL-AoS-AoS/static-64-1", "unknown layout"),
        ("CCOO/static-64-1", "unknown schedule"),
        ("CCOO/b64-k1-c0", "unknown schedule"),
    ):
        with pytest.raises(ReproError, match=message):
            launch(config(), study.NAME, NAME, "double", [name], 1)


def test_layouts_are_those_asked_for():
    only = settings(layouts=("CCOO", "CCOO-aligned"))
    assert study.layouts(only, "paper", "real") == ["CCOO"]
    assert study.layouts(only, "extended", "real") == ["CCOO-aligned"]
    with pytest.raises(ReproError, match="unknown layout"):
        study.layouts(settings(layouts=("CSR-AoS-AoS",)), "paper", "real")
    papers_alone = settings(layouts=("CCOO-aligned",)).model_copy(update={"space": "paper"})
    with pytest.raises(ReproError, match="no layout to try"):
        study.layouts(papers_alone, "paper", "real")


def test_the_papers_blocking_is_in_its_space():
    names = {str(blocking) for blocking in study.schedules(get_target("sm_90"), "paper", "CCOO")}
    assert {f"b256-k{k}-c1" for k in (1, 2, 4, 8)} <= names


def row(name: str, layout: str, space: str, seconds: float) -> Row:
    return Row(
        key=name, study=study.NAME, problem=NAME, entry="real", precision="double", kind="variant", name=name,
        status="ok", layout=layout, space=space, event_median=seconds, graph_median=seconds,
    )  # fmt: skip


def test_each_tuning_chooses_from_its_own():
    rows = [row("a", "COO", "paper", 3.0), row("b", "CCOO", "paper", 2.0), row("c", "CCOO", "paper", 2.01)]
    chosen = {choice.tuning: choice for choice in study.choose(rows, 0.01)}
    assert {tuning: choice.name for tuning, choice in chosen.items()} == {"plain": "a", "joint": "b"}
    assert chosen["joint"].ties == ("c",)
    rows.append(row("d", "CCOO-aligned", "extended", 1.0))
    assert {choice.tuning: choice.name for choice in study.choose(rows, 0.01)}["extended"] == "d"
