"""A campaign's folder: the one place that says where its files lie (drawn in docs/architecture.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError

#: Folder of all campaigns, if none is named.
RESULTS = Path("results")
CONFIG, NOTES, COMMITS = "config.yaml", "NOTES.md", "commits.json"


@dataclass(frozen=True)
class CampaignFolder:
    """Paths of a campaign's files; none of them need exist."""

    #: The folder itself, `results/<campaign>`.
    path: Path

    @classmethod
    def of(cls, campaign: str, results: Path = RESULTS) -> CampaignFolder:
        return cls(results / campaign)

    @classmethod
    def named(cls, campaign: str, results: Path = RESULTS) -> CampaignFolder:
        """Return the folder of a campaign that a user names; raise `ReproError` for an invalid name."""
        from repro.config.models import CAMPAIGN, MAX_PART_LENGTH  # slow to import, and each command needs this module
        from repro.untrusted_files import shown

        if not re.fullmatch(CAMPAIGN, campaign) or "\n" in campaign or len(campaign) > MAX_PART_LENGTH:
            raise ReproError(
                "not a name for a campaign",
                where=shown(repr(campaign)),
                expected=f"letters, digits and . _ -, no . or - as the first, at most {MAX_PART_LENGTH}",
                todo=f"name a folder below {results}; another folder of results is named by --results",
            )
        return cls.of(campaign, results)

    @classmethod
    def measured(cls, results: Path = RESULTS) -> list[CampaignFolder]:
        """Return the campaigns below `results` that have measured files, sorted by name."""
        return [cls(raw.parent) for raw in sorted(results.glob("[!.]*/raw"))]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config(self) -> Path:
        """The configuration that the last run was started with."""
        return self.path / CONFIG

    def job_config(self, digest: str) -> Path:
        """Return the same configuration for jobs, which no other run overwrites."""
        return self.path / "configs" / f"{digest}.yaml"

    @property
    def complete(self) -> Path:
        """The mark that nothing is missing."""
        return self.path / "complete"

    @property
    def commits(self) -> Path:
        """Of a record: the commit that has each source hash of the environment records, or null."""
        return self.path / COMMITS

    @property
    def notes(self) -> Path:
        """Of a merged campaign: which part has what."""
        return self.path / NOTES

    @property
    def problems(self) -> Path:
        """Folder of the built problems."""
        return self.path / "problems"

    def problem(self, name: str) -> Path:
        return self.problems / f"{name}.npz"

    @property
    def raw(self) -> Path:
        """Folder of all that tables, figures and report read."""
        return self.path / "raw"

    @property
    def records(self) -> Path:
        """Folder of the problems' records."""
        return self.raw / "problems"

    def record(self, problem_name: str) -> Path:
        return self.records / f"{problem_name}.json"

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
        """Return the sorted files of a study's rows of a step: those of its cases, and the one of all cases."""
        return sorted(self.study(study_name).rglob(step_file(self.raw, step).name))

    def training_files(self, study_name: str) -> list[Path]:
        """Return the sorted files that a search of another campaign learns from: rows of searches, and records."""
        records = (path for folder in (self.records, self.environments) for path in folder.rglob("[!.]*.json"))
        return sorted([*self.step_files(study_name, "search"), *records])

    def case(self, study_name: str, problem_name: str, precision: str) -> Path:
        """Return the folder of a case's rows, a file a step."""
        return self.study(study_name) / problem_name / precision

    def store(self, study_name: str, problem_name: str, precision: str) -> Path:
        """Return the folder of a case's rows as they are measured, from which a killed job is resumed."""
        return self.path / "store" / study_name / problem_name / precision

    def receipt(self, *words: str) -> Path:
        """Return the receipt of a step that these words name."""
        return self.path.joinpath("receipts", *words[:-1], f"{words[-1]}.json")

    def batch(self, name: str) -> Path:
        """Return the mark that a batch of problems is done."""
        return self.path / "batches" / name

    def tables(self, study_name: str) -> Path:
        return self.path / "tables" / study_name

    def page(self, name: str) -> Path:
        """Return a page for readers, such as `report.html`."""
        return self.path / name


def step_file(folder: Path, step: str) -> Path:
    """Return the file of a step's rows, in the folder of a case, or of a study for all cases."""
    return folder / f"{step}.parquet"
