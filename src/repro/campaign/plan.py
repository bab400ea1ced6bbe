"""What a campaign will do: device, problems, modules and artifacts, all named before anything runs.

The workflow's rules and `repro plan` read the same plan. Making it takes a fraction of a second, since Snakemake
makes it at each start; whatever is slow to import is imported where it is needed. A plan also names the reference
campaigns that this one reads: those that its tables show in further columns, and those that its searches learn
from.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from repro.campaign.receipts import hash_of
from repro.codegen.build_cache import MODULES, manifest_path
from repro.codegen.targets import Target
from repro.codegen.templates import COMMON
from repro.config import Config, StudySettings
from repro.config.models import OwnProblem
from repro.errors import ReproError
from repro.package_data import shipped
from repro.problems.own_problems import planned
from repro.problems.problem import Outline
from repro.problems.registry import Item, Registry, load_registry, own_name
from repro.studies import get_study, load_artifacts
from repro.untrusted_files import files_below


def raw_of(campaign: str) -> Path:
    """Return where all lies that a campaign's artifacts are made from."""
    return Path("results", campaign, "raw")


def record_files(raw: Path) -> tuple[Path, ...]:
    """Return the files of a campaign that artifacts are made from, as they are now."""
    return tuple(sorted([*files_below(raw, "*.json"), *files_below(raw, "*.parquet")]))


def check_beside(config: Config) -> None:
    """Refuse campaigns that cannot stand beside this one.

    Raises
    ------
    ReproError
        One of them is this one, or is not there.
    """
    for name in config.beside:
        if name == config.campaign:
            raise ReproError("a campaign cannot stand beside itself", where="beside", actual=name)
        if not raw_of(name).is_dir():
            raise ReproError(
                "no such campaign to stand beside this one",
                where=raw_of(name),
                todo="measure it first, or leave it out of `beside`; `--config 'beside=[]'` leaves all out",
            )


def check_training(config: Config) -> None:
    """Refuse predicted searches that have nothing to learn from, before anything is fetched or compiled for them.

    What is recorded is read when a case is measured; a search that finds too little in it fails there.

    Raises
    ------
    ReproError
        A campaign to learn from is this one, or has nothing of the study; or no other one has been searched.
    """
    for study, settings in config.studies.items():
        if settings.search != "predicted" or config.replay:
            continue
        where = f"studies.{study}.training"
        if settings.training == "all" or not settings.training:
            searches = Path("results").glob(f"[!.]*/raw/{study}/**/search.parquet") if settings.training else ()
            if not any(path.parts[1] != config.campaign for path in searches):
                raise ReproError(
                    "no recorded campaign to learn from",
                    where=where,
                    expected=f"a searched campaign of {study} in results, other than {config.campaign}",
                    todo="measure one with `search: exhaustive` first",
                )
            continue
        for name in settings.training:
            if name == config.campaign:
                raise ReproError("a campaign cannot learn from itself", where=where, actual=name)
            if not (raw_of(name) / study).is_dir():
                raise ReproError(
                    "no such campaign to learn from",
                    where=where,
                    actual=raw_of(name) / study,
                    todo="measure it first, leave it out of `training`, or use another `search`",
                )


#: As `repro.results.output` has them, which is slow to import; a test holds them together.
TABLE_FORMATS, FIGURE_FORMATS = ("csv", "md", "tex"), ("pdf", "svg", "png")
#: Settings of a study that say which steps there are, and nothing of how one of them is taken; and the parts, which
#: the study tells for each step.
NAMING_STEPS = {"problems", "precisions", "artifacts", "parts"}


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
    def gpus(self) -> int:
        """How many GPUs a measuring job takes; none on a CPU."""
        from repro.devices.selection import parts

        return len(parts(self.device)) if self.on_gpu else 0

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

    @cached_property
    def config_file(self) -> str:
        """Where the jobs read the resolved configuration: named by its content, so that no other run can change it."""
        return f"{self.results}/configs/{hash_of(as_yaml(self.config))[:16]}.yaml"

    @cached_property
    def measured_settings(self) -> dict[str, dict[str, Any]]:
        """Of each study, as plain data, the settings that measuring a case depends on: all that name no steps."""
        return {
            name: study.settings.model_dump(mode="json", exclude=NAMING_STEPS) for name, study in self.studies.items()
        }

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
        """Return the keys of the modules that measuring a problem needs; none in a replay."""
        if self.target is None:
            return []
        return get_study(study).modules(self.studies[study].settings, self.problems[problem], precision, self.target)

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

    def read_by_case(self, study: str, problem: str, precision: str) -> list[str]:
        """Return the files of the campaign that measuring a problem reads."""
        return [f"{self.results}/problems/{problem}.npz", *self.manifests(study, problem, precision)]

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

    def raw(self, study: str, problems: Collection[str] | None = None) -> list[str]:
        """Return what a study's artifacts read: in a replay what is recorded, else all, or of some problems."""
        if self.config.replay:
            return [str(path) for path in self.recorded_files]
        raw = Path(self.results, "raw")
        asked = set(self.problems if problems is None else problems)
        records = [f"{raw}/problems/{name}.json" for name in self.studies[study].problems if name in asked]
        rows = [
            f"{raw}/{study}/{problem}/{precision}/{step}"
            for of, problem, precision in self.runs
            if of == study and problem in asked
            for step in self.steps(study)
        ]
        counted = (str(path) for path in self.recorded_files if path.is_relative_to(raw / study))
        return [*records, *rows, *counted]

    @cached_property
    def recorded_files(self) -> tuple[Path, ...]:
        """The files that artifacts read and no step makes: all of a replay; else counters, recorded by hand."""
        raw = raw_of(self.config.campaign)
        return record_files(raw) if self.config.replay else tuple(sorted(raw.rglob("counters.parquet")))

    @cached_property
    def files_beside(self) -> tuple[Path, ...]:
        """The recorded files of the campaigns that stand beside this one."""
        folders = (raw_of(name) for name in self.config.beside)
        return tuple(path for raw in folders for path in record_files(raw))

    def artifact_outputs(self, study: str, kind: Literal["tables", "figures"]) -> list[str]:
        """Return all files of a study's tables or figures, in all formats."""
        planned = self.studies[study]
        if kind == "tables":
            folder, names, formats = f"{self.results}/tables", planned.tables, TABLE_FORMATS
        else:
            folder, names, formats = f"{self.figures}", planned.figures, FIGURE_FORMATS
        return [f"{folder}/{study}/{name}.{suffix}" for name in names for suffix in formats]

    def title(self, study: str) -> str:
        """Return a study's title, or its name where it has none."""
        return get_study(study).title or study

    def labels(self, study: str, kind: Literal["tables", "figures"]) -> dict[str, dict[str, str]]:
        """Return, by file, what Snakemake's own report says of tables, shown as CSV, or of figures, as SVG."""
        from repro.results.registry import get_artifact

        suffix = ".csv" if kind == "tables" else ".svg"
        files = [path for path in self.artifact_outputs(study, kind) if path.endswith(suffix)]
        named = {path: get_artifact(study, Path(path).stem) for path in files}
        return {path: {"name": artifact.short, "title": artifact.title} for path, artifact in named.items()}

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

    def published(self, study: str) -> list[str]:
        """Return the files of a study's published numbers, and of our targets."""
        folders = (shipped(f"config/published/{study}").glob("*.csv"), shipped("config/targets").glob(f"{study}.csv"))
        return sorted(str(path) for folder in folders for path in folder)


