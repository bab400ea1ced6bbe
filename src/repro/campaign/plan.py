"""The plan of a campaign: it names the device and all problems, modules and artifacts before anything runs.

Small problems are grouped into batches; one job builds or measures a whole batch. Snakemake's rules and `repro plan`
use the plan. It is made at each start of Snakemake, so slow imports are inside functions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

from repro.bench.campaign_folder import REPEAT, CampaignFolder, step_file
from repro.campaign.receipts import hash_of
from repro.codegen.build_cache import MODULES, manifest_path
from repro.codegen.targets import GpuModel, Target, find_gpu, get_target
from repro.codegen.templates import COMMON
from repro.config import dump_yaml, with_both_places
from repro.config.models import Config, FieldFile, OwnProblem, Rival, StudySettings
from repro.errors import MissingFileError, ReproError
from repro.package_data import shipped
from repro.problems.fetch import check_mirrors
from repro.problems.own_problems import planned
from repro.problems.problem import Outline
from repro.problems.registry import Item, LocalFile, ProblemSpec, Registry, load_registry, own_name, problem_names
from repro.sparse.rivals.files import rival_files
from repro.studies import get_study, study_names
from repro.untrusted_files import files_below
from repro.words import some_of, suggestion


def record_files(raw: Path) -> tuple[Path, ...]:
    """Return the recorded files (Parquet and JSON) from which a campaign's artifacts are made."""
    return tuple(sorted([*files_below(raw, "*.json"), *files_below(raw, "*.parquet")]))


def files_of_record(folder: CampaignFolder) -> tuple[Path, ...]:
    """Return all files from which artifacts are made of a recorded campaign: rows, records, commits, configuration."""
    beside_raw = (path for path in (folder.commits, folder.config) if path.exists())
    return (*record_files(folder.raw), *beside_raw)


def check_beside(config: Config) -> None:
    """Raise `ReproError` if `beside:`, `as_published:` or `later:` names no recorded campaign, or this one itself."""
    checks = [
        *(
            ("beside", name, "a campaign cannot be compared with itself", "to stand beside this one", "beside=[]")
            for name in config.beside
        ),
        (
            "as_published",
            config.as_published,
            "a campaign's own rows as published need no name",
            "of kernels as published",
            "as_published=null",
        ),
        ("later", config.later, "a campaign is not later than itself", "of later rows", "later=null"),
    ]
    for key, name, self_message, purpose, without in checks:
        if name is None:
            continue
        if name == config.campaign:
            raise ReproError(self_message, where=key, actual=name)
        if not CampaignFolder.of(name).raw.is_dir():
            recorded = [folder.name for folder in CampaignFolder.measured()]
            raise ReproError(
                f"no such campaign {purpose}",
                where=f"{key}: {CampaignFolder.of(name).raw}",
                expected=some_of(recorded, name, "`repro list campaigns`") if recorded else "a measured campaign",
                actual=f"{name}{suggestion(name, recorded)}",
                todo=f"measure it first, or remove it from `{key}`; `--config '{without}'` does so",
            )


def check_training(config: Config) -> None:
    """Raise `ReproError` if a search has no training data or no recorded winners, before anything is downloaded.

    The training rows are only read when a case is measured; a search with too few rows fails at that time.
    """
    for study, settings in config.studies.items():
        if config.replay or not (settings.edges or settings.search == "predicted"):
            continue
        setting = f"studies.{study}.{'edges' if settings.edges else 'training'}"
        names = settings.edge_records or settings.training
        if names == "all" or not names:
            other_campaigns = [folder for folder in CampaignFolder.measured() if folder.name != config.campaign]
            if not names or not any(other_folder.step_files(study, "search") for other_folder in other_campaigns):
                raise ReproError(
                    "no recorded campaign to learn from",
                    where=setting,
                    expected=f"a searched campaign of {study} in results, other than {config.campaign}",
                    todo="measure one with `search: exhaustive` first",
                )
            continue
        for name in names:
            if name == config.campaign:
                raise ReproError("a campaign cannot learn from itself", where=setting, actual=name)
            rows = CampaignFolder.of(name).study(study)
            if not rows.is_dir():
                raise ReproError(
                    "no such campaign to learn from",
                    where=setting,
                    actual=rows,
                    todo="measure it first, remove it from this key, or use another `search`",
                )


