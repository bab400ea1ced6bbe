"""What a campaign will do: device, problems, modules and artifacts, all named before anything runs.

The workflow's rules and `repro plan` read the same plan. Making it takes a fraction of a second, since it is made each
time that Snakemake starts; whatever is slow to import is imported where it is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import yaml

from repro.codegen.compile import manifest_path
from repro.codegen.solvers import solver_manifest
from repro.codegen.targets import Target
from repro.config import Config, Study, resolve
from repro.config.models import OwnProblem
from repro.errors import ReproError
from repro.problems.registry import Item, load_registry, own_name
from repro.studies.own_file import describe
from repro.studies.registry import get_study


@dataclass(frozen=True)
class PlannedProblem:
    """A problem that some study runs on.

    Attributes
    ----------
    name, entry
        Its name and the name of its entry.
    definition
        Plain data that says what it is: when it changes, the problem is built again.
    source
        The user's own file, None for a registered problem.
    size
        Rows and non-zeros that the registry states; None where only building it tells.
    """

    name: str
    entry: str
    definition: Mapping[str, Any]
    source: str | None = None
    size: tuple[int, int] | None = None


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
    settings: Study
    problems: tuple[str, ...]
    tables: tuple[str, ...]
    figures: tuple[str, ...]


@dataclass(frozen=True)
class ModuleName:
    """One module to compile: all schedules of one space, entry, precision and layout."""

    study: str
    space: str
    entry: str
    precision: str
    layout: str

    def manifest(self, target: str) -> str:
        """Return the path of its manifest."""
        return str(manifest_path(target, self.study, self.space, self.entry, self.precision, self.layout))


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
    problems: Mapping[str, PlannedProblem]
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

    def modules(self, study: str, problem: str, precision: str) -> list[ModuleName]:
        """Return the modules that measuring a problem needs."""
        entry = self.problems[problem].entry
        spaces = get_study(study).spaces(self.studies[study].settings)
        return [
            ModuleName(study, space, entry, precision, layout)
            for space in spaces
            for layout in get_study(study).layouts(self.studies[study].settings, space, entry)
        ]

    @cached_property
    def module_sets(self) -> list[tuple[str, str, str, list[str]]]:
        """Every (study, space, entry) with the layouts that modules are compiled for."""
        sets: dict[tuple[str, str, str], list[str]] = {}
        for module in self.all_modules:
            layouts = sets.setdefault((module.study, module.space, module.entry), [])
            layouts += [module.layout] * (module.layout not in layouts)
        return [(*key, layouts) for key, layouts in sets.items()]

    @cached_property
    def all_modules(self) -> list[ModuleName]:
        """Every module to compile, once."""
        return list(dict.fromkeys(module for run in self.runs for module in self.modules(*run)))

    @property
    def target_name(self) -> str:
        """Name of the target; empty in a replay."""
        return self.target.name if self.target else ""

    @property
    def common_manifest(self) -> str:
        """Manifest of the module that all studies share."""
        return f"modules/{self.target_name}/common.json"

    def manifests(self, study: str, problem: str, precision: str) -> list[str]:
        """Return the manifests of the modules that measuring a problem needs, the common module's last."""
        paths = [module.manifest(self.target_name) for module in self.modules(study, problem, precision)]
        return [*paths, *self.solvers(study, precision), self.common_manifest]

    def solvers(self, study: str, precision: str) -> list[str]:
        """Return the manifests of the solvers that a study times."""
        return [str(solver_manifest(self.target_name, name, precision)) for name in get_study(study).SOLVERS]

    @property
    def all_manifests(self) -> list[str]:
        """Every manifest, once; none in a replay."""
        if self.config.replay:
            return []
        modules = [module.manifest(self.target_name) for module in self.all_modules]
        solvers = [path for study, _, precision in self.runs for path in self.solvers(study, precision)]
        return [*modules, *dict.fromkeys(solvers), self.common_manifest]

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
            f"{raw}/{study}/{problem}/{precision}/{phase}.parquet"
            for of, problem, precision in self.runs
            if of == study
            for phase in ("search", "report", "choices")
        ]
        counted = sorted(map(str, (raw / study).rglob("counters.parquet")))  # recorded by hand, if at all
        return [*records, *rows, *counted]

    @property
    def artifact_files(self) -> list[str]:
        """One file of each table and figure; the other formats are made with it."""
        return [
            path
            for study in self.studies.values()
            for path in (
                *(f"{self.results}/tables/{study.name}/{name}.csv" for name in study.tables),
                *(f"{self.figures}/{study.name}/{name}.svg" for name in study.figures),
            )
        ]

    @property
    def templates(self) -> list[str]:
        """Every kernel template."""
        return sorted(str(path) for path in Path(self.config.kernels).rglob("*.j2"))

    @property
    def published(self) -> list[str]:
        """The papers' own numbers, and our targets."""
        return sorted(str(path) for folder in ("published", "targets") for path in Path("config", folder).glob("*.csv"))

    def code(self, *packages: str) -> str:
        """Return a hash of the sources of some of our packages; after an edit, what they make is made again."""
        digest = hashlib.sha256()
        for package in packages:
            for path in sorted(Path("src/repro", package).rglob("*.py")):
                digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    def protocol(self, study: str) -> dict[str, Any]:
        """Return, as plain data, all that times depend on beside problem and modules."""
        settings = self.studies[study].settings
        return {
            "device": self.device,
            "seed": self.config.seed,
            "cache": settings.cache,
            "space": settings.space,
            **settings.protocol.model_dump(),
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
    problems: dict[str, PlannedProblem] = {}
    studies: dict[str, PlannedStudy] = {}
    for name, study in config.studies.items():
        asked = [_planned(item) for item in registry.expand(study.problems)]
        if not asked:
            raise ReproError("empty study", where=f"studies.{name}.problems", todo="name problems or a set of them")
        problems.update({problem.name: problem for problem in asked})
        module = get_study(name)
        _check_entries(name, asked, module.ENTRIES)
        for space in module.spaces(study):
            for entry in {problem.entry for problem in asked}:
                module.layouts(study, space, entry)  # one that there is not is an error before anything is written
        studies[name] = PlannedStudy(
            name,
            study,
            tuple(problem.name for problem in asked),
            _artifacts(name, study, "table"),
            _artifacts(name, study, "figure"),
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


def _check_entries(study: str, problems: Iterable[PlannedProblem], entries: Collection[str]) -> None:
    """Refuse problems whose entries a study cannot take."""
    for problem in problems:
        if problem.entry not in entries:
            raise ReproError(
                "a problem that the study cannot take",
                where=f"studies.{study}.problems: {problem.name}",
                expected=f"{' or '.join(entries)} entries",
                actual=problem.entry,
                todo="leave it out, or name it in another study",
            )


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
    """Return the resolved device and its target; `auto` takes a GPU only where what drives it is installed."""
    from repro.devices.open import resolve_device, target_of

    device = resolve_device("opencl" if asked == "auto" and find_spec("pycuda") is None else asked)
    return device, target_of(device)


def _planned(item: Item | OwnProblem) -> PlannedProblem:
    if isinstance(item, OwnProblem):
        entry, size = describe(item)
        return PlannedProblem(own_name(item), entry, item.model_dump(mode="json"), item.path, size)
    size = (item.published.rows, item.published.nonzeros) if item.published else None
    # being in a set is no property of the matrix
    definition = item.model_dump(mode="json", exclude={"sets"})
    return PlannedProblem(item.name, item.entry, definition, getattr(item, "path", None), size)


def _artifacts(study: str, settings: Study, kind: Literal["table", "figure"]) -> tuple[str, ...]:
    """Return the names of a study's tables or figures that are asked for."""
    from repro.artifacts import artifacts

    known = [artifact.name for artifact in artifacts(study, kind)]
    if settings.artifacts == "all":
        return tuple(known)
    everything = [artifact.name for artifact in artifacts(study)]
    unknown = sorted(set(settings.artifacts) - set(everything))
    if unknown:
        raise ReproError(
            "unknown artifact",
            where=f"studies.{study}.artifacts",
            expected=f"one of {', '.join(everything)}",
            actual=", ".join(unknown),
        )
    return tuple(name for name in known if name in settings.artifacts)
