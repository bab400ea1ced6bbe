"""The contract of a study: the interface that commands use, its expected work, and the model of its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from repro.bench.rows import NO_COLUMNS, ColumnType
from repro.errors import ReproError
from repro.words import some_of, suggestion

if TYPE_CHECKING:
    # imported for types only: a study also renders kernels and builds problems, and these steps must not depend on
    # the measuring code (see `repro.campaign.receipts`)
    from repro.bench.rows import Row
    from repro.bench.runnable import Operands, Runnable
    from repro.bench.variant_id import BaseId
    from repro.codegen.targets import Target
    from repro.config.models import Rival, RivalTask, StudySettings
    from repro.problems.problem import Outline, Problem
    from repro.tuning.search import Choice, Pair
    from repro.tuning.session import Session

#: Result of one measuring step: measured rows, or choices among rows.
StepResult: TypeAlias = "Sequence[Row] | Sequence[Choice]"


@dataclass(frozen=True)
class Workload:
    """Expected amount of work to measure one case, known before anything is built.

    Attributes
    ----------
    variants
        Number of kernel variants in the search space.
    groups
        Number of groups of variants; the best variants of each group are timed with the full protocol.
    routines
        Number of library baselines that are timed together with the winners.
    operand_bytes, bytes_moved
        Size of the operand, and the least bytes that one launch moves.
    other_work
        Amount of work outside the variants, as a factor of `CostModel.other_seconds`.
    packing
        Host seconds to pack the operands of all variants, for layouts that are very slow to pack.
    all_tried
        Whether a partial search tries all variants too, because there are few.
    """

    variants: int
    groups: int
    routines: int
    operand_bytes: int
    bytes_moved: int
    other_work: float = 1.0
    packing: float = 0.0
    all_tried: bool = False


@dataclass(frozen=True)
class CostModel:
    """Corrections to the common time estimate for the cases of one study on one kind of device.

    GPU values were fitted to the time stamps of the rows in `results/h200`. CPU values were fitted to the jobs of the
    default campaign on two cores of an Intel Xeon.

    Attributes
    ----------
    case_seconds
        Seconds of work outside the variants that each case takes, whatever its size.
    other_seconds
        Seconds of work outside the variants, times `Workload.other_work`: verification, other timed kernels, and
        preparing operands on the host.
    launches
        Factor by which launches and operand setup take longer than their memory traffic predicts.
    intensity
        Operations in double precision per byte moved; they determine whether memory or arithmetic limits another GPU.
    memory
        Device memory of the largest variant or routine per byte of the operand, for cases without recorded rows.
    compile
        Seconds to compile one module on one core, by the beginning of its key; the first match counts. Modules with
        other keys get the common estimate.
    """

    case_seconds: float = 0.0
    other_seconds: float = 0.0
    launches: float = 1.0
    intensity: float = 0.25
    memory: float = 4.0
    compile: Mapping[str, float] = field(default_factory=dict)


class Study:
    """Interface of a study for the commands; base class of the object `STUDY` in each `study.py`.

    Attributes
    ----------
    name
        Name of the study's folder.
    title
        Topic of the study in a few words; if empty, the name is used.
    reference
        The papers that the study reproduces.
    settings
        Pydantic model of the study's settings: `StudySettings` or a subclass with more keys or narrower types.
    kinds
        Kinds of problems that the study accepts; see `repro.problems.problem`.
    entries
        Types of entries that the study's matrices may have; empty if all may.
    columns
        Additional columns of the study's rows with their types; `stage_<name>` for each stage of its kernels.
    outputs
        Names of the steps that `measure` yields, in order; each step becomes a Parquet file. The first step holds the
        searched variants, the step `choices` the chosen ones.
    parts
        Names of optional measurements besides the variants; a configuration can leave them out.
    published, targets
        Columns of each file in `config/published/<study>/`, by file name, and of `config/targets/<study>.csv`.
    headline
        The tuning whose winner represents a case in the report.
    pairs
        The kernels that the headline compares in a case; further processes time them again.
    winners
        Tunings whose winner is the recommended kernel for a problem, the best first; empty if a problem needs several
        kernels. Baselines of such a study do the same work as its variants.
    id_class
        Class that parses the names of variants; None if variants cannot be looked up by name.
    numbers
        Attributes of an id with the searched numbers, by column of rows: `{"n_t": "schedule.block_size"}`.
    libraries
        Name of the library that provides the baselines, for each backend.
    highlights
        Most important tables and figures: a description for each name, in display order. The first figure of the
        first study is at the top of the report.
    result
        Arguments of `repro.results.tables.Result.of`, the study's result in one number; empty if there is none.
    cost_models
        Cost model for each dialect; see `repro.campaign.estimate`.
    packages
        Names of Python packages that affect the times of this study only.
    gpu_sharing
        Whether work on the host (`Runnable.pack`) takes so long that other jobs may use the GPU meanwhile.
    calls_module
        Name of the module whose function `user_calls` makes the calls of public functions that the study times; empty
        if it times none. The module belongs to a layer above the studies, so the measuring command imports it.
    rival_tasks
        Tasks of rivals (kernels from outside the project) that are timed beside the study's own kernels; see
        `repro.sparse.rivals`.
    """

    name: str
    title: str = ""
    reference: str
    settings: type[StudySettings] | None = None
    kinds: tuple[str, ...] = ("matrix",)
    entries: tuple[str, ...] = ()
    columns: Mapping[str, ColumnType] = NO_COLUMNS
    outputs: tuple[str, ...] = ("search", "baseline", "report", "choices")
    parts: tuple[str, ...] = ()
    published: Mapping[str, tuple[str, ...]] = {}
    targets: tuple[str, ...] = ()
    headline: str = "joint"
    pairs: tuple[Pair, ...] = ()
    winners: tuple[str, ...] = ()
    id_class: type[BaseId] | None = None
    numbers: Mapping[str, str] = MappingProxyType({})
    libraries: Mapping[str, str] = {}
    highlights: Mapping[str, str] = {}
    result: Mapping[str, Any] = {}
    cost_models: Mapping[str, CostModel] = {}
    packages: tuple[str, ...] = ()
    gpu_sharing: bool = False
    calls_module: str = ""
    rival_tasks: tuple[RivalTask, ...] = ()

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Raise an error for settings and problems that the study does not support, before anything is written.

        Raises
        ------
        ReproError
            Names the first unsupported setting or problem.
        """
        unknown = [name for name in settings.parts if name not in self.parts] if settings.parts != "all" else []
        if unknown:
            raise ReproError(
                "unknown part of a study",
                where=f"studies.{self.name}.parts",
                expected=f"all, or some of {', '.join(self.parts)}" if self.parts else "all: the study has no parts",
                actual=", ".join(unknown),
            )
        for problem in problems:
            if problem.kind not in self.kinds:
                raise self.refusal(problem, f"a problem of kind {' or '.join(self.kinds)}", problem.kind)
            if self.entries and problem.entry not in self.entries:
                raise self.refusal(problem, f"{' or '.join(self.entries)} entries", problem.entry)

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        """Raise an error for settings that the study does not support on devices of a target, before anything is
        written.

        Raises
        ------
        ReproError
            Names the first unsupported setting.
        """

    def parts_of(self, settings: StudySettings, precision: str) -> tuple[str, ...]:
        """Return the optional measurements (`Study.parts`) that are made in a precision."""
        return self.parts if settings.parts == "all" else tuple(name for name in self.parts if name in settings.parts)

    def all_parts_of(self, settings: StudySettings) -> set[str]:
        """Return the optional measurements that are made in any precision."""
        return {part for precision in settings.precisions for part in self.parts_of(settings, precision)}

    def rivals_of(self, rivals: Sequence[Rival]) -> tuple[Rival, ...]:
        """Return the rivals that compute something that the study measures."""
        return tuple(rival for rival in rivals if rival.of in self.rival_tasks)

    def refusal(self, problem: Outline, expected: str, actual: object) -> ReproError:
        """Return the error for a problem that the study does not support."""
        return ReproError(
            "the study does not support the problem",
            where=f"studies.{self.name}.problems: {problem.name}",
            expected=expected,
            actual=actual,
            todo="remove it, or name it in another study",
        )

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        """Return the keys `group/name` of the modules to compile before a problem is measured on a target.

        One job compiles all modules of a group; the manifest of a module is `modules/<target>/<study>/<key>.json`.
        """
        return []

    def compiles_on_demand(self, settings: StudySettings) -> bool:
        """Return whether variants are compiled one by one, when a search asks for them."""
        return False

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return the source code of the module with this key.

        Raises
        ------
        ReproError
            The key is unknown, or a template is missing or wrong.
        """
        if type(self).render is Study.render:
            raise ReproError(
                f"`{self.name}` overrides no `render`, which returns the source of its modules",
                where=f"{type(self).__module__}.{type(self).__qualname__}",
                expected="def render(self, templates: Path, key: str, target: Target) -> str",
                todo="define it, or correct its name",
            )
        raise ReproError("the study has no module with this key", where=self.name, actual=key)

    def operands(self, problem: Problem, precision: str, seed: int) -> Operands:
        """Return the operands of the kernels (such as matrix and vectors) in host memory.

        Raises
        ------
        ReproError
            The built problem turns out to be unsupported by the study.
        """
        raise NotImplementedError

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Measure one case step by step; yield the name and the rows of each step when it is done."""
        raise NotImplementedError

    def tunings(self, settings: StudySettings, problem: Outline) -> Sequence[str]:
        """Return the tunings that must have a winner in each complete case of a problem."""
        return (self.headline,)

    def named_runnables(
        self, templates: Path, problem: Outline, precision: str, target: Target
    ) -> Mapping[str, Runnable]:
        """Return by name what can be launched besides variants, such as products of several kernels."""
        return {}

    def find(self, templates: Path, problem: Outline, precision: str, name: str, target: Target) -> Runnable:
        """Return the runnable with this name: one of `named_runnables`, or a variant.

        Raises
        ------
        ReproError
            The name is unknown, or the kernel does not compile.
        """
        runnables = self.named_runnables(templates, problem, precision, target)
        if name in runnables:
            return runnables[name]
        near = suggestion(name, runnables)
        unknown = ReproError(
            "the study has nothing with this name",
            where=self.name,
            expected=some_of(runnables, name) if runnables else None,
            actual=f"{name}{near}",
        )
        if self.id_class is None:
            raise unknown
        try:
            id = self.id_class.parse(name)
        except ReproError as error:
            raise (unknown if near else error) from None
        return self.variant(templates, problem, precision, id, target)

    def variant(self, templates: Path, problem: Outline, precision: str, id: Any, target: Target) -> Runnable:
        """Return the variant with an id of type `id_class`, from an already compiled module or from a new one.

        Raises
        ------
        ReproError
            The kernel does not compile.
        """
        raise NotImplementedError

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload | None:
        """Return the expected work to measure a problem; None if the study gives no estimate."""
        return None

    def layouts(self) -> Sequence[tuple[str, str]]:
        """Return the names of the configurable matrix layouts, each with its space."""
        return ()