def check_rivals(config: Config) -> None:
    """Raise `ReproError` if a rival's file is missing, or no configured study would time the rival."""
    for rival in () if config.replay else config.rivals:
        if not any(get_study(name).rivals_of([rival]) for name in config.studies):
            supporting_studies = [name for name in study_names() if get_study(name).rivals_of([rival])]
            raise ReproError(
                "no study of the configuration times this rival",
                where=f"rivals: {rival.name}: of",
                expected=f"`of: {rival.of}` needs one of the studies {', '.join(supporting_studies)}",
                actual=f"studies: {', '.join(config.studies)}",
                todo="name such a study, or remove the rival",
            )
        rival_files(rival)


#: Copies of the formats in `repro.results.output`, which is slow to import; a test checks that they are equal.
TABLE_FORMATS: tuple[str, ...] = ("csv", "tex")
FIGURE_FORMATS: tuple[str, ...] = ("pdf", "svg", "png", "tex")
#: Settings of a study that select steps without being inputs of them; for `parts`, `Study.parts_of` gives the inputs.
NAMING_STEPS = {"problems", "precisions", "artifacts", "parts"}


@dataclass(frozen=True)
class PlannedStudy:
    """Settings, problems and artifacts of one study."""

    name: str
    #: Section of the study in the configuration.
    settings: StudySettings
    #: Names of problems in the configured order.
    problems: tuple[str, ...]
    #: Names of the study's tables and figures.
    tables: tuple[str, ...]
    figures: tuple[str, ...]


@dataclass(frozen=True)
class ModuleGroup:
    study: str
    #: Common prefix of the keys, without their last part.
    name: str
    #: Keys of the modules, as returned by `repro.studies.Study.modules`.
    keys: tuple[str, ...]

    @property
    def rule(self) -> str:
        """Name of the Snakemake rule that compiles the group."""
        return re.sub(r"\W+", "_", f"compile_{self.study}_{self.name}")


