"""What each job of a campaign asks a cluster for: time and memory, from what the plan reckons.

A job that exceeds what it asked for is ended, and one that asks for much waits long. So what is reckoned is taken
several times, and never less than a minimum; a job that is tried again asks for more (`attempt` of Snakemake's
resources). On one machine nobody asks, and nothing of this has an effect. What was seen is of jobs on two busy cores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

from repro.campaign.batches import Batches
from repro.campaign.estimate import FIGURE, RATES, TABLE, Job, building_seconds, reckon
from repro.campaign.plan import ModuleGroup, Plan
from repro.codegen.targets import Target

#: How many times longer a job may take than was reckoned, of a GPU and a host that nobody has measured yet.
SLACK = 4
#: Minutes that any job asks for at the least: a file system that many share answers late.
SHORTEST = 10
MIB = 1 << 20
#: MiB of memory of the smallest job that measures, with room for a CUDA context and its libraries; and of all others.
#: The smallest were seen to take 534 on the CPU, and 126.
MEASURING, OTHERS = 4000, 2000
#: Bytes of memory by byte of an operand: to build its problem, and to hold it in all forms that are measured. Seen:
#: 2.6, and from 5 (coordinates) to 64 (products of two matrices) on the CPU, whose memory is the device's as well.
BUILT, HELD = 16, 80
#: MiB of each process of a compiler; nvcc was seen to take 172 for a module of 120 kernels.
COMPILER = 1000
#: Bytes of memory and seconds by row of all that are read for tables, figures or the report; and bytes of a row that is
#: recorded. Twice what those of `results/h200`, 140,966, took.
ROW, READING, RECORDED = 14_000, 5e-4, 40


@dataclass(frozen=True)
class Request:
    """What a job asks for.

    Attributes
    ----------
    minutes
        Of wall time.
    megabytes
        Of host memory, in MiB.
    """

    minutes: int
    megabytes: int


class Requests:
    """What the jobs of a plan ask for, each by what is known when it is asked.

    Parameters
    ----------
    plan
        The campaign's.
    batches
        Of that plan.
    """

    def __init__(self, plan: Plan, batches: Batches) -> None:
        self._plan, self._batches = plan, batches
        self._jobs: dict[tuple[str, str, str], Job] = {}

    def building(self, problems: Iterable[str]) -> Request:
        """Return what building problems one after the other asks for.

        Reading one file may take all that the limits allow. A second one of a batch may not: with the limits of fifty a
        job would wait for half a day to be free, to do what takes a minute.
        """
        jobs = [self._job(*run) for name in problems for run in self._runs[name]]
        seconds = sum(map(building_seconds, {job.problem: job.size for job in jobs}.values()))
        largest = max(job.operand_bytes for job in jobs)
        return _request(seconds + self._plan.config.limits.seconds / SLACK, OTHERS * MIB + BUILT * largest)

    def compiling(self, group: ModuleGroup | None = None) -> Request:
        """Return what compiling a group of modules asks for; without one, the module that all studies share."""
        rates = RATES[self._target.dialect]
        count = len(group.keys) if group else 1
        return _request(count * rates.compile / rates.threads, (OTHERS + rates.threads * COMPILER) * MIB)

    def measuring(self, cases: Iterable[tuple[str, str, str]]) -> Request:
        """Return what measuring cases one after the other asks for; on the CPU the device's memory is the host's."""
        jobs = [self._job(*case) for case in cases]
        largest = max(job.operand_bytes for job in jobs)
        return _request(sum(job.seconds for job in jobs), MEASURING * MIB + HELD * largest)

    def presenting(self, study: str) -> Request:
        """Return what a study's tables ask for, or its figures."""
        planned = self._plan.studies[study]
        drawn = TABLE * len(planned.tables) + FIGURE * len(planned.figures)
        return _request(drawn + READING * self._rows[study], OTHERS * MIB + ROW * self._rows[study])

    def concluding(self) -> Request:
        """Return what the report asks for, and the check at the end, which look at all studies."""
        rows = sum(self._rows.values())
        return _request(FIGURE + READING * rows, OTHERS * MIB + ROW * rows)

    @property
    def _target(self) -> Target:
        assert self._plan.target is not None, "a replay measures nothing"
        return self._plan.target

    def _job(self, *run: *tuple[str, str, str]) -> Job:
        """Reckon a case once: Snakemake asks for each resource of a job apart, and more than once."""
        if run not in self._jobs:
            self._jobs[run] = reckon(self._plan, self._target, *run, starts=run in self._batches.starting)
        return self._jobs[run]

    @cached_property
    def _runs(self) -> dict[str, list[tuple[str, str, str]]]:
        """The cases of each problem."""
        runs: dict[str, list[tuple[str, str, str]]] = {}
        for run in self._plan.runs:
            runs.setdefault(run[1], []).append(run)
        return runs

    @cached_property
    def _rows(self) -> dict[str, int]:
        """By study, rows that its tables are made from, at the most."""
        rows = dict.fromkeys(self._plan.studies, 0)
        if self._plan.target is None:
            raw = Path(self._plan.results, "raw")
            for study in rows:
                files = (path for path in self._plan.recorded_files if path.is_relative_to(raw / study))
                rows[study] = sum(path.stat().st_size for path in files) // RECORDED
        else:
            for run in self._plan.runs:
                rows[run[0]] += self._job(*run).tried
        return rows


def _request(seconds: float, nbytes: float) -> Request:
    return Request(SHORTEST + ceil(SLACK * seconds / 60), ceil(nbytes / MIB))
