"""What jobs ask a cluster for: no less than was measured, and more where there is more to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.campaign.configuration import resolve
from repro.campaign.estimate import PROBLEM_SECONDS, RATES
from repro.campaign.plan import Plan, ProblemBatches, make_plan
from repro.campaign.workflow import SHORTEST, TIME_FACTOR, Request, Requests
from repro.codegen.targets import get_target

REPOSITORY = Path(__file__).parents[2]
PROBLEMS = ["tiny/poisson", "poisson/7pt_64", "poisson/27pt_128"]


def plan(**studies: Any) -> Plan:
    return make_plan(resolve({"device": "opencl", "studies": studies}))


def asked_by(plan: Plan) -> Requests:
    return Requests(plan, ProblemBatches(plan))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Requests:
    """Those of products of three matrices, in a folder where nothing is built yet."""
    for name in ("config", "kernels"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)
    return asked_by(plan(spgemm_amg={"problems": PROBLEMS}, compressed_coo={"problems": PROBLEMS[1:]}))


@pytest.mark.parametrize(
    "asking",
    [
        lambda requests, name: requests.measuring([("spgemm_amg", name, "double")]),
        lambda requests, name: requests.building([name]),
    ],
)
def test_more_is_asked_for_a_larger_problem(requests: Requests, asking: Callable[[Requests, str], Request]) -> None:
    small, medium, large = (asking(requests, name) for name in PROBLEMS)
    assert small.minutes <= medium.minutes <= large.minutes
    assert small.megabytes < medium.megabytes < large.megabytes
    assert small.minutes >= SHORTEST


def test_as_much_is_asked_for_as_jobs_were_seen_to_take(requests: Requests) -> None:
    """Peaks of resident memory and times on two busy cores."""
    seen = {
        (1961516, 200): requests.measuring([("spgemm_amg", "poisson/7pt_64", "double")]),
        (666752, 55): requests.measuring([("compressed_coo", "poisson/7pt_64", "double")]),
        (186112, 8): requests.building(["poisson/7pt_64"]),
    }
    for (kibibytes, seconds), asked in seen.items():
        assert asked.megabytes >= 1.5 * kibibytes / 1024
        assert asked.minutes * 60 >= 1.5 * seconds


def test_reading_a_file_has_as_long_as_its_limit(requests: Requests) -> None:
    made = asked_by(
        make_plan(resolve({"device": "opencl", "limits": {"seconds": 7200}, "studies": {"spgemm_amg": {}}}))
    )
    assert made.building(["poisson/5pt_24"]).minutes >= 7200 / 60


def test_a_batch_asks_for_the_time_of_all_its_cases_and_the_memory_of_the_largest(requests: Requests) -> None:
    cases = [("spgemm_amg", name, "double") for name in PROBLEMS]
    alone, together = [requests.measuring([case]) for case in cases], requests.measuring(cases)
    assert together.megabytes == max(asked.megabytes for asked in alone)
    taken = sum(asked.minutes - SHORTEST for asked in alone)  # each rounded up
    assert SHORTEST + taken - len(cases) < together.minutes <= SHORTEST + taken


def test_the_start_of_a_job_is_asked_for_once_a_batch() -> None:
    """Fifty problems: a job of each would start for minutes, and read a file for hours at the most."""
    names = [f"generated/{number}" for number in range(50)]
    one = plan(compressed_coo={"problems": ["poisson/5pt_24"], "precisions": ["double"]})
    problems = {name: replace(one.problems["poisson/5pt_24"], name=name) for name in names}
    studies = {"compressed_coo": replace(one.studies["compressed_coo"], problems=tuple(names))}
    many = replace(one, problems=problems, studies=studies)
    batched = replace(many, config=many.config.model_copy(update={"batch": 50}))
    [batch] = ProblemBatches(batched).measuring
    started, once = (asked_by(made).measuring(batch.cases).minutes for made in (many, batched))
    assert started - once == pytest.approx(49 * TIME_FACTOR * RATES["opencl"].start / 60, abs=1)
    [first, *_] = names
    limit, building = many.config.limits.seconds / 60, asked_by(batched).building(batch.problems).minutes
    assert (
        asked_by(many).building([first]).minutes + 49 * TIME_FACTOR * PROBLEM_SECONDS / 60
        <= building + 1
        < SHORTEST + 2 * limit
    )


def test_a_group_of_modules_asks_for_each_of_them_and_each_compiler(requests: Requests) -> None:
    made = plan(compound_spmv={"problems": ["dirac_torus"], "precisions": ["double"], "space": "extended"})
    for_gpus = asked_by(replace(made, target=get_target("sm_90")))
    group = max(made.module_groups, key=lambda group: len(group.keys))
    more = for_gpus.compiling(group).minutes - for_gpus.compiling().minutes
    assert more * 60 >= len(group.keys) * 5 / 4  # seconds of a module, and modules at a time
    assert for_gpus.compiling().megabytes > asked_by(made).compiling().megabytes


def test_a_replay_asks_by_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peaks and times of a replay of 140,966 rows, on two busy cores."""
    monkeypatch.chdir(REPOSITORY)
    replayed = asked_by(make_plan(resolve(yaml.safe_load(Path("config/h200.yaml").read_text()))))
    report, study, small = replayed.concluding(), *map(replayed.presenting, ("compound_spmv", "dynamic_csr"))
    for asked, kibibytes, seconds in ((report, 1185700, 61), (study, 1087468, 41), (small, 274792, 4)):
        assert asked.megabytes >= 1.5 * kibibytes / 1024
        assert asked.minutes * 60 >= TIME_FACTOR * seconds
    assert small.megabytes < study.megabytes < report.megabytes
