"""Studies: a folder a paper, each with a `study.py`; what the commands ask of one, and how it is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from repro.bench.rows import NO_COLUMNS, ColumnType
from repro.errors import ReproError

if TYPE_CHECKING:
    # for its types alone: what renders kernels or builds problems is in a study too, and does not depend on what
    # measures (see `repro.campaign.dependencies`)
    from repro.bench.rows import Row
    from repro.bench.runnable import Operands, Runnable
    from repro.codegen.targets import Target
    from repro.config.models import StudySettings
    from repro.problems.problem import Outline, Problem
    from repro.tuning.search import Choice
    from repro.tuning.session import Session

#: What a step of measuring gives: rows, or choices among them.
StepResult: TypeAlias = "Sequence[Row] | Sequence[Choice]"


@dataclass(frozen=True)
class Workload:
    """How much measuring one case is, as far as it can be told before anything is built.

    Attributes
    ----------
    variants
        How many there are to try.
    groups
        Groups of them, of which the best get the full protocol.
    routines
        Baselines that are timed beside the winners.
    operand_bytes, moved_bytes
        Bytes of the operand, and of a launch at the least.
    beside
        What else there is to do, in parts of `Pace.beside`.
    packing
        Seconds that the host takes to pack for all variants what is far more work than the others.
    all_tried
        Whether a search in part, too, tries all variants, since they are few.
    """

    variants: int
    groups: int
    routines: int
    operand_bytes: int
    moved_bytes: int
    beside: float = 1.0
    packing: float = 0.0
    all_tried: bool = False


@dataclass(frozen=True)
class CostModel:
    """What cases of a study take beside what is reckoned of all studies alike.

    Those of GPUs are fits to the times between rows of `results/h200`. Those of CPUs are the default campaign's 7 min
    21 s on two cores, dealt out by the processor time of single cases: good for its sum, less so for one case.

    Attributes
    ----------
    beside
        Seconds of all that is no variant's: what is verified and timed beside, and operands on the host.
    launches
        How many times longer variants, library and operands take than by the bytes that they move.
    """

    beside: float = 0.0
    launches: float = 1.0


class Study:
    """What a study tells the commands; the base of the object `STUDY` in its `study.py`.

    Attributes
    ----------
    name
        That of its folder.
    title
        What it is about, in a few words; empty: its name.
    reference
        The papers that it re-runs.
    kinds
        Kinds of problems that it takes; see `repro.problems.problem`.
    columns
        Its own columns of a row with their types; `stage_<name>` for each stage that a runnable of it has.
    outputs
        The names of the steps that `measure` gives, in their order; each becomes a Parquet file. The first has what
        is chosen among, `choices` what was chosen.
    parts
        Names of what it times beside its variants, which a configuration can leave out.
    published, targets
        Columns of its files in `config/published/<study>/`, by name, and of `config/targets/<study>.csv`.
    headline
        The tuning whose winner the report counts a case by.
    libraries
        What its baselines are of, by backend.
    highlights
        The tables and figures to look at first, by name in their order, with what each shows; the first figure of the
        first study stands on top of the report.
    result
        The study's result in one number: what `repro.results.tables.Result` has; empty where it has none.
    paces
        By dialect how long its cases take; see `repro.campaign.jobs`.
    unused
        Keys of its settings that it has no use for: a configuration that sets one is refused.
    packages
        Python packages, by their names, that its times depend on and those of other studies do not.
    gpu_sharing
        Whether its variants pack operands for so long (`Runnable.pack`) that others are let to measure meanwhile.
    """

    name: str
    title: str = ""
    reference: str
    kinds: tuple[str, ...] = ("matrix",)
    columns: Mapping[str, ColumnType] = NO_COLUMNS
    outputs: tuple[str, ...] = ("search", "baseline", "report", "choices")
    parts: tuple[str, ...] = ()
    published: Mapping[str, tuple[str, ...]] = {}
    targets: tuple[str, ...] = ()
    headline: str = "joint"
    libraries: Mapping[str, str] = {}
    highlights: Mapping[str, str] = {}
    result: Mapping[str, str] = {}
    paces: Mapping[str, CostModel] = {}
    unused: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    gpu_sharing: bool = False

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Refuse settings and problems that it cannot take, before anything is written.

        Raises
        ------
        ReproError
            The first that it cannot.
        """
        for key in self.unused:
            value, default = getattr(settings, key), type(settings).model_fields[key].default
            if value != default:
                raise ReproError(
                    "a setting that the study has no use for",
                    where=f"studies.{self.name}.{key}",
                    expected=f"{default}, the default",
                    actual=value,
                    todo="leave the key out",
                )
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

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        """Refuse settings that it cannot take on devices of a target, before anything is written.

        Raises
        ------
        ReproError
            The first that it cannot.
        """

    def parts_of(self, settings: StudySettings, precision: str) -> tuple[str, ...]:
        """Return the parts that are timed in a precision."""
        return self.parts if settings.parts == "all" else tuple(name for name in self.parts if name in settings.parts)

    def refusal(self, problem: Outline, expected: str, actual: object) -> ReproError:
        """Return the error that a problem cannot be taken."""
        return ReproError(
            "a problem that the study cannot take",
            where=f"studies.{self.name}.problems: {problem.name}",
            expected=expected,
            actual=actual,
            todo="leave it out, or name it in another study",
        )

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        """Return the keys of the modules that measuring a problem on a target needs, `group/name`.

        A job compiles a group; a module's manifest is `modules/<target>/<study>/<key>.json`.
        """
        return []

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return the source of the module of a key.

        Raises
        ------
        ReproError
            The key is none, or a template is missing or wrong.
        """
        raise ReproError("the study has no module of that key", where=self.name, actual=key)

    def operands(self, problem: Problem, precision: str, seed: int) -> Operands:
        """Return what is measured on, on the host.

        Raises
        ------
        ReproError
            The problem, now that it is built, turns out to be none that the study can take.
        """
        raise NotImplementedError

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Take the steps of measuring one case; give each one's name and rows when it is done."""
        raise NotImplementedError

    def tunings(self, settings: StudySettings, problem: Outline) -> Sequence[str]:
        """Return the tunings that a case of a problem has to have a winner of, where nothing went wrong."""
        return (self.headline,)

    def find(self, templates: Path, problem: Outline, precision: str, name: str, target: Target) -> Runnable:
        """Return what a name stands for, from a compiled module that holds it or from one of its own.

        Raises
        ------
        ReproError
            The name stands for nothing, or its kernel does not compile.
        """
        raise ReproError("the study has nothing of that name", where=self.name, actual=name)

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        """Return how much measuring a problem is."""
        return Workload(1, 1, 0, 0, 0)

    def layouts(self) -> Sequence[tuple[str, str | None]]:
        """Return the layouts that a configuration can name, each with a remark."""
        return ()


