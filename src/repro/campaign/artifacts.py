"""Reading the data of a campaign as its configuration selects them, and finding requested tables and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.store import check_measured, recorded_studies
from repro.campaign.configuration import load
from repro.config.models import Config
from repro.errors import ReproError
from repro.extensions import TABLES, load_extensions
from repro.package_data import DEFAULT_CONFIG
from repro.problems.registry import load_registry, problem_names
from repro.results.campaign_data import Campaign
from repro.results.common_tables import UNCERTAINTY, register_common_tables, register_uncertainty
from repro.results.edges import TABLE as EDGES
from repro.results.edges import register_edges
from repro.results.published import Published
from repro.results.registry import Artifact, Kind, artifacts
from repro.studies import get_study, load_artifacts, study_names
from repro.words import some_of, suggestion


@dataclass(frozen=True)
class CampaignSelection:
    """A campaign whose results a command shows, and the configuration that selects its problems and artifacts."""

    #: Name of the campaign's folder below `results`.
    campaign: str
    #: Folder of all campaigns.
    results: Path
    #: Configuration that selects problems, artifacts and tie for each study; None if the campaign has none.
    config: Config | None
    #: Other campaigns whose results are shown beside this one's.
    beside: tuple[str, ...] = ()
    #: Configuration that names the campaign; None if the user does.
    named_by: Path | None = None

    @classmethod
    def of(
        cls,
        campaign: str | None,
        results: Path,
        config: Path | None = None,
        reference_names: Sequence[str] | None = None,
    ) -> CampaignSelection:
        """Select a campaign below `results` and the campaigns beside it.

        If `campaign` is None, the configuration's campaign is used. If `config` is None, the configuration of the
        campaign's run is read, or the default one if there is no such campaign. If `reference_names` is None, the
        configured campaigns are used.
        """
        if campaign is None:
            loaded: Config | None = load(config or DEFAULT_CONFIG)
        else:
            recorded_config = CampaignFolder.named(campaign, results).config
            path = config or (recorded_config if os.path.lexists(recorded_config) else None)
            loaded = load(path) if path else None
        name = campaign or (loaded.campaign if loaded else "")
        for reference_name in reference_names or ():
            CampaignFolder.named(reference_name, results)
        if reference_names is None:
            reference_names = loaded.beside if loaded else ()
        if name in reference_names:
            raise ReproError("a campaign cannot be compared with itself", where="beside", actual=name)
        return cls(name, results, loaded, tuple(reference_names), None if campaign else config or DEFAULT_CONFIG)

    @property
    def folder(self) -> CampaignFolder:
        return CampaignFolder.of(self.campaign, self.results)

    @property
    def description(self) -> str:
        """The campaign, and the configuration that names it if the user does not: `default, of config/config.yaml`."""
        return f"{self.campaign}, of {self.named_by}" if self.named_by else self.campaign

    def check_measured(self) -> None:
        """Raise `ReproError` if the campaign has no measured files."""
        check_measured(self.folder, self.named_by)

    def studies(self, study_name: str | None = None) -> list[str]:
        """Return the named study; if None all studies with rows, in the configuration's order, else all configured."""
        if study_name is not None:
            return [get_study(study_name).name]
        self.check_measured()
        configured = [name for name in (self.config.studies if self.config else study_names()) if name in study_names()]
        recorded_names = recorded_studies(self.folder)
        return [name for name in configured if name in recorded_names] or configured

    @property
    def others(self) -> list[CampaignSelection]:
        """The campaigns in `beside`, each with its own configuration."""
        return [CampaignSelection.of(name, self.results, reference_names=()) for name in self.beside]

    def read(self, study_name: str) -> Campaign:
        """Read a study with the configured problems and tie, and the same study in the campaigns of `beside`."""
        references = tuple(reference.read(study_name) for reference in self.others if study_name in reference.studies())
        study_columns = get_study(study_name).columns
        settings = self.config.studies.get(study_name) if self.config else None
        if self.config is None or settings is None:
            campaign = Campaign.load(self.folder, study_name, study_columns)
        else:
            problems = problem_names(load_registry(Path(self.config.registry)), settings.problems)
            campaign = Campaign.load(
                self.folder, study_name, study_columns, problems, settings.timing.tie, settings.precisions
            )
        literal_campaign, later_campaign = (
            self._read_reference(key, study_name, campaign) for key in ("as_published", "later")
        )
        return replace(campaign, beside=references, as_published=literal_campaign, later=later_campaign)

    def _read_reference(
        self, key: Literal["as_published", "later"], study_name: str, campaign: Campaign
    ) -> Campaign | None:
        """Read the campaign that the configuration names under `key`; None without this key, or without the study."""
        name = getattr(self.config, key) if self.config else None
        if name is None:
            return None
        selection = CampaignSelection.of(name, self.results, reference_names=())
        if study_name not in selection.studies():
            return None
        reference = selection.read(study_name)
        if campaign.device and reference.device and campaign.device != reference.device:
            subject = {"as_published": "the kernels as published were", "later": "the later rows were"}[key]
            raise ReproError(
                f"{subject} measured on a different GPU model",
                where=f"{key}: {name}, study {study_name}",
                expected=campaign.device,
                actual=reference.device,
                todo=f"name a campaign measured on the same model, or remove `{key}`",
            )
        return reference

    def is_own_alone(self, study_name: str) -> bool:
        """Return whether all problems of a study are the user's own files."""
        settings = self.config.studies.get(study_name) if self.config else None
        return settings is not None and settings.is_own_alone

    def artifacts(self, study_name: str, kind: Kind | None = None) -> list[Artifact]:
        """Return the artifacts of a study that the configuration selects; without it all that the campaign can have."""
        settings = self.config.studies.get(study_name) if self.config else None
        if self.config is None or settings is None:
            available_needs = {None, "devices", *(["beside"] if self.beside else [])}
            return [artifact for artifact in all_artifacts(study_name, kind) if artifact.needs in available_needs]
        return select_artifacts(self.config, study_name, bool(self.beside), kind)