@dataclass(frozen=True)
class Plan:
    """The plan of a campaign on this machine: its device, problems, modules and artifacts, before anything runs."""

    #: The configuration with its device resolved.
    config: Config
    #: Target of compiled modules; None in a replay, which compiles nothing.
    target: Target | None
    #: All problems of all studies, by name.
    problems: Mapping[str, Outline]
    studies: Mapping[str, PlannedStudy] = field(default_factory=dict)
    #: Data sheet of the GPU model; None on a CPU and for unknown models.
    gpu: GpuModel | None = None
    #: Cases whose kernels further processes time again (`Config.repeats`): (study, problem, precision).
    repeated: frozenset[tuple[str, str, str]] = frozenset()

    @property
    def device(self) -> str:
        """`cuda:N` or `opencl:N`; in a replay the configured text."""
        return self.config.device

    @property
    def on_gpu(self) -> bool:
        return self.target is not None and self.target.dialect == "cuda"

    @property
    def gpus(self) -> int:
        """Number of GPUs for each measuring job; 0 on a CPU."""
        from repro.devices.selection import single_devices

        return len(single_devices(self.device)) if self.on_gpu else 0

    @cached_property
    def folder(self) -> CampaignFolder:
        return CampaignFolder.of(self.config.campaign)

    @property
    def results(self) -> str:
        return str(self.folder.path)

    @property
    def figures(self) -> str:
        return f"figures/{self.config.campaign}"

    @property
    def logs(self) -> str:
        return f"logs/{self.config.campaign}"

    @cached_property
    def config_file(self) -> str:
        """File of the resolved configuration for jobs; the hash in its name keeps other runs from changing it."""
        return str(self.folder.job_config(hash_of(as_yaml(self.config))[:16]))

    @cached_property
    def measured_settings(self) -> dict[str, dict[str, Any]]:
        """For each study, the settings that affect measured times."""
        return {
            name: study.settings.model_dump(mode="json", exclude=NAMING_STEPS) for name, study in self.studies.items()
        }

    @cached_property
    def runs(self) -> list[tuple[str, str, str]]:
        """Every case: (study, problem, precision)."""
        return [
            (study.name, problem_name, precision)
            for study in self.studies.values()
            for problem_name in study.problems
            for precision in study.settings.precisions
        ]

    def modules(self, study_name: str, problem_name: str, precision: str) -> list[str]:
        """Return the keys of the modules that a case needs; empty in a replay, and for a refused file of a user.

        Variants beyond the edges of a space are compiled one by one, when they are measured.
        """
        settings = self.studies[study_name].settings
        if self.target is None or self.problems[problem_name].refused or settings.edges:
            return []
        return get_study(study_name).modules(settings, self.problems[problem_name], precision, self.target)

    @cached_property
    def module_groups(self) -> list[ModuleGroup]:
        """Groups of modules to compile; each module is in one group."""
        groups: dict[tuple[str, str], dict[str, None]] = {}
        for study_name, problem_name, precision in self.runs:
            for key in self.modules(study_name, problem_name, precision):
                groups.setdefault((study_name, key.rpartition("/")[0]), {})[key] = None
        return [ModuleGroup(study, name, tuple(keys)) for (study, name), keys in groups.items()]

    @property
    def target_name(self) -> str:
        """Name of the compilation target; empty in a replay."""
        return self.target.name if self.target else ""

    @property
    def common_manifest(self) -> str:
        """Path of the manifest of the module common to all studies."""
        return f"{MODULES}/{self.target_name}/{COMMON}.json"

    def manifests_of(self, study_name: str, keys: Iterable[str]) -> list[str]:
        return [str(manifest_path(self.target_name, study_name, key)) for key in keys]

    def manifests(self, study_name: str, problem_name: str, precision: str) -> list[str]:
        """Return the manifests of all modules that a case needs, the common one last."""
        return [*self.manifests_of(study_name, self.modules(study_name, problem_name, precision)), self.common_manifest]

    def read_by_case(self, study_name: str, problem_name: str, precision: str) -> list[str]:
        """Return the files made by the campaign that a case reads: problem and manifests."""
        return [str(self.folder.problem(problem_name)), *self.manifests(study_name, problem_name, precision)]

    @property
    def all_manifests(self) -> list[str]:
        """All distinct manifests; empty in a replay."""
        if self.config.replay:
            return []
        group_manifests = (self.manifests_of(group.study, group.keys) for group in self.module_groups)
        return [*(path for paths in group_manifests for path in paths), self.common_manifest]

    def rivals(self, study_name: str) -> tuple[Rival, ...]:
        """Return the kernels from outside the project that are timed beside a study's own."""
        return get_study(study_name).rivals_of(self.config.rivals)

    def rival_files(self, study_name: str) -> tuple[Path, ...]:
        """Return the files of a study's rivals; a change of one makes the study's cases stale."""
        return tuple(
            dict.fromkeys(path for rival in self.rivals(study_name) for path in self._files_of_rival[rival.name])
        )

    @cached_property
    def _files_of_rival(self) -> dict[str, tuple[Path, ...]]:
        return {rival.name: rival_files(rival) for rival in self.config.rivals}

    def case_files(self, study_name: str) -> list[str]:
        """Return the names of the Parquet files that measuring writes for each case of a study."""
        return [f"{step}.parquet" for step in get_study(study_name).outputs]

    def case_outputs(self, study_name: str, problem_name: str, precision: str) -> tuple[Path, ...]:
        """Return all files of rows that measuring a case writes."""
        case = self.folder.case(study_name, problem_name, precision)
        repeated_files = [step_file(case, REPEAT)] if (study_name, problem_name, precision) in self.repeated else []
        return (*(case / name for name in self.case_files(study_name)), *repeated_files)

    def raw(self, study_name: str, problems: Collection[str] | None = None) -> list[str]:
        """Return the input files of a study's artifacts (of some problems, or all); in a replay the recorded files."""
        if self.config.replay:
            return [str(path) for path in self.recorded_files]
        selected_problems = set(self.problems if problems is None else problems)
        names = [name for name in self.studies[study_name].problems if name in selected_problems]
        packed, records = self.folder.packed_records, [self.folder.record(name) for name in names]
        if packed.exists():
            records = [packed, *(path for path in records if path.exists())]
        rows = [
            str(self.folder.case(study_name, problem_name, precision) / step)
            for study, problem_name, precision in self.runs
            if study == study_name and problem_name in selected_problems
            for step in self.case_files(study_name)
        ]
        counter_files = (
            str(path) for path in self.recorded_files if path.is_relative_to(self.folder.study(study_name))
        )
        return [*map(str, records), *rows, *counter_files]

    @cached_property
    def recorded_files(self) -> tuple[Path, ...]:
        """Input files of artifacts that no step of the plan makes; in a replay all recorded files.

        Without a replay these are profiler counters, rows in merged files, and commits. Environment records are not
        among them: rows name them by their content, and a study that measures later can add one.
        """
        folder = self.folder
        if self.config.replay:
            return files_of_record(folder)
        counters = step_file(folder.raw, "counters").name
        files = (*folder.raw.rglob(counters), *folder.raw.glob("*/*.parquet"))
        return tuple(sorted({*files, *([folder.commits] if folder.commits.exists() else [])}))

    @cached_property
    def files_beside(self) -> tuple[Path, ...]:
        """Recorded files of the campaigns in `beside:`, `as_published:` and `later:`."""
        reference_names = (*self.config.beside, self.config.as_published, self.config.later)
        names = (name for name in reference_names if name is not None)
        return tuple(path for name in names for path in files_of_record(CampaignFolder.of(name)))

    def artifact_outputs(self, study_name: str, kind: Literal["tables", "figures"]) -> list[str]:
        """Return the files of a study's tables or figures in all formats."""
        study = self.studies[study_name]
        if kind == "tables":
            folder, names, formats = str(self.folder.tables(study_name)), study.tables, TABLE_FORMATS
        else:
            folder, names, formats = f"{self.figures}/{study_name}", study.figures, FIGURE_FORMATS
        return [f"{folder}/{name}.{suffix}" for name in names for suffix in formats]

    def title(self, study_name: str) -> str:
        return get_study(study_name).title or study_name

    def labels(self, study_name: str, kind: Literal["tables", "figures"]) -> dict[str, dict[str, str]]:
        """Return labels for Snakemake's report, by file: tables as CSV, figures as SVG."""
        from repro.results.registry import get_artifact

        suffix = ".csv" if kind == "tables" else ".svg"
        files = [path for path in self.artifact_outputs(study_name, kind) if path.endswith(suffix)]
        artifacts = {path: get_artifact(study_name, Path(path).stem) for path in files}
        return {path: {"name": artifact.short, "title": artifact.title} for path, artifact in artifacts.items()}

    @property
    def artifact_files(self) -> list[str]:
        """One file of each table and figure, in a format that records do not store, so that a replay makes all."""
        return [
            path
            for study in self.studies.values()
            for path in (
                *(f"{self.folder.tables(study.name)}/{name}.tex" for name in study.tables),
                *(f"{self.figures}/{study.name}/{name}.pdf" for name in study.figures),
            )
        ]

    def published(self, study_name: str) -> list[str]:
        """Return the files of a study's published numbers and claims, and of our targets."""
        study_files = [
            path for kind in ("targets", "claims") for path in shipped(f"config/{kind}").glob(f"{study_name}.csv")
        ]
        return sorted(map(str, [*shipped(f"config/published/{study_name}").glob("*.csv"), *study_files]))


