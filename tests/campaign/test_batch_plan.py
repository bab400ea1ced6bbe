"""Batches of a plan: their problems and names, and the jobs that wait for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repro.campaign.configuration import resolve
from repro.campaign.estimate import RATES, START_SECONDS, estimate
from repro.campaign.plan import MAX_BATCHED_NONZEROS, Plan, ProblemBatches, is_small, make_plan
from repro.codegen.targets import CPU
from repro.errors import ReproError
from repro.problems.problem import Outline

REPOSITORY = Path(__file__).parents[2]
#: Generated, of unknown size; but two, whose sizes the registry states: `mhd1280b`, which is small, and a mesh.
LARGE = "surfaces/armadillo"
NAMES = ["dirac_torus", "helmholtz_hubs", "mhd1280b", LARGE, "elasticity_hubs"]
IN_BATCHES = [name for name in NAMES if name != LARGE]


@pytest.fixture(autouse=True)
def _in_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("config", "kernels", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)


def plan(**keys: Any) -> Plan:
    study = {"problems": NAMES, "layouts": ["ELL-SoA-AoS"]}
    return make_plan(resolve({"campaign": "c", "device": "opencl", "studies": {"compound_spmv": study}, **keys}))


def test_small_problems_are_dealt_out_in_the_order_of_the_plan() -> None:
    batches = ProblemBatches(plan(batch=3))
    assert [(batch.name, batch.problems) for batch in batches.building] == [
        ("problems/0000", tuple(IN_BATCHES[:3])),
        ("problems/0001", tuple(IN_BATCHES[3:])),
    ]
    assert [(batch.name, batch.problems) for batch in batches.measuring] == [
        (f"compound_spmv/{precision}/{number:04}", names)
        for precision in ("single", "double")
        for number, names in enumerate((tuple(IN_BATCHES[:3]), tuple(IN_BATCHES[3:])))
    ]
    assert batches["compound_spmv/double/0001"].steps == ["measure compound_spmv elasticity_hubs double"]
    assert batches["problems/0001"].steps == ["problem elasticity_hubs"]


def test_what_is_not_small_is_a_job_of_its_own() -> None:
    batches = ProblemBatches(plan(batch=3))
    assert [problem for _, problem, _ in batches.alone] == [LARGE] * 2
    assert batches.jobs == (2 + 1, 4 + 2)
    assert batches.matrices == [
        "results/c/batches/problems/0000",
        f"results/c/problems/{LARGE}.npz",
        "results/c/batches/problems/0001",
    ]


def test_artifacts_wait_for_batches_in_the_place_of_all_that_these_leave() -> None:
    made = plan(batch=3)
    waiting = ProblemBatches(made).raw("compound_spmv")
    own = [path for path in made.raw("compound_spmv") if LARGE in path]
    assert len(own) == 1 + 2 * len(made.case_files("compound_spmv"))
    assert [path for path in waiting if "/batches/" not in path] == own
    assert sum("/batches/problems/" in path for path in waiting) == 2
    assert sum("/batches/compound_spmv/" in path for path in waiting) == 4


def test_a_batch_waits_for_its_problems_and_for_the_modules_of_all_of_them() -> None:
    made = plan(batch=3)
    batches = ProblemBatches(made)
    read = batches.read_by(batches["compound_spmv/single/0000"])
    needed = {path for name in IN_BATCHES[:3] for path in made.manifests("compound_spmv", name, "single")}
    assert read[0] == "results/c/batches/problems/0000"
    assert set(read[1:]) == needed
    assert len(read) == len(set(read))


def test_without_batches_everything_is_a_job_of_its_own() -> None:
    made = plan()
    batches = ProblemBatches(made)
    assert batches.building == batches.measuring == []
    assert batches.alone == made.runs
    assert batches.matrices == [f"{made.results}/problems/{name}.npz" for name in made.problems]
    assert batches.raw("compound_spmv") == made.raw("compound_spmv")
    assert batches.jobs == (len(NAMES), 2 * len(NAMES))


def test_a_replay_has_no_batches(tmp_path: Path) -> None:
    (tmp_path / "results/c/raw/compound_spmv").mkdir(parents=True)
    batches = ProblemBatches(plan(batch=3, replay=True))
    assert batches.building == batches.matrices == []


@pytest.mark.parametrize(
    ("size", "source", "small"),
    [
        ((10, MAX_BATCHED_NONZEROS), "suitesparse", True),
        ((10, MAX_BATCHED_NONZEROS + 1), "suitesparse", False),
        ((10, MAX_BATCHED_NONZEROS + 1), "generated", False),
        (None, "suitesparse", False),
    ],
)
def test_small_is_what_is_known_to_have_few_non_zeros(size: tuple[int, int] | None, source: str, small: bool) -> None:
    assert is_small(Outline("p", definition={"source": source}, size=size)) == small


@pytest.mark.parametrize("batch", [0, -1, 10_001, 1.5, "many"])
def test_a_batch_is_a_number_of_problems(batch: object) -> None:
    with pytest.raises(ReproError, match="batch"):
        plan(batch=batch)


def test_the_start_of_a_job_is_reckoned_once_a_batch() -> None:
    alone, batched = (estimate(plan(batch=number), CPU) for number in (1, 3))
    measured = [sum(job.seconds for job in needs.jobs) for needs in (alone, batched)]
    fewer_jobs = 2 * (len(NAMES) - 3)
    assert measured[0] - measured[1] == pytest.approx(fewer_jobs * RATES["opencl"].start)
    assert sum(alone.build_seconds) - sum(batched.build_seconds) == pytest.approx((len(NAMES) - 3) * START_SECONDS)
    assert (alone.made, batched.made) == ((5, 10), (3, 6))
