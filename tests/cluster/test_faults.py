"""A campaign on a cluster where jobs are killed, a node is drained and lost, and the controller crashes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from repro.campaign.configuration import load
from repro.campaign.estimate import estimate
from repro.campaign.plan import make_plan
from support.checkouts import QUICK, Checkout
from support.one_node import OneNode
from support.submitted import submit

ASKED = "REPRO_CLUSTER_TESTS"
pytestmark = [
    pytest.mark.workflow,
    pytest.mark.slow,
    pytest.mark.skipif(ASKED not in os.environ, reason=f"takes minutes, and {ASKED} is not set"),
]

NAME, STUDY = "disturbed", "compound_spmv"
#: Cases of seconds, so that there is time to disturb them.
SETTINGS = {
    "problems": ["tiny/dirac", "tiny/elasticity", "tiny/helmholtz"],
    "artifacts": ["table-1"],
    "timing": QUICK | {"launches": 1000, "cpu_budget": 0.3},
}
PATIENCE = 400
#: Rows that a job has added when something happens to it, of some dozens.
ENOUGH = 6


class Run:
    """A run of a campaign, and what was seen of its rows on the way."""

    def __init__(self, slurm: OneNode, folder: Path) -> None:
        self.slurm = slurm
        self.checkout = Checkout(folder)
        self.config = self.checkout.configure(NAME, SETTINGS)
        self.planned = (folder / self.config).read_text()
        self.said = folder / "said"
        self.seen: dict[Path, list[str]] = {}
        words = ("all", "--configfile", self.config, "--retries", "5")
        self.process = submit(slurm, self.checkout, self.said, *words)

    def until(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until something holds, and look at all rows meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            ended = self.process.poll() is not None or time.monotonic() > deadline
            assert not ended, f"not {what}:\n{self.said.read_text()}"
            self.look()
            time.sleep(0.1)

    def measuring(self) -> str:
        """Wait until a job measures and has added some rows; return its number."""
        job, before = "", 0

        def enough() -> bool:
            nonlocal job, before
            running = self.jobs("running")
            if running != [job]:
                job, before = "".join(running), self.rows()
            return bool(job) and self.rows() >= before + ENOUGH

        self.until("measuring", enough)
        print(f"{time.strftime('%X')} job {job} measures, {self.rows()} rows")
        return job

    def state(self, job: str) -> str:
        """Return the state of a job, `RUNNING`, `CANCELLED` and the like."""
        return self.slurm.ask("squeue", "--noheader", "--format=%T", "--states=all", f"--jobs={job}").strip()

    def jobs(self, *states: str) -> list[str]:
        """Return the numbers of the jobs that measure and are in these states."""
        return [job for job, what in self.slurm.jobs(*states).items() if f"measure_{STUDY}" in what]

    def rows(self) -> int:
        """Return how many rows there are, held against what was seen: none is lost, and none is there twice."""
        self.look()
        return sum(map(len, self.seen.values()))

    def look(self) -> None:
        for store in (self.checkout.folder / "results" / NAME / "store").rglob("rows.jsonl"):
            text = store.read_text()
            lines = text[: text.rfind("\n") + 1].splitlines()
            before = self.seen.get(store, [])
            assert lines[: len(before)] == before, f"a row was lost: {store}"
            keys = [key for key in map(key_of, lines) if key]
            assert len(keys) == len(set(keys)), f"a row was measured twice: {store}"
            self.seen[store] = lines

    def complete(self) -> None:
        """Wait until all is measured, and hold it against the plan: each variant once, by one job at a time."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = -1
        assert code == 0, self.said.read_text()
        self.look()
        (self.checkout.folder / self.config).write_text(self.planned)
        plan = make_plan(load(Path(self.config)))
        assert plan.target is not None
        cases = estimate(plan, plan.target).jobs
        assert len(cases) == len(SETTINGS["problems"])
        for case in cases:
            table = pq.read_table(Path(plan.results, "raw", STUDY, case.problem, "double", "search.parquet"))
            assert len(set(table["name"].to_pylist())) == len(table) == case.variants
            assert set(table["status"].to_pylist()) <= {"ok", "noisy"}
        spans = sorted(
            tuple(self.slurm.ask("squeue", "--noheader", "--format=%S %e", "--states=all", f"--jobs={job}").split())
            for job in self.jobs("all")
        )
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        again = self.checkout.snakemake("all", "--configfile", self.config)
        assert again.nothing_to_do, again.text
        print(f"{time.strftime('%X')} complete: {self.rows()} rows, each once, by {len(spans)} jobs")


def key_of(line: str) -> str | None:
    """Return the key of a row; None where a line was torn by a kill."""
    try:
        key: str = json.loads(line)["key"]
    except ValueError:
        return None
    return key


def kill_processes(job: str) -> None:
    """End all processes of a job at once, parents first, as the end of their node does."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("SLURM_JOB_ID") == job:
                process.kill()


def test_nothing_is_lost_and_nothing_measured_twice(
    slurm: OneNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(slurm, tmp_path)

    cancelled = run.measuring()
    slurm.ask("scancel", cancelled)
    (tmp_path / run.config).write_text("campaign: edited\n")  # of which the jobs to come see nothing
    run.until("cancelled", lambda: run.state(cancelled) == "CANCELLED")

    killed = run.measuring()
    kill_processes(killed)
    run.until("killed", lambda: run.state(killed) == "FAILED")

    drained = run.measuring()
    slurm.ask("scontrol", "update", "nodename=node1", "state=drain", "reason=test")
    run.until("drained", lambda: slurm.state() == "drained")
    assert run.state(drained) == "COMPLETED", "what runs on a node that is drained ends there"
    rows = run.rows()
    time.sleep(5)
    assert not slurm.jobs("running")
    assert run.rows() == rows
    slurm.ask("scontrol", "update", "nodename=node1", "state=resume")

    kept = run.measuring()
    slurm.kill_controller()
    time.sleep(3)
    slurm.start_controller()
    assert run.state(kept) in ("RUNNING", "COMPLETING", "COMPLETED"), "a job does not need the controller"

    lost = run.measuring()
    slurm.lose_node()
    kill_processes(lost)
    run.until("lost", lambda: run.state(lost) == "NODE_FAIL")
    slurm.start_node()  # it comes back by itself

    run.complete()
    assert len({cancelled, killed, drained, lost}) == 4
