"""The study of compressed coordinates on the CPU: its search, its choices, and the times measured after them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from repro.bench.rows import Row
from repro.campaign.measurement import measure
from repro.campaign.profiler import launch
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU, get_target
from repro.codegen.templates import render_common
from repro.config.models import Config, Rival, StudySettings, Timing
from repro.errors import ReproError
from repro.problems.generators import generate
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, describe_pattern
from repro.studies.compressed_coo.ids import HEIGHTS, PAIRS, SPLITS, blockings
from repro.studies.compressed_coo.study import STUDY, choose, layouts_to_try
from support.benches import QUICK

NAME = "grid"
EXAMPLES = Path(__file__).parents[3] / "examples"
TIMING = {**QUICK, "cpu_budget": 0.02}


def settings(**keys) -> StudySettings:
    given = {"space": "extended", **keys}
    return StudySettings(problems=(NAME,), precisions=("double",), timing=Timing(**TIMING), **given)


def config(**keys) -> Config:
    rival = Rival(name="scipy", python=f"{EXAMPLES / 'rivals/products.py'}:SciPyCsr")
    return Config(campaign="c", device="opencl", studies={STUDY.name: settings(**keys)}, rivals=(rival,))


@pytest.fixture(scope="module")
def modules(tmp_path_factory, templates):
    """All modules of the study, the solver's and the common one, for the CPU."""
    folder = tmp_path_factory.mktemp("coordinates")
    for key in STUDY.modules(settings(), Outline(NAME, "matrix", entry="real"), "double", CPU):
        compile_module(STUDY.render(templates, key, CPU), CPU, manifest_path(CPU.name, STUDY.name, key, folder))
    compile_module(render_common(templates, CPU), CPU, folder / "cpu/common.json")
    return folder


@pytest.fixture
def campaign(modules, monkeypatch, tmp_path, templates):
    """A folder with modules and a problem; what is measured goes there."""
    (tmp_path / "modules").symlink_to(modules)
    (tmp_path / "kernels").symlink_to(templates)
    monkeypatch.chdir(tmp_path)
    made = generate("diffusion", points=[40, 41], stencil=5)
    problem = Matrix(
        NAME,
        "real",
        made.n,
        made.indptr,
        made.indices,
        made.values,
        statistics=describe_pattern(made.indptr, made.indices),
    )
    problem.save(Path(f"results/c/problems/{NAME}.npz"))


@pytest.mark.slow
def test_products_are_searched_and_solvers_timed_with_the_best(campaign):
    paths = measure(config(), STUDY.name, NAME, "double", lambda *_: None)
    assert [path.stem for path in paths] == list(STUDY.outputs)
    tables = {path.stem: pd.read_parquet(path) for path in paths}
    tried, report = tables["search"], tables["report"]
    assert set(tried.status) == {"ok"}
    search = tried[tried.kind == "variant"]
    assert (search.packing > 0).all() and (report[report.kind == "variant"].packing > 0).all()
    assert search.groupby("space").layout.unique().map(set).to_dict() == {
        "paper": {"COO", "CCOO"},
        "paper_tuned": {"COO", "CCOO"},
        "extended": {"CCOO-unpadded", "CCOO-aligned", *HEIGHTS, *PAIRS},
    }
    assert set(search.per_thread) == {1, 2, 4, 8, 16}
    compressed = search[search.layout == "CCOO"].iloc[0]
    assert set(json.loads(compressed.encodings)) <= {"8/8/table", "8/16/table"}
    assert compressed.matrix_bytes < search[search.layout == "COO"].matrix_bytes.min()
    # a value of 8 bits, and next to nothing for columns
    sliced = search[search.layout == "CSELL-32"]
    assert sliced.matrix_bytes.nunique() == 1
    assert sliced.matrix_bytes.max() < 0.7 * compressed.matrix_bytes
    assert set(json.loads(sliced.encodings.iloc[0])) <= {"none/0/table", "none/8/table"}

    choices = tables["choices"]
    papers = {"plain", "joint", "tuned_plain", "tuned_joint"}
    assert set(choices.tuning) == {*papers, "extended", "bicgstab"}
    assert set(STUDY.tunings(settings(), Outline(NAME, "matrix", entry="real"))) == set(choices.tuning) - {"bicgstab"}
    layouts = search.set_index("name").layout
    assert set(layouts[choices[choices.tuning == "plain"].name]) == {"COO"}
    assert set(layouts[choices[choices.tuning == "joint"].name]) == {"CCOO"}

    # in the solver the fastest of each layout is tried, and what is chosen there is reported by other samples
    in_solver = tried[tried.kind == "solver"].set_index("name")
    fastest = search[search.protocol == "full"].sort_values("graph_median").groupby("layout").name.first()
    assert set(in_solver["product"]) == set(fastest) and set(in_solver.layout) == set(SPLITS)
    by_graph = choices[(choices.tuning == "bicgstab") & (choices.clock == "graph")].name.item()
    assert in_solver.graph_median[by_graph] == in_solver[in_solver.protocol == "full"].graph_median.min()

    rivals = report[report.kind == "outside"]
    assert (
        set(rivals.name) == {"rival/scipy"} and set(rivals.status) == {"ok"} and set(rivals.cache) == {"warm", "cold"}
    )

    solvers = report[report.kind == "solver"]
    assert set(choices[choices.tuning == "bicgstab"].name) <= set(solvers.name)
    assert not solvers.name.duplicated().any()
    assert not set(solvers.key) & set(in_solver.key)
    products = set(solvers.name.str.removeprefix("bicgstab-10/"))
    assert set(solvers.status) == {"ok"}
    assert set(solvers.cache) == {"warm"}
    assert (solvers.error <= 1).all()
    assert "scipy/csr/real" in products
    assert products <= {*report.name, *in_solver["product"], "persistent"}
    assert "persistent" in products
    assert {"COO", "CCOO"} <= set(solvers.layout)
    # ten iterations are twenty products and more
    alone = report[report.cache == "warm"].set_index("name").graph_median
    assert all(row.graph_median > alone.get(row["product"], 0) for _, row in solvers.iterrows())