def make_plan(config: Config, registry: Registry | None = None) -> Plan:
    """Say what a resolved configuration means on this machine.

    Parameters
    ----------
    registry
        The configuration's, where it was read already.

    Raises
    ------
    ReproError
        An unknown problem, layout, artifact or baseline, a file of the user's own that is not there or does not say
        what its entries are, a device that is not there, a replay of a campaign that is not recorded, or such a one
        beside it or to learn from.
    """
    from repro.devices.selection import resolve_device, target_of

    check_beside(config)
    check_training(config)
    registry = registry or load_registry(Path(config.registry))
    problems: dict[str, Outline] = {}
    studies: dict[str, PlannedStudy] = {}
    for name, settings in config.studies.items():
        wished = registry.expand(settings.problems, f"studies.{name}.problems")
        asked = [planned(item, registry, config.limits) for item in wished]
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
            _artifacts(name, settings, "table", bool(config.beside)),
            _artifacts(name, settings, "figure", bool(config.beside)),
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
    device = resolve_device(config.device)
    target = target_of(device)
    for study in studies.values():
        get_study(study.name).check_on(study.settings, [problems[name] for name in study.problems], target)
    return Plan(config.model_copy(update={"device": device}), target, problems, studies)


def plan_of_cases(
    config: Config, problems: Collection[str], study: str | None = None, registry: Registry | None = None
) -> Plan:
    """Return the plan of some problems alone, in all studies or in one, without artifacts: what a job is part of.

    Parameters
    ----------
    registry
        As for `make_plan`.

    Raises
    ------
    ReproError
        As `make_plan`; or no such study has one of the problems.
    """
    registry = registry or load_registry(Path(config.registry))
    named: set[str] = set()
    studies: dict[str, StudySettings] = {}
    for name, settings in config.studies.items():
        if study in (None, name):
            wished = registry.expand(settings.problems, f"studies.{name}.problems")
            items = [item for item in wished if _name_of(item) in problems]
            named.update(map(_name_of, items))
            asked = tuple(item if isinstance(item, OwnProblem) else item.name for item in items)
            if asked:
                studies[name] = settings.model_copy(update={"problems": asked, "artifacts": ()})
    if unknown := [problem for problem in problems if problem not in named]:
        where = f"studies.{study}.problems" if study else "studies"
        raise ReproError("the configuration does not name the problem", where=where, actual=", ".join(unknown))
    return make_plan(config.model_copy(update={"studies": studies}), registry)


def as_yaml(config: Config) -> str:
    """Write a configuration in full, every default included."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _name_of(item: Item | OwnProblem) -> str:
    return own_name(item) if isinstance(item, OwnProblem) else item.name


def _artifacts(study: str, settings: StudySettings, kind: Literal["table", "figure"], several: bool) -> tuple[str, ...]:
    """Return the names of a study's tables or figures that are asked for, of several campaigns where there are some."""
    if not settings.artifacts:
        return ()  # and imports nothing, which is slow
    from repro.results.registry import artifacts

    load_artifacts(study)
    if settings.artifacts == "all":
        return tuple(artifact.name for artifact in artifacts(study, kind) if several or not artifact.several)
    everything = [artifact.name for artifact in artifacts(study)]
    if unknown := sorted(set(settings.artifacts) - set(everything)):
        raise ReproError(
            "unknown artifact",
            where=f"studies.{study}.artifacts",
            expected=f"one of {', '.join(everything)}",
            actual=", ".join(unknown),
        )
    return tuple(artifact.name for artifact in artifacts(study, kind) if artifact.name in settings.artifacts)
