"""Paths of the files in a campaign's folder, for all code that reads or writes them (drawn in docs/architecture.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError

#: Folder that contains the folders of all campaigns, unless a user names another one.
RESULTS = Path("results")
CONFIG, NOTES, COMMITS = "config.yaml", "NOTES.md", "commits.json"
#: Step in which further processes time the kernels of the headline again (`repro.config.models.Repeats`).
REPEAT = "repeat"


@dataclass(frozen=True)
class CampaignFolder:
    """Paths of a campaign's files; the files need not exist."""

    #: The folder itself, `results/<campaign>`.
    path: Path

    @classmethod
    def of(cls, campaign: str, results: Path = RESULTS) -> CampaignFolder:
        return cls(results / campaign)

    @classmethod
    def named(cls, campaign: str, results: Path = RESULTS) -> CampaignFolder:
        """Return the folder of a campaign that a user names; raise `ReproError` for an invalid name."""
        from repro.config.models import CAMPAIGN  # slow to import, and each command needs this module
        from repro.untrusted_files import shown
        from repro.words import MAX_PART_LENGTH

        if not re.fullmatch(CAMPAIGN, campaign) or "\n" in campaign or len(campaign) > MAX_PART_LENGTH:
            raise ReproError(
                "invalid name of a campaign",
                where=shown(repr(campaign)),
                expected=f"letters, digits and . _ -, no . or - as the first, at most {MAX_PART_LENGTH}",
                todo=f"name a folder below {results}; a configuration is named by --config, another folder of results "
                "by --results",
            )
        return cls.of(campaign, results)

    @classmethod
    def measured(cls, results: Path = RESULTS) -> list[CampaignFolder]:
        """Return the folders in `results` of campaigns that have measured files, sorted by name."""
        return [cls(raw.parent) for raw in sorted(results.glob("[!.]*/raw"))]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config(self) -> Path:
        """File with the configuration of the last run."""
        return self.path / CONFIG

    def job_config(self, digest: str) -> Path:
        """Return the file with the configuration of the hash `digest` for jobs, which no other run overwrites."""
        return self.path / "configs" / f"{digest}.yaml"

    @property
    def complete(self) -> Path:
        """File whose existence says that nothing is missing."""
        return self.path / "complete"

    @property
    def commits(self) -> Path:
        """File of a recorded campaign: for each source hash in the environment records, its git commit or null."""
        return self.path / COMMITS

    @property
    def notes(self) -> Path:
        """File of a merged campaign that says which part has which measurements."""
        return self.path / NOTES

    @property
    def problems(self) -> Path:
        """Folder of the built problems."""
        return self.path / "problems"

    def problem(self, name: str) -> Path:
        return self.problems / f"{name}.npz"

    @property
    def raw(self) -> Path:
        """Folder of all files from which tables, figures and the report are made."""
        return self.path / "raw"

    @property
    def records(self) -> Path:
        """Folder of the problem records."""
        return self.raw / "problems"

    def record(self, problem_name: str) -> Path:
        return self.records / f"{problem_name}.json"

    @property
    def packed_records(self) -> Path:
        """File of the records of all problems, by name, where `repro record` has packed them."""
        return self.records.with_suffix(".json")

    @property
    def environments(self) -> Path:
        """Folder of the environment records."""
        return self.raw / "environment"

    def environment(self, name: str) -> Path:
        return self.environments / f"{name}.json"

    def study(self, name: str) -> Path:
        """Return the folder of a study's rows."""
        return self.raw / name

    def step_files(self, study_name: str, step: str) -> list[Path]:
        """Return the sorted files with a study's rows of a step: one for each case, or one for all cases."""
        return sorted(self.study(study_name).rglob(step_file(self.raw, step).name))

    def training_files(self, study_name: str) -> list[Path]:
        """Return the sorted files from which a predicted search of another campaign learns.

        These are rows of searches, and problem and environment records.
        """
        records = (path for folder in (self.records, self.environments) for path in folder.rglob("[!.]*.json"))
        return sorted([*self.step_files(study_name, "search"), *records])

    def case(self, study_name: str, problem_name: str, precision: str) -> Path:
        """Return the folder of a case's rows, with one file for each step."""
        return self.study(study_name) / problem_name / precision

    def store(self, study_name: str, problem_name: str, precision: str) -> Path:
        """Return the folder in which a case's rows are stored during measurement; a killed job is resumed from it."""
        return self.path / "store" / study_name / problem_name / precision

    def receipt(self, *parts: str) -> Path:
        """Return the path of a step's receipt, which says what the step was made from; `parts` name the step."""
        return self.path.joinpath("receipts", *parts[:-1], f"{parts[-1]}.json")

    def batch(self, name: str) -> Path:
        """Return the file whose existence says that a batch of problems is done."""
        return self.path / "batches" / name

    def tables(self, study_name: str) -> Path:
        return self.path / "tables" / study_name

    def page(self, name: str) -> Path:
        """Return a page for readers, such as `report.html`."""
        return self.path / name


def step_file(folder: Path, step: str) -> Path:
    """Return the file of a step's rows, in the folder of a case, or of a study if the file has all cases."""
    return folder / f"{step}.parquet"
