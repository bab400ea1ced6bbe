"""Where the files of a campaign lie."""

from __future__ import annotations

from pathlib import Path
from shlex import join

from repro.config.models import Config
from repro.errors import ReproError
from repro.problems.problem import Problem, load_problem

RESULTS = Path("results")


class Folders:
    """Where the files of one (study, problem, precision) lie.

    Attributes
    ----------
    study
        All that is measured of the study.
    raw
        The case's own Parquet files, which the artifacts are made from.
    store
        JSON lines, which a killed job is resumed from.
    problem, record
        The built problem, and what tables read of it.
    environments
        The environment records of the campaign.
    """

    def __init__(self, config: Config, study: str, problem: str, precision: str) -> None:
        results = RESULTS / config.campaign
        self._name = problem
        self.study = results / "raw" / study
        self.raw = self.study / problem / precision
        self.store = results / "store" / study / problem / precision
        self.problem = results / "problems" / f"{problem}.npz"
        self.record = results / "raw" / "problems" / f"{problem}.json"
        self.environments = results / "raw" / "environment"

    def load_problem(self) -> Problem:
        """Read the built problem.

        Raises
        ------
        Unavailable
            It could not be had.
        ReproError
            It is not built, or as `repro.problems.problem.load_problem`.
        """
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
    """Refuse a study that is not configured.

    Raises
    ------
    ReproError
        It is not.
    """
    if study not in config.studies:
        raise ReproError("unknown study", expected=f"one of {', '.join(config.studies)}", actual=study)