def make_plan(
    config: Config, registry: Registry | None = None, gpu: GpuModel | None = None, *, whole: bool = True
) -> Plan:
    """Plan a resolved configuration on this machine, or on one with a GPU of the stated model.

    `registry` is the configuration's problem registry, if already loaded. With `whole=False` the plan is for a few
    cases of a campaign, and it is no error if all of them are on refused files. Raises `ReproError`: all problem files
    of a study are refused; a problem, layout, artifact or baseline is unknown; the device, or the file or entry type of
    a user's problem is missing; no environment variable names a needed mirror; a campaign that is replayed, named by
    `beside:`, `as_published:` or `later:`, or used for training has no recorded data.
    """
    from repro.devices.selection import models, resolve_device, target_of

    check_beside(config)
    check_training(config)
    if not config.replay:
        check_mirrors(config.fetch)
        if not shipped(config.kernels).is_dir():
            raise MissingFileError("no such folder of templates", path=config.kernels, where="kernels")
    check_rivals(config)
    registry = registry or load_registry(Path(config.registry))
    problems: dict[str, Outline] = {}
    studies: dict[str, PlannedStudy] = {}
    for name, settings in config.studies.items():
        selected_items = registry.expand(settings.problems, f"studies.{name}.problems")
        outlines = [_outline(item, registry, config, name) for item in selected_items]
        if not outlines:
            raise ReproError("empty study", where=f"studies.{name}.problems", todo="name problems or a set of them")
        for outline in outlines:
            if problems.setdefault(outline.name, outline) != outline:
                other, own = problems[outline.name].definition, outline.definition
                differing = [key for key in {**other, **own} if other.get(key) != own.get(key)]
                raise ReproError(
                    "two studies use one name for different problems",
                    where=f"studies.{name}.problems",
                    expected=", ".join(f"{key}: {other.get(key)}" for key in differing),
                    actual=", ".join(f"{key}: {own.get(key)}" for key in differing),
                    todo="give one of them a different `name:`, or define both identically",
                )
        sound = [outline for outline in outlines if not outline.refused]
        if whole and not sound and (refusal := outlines[0].refused):
            raise _located_error(refusal, selected_items[0], config, name)
        get_study(name).check(settings, sound)
        studies[name] = PlannedStudy(
            name,
            settings,
            tuple(outline.name for outline in outlines),
            _artifacts(config, name, "table"),
            _artifacts(config, name, "figure"),
        )
    if config.replay:
        plan = Plan(config, None, problems, studies)
        if not plan.folder.raw.is_dir():
            recorded = [folder.name for folder in CampaignFolder.measured()]
            raise ReproError(
                "no such recorded campaign",
                where=f"campaign: {plan.folder.raw}",
                expected=some_of(recorded, config.campaign, "`repro list campaigns`") if recorded else None,
                actual=f"{config.campaign}{suggestion(config.campaign, recorded)}",
                todo="name a recorded campaign, or measure one with `replay: false`",
            )
        return plan
    if gpu is None:
        device = resolve_device(config.device)
        target = target_of(device)
        gpu = find_gpu(models(device)[0]) if target.dialect == "cuda" else None
    else:
        device, target = "cuda:0", get_target(gpu.target)
    for study in studies.values():
        sound = [problems[name] for name in study.problems if not problems[name].refused]
        get_study(study.name).check_on(study.settings, sound, target)
    resolved_config = config.model_copy(update={"device": device})
    return Plan(resolved_config, target, problems, studies, gpu, repeated_cases(config, registry))


