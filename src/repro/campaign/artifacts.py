"""Reading a campaign by its configuration, and finding requested tables and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro.bench.store import recorded_studies
from repro.campaign.configuration import load
from repro.config.misfits import mean
from repro.config.models import Config
from repro.errors import ReproError
from repro.package_data import DEFAULT_CONFIG
from repro.problems.registry import campaign_folder, load_registry, problem_names
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import Artifact, Kind, artifacts, get_artifact
from repro.studies import get_study, load_artifacts, study_names


@dataclass(frozen=True)
class Asked:
    """A campaign to be shown by a command, with the selected configuration."""

    #: Name of the campaign's folder below `results`.
    campaign: str
    #: Folder of all campaigns.
    results: Path
    #: Configuration that selects problems, artifacts and tie for each study; None if the campaign has none.
    config: Config | None
    #: Other campaigns whose results are shown beside this one's.
    beside: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, campaign: str | None, results: Path, config: Path | None = None, beside: Sequence[str] | None = None
    ) -> Asked:
        """Select a campaign below `results` and the campaigns beside it.

        If `campaign` is None, the configuration's campaign is used. If `config` is None, the configuration of the
        campaign's run is read, or the default one if there is no such campaign. If `beside` is None, the configured
        campaigns are used.
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
        return self.results / self.campaign / "raw"

    def studies(self, study: str | None = None) -> list[str]:
        """Return the named study, or all with rows, in the configuration's order; without rows all configured."""
        if study is not None:
            return [get_study(study).name]
        if not self.raw.is_dir():
            others = [path.parent.name for path in self.results.glob("*/raw")]
            raise ReproError(
                "no such campaign",
                where=self.raw,
                actual=f"{self.campaign}{mean(self.campaign, others)}",
                todo="measure it first, or name another campaign",
            )
        configured = [name for name in (self.config.studies if self.config else study_names()) if name in study_names()]
        recorded = recorded_studies(self.raw)
        return [name for name in configured if name in recorded] or configured

    @property
    def others(self) -> list[Asked]:
        """The campaigns in `beside`, each with its own configuration."""
        return [Asked.of(name, self.results, beside=()) for name in self.beside]

    def read(self, study: str) -> Campaign:
        """Read a study with the configured problems and tie, and the same study in the campaigns of `beside`."""
        others = tuple(other.read(study) for other in self.others if study in other.studies())
        own = get_study(study).columns
        settings = self.config.studies.get(study) if self.config else None
        if self.config is None or settings is None:
            campaign = Campaign.load(self.raw, study, own)
        else:
            problems = problem_names(load_registry(Path(self.config.registry)), settings.problems)
            campaign = Campaign.load(self.raw, study, own, problems, settings.timing.tie, settings.precisions)
        return replace(campaign, beside=others, as_published=self._as_published(study, campaign))

    def _as_published(self, study: str, campaign: Campaign) -> Campaign | None:
        """Read the campaign of the key `as_published`; None if there is none, or if it lacks the study."""
        name = self.config.as_published if self.config else None
        if name is None:
            return None
        asked = Asked.of(name, self.results, beside=())
        if study not in asked.studies():
            return None
        literal = asked.read(study)
        if campaign.device and literal.device and campaign.device != literal.device:
            raise ReproError(
                "the kernels as published were measured on another model of GPU",
                where=f"as_published: {name}, study {study}",
                expected=campaign.device,
                actual=literal.device,
                todo="name a campaign on the same model, or leave `as_published` out",
            )
        return literal

    def own_alone(self, study: str) -> bool:
        """Return whether all problems of a study are files of the user's own."""
        settings = self.config.studies.get(study) if self.config else None
        return settings is not None and settings.own_alone

    def artifacts(self, study: str, kind: Kind | None = None) -> list[Artifact]:
        """Return the configured artifacts of a study; comparisons of campaigns only if `beside` is not empty."""
        everything = all_artifacts(study)
        settings = self.config.studies.get(study) if self.config else None
        if settings is None or settings.artifacts == "all":
            contract, several = get_study(study), bool(self.beside)
            rivals = bool(contract.rivals_of(self.config.rivals)) if self.config else False
            parts = contract.all_parts_of(settings) if settings else set(contract.parts)
            everything = [
                artifact for artifact in everything if artifact.needed(several=several, rivals=rivals, parts=parts)
            ]
            if self.own_alone(study):
                everything = [artifact for artifact in everything if not artifact.of_papers]
        else:
            wanted = [get_artifact(study, name) for name in settings.artifacts]
            everything = [artifact for artifact in everything if artifact in wanted]
        return [artifact for artifact in everything if kind in (None, artifact.kind)]


def all_artifacts(study: str, kind: Kind | None = None) -> list[Artifact]:
    """Return all artifacts of a study: tables before figures, by their numbers, ours last."""
    load_artifacts(study)
    return artifacts(study, kind)


def published_of(study: str) -> Published:
    contract = get_study(study)
    return Published.load(study, contract.published, contract.targets)


def find_artifacts(texts: list[str], kind: Kind, studies: list[str]) -> dict[str, list[Artifact]]:
    """Return the distinct artifacts for each study, named by `study/name`, or by `name` in each of `studies`."""
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
            names = [f"{artifact.study}/{artifact.name}" for artifact in candidates]
            known = names if slash else [artifact.name for artifact in candidates]
            raise ReproError(
                f"unknown {kind}",
                expected=f"one of {', '.join(names) or '(there are none)'}",
                actual=f"{text}{mean(text, known)}",
            )
        for artifact in matching:
            of_study = chosen.setdefault(artifact.study, [])
            if artifact not in of_study:
                of_study.append(artifact)
    return chosen
