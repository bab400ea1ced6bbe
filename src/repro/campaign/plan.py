"""What a campaign will do: device, problems, modules and artifacts, all named before anything runs.

The workflow's rules and `repro plan` read the same plan. Making it takes a fraction of a second, since it is made each
time that Snakemake starts; whatever is slow to import is imported where it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import yaml

from repro.campaign.dependencies import code_hash
from repro.codegen.common import COMMON
from repro.codegen.compile import MODULES, manifest_path
from repro.codegen.targets import Target
from repro.config import Config, StudySettings, resolve
from repro.config.models import Limits, OwnProblem
from repro.errors import ReproError
from repro.problems.outline import Outline
from repro.problems.own_header import outline
from repro.problems.registry import Item, Own, load_registry
from repro.studies import get_study, load_artifacts, names


@dataclass(frozen=True)
class PlannedStudy:
    """What one study runs on.

    Attributes
    ----------
    name
        The study's.
    settings
        Its part of the configuration.
    problems
        Names, in the order asked for.
    tables, figures
        Names of its artifacts.
    """

    name: str
    settings: StudySettings
    problems: tuple[str, ...]
    tables: tuple[str, ...]
    figures: tuple[str, ...]


@dataclass(frozen=True)
class ModuleGroup:
    """Modules of a study that one job compiles.

    Attributes
    ----------
    study
        The study's name.
    name
        What the keys have in common, up to their last part.
    keys
        As `repro.studies.Study.modules` returns them.
    """

    study: str
    name: str
    keys: tuple[str, ...]

    @property
    def rule(self) -> str:
        """A name for the rule that compiles them."""
        return re.sub(r"\W+", "_", f"compile_{self.study}_{self.name}")


@dataclass(frozen=True)
class Plan:
    """A whole campaign.

    Attributes
    ----------
    config
        The configuration, the device resolved.
    target
        What modules are compiled for; None in a replay, which compiles nothing.
    problems
        All problems of all studies, by name.
    studies
        By name.
    """

    config: Config
    target: Target | None
    problems: Mapping[str, Outline]
    studies: Mapping[str, PlannedStudy] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """`cuda:N` or `opencl:N`; in a replay what the configuration says."""
        return self.config.device

    @property
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU."""
        return self.target is not None and self.target.dialect == "cuda"

    @property
    def results(self) -> str:
        """Folder of all that is measured and made of it."""
        return f"results/{self.config.campaign}"

    @property
    def figures(self) -> str:
        """Folder of the figures."""
        return f"figures/{self.config.campaign}"

    @property
    def logs(self) -> str:
        """Folder of the logs."""
        return f"logs/{self.config.campaign}"

    @property
    def config_file(self) -> str:
        """Where the resolved configuration is written; apart in a replay, which leaves the record as it is."""
        return f"{self.results}/{'replay' if self.config.replay else 'config'}.yaml"

    @cached_property
    def runs(self) -> list[tuple[str, str, str]]:
        """Every (study, problem, precision) to measure."""
        return [
            (study.name, problem, precision)
            for study in self.studies.values()
            for problem in study.problems
            for precision in study.settings.precisions
        ]

    def modules(self, study: str, problem: str, precision: str) -> list[str]:
        """Return the keys of the modules that measuring a problem needs."""
        settings = self.studies[study].settings
        return get_study(study).modules(settings, self.problems[problem], precision)

    @cached_property
    def module_groups(self) -> list[ModuleGroup]:
        """Every module to compile, once, in the groups that jobs compile."""
        groups: dict[tuple[str, str], dict[str, None]] = {}
        for study, problem, precision in self.runs:
            for key in self.modules(study, problem, precision):
                groups.setdefault((study, key.rpartition("/")[0]), {})[key] = None
        return [ModuleGroup(study, name, tuple(keys)) for (study, name), keys in groups.items()]

    @property
    def target_name(self) -> str:
        """Name of the target; empty in a replay."""
        return self.target.name if self.target else ""

    @property
    def common_manifest(self) -> str:
        """Manifest of the module that all studies share."""
        return f"{MODULES}/{self.target_name}/{COMMON}.json"

    def manifests_of(self, study: str, keys: Iterable[str]) -> list[str]:
        """Return the manifests of a study's modules."""
        return [str(manifest_path(self.target_name, study, key)) for key in keys]

    def manifests(self, study: str, problem: str, precision: str) -> list[str]:
        """Return the manifests of the modules that measuring a problem needs, the common module's last."""
        return [*self.manifests_of(study, self.modules(study, problem, precision)), self.common_manifest]

    @property
    def all_manifests(self) -> list[str]:
        """Every manifest, once; none in a replay."""
        if self.config.replay:
            return []
        grouped = (self.manifests_of(group.study, group.keys) for group in self.module_groups)
        return [*(path for paths in grouped for path in paths), self.common_manifest]

    def steps(self, study: str) -> list[str]:
        """Return the names of the files that measuring a problem of a study writes."""
        return [f"{step}.parquet" for step in get_study(study).outputs]

    @property
    def matrices(self) -> list[str]:
        """Every problem's file; none in a replay."""
        return [] if self.config.replay else [f"{self.results}/problems/{name}.npz" for name in self.problems]

    def raw(self, study: str) -> list[str]:
        """Return what a study's artifacts read: in a replay what is recorded, else all that will be."""
        raw = Path(self.results, "raw")
        if self.config.replay:
            return sorted(str(path) for path in raw.rglob("*") if path.suffix in (".json", ".parquet"))
        records = [f"{raw}/problems/{name}.json" for name in self.studies[study].problems]
        rows = [
            f"{raw}/{study}/{problem}/{precision}/{step}"
            for of, problem, precision in self.runs
            if of == study
            for step in self.steps(study)
        ]
        counted = sorted(map(str, (raw / study).rglob("counters.parquet")))  # recorded by hand, if at all
        return [*records, *rows, *counted]

    @property
    def artifact_files(self) -> list[str]:
        """One file of each table and figure: of a format that is not kept, so that a replay makes all of them again."""
        return [
            path
            for study in self.studies.values()
            for path in (
                *(f"{self.results}/tables/{study.name}/{name}.tex" for name in study.tables),
                *(f"{self.figures}/{study.name}/{name}.pdf" for name in study.figures),
            )
        ]

    def templates(self, *folders: str) -> list[str]:
        """Return the kernel templates in some folders, with what all kernels are rendered with."""
        paths = (path for folder in (*folders, "dialects") for path in Path(self.config.kernels, folder).rglob("*.j2"))
        return sorted(map(str, paths))

    def published(self, study: str) -> list[str]:
        """Return the files of a study's published numbers, and of our targets."""
        folders = (Path("config", "published", study).glob("*.csv"), Path("config", "targets").glob(f"{study}.csv"))
        return sorted(str(path) for folder in folders for path in folder)

    @property
    def building_code(self) -> str:
        """The hash of what builds problems, and finds the facts of them that studies ask for."""
        return code_hash("repro.campaign.building", *_parts_of_studies("facts"))

    def compiling_code(self, study: str) -> str:
        """Return the hash of what renders and compiles a study's modules: its `render.py`, where it has one."""
        own = f"repro.studies.{study}.render"
        return code_hash("repro.codegen.compile", own if find_spec(own) else f"repro.studies.{study}.study")

    @property
    def common_code(self) -> str:
        """The hash of what renders and compiles the common module."""
        return code_hash("repro.codegen.compile", "repro.codegen.common")

    def measuring_code(self, study: str) -> str:
        """Return the hash of what measures a study's problems."""
        return code_hash("repro.campaign.measuring", f"repro.studies.{study}.study")

    def artifacts_code(self, study: str, part: str) -> str:
        """Return the hash of what makes a study's `tables` or `figures`."""
        return code_hash("repro.campaign.artifacts", f"repro.studies.{study}.study", f"repro.studies.{study}.{part}")

    @property
    def reporting_code(self) -> str:
        """The hash of what makes the report, with the tables and figures of all studies."""
        modules = [f"repro.studies.{study}.{part}" for study in self.studies for part in ("study", "tables", "figures")]
        return code_hash("repro.campaign.reporting", *modules)

    def timing(self, study: str) -> dict[str, Any]:
        """Return, as plain data, all that rows depend on beside problem, modules and baselines."""
        settings = self.studies[study].settings
        return {
            "device": self.device,
            "seed": self.config.seed,
            "cache": settings.cache,
            "space": settings.space,
            "search": settings.search,
            "budget": settings.budget,
            "training": settings.training,
            "memory_weight": settings.memory_weight,
            **settings.timing.model_dump(),
        }