def study_names() -> tuple[str, ...]:
    """Return the names of all studies: the folders beside this file that have a `study.py`."""
    return tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/study.py")))


@cache
def get_study(name: str) -> Study:
    """Return the study of a name.

    Raises
    ------
    ReproError
        There is none.
    """
    if name not in study_names():
        raise ReproError("unknown study", expected=f"one of {', '.join(study_names())}", actual=name)
    study = import_module(f"{__name__}.{name}.study").STUDY
    assert isinstance(study, Study)
    return study


def study_facts(problem: Problem) -> dict[str, Mapping[str, object]]:
    """Return what a problem's record holds for the tables of each study: what the `facts` of its `facts.py` returns.

    It is a module of its own: problems are built again when it changes, and not when anything else of a study does.
    """
    by_study = {}
    for name in study_names():
        module = f"{__name__}.{name}.facts"
        if find_spec(module) is not None and (facts := import_module(module).facts(problem)):
            by_study[name] = facts
    return by_study


@cache
def load_artifacts(name: str) -> None:
    """Import the modules in which a study registers tables and figures: its `tables` and `figures`, where it has them.

    Where they are folders, their `__init__` loads what is in them; see `repro.plugins`. This module cannot do so for
    them: all studies are below it.
    """
    for part in ("tables", "figures"):
        if find_spec(f"{__name__}.{name}.{part}"):
            import_module(f"{__name__}.{name}.{part}")
