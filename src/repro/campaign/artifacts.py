"""Reading a campaign as its configuration says, and finding the artifacts that are asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro.bench.store import recorded_studies
from repro.config import Config, load
from repro.errors import ReproError
from repro.problems.registry import campaign_folder, load_registry, problem_names
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import Artifact, Kind, artifacts, get_artifact
from repro.studies import get_study, load_artifacts, study_names

#: What is read where neither a campaign nor a configuration is named.
DEFAULT_CONFIG = Path("config/config.yaml")


@dataclass(frozen=True)
class Asked:
    """What of a campaign is asked for.

    Attributes
    ----------
    campaign
        The folder below `results`.
    results
        That folder.
    config
        Says which problems, artifacts and tie each study has; None where the campaign is kept without it.
    beside
        Other campaigns of that folder, whose results stand beside this one's.
    """

    campaign: str
    results: Path
    config: Config | None
    beside: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, campaign: str | None, results: Path, config: Path | None = None, beside: Sequence[str] | None = None
    ) -> Asked:
        """Return what is asked for of a campaign.

        Parameters
        ----------
        campaign
            The folder below `results`; None: that of the configuration.
        results
            Folder of all campaigns.
        config
            A configuration file; None: the one that the campaign was run with, or without a campaign the default one.
        beside
            The campaigns that stand beside it; None: those that the configuration names.

        Raises
        ------
        ReproError
            The configuration cannot be read, or it is to stand beside itself.
        """
        if campaign is None:
            settings: Config | None = load(config or DEFAULT_CONFIG)
        else:
            recorded = campaign_folder(results, campaign) / "config.yaml"
            path = config or (recorded if os.path.lexists(recorded) else None)
            settings = load(path) if path else None
        name = campaign or (settings.campaign if settings else "")
        for other in beside or ():
            campaign_folder(results, other)
        if beside is None:
            beside = settings.beside if settings else ()
        if name in beside:
            raise ReproError("a campaign cannot stand beside itself", where="beside", actual=name)
        return cls(name, results, settings, tuple(beside))

    @property
    def raw(self) -> Path:
        """Where all lies that artifacts are made from."""
        return self.results / self.campaign / "raw"

    def studies(self, study: str | None = None) -> list[str]:
        """Return the studies to show: the one that is named, or all that are configured and were measured.

        Where none was measured yet these are all that are configured.

        Raises
        ------
        ReproError
            There is no such study, or no such campaign.
        """
        if study is not None:
            return [get_study(study).name]
        if not self.raw.is_dir():
            raise ReproError("no such campaign", where=self.raw, todo="measure it first, or name another campaign")
        configured = sorted(set(study_names()) & set(self.config.studies)) if self.config else list(study_names())
        recorded = recorded_studies(self.raw)
        return [name for name in configured if name in recorded] or configured

    @property
    def others(self) -> list[Asked]:
        """The campaigns that stand beside it, each by its own configuration."""
        return [Asked.of(name, self.results, beside=()) for name in self.beside]

    def read(self, study: str) -> Campaign:
        """Read a study of the campaign: of the problems that the configuration gives it, and with its tie.

        Those that stand beside it are read with it, as far as they have the study.

        Raises
        ------
        ReproError
            As `Campaign.load`.
        """
        others = tuple(other.read(study) for other in self.others if study in other.studies())
        return replace(self._alone(study), beside=others)

    def _alone(self, study: str) -> Campaign:
        own = get_study(study).columns
        settings = self.config.studies.get(study) if self.config else None
        if self.config is None or settings is None:
            return Campaign.load(self.raw, study, own)
        problems = problem_names(load_registry(Path(self.config.registry)), settings.problems)
        return Campaign.load(self.raw, study, own, problems, settings.timing.tie, settings.precisions)

    def artifacts(self, study: str, kind: Kind | None = None) -> list[Artifact]:
        """Return a study's artifacts that the configuration asks for, in their order.

        Where it asks for all, those that compare campaigns are among them if others stand beside this one.

        Raises
        ------
        ReproError
            The configuration names one that there is not.
        """
        everything = all_artifacts(study)
        settings = self.config.studies.get(study) if self.config else None
        if settings is None or settings.artifacts == "all":
            everything = [artifact for artifact in everything if self.beside or not artifact.several]
        else:
            wanted = [get_artifact(study, name) for name in settings.artifacts]
            everything = [artifact for artifact in everything if artifact in wanted]
        return [artifact for artifact in everything if kind in (None, artifact.kind)]


def all_artifacts(study: str, kind: Kind | None = None) -> list[Artifact]:
    """Return all artifacts of a study: tables before figures, by their numbers, ours last."""
    load_artifacts(study)
    return artifacts(study, kind)


def published_of(study: str) -> Published:
    """Return the papers' numbers of a study, and our targets."""
    contract = get_study(study)
    return Published.load(study, contract.published, contract.targets)


def find_artifacts(texts: list[str], kind: Kind, studies: list[str]) -> dict[str, list[Artifact]]:
    """Return by study what `study/name`, or `name` for all studies that have it, stands for; each once.

    Parameters
    ----------
    texts
        As they are given.
    kind
        Whether tables or figures are meant.
    studies
        The studies that are meant where none is named.

    Raises
    ------
    ReproError
        There is no such study, or no study has an artifact of that name and kind.
    """
    chosen: dict[str, list[Artifact]] = {}
    for text in texts:
        study, slash, name = text.rpartition("/")
        candidates = [
            artifact
            for owner in ([get_study(study).name] if slash else studies)
            for artifact in all_artifacts(owner, kind)
        ]
        matching = [artifact for artifact in candidates if artifact.name == name]
        if not matching:
            names = ", ".join(f"{artifact.study}/{artifact.name}" for artifact in candidates)
            raise ReproError(f"unknown {kind}", expected=f"one of {names or '(there are none)'}", actual=text)
        for artifact in matching:
            of_study = chosen.setdefault(artifact.study, [])
            if artifact not in of_study:
                of_study.append(artifact)
    return chosen