def repeated_cases(config: Config, registry: Registry) -> frozenset[tuple[str, str, str]]:
    """Return the first cases of each study, whose kernels are timed again: (study, problem, precision)."""
    return frozenset(
        (name, *case)
        for name, settings in config.studies.items()
        for case in [*product(problem_names(registry, settings.problems), settings.precisions)][: config.repeats.cases]
    )


def _outline(item: ProblemSpec | OwnProblem, registry: Registry, config: Config, study_name: str) -> Outline:
    """Return the outline of a problem; errors of a user's file also name its place in the configuration."""
    try:
        return planned(item, registry, config.limits)
    except ReproError as error:
        raise _located_error(error, item, config, study_name) from None


def _located_error(error: ReproError, item: ProblemSpec | OwnProblem, config: Config, study_name: str) -> ReproError:
    """Return the error with the configuration key that names the problem's file added to its place."""
    if not isinstance(item, OwnProblem):
        place = f"{config.registry}: {item.name}: {error.where}"
        if isinstance(error, MissingFileError):
            error = with_both_places(error, shipped(config.registry).parent)
        return error.at(place) if isinstance(item, FieldFile | LocalFile) else error
    number = list(config.studies[study_name].problems).index(item)
    return error.at(f"studies.{study_name}.problems.{number}: {error.where}")