def make_plan(config: Config) -> Plan:
    """Say what a resolved configuration means on this machine.

    Raises
    ------
    ReproError
        An unknown problem, layout or artifact, a file of the user's own that is not there or does not say what its
        entries are, a device that is not there, or a replay of a campaign that is not recorded.
    """
    registry = load_registry(Path(config.registry))
    problems: dict[str, Outline] = {}
    studies: dict[str, PlannedStudy] = {}
    for name, settings in config.studies.items():
        asked = [_planned(item, config.limits) for item in registry.expand(settings.problems)]
        if not asked:
            raise ReproError("empty study", where=f"studies.{name}.problems", todo="name problems or a set of them")
        for problem in asked:
            if problems.setdefault(problem.name, problem) != problem:
                raise ReproError(
                    "two studies mean other problems by one name",
                    where=f"studies.{name}.problems",
                    expected=problems[problem.name].definition,
                    actual=problem.definition,
                    todo="give one of them another `name:`, or write both alike",
                )
        get_study(name).check(settings, asked)
        studies[name] = PlannedStudy(
            name,
            settings,
            tuple(problem.name for problem in asked),
            _artifacts(name, settings, "table"),
            _artifacts(name, settings, "figure"),
        )
    if config.replay:
        plan = Plan(config, None, problems, studies)
        if not Path(plan.results, "raw").is_dir():
            raise ReproError(
                "no such recorded campaign",
                where=f"{plan.results}/raw",
                todo="name a recorded campaign, or measure one with `replay: false`",
            )
        return plan
    device, target = _device(config.device)
    return Plan(config.model_copy(update={"device": device}), target, problems, studies)