@pytest.mark.medium
def test_a_variant_is_found_by_its_name_alone(campaign):
    names = ["CCOO-aligned/b64-k2-c8", "CSELL-8/b32-k2-c3-cs", "Pairs@clustered/b128-k4-c1", "floor"]
    rows = launch(config(), STUDY.name, NAME, "double", names, 2)
    assert [row.name for row in rows[:3]] == names[:3]
    assert all(row.error <= 1 for row in rows[:3])
    for name, message in (
        ("ELL-AoS-AoS/static-64-1", "unknown coordinate layout"),
        ("CCOO/static-64-1", "unknown schedule"),
        ("CCOO/b64-k1-c0", "unknown schedule"),
    ):
        with pytest.raises(ReproError, match=message):
            launch(config(), STUDY.name, NAME, "double", [name], 1)


def test_layouts_are_those_asked_for():
    only = settings(layouts=("CCOO", "CCOO-aligned"))
    assert layouts_to_try(only, "paper") == ["CCOO"]
    assert layouts_to_try(only, "extended") == ["CCOO-aligned"]
    with pytest.raises(ReproError, match="unknown coordinate layout"):
        layouts_to_try(settings(layouts=("CSR-AoS-AoS",)), "paper")
    papers_alone = settings(layouts=("CCOO-aligned",)).model_copy(update={"space": "paper"})
    with pytest.raises(ReproError, match="no layout to measure"):
        layouts_to_try(papers_alone, "paper")


def test_the_papers_blocking_is_in_its_space():
    names = {str(blocking) for blocking in blockings(get_target("sm_90"), "CCOO")}
    assert {f"b256-k{k}-c1" for k in (1, 2, 4, 8)} <= names


def row(name: str, layout: str, space: str, seconds: float) -> Row:
    return Row(
        key=name, study=STUDY.name, problem=NAME, precision="double", kind="variant", name=name, status="ok",
        space=space, event_median=seconds, graph_median=seconds, own={"layout": layout},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "tunings"),
    [
        ({"layouts": ("CCOO-aligned",)}, ["extended"]),
        ({"layouts": ("COO",)}, ["plain", "tuned_plain"]),
        ({"search": "random"}, ["joint", "tuned_joint", "extended"]),
        ({"memory_weight": 1.0}, ["plain", "joint", "tuned_plain", "tuned_joint", "extended", "memory"]),
        ({"space": ("paper",)}, ["plain", "joint"]),
        ({"space": ("paper_tuned", "extended")}, ["tuned_plain", "tuned_joint", "extended"]),
    ],
    ids=str,
)
def test_only_what_is_tried_has_to_have_a_winner(keys, tunings):
    assert STUDY.tunings(settings(**keys), Outline(NAME, "matrix", entry="real")) == tunings


def test_each_tuning_chooses_from_its_own():
    rows = [row("a", "COO", "paper", 3.0), row("b", "CCOO", "paper", 2.0), row("c", "CCOO", "paper", 2.01)]
    chosen = {choice.tuning: choice for choice in choose(rows, 0.01)}
    assert {tuning: choice.name for tuning, choice in chosen.items()} == {"plain": "a", "joint": "b"}
    assert chosen["joint"].ties == ("c",)
    rows.append(row("e", "COO", "paper_tuned", 1.5))
    tuned = {choice.tuning: choice.name for choice in choose(rows, 0.01)}
    assert tuned == {"plain": "a", "joint": "b", "tuned_plain": "e", "tuned_joint": "b"}
    rows.append(row("d", "CCOO-aligned", "extended", 1.0))
    assert {choice.tuning: choice.name for choice in choose(rows, 0.01)}["extended"] == "d"