def plan_of_cases(
    config: Config, problems: Collection[str], study_name: str | None = None, registry: Registry | None = None
) -> Plan:
    """Plan only the cases of some problems (in one or all studies), without artifacts, for a single job."""
    registry = registry or load_registry(Path(config.registry))
    planned_problems: set[str] = set()
    studies: dict[str, StudySettings] = {}
    for name, settings in config.studies.items():
        if study_name in (None, name):
            selected_items = registry.expand(settings.problems, f"studies.{name}.problems")
            items = [item for item in selected_items if _name_of(item) in problems]
            planned_problems.update(map(_name_of, items))
            study_problems = tuple(item if isinstance(item, OwnProblem) else item.name for item in items)
            if study_problems:
                studies[name] = settings.model_copy(update={"problems": study_problems, "artifacts": ()})
    if unknown_problems := [problem for problem in problems if problem not in planned_problems]:
        setting = f"studies.{study_name}.problems" if study_name else "studies"
        raise ReproError(
            "the configuration does not name the problem", where=setting, actual=", ".join(unknown_problems)
        )
    rivals = tuple(rival for rival in config.rivals if any(get_study(name).rivals_of([rival]) for name in studies))
    plan = make_plan(config.model_copy(update={"studies": studies, "rivals": rivals}), registry, whole=False)
    return replace(plan, repeated=repeated_cases(config, registry))


def as_yaml(config: Config) -> str:
    return dump_yaml(config.model_dump(mode="json"))


def _name_of(item: Item | OwnProblem) -> str:
    return own_name(item) if isinstance(item, OwnProblem) else item.name


def _artifacts(config: Config, study_name: str, kind: Literal["table", "figure"]) -> tuple[str, ...]:
    """Return the names of the configured tables or figures that the campaign can have."""
    if not config.studies[study_name].artifacts:
        return ()  # avoids slow imports
    from repro.campaign.artifacts import select_artifacts

    return tuple(artifact.name for artifact in select_artifacts(config, study_name, bool(config.beside), kind))


#: Maximum number of non-zeros of a problem that is put into a batch.
MAX_BATCHED_NONZEROS = 1_000_000
#: Value of `ProblemBatch.work` for batches that build problems.
PROBLEMS = "problems"


@dataclass(frozen=True)
class ProblemBatch:
    """Small problems that one job builds or measures."""

    #: `problems` for a batch that builds problems, `STUDY/PRECISION` for a batch that measures.
    work: str
    #: Position among the batches with the same `work`.
    number: int
    #: Names of the problems in the order of the plan.
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """Unique name in the campaign: `compressed_coo/double/0012`."""
        return f"{self.work}/{self.number:04}"

    @property
    def cases(self) -> list[tuple[str, str, str]]:
        """(study, problem, precision) of each measured case; empty for a batch that builds problems."""
        study, _, precision = self.work.partition("/")
        return [(study, problem, precision) for problem in self.problems] if precision else []

    @property
    def steps(self) -> list[str]:
        """Names of the steps (`repro.campaign.receipts.Step`) that the batch makes."""
        if self.work == PROBLEMS:
            return [f"problem {problem}" for problem in self.problems]
        return [f"measure {' '.join(case)}" for case in self.cases]


