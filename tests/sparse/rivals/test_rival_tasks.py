"""Products of two matrices and solutions by rivals on the CPU, in trials and in the study that measures them."""

from __future__ import annotations

import re

import pytest
from spoilt_forms import of_python

from repro.bench.runnable import Workspace
from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.config.models import Rival, Timing
from repro.devices.device_group import Devices
from repro.problems.matrix import Matrix
from repro.sparse.rivals.trial import Trial, try_rival
from repro.studies.spgemm_amg.operands import make_operands
from repro.studies.spgemm_amg.product_runnables import rival_products, rival_solvers
from repro.studies.spgemm_amg.study import STUDY
from support.amg_problems import as_problem, of_blocks
from support.products_by_shape import five_point

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(5)
TRIAL = Trial("real", "double")


@pytest.fixture
def make_amg_bench(cpu_device, modules_folder):
    """Open a bench of the study on the CPU for a matrix."""

    def make(problem: Matrix, precision: str = "double") -> Bench:
        return Bench(
            Workspace(Devices([cpu_device]), make_operands(problem, precision, 1), modules_folder, resident=4),
            study=STUDY.name,
            problem=problem.name,
            timing=Timing(launches=10, cpu_budget=0.01, rounds=2, noise=1e9, cpu_disturbed=1e9),
            seed=1,
            own=STUDY.columns,
            environment="test",
            driver="test",
            code=str,
        )

    return make


@pytest.mark.parametrize(
    ("name", "of", "status", "message"),
    [
        ("Multiplying", "spgemm", "ok", ""),
        ("WrongPlaces", "spgemm", "incorrect", "numbers are wrong, c|entries at places|there twice"),
        ("OtherType", "spgemm", "incorrect", "values of the product are float16, not float64"),
        ("NoProduct", "spgemm", "incorrect", "it set no product: c is None"),
        ("Solving", "solve", "ok", ""),
        ("Unsolved", "solve", "incorrect", "the residual is"),
    ],
)
def test_tasks_of_python_are_tried(cpu_device, name, of, status, message) -> None:
    outcome = try_rival(of_python(name, of=of), TRIAL, Devices([cpu_device]))
    assert outcome.status == status, outcome
    assert re.search(message, outcome.message)


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize(
    ("spoilt", "of", "status", "message"),
    [
        ("RIGHT", "spgemm", "ok", ""),
        ("UNSORTED", "spgemm", "ok", ""),
        ("WRONG", "spgemm", "incorrect", "numbers are wrong"),
        ("NOTHING", "spgemm", "incorrect", "c is not all there"),
        ("RANGE", "spgemm", "incorrect", "columns of the product are out of range"),
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


def test_memory_of_the_harness_is_guarded(cpu_device, library) -> None:
    rival = Rival(name="c", library=str(library("OUTSIDE", "other_tasks", 0)), of="spgemm")
    outcome = try_rival(rival, TRIAL, Devices([cpu_device]))
    assert outcome.status == "incorrect"
    assert "writes outside of its result: 8 bytes past the end" in outcome.message
    single = try_rival(rival, Trial("real", "single"), Devices([cpu_device]))
    assert (single.status, single.message) == ("unsupported", "it does not say why")


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
