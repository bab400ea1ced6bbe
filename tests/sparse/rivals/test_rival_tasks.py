"""Products of two matrices and solutions by rivals on the CPU, in trials and in the study that measures them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from repro.bench.runnable import Workspace
from repro.bench.store import Store
from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.config.models import Rival, Timing
from repro.devices.device_group import Devices
from repro.problems.matrix import Matrix
from repro.sparse.rivals.trial import Trial, try_rival
from repro.studies.dynamic_csr.study import STUDY as GROWTH
from repro.studies.dynamic_csr.study import suite
from repro.studies.spgemm_amg.operands import make_operands
from repro.studies.spgemm_amg.runnables_products import rival_products, rival_solvers
from repro.studies.spgemm_amg.study import STUDY
from repro.tuning.final_timing import shuffled_rounds
from support.amg_problems import as_problem, of_blocks
from support.benches import graph_benches
from support.products_by_shape import five_point
from support.spoilt_forms import HERE, of_python
from support.update_problems import PROBLEMS

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(5)
EXAMPLES = HERE.parents[1] / "examples/rivals"
TRIAL = Trial("real", "double")


@pytest.fixture
def make_amg_bench(cpu_device, modules_folder):
    """Open a bench of the study on the CPU for a matrix."""

    def make(problem: Matrix, precision: str = "double") -> Bench:
        return Bench(
            Workspace(Devices([cpu_device]), make_operands(problem, precision, 1), modules_folder, kept_packings=4),
            study_name=STUDY.name,
            problem_name=problem.name,
            timing=Timing(launches=10, cpu_budget=0.01, rounds=2, noise=1e9, cpu_disturbed=1e9),
            seed=1,
            own=STUDY.columns,
            environment="test",
            software="test",
            code=str,
        )

    return make


@pytest.fixture
def make_graph_bench(cpu_device, modules_folder):
    """Open a bench on the CPU for a growing matrix."""
    yield from graph_benches(Devices([cpu_device]), modules_folder)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "of", "status", "message"),
    [
        ("Multiplying", "spgemm", "ok", ""),
        ("WrongPlaces", "spgemm", "incorrect", "the worst: c|entries at places|there twice"),
        ("OtherType", "spgemm", "incorrect", "values of c are float16, not float64"),
        ("MultipliedOnce", "spgemm", "incorrect", "some are NaN|is nan and not"),
        ("NoProduct", "spgemm", "incorrect", "it set no result: c is None"),
        ("Solving", "solve", "ok", ""),
        ("Unsolved", "solve", "incorrect", "the residual is"),
        ("Growing", "updates", "ok", ""),
        ("WrongSum", "updates", "incorrect", "of 5625 numbers are wrong"),
        ("Twice", "updates", "incorrect", "1 entries of c are there twice"),
        ("Mixing", "updates", "incorrect", "writes to a batch's rows, which it may only read"),
        ("Keeping", "updates", "incorrect", "numbers are wrong"),
        ("Right", "updates", "compile_error", "has no method update"),
    ],
)
def test_tasks_of_python_are_tried(cpu_device, name, of, status, message) -> None:
    outcome = try_rival(of_python(name, of=of), TRIAL, Devices([cpu_device]))
    assert outcome.status == status, outcome
    assert re.search(message, outcome.message)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize(
    ("spoilt", "of", "status", "message"),
    [
        ("RIGHT", "spgemm", "ok", ""),
        ("UNSORTED", "spgemm", "ok", ""),
        ("WRONG", "spgemm", "incorrect", "numbers are wrong"),
        ("NOTHING", "spgemm", "incorrect", "c is not all there"),
        ("RANGE", "spgemm", "incorrect", "columns of c are out of range"),
        ("RIGHT", "solve", "ok", ""),
        ("WRONG", "solve", "incorrect", "the residual is"),
        ("OUTSIDE", "solve", "incorrect", "writes outside of its result: 8 bytes before the start"),
    ],
)
def test_tasks_of_a_library_are_tried(cpu_device, library, spoilt, of, status, message, own) -> None:
    rival = Rival(name="c", library=str(library(spoilt, "other_tasks", own)), of=of)
    outcome = try_rival(rival, TRIAL, Devices([cpu_device]))
    assert outcome.status == status, outcome
    assert message in outcome.message


@pytest.mark.parametrize(
    ("spoilt", "status", "message"),
    [
        ("RIGHT", "ok", ""),
        ("WRONG", "incorrect", "numbers are wrong"),
        ("LOSING", "incorrect", "numbers are wrong"),
        ("OUTSIDE", "incorrect", "writes outside of its result: 8 bytes past the end"),
        ("INPUTS", "incorrect", "writes to a batch's columns, which it may only read"),
        ("NOTHING", "incorrect", "c is not all there"),
        ("FAILING", "launch_error", "update returned 7: it was told to"),
        ("LEAKING", "leak", "bytes of host memory stay each time"),
    ],
)
def test_updates_of_a_library_are_tried(cpu_device, library, spoilt, status, message) -> None:
    rival = Rival(name="c", library=str(library(spoilt, "growing")), of="updates")
    outcome = try_rival(rival, TRIAL, Devices([cpu_device]))
    assert outcome.status == status, outcome
    assert message in outcome.message
    absent = rival.model_copy(update={"library": str(library("RIGHT"))})
    assert "has no function repro_rival_update" in try_rival(absent, TRIAL, Devices([cpu_device])).message


def test_memory_of_the_harness_is_guarded(cpu_device, library) -> None:
    rival = Rival(name="c", library=str(library("OUTSIDE", "other_tasks", 0)), of="spgemm")
    outcome = try_rival(rival, TRIAL, Devices([cpu_device]))
    assert outcome.status == "incorrect"
    assert "writes outside of its result: 8 bytes past the end" in outcome.message
    single = try_rival(rival, Trial("real", "single"), Devices([cpu_device]))
    assert (single.status, single.message) == ("unsupported", "it does not say why")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("problem", [as_problem(five_point(12)), of_blocks(9)[0]], ids=["real", "blocks"])
def test_the_study_times_them_beside_its_own(make_amg_bench, library, problem) -> None:
    bench = make_amg_bench(problem)
    path = str(library("RIGHT", "other_tasks", 1))
    rivals = [
        of_python("Multiplying", of="spgemm"),
        Rival(name="c", library=path, of="spgemm"),
        Rival(name="given", library=str(library("RIGHT", "other_tasks", 0)), of="spgemm"),
        of_python("Solving", of="solve"),
        Rival(name="cg", library=path, of="solve"),
    ]
    assert STUDY.rivals_of(rivals) == tuple(rivals)
    for product in bench.operands.products:
        rows = [bench.try_once(runnable, "report", EFFORT) for runnable in rival_products(rivals, product)]
        assert [(row.name, row.status, row.message) for row in rows] == [
            (f"rival/{name}/{product}", "ok", None) for name in ("multiplying", "c", "given")
        ]
        assert all((row["what"], row["product"], row.kind) == ("product", product, "outside") for row in rows)
        assert all(row.host_median > 0 and row["nonzeros"] > 0 and row.preprocess > 0 for row in rows)
    rows = [bench.try_once(runnable, "report", EFFORT) for runnable in rival_solvers(rivals)]
    assert [(row.name, row.status, row.message) for row in rows] == [
        ("rival/solving/solve", "ok", None),
        ("rival/cg/solve", "ok", None),
    ]
    assert rows[0]["iterations"] == 1
    assert 1 < rows[1]["iterations"] < 1000


def test_what_is_wrong_in_the_study_is_a_row(make_amg_bench, library) -> None:
    bench = make_amg_bench(as_problem(five_point(12)))
    wrong = Rival(name="c", library=str(library("WRONG", "other_tasks", 1)), of="spgemm")
    [runnable] = rival_products([wrong], "AA")
    row = bench.try_once(runnable, "report", EFFORT)
    assert (row.status, row.host_median) == ("incorrect", None)
    [solver] = rival_solvers([wrong.model_copy(update={"of": "solve"})])
    row = bench.try_once(solver, "report", EFFORT)
    assert row.status == "incorrect"
    assert "the residual is" in row.message


def updates_of(rivals: list[Rival], problem) -> list:
    groups = suite({}, problem, rivals=GROWTH.rivals_of(rivals))
    return [runnable for group in groups for runnable in group if runnable.kind == "outside"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_study_of_growth_times_them_in_the_groups_of_its_updates(make_graph_bench, library, name) -> None:
    problem = PROBLEMS[name]
    rivals = [
        of_python("Growing", of="updates"),
        Rival(name="c", library=str(library("RIGHT", "growing")), of="updates", waits=True),
        Rival(name="no", python="none:none", of="spgemm"),
    ]
    bench = make_graph_bench(problem)
    rows = [bench.try_once(runnable, "report", EFFORT) for runnable in updates_of(rivals, problem)]
    sizes = np.diff(problem.batch_pointers)
    alone = [f"batch-{at}" for at in range(len(sizes))] if len(set(sizes)) > 1 else ["insert"] * bool(len(sizes))
    assert [(row.name, row.status, row.message) for row in rows] == [
        (f"rival/{rival}/{what}/{order}", "ok", None)
        for what in ("stream", *alone)
        for order in ("sorted", "any")
        for rival in ("growing", "c")
    ]
    assert [row["batch"] for row in rows if row.name.startswith("rival/c/batch")] == [*np.repeat(sizes, 2)] * (
        len(alone) > 1
    )
    assert all(row.preprocess > 0 and row["mode"] == "unique" and row.error <= 1 for row in rows)
    assert all((row.event_median is None) == row.name.startswith("rival/c/") for row in rows)
    assert all((row.host_median is None) != row.name.startswith("rival/c/") for row in rows)
    assert all(row.graph_median is None for row in rows)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_scipys_sum_is_right(cpu_device, make_graph_bench, precision) -> None:
    sums = Rival(name="sums", python=f"{EXAMPLES / 'updates.py'}:SciPySum", of="updates")
    outcome = try_rival(sums, Trial("real", precision), Devices([cpu_device]))
    assert (outcome.status, outcome.message) == ("ok", "")
    problem = PROBLEMS["several batches"]
    bench = make_graph_bench(problem, precision)
    rows = [bench.try_once(runnable, "report", EFFORT) for runnable in updates_of([sums], problem)]
    assert len(rows) == 10
    assert all((row.status, row.message) == ("ok", None) for row in rows)
    assert rows[0]["routine"].startswith("sums (SciPy ")


def test_a_wrong_update_is_a_row_in_its_rounds(make_graph_bench, library, tmp_path) -> None:
    problem = PROBLEMS["one batch"]
    wrong = Rival(name="wrong", library=str(library("WRONG", "growing")), of="updates")
    losing, outside = (
        wrong.model_copy(update={"name": name.lower(), "library": str(library(name, "growing"))})
        for name in ("LOSING", "OUTSIDE")
    )
    rivals = [wrong, losing, outside, of_python("Growing", of="updates")]
    runnables = [runnable for runnable in updates_of(rivals, problem) if "/insert/any" in runnable.name]
    with Store(tmp_path / "rows.jsonl") as store:
        rows = {row.name.split("/")[1]: row for row in shuffled_rounds(make_graph_bench(problem), runnables, store, 1)}
    assert {name: row.status for name, row in rows.items()} == {
        "wrong": "incorrect",
        "losing": "incorrect",
        "outside": "incorrect",
        "growing": "ok",
    }
    assert "values are wrong" in rows["wrong"].message
    assert "8 bytes past the end" in rows["outside"].message
