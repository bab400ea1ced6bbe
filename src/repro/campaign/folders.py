"""Paths of the files of a campaign."""

from __future__ import annotations

from pathlib import Path
from shlex import join

from repro.config.models import Config
from repro.errors import ReproError
from repro.problems.problem import Problem, load_problem

RESULTS = Path("results")


class Folders:
    """Paths of one (study, problem, precision)."""

    def __init__(self, config: Config, study: str, problem: str, precision: str) -> None:
        results = RESULTS / config.campaign
        self._name = problem
        #: All measured files of the study.
        self.study = results / "raw" / study
        #: The case's Parquet files, from which artifacts are made.
        self.raw = self.study / problem / precision
        #: JSON lines, from which a killed job is resumed.
        self.store = results / "store" / study / problem / precision
        #: The built problem, and its record for tables.
        self.problem = results / "problems" / f"{problem}.npz"
        self.record = results / "raw" / "problems" / f"{problem}.json"
        self.environments = results / "raw" / "environment"

    def load_problem(self) -> Problem:
        if not self.problem.exists():
            words = ["repro", "problem", self._name, "--output", str(self.problem), "--record", str(self.record)]
            raise ReproError(
                "the problem is not built",
                where=self.problem,
                todo=f"build it there with `{join(words)}` and the same --config; the workflow does all by itself: "
                f"`{join(['snakemake', '--cores', 'all', str(self.problem)])}`",
            )
        return load_problem(self.problem, self._name)


def check_study(config: Config, study: str) -> None:
    if study not in config.studies:
        raise ReproError("unknown study", expected=f"one of {', '.join(config.studies)}", actual=study)