class ProblemBatches:
    """All batches of a campaign; there are none with `batch: 1` or in a replay.

    A finished batch writes one marker file. Snakemake's rules use it as input instead of the outputs of the single
    problems, to keep the number of files small. Receipts still decide for each problem and case whether it is stale.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._most = 1 if plan.config.replay else plan.config.batch

    @cached_property
    def building(self) -> list[ProblemBatch]:
        return self._make_batches(PROBLEMS, self.plan.problems)

    @cached_property
    def measuring(self) -> list[ProblemBatch]:
        """Measuring batches; each has cases of one study and precision."""
        return [
            batch
            for study in self.plan.studies.values()
            for precision in study.settings.precisions
            for batch in self._make_batches(f"{study.name}/{precision}", study.problems)
        ]

    @cached_property
    def _batches_by_name(self) -> dict[str, ProblemBatch]:
        return {batch.name: batch for batch in (*self.building, *self.measuring)}

    @cached_property
    def _builds(self) -> dict[str, ProblemBatch]:
        """The building batch of each problem."""
        return {problem: batch for batch in self.building for problem in batch.problems}

    def __getitem__(self, name: str) -> ProblemBatch:
        return self._batches_by_name[name]

    @cached_property
    def starting(self) -> frozenset[tuple[str, str, str]]:
        """The first case of each measuring job (batch or single case), whose estimate includes the job's start-up."""
        return frozenset([*self.alone, *(batch.cases[0] for batch in self.measuring)])

    @property
    def alone(self) -> list[tuple[str, str, str]]:
        """Cases outside of batches."""
        return [run for run in self.plan.runs if run[1] not in self._builds]

    @property
    def built_by_job(self) -> list[tuple[str, ...]]:
        single_names = ((name,) for name in self.plan.problems if name not in self._builds)
        return [*(batch.problems for batch in self.building), *single_names]

    @property
    def jobs(self) -> tuple[int, int]:
        """Number of building jobs and number of measuring jobs."""
        return len(self.built_by_job), len(self.measuring) + len(self.alone)

    def stale(self, stale_steps: Container[str]) -> list[str]:
        """Return the marker files of batches with a stale step; `stale_steps` contains names of steps."""
        return [
            self.path(batch)
            for batch in self._batches_by_name.values()
            if any(step in stale_steps for step in batch.steps)
        ]

    def path(self, problem_batch: ProblemBatch) -> str:
        """Return the file that marks a batch as done."""
        return str(self.plan.folder.batch(problem_batch.name))

    @property
    def matrices(self) -> list[str]:
        """The file of each problem, or the marker file of its batch; empty in a replay."""
        return [] if self.plan.config.replay else self._problem_files(self.plan.problems)

    def raw(self, study_name: str) -> list[str]:
        """Return the inputs of a study's artifacts: `Plan.raw`, with marker files for cases in batches."""
        if not self.building:
            return self.plan.raw(study_name)
        single_files = self.plan.raw(
            study_name, [name for name in self.plan.studies[study_name].problems if name not in self._builds]
        )
        batch_files = [self.path(batch) for batch in self.measuring if batch.work.startswith(f"{study_name}/")]
        batches = dict.fromkeys(
            self.path(self._builds[name]) for name in self.plan.studies[study_name].problems if name in self._builds
        )
        return [*batches, *batch_files, *single_files]

    @cached_property
    def all_raw(self) -> list[str]:
        return [*dict.fromkeys(path for study in self.plan.studies for path in self.raw(study))]

    def ahead(self, study_name: str) -> list[str]:
        """Return the input files of all measuring jobs of a study; empty in a replay."""
        groups = () if self.plan.config.replay else self.plan.module_groups
        modules = [
            path
            for group in groups
            if group.study == study_name
            for path in self.plan.manifests_of(study_name, group.keys)
        ]
        common = [self.plan.common_manifest] if modules else []
        problems = [] if self.plan.config.replay else self._problem_files(self.plan.studies[study_name].problems)
        return [*problems, *modules, *common]

    @property
    def all_ahead(self) -> list[str]:
        """All problem files and module manifests, which are the inputs of the measuring jobs."""
        return [*self.matrices, *self.plan.all_manifests]

    def read_by(self, problem_batch: ProblemBatch) -> list[str]:
        """Return the inputs of a measuring batch."""
        manifests = dict.fromkeys(path for case in problem_batch.cases for path in self.plan.manifests(*case))
        return [*self._problem_files(problem_batch.problems), *manifests]

    def _problem_files(self, names: Iterable[str]) -> list[str]:
        files = (
            self.path(self._builds[name]) if name in self._builds else str(self.plan.folder.problem(name))
            for name in names
        )
        return [*dict.fromkeys(files)]

    def _make_batches(self, work: str, names: Iterable[str]) -> list[ProblemBatch]:
        small_problems = [name for name in names if is_small(self.plan.problems[name])] if self._most > 1 else []
        return [
            ProblemBatch(work, number, tuple(small_problems[first : first + self._most]))
            for number, first in enumerate(range(0, len(small_problems), self._most))
        ]


def is_small(problem: Outline) -> bool:
    """Return whether a problem is known, before it is built, to have at most `MAX_BATCHED_NONZEROS` non-zeros."""
    return problem.size is not None and problem.size[1] <= MAX_BATCHED_NONZEROS