def prepare(data: Mapping[str, Any], where: object = "the configuration") -> Plan:
    """Resolve plain configuration data, plan, and write the resolved configuration to the campaign's folder.

    The file is touched only when its content changes.

    Raises
    ------
    ReproError
        As `resolve` and `make_plan`, or the folder cannot be written to.
    """
    plan = make_plan(resolve(data, where))
    path = Path(plan.config_file)
    text = as_yaml(plan.config)
    try:
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.partial")
            partial.write_text(text)
            partial.replace(path)
    except OSError as error:
        raise ReproError(
            "cannot write to the results folder",
            where=path.parent,
            actual=error.strerror,
            todo="make room or make it writable, or name another campaign",
        ) from None
    return plan


def as_yaml(config: Config) -> str:
    """Write a configuration in full, every default included."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _device(asked: str) -> tuple[str, Target]:
    """Return the resolved device and its target."""
    from repro.devices.open import resolve_device, target_of

    device = resolve_device(asked)
    return device, target_of(device)


def _planned(item: Item | OwnProblem, limits: Limits) -> Outline:
    if isinstance(item, (OwnProblem, Own)):
        return outline(item, limits)
    size = (item.published.rows, item.published.nonzeros) if item.published else None
    # being in a set is no property of the matrix
    definition = item.model_dump(mode="json", exclude={"sets"})
    return Outline(item.name, "matrix", item.entry, definition, None, size)


def _artifacts(study: str, settings: StudySettings, kind: Literal["table", "figure"]) -> tuple[str, ...]:
    """Return the names of a study's tables or figures that are asked for."""
    from repro.artifacts.registry import artifacts

    load_artifacts(study)
    there = [artifact.name for artifact in artifacts(study, kind)]
    if settings.artifacts == "all":
        return tuple(there)
    everything = [artifact.name for artifact in artifacts(study)]
    unknown = sorted(set(settings.artifacts) - set(everything))
    if unknown:
        raise ReproError(
            "unknown artifact",
            where=f"studies.{study}.artifacts",
            expected=f"one of {', '.join(everything)}",
            actual=", ".join(unknown),
        )
    return tuple(name for name in there if name in settings.artifacts)


def _parts_of_studies(part: str) -> list[str]:
    """Return the modules of that name that studies have."""
    modules = [f"repro.studies.{study}.{part}" for study in names()]
    return [module for module in modules if find_spec(module)]