def select_artifacts(config: Config, study_name: str, has_references: bool, kind: Kind | None = None) -> list[Artifact]:
    """Return the artifacts that a configuration selects; `all` selects those that its campaign can have.

    `has_references` states whether other campaigns are shown beside this one.
    """
    settings = config.studies[study_name]
    everything = all_artifacts(study_name)
    if settings.artifacts == "all":
        contract = get_study(study_name)
        available_needs = {
            "beside": has_references,
            "rivals": bool(contract.rivals_of(config.rivals)),
            "devices": config.has_several_devices,
            "edges": bool(settings.edges),
            "energy": settings.timing.energy_seconds > 0,
            "processes": bool(contract.pairs) and config.repeats.processes > 1,
        }
        parts = contract.all_parts_of(settings)
        selected_artifacts = [
            candidate
            for candidate in everything
            if (candidate.needs is None or available_needs[candidate.needs])
            and candidate.part in ("", *parts)
            and not (settings.is_own_alone and candidate.is_of_papers)
        ]
    else:
        names = [artifact.name for artifact in everything]
        if unknown_names := sorted(set(settings.artifacts) - set(names)):
            raise ReproError(
                "unknown artifact",
                where=f"studies.{study_name}.artifacts",
                expected=some_of(names, unknown_names[0], "`repro list artifacts`"),
                actual=", ".join(unknown_names) + suggestion(unknown_names[0], names),
            )
        selected_artifacts = [artifact for artifact in everything if artifact.name in settings.artifacts]
    return [artifact for artifact in selected_artifacts if kind in (None, artifact.kind)]


def all_artifacts(study_name: str, kind: Kind | None = None) -> list[Artifact]:
    """Return all artifacts of a study: tables before figures, by their numbers in the paper, ours last.

    A study that registers no table has the common tables (`register_common_tables`); one whose headline compares pairs
    of kernels has the table of its uncertainty.
    """
    load_artifacts(study_name)
    load_extensions(TABLES)
    if not artifacts(study_name, "table"):
        register_common_tables(study_name)
    numbers = get_study(study_name).numbers
    if numbers and not any(artifact.name == EDGES for artifact in artifacts(study_name, "table")):
        register_edges(study_name, list(numbers))
    pairs = get_study(study_name).pairs
    if pairs and not any(artifact.name == UNCERTAINTY for artifact in artifacts(study_name, "table")):
        register_uncertainty(study_name, pairs)
    return artifacts(study_name, kind)


def published_of(study_name: str) -> Published:
    contract = get_study(study_name)
    return Published.load(study_name, contract.published, contract.targets)


def find_artifacts(texts: list[str], kind: Kind, studies: list[str]) -> dict[str, list[Artifact]]:
    """Return the distinct artifacts for each study, named by `study/name`, or by `name` in each of `studies`."""
    selected_artifacts: dict[str, list[Artifact]] = {}
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
            elsewhere = [
                f"{owner}/{name}"
                for owner in study_names()
                if any(artifact.name == name for artifact in all_artifacts(owner, kind))
            ]
            near = f"; did you mean {' or '.join(elsewhere)}?" if elsewhere else suggestion(text, known)
            raise ReproError(
                f"unknown {kind}",
                expected=some_of(dict.fromkeys(known), text, "`repro list artifacts`") if known else "(there are none)",
                actual=f"{text}{near}",
            )
        for artifact in matching:
            study_artifacts = selected_artifacts.setdefault(artifact.study, [])
            if artifact not in study_artifacts:
                study_artifacts.append(artifact)
    return selected_artifacts
