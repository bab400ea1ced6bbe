"""Selection and order of the problems in a table, and common sentences for captions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from repro.bench.rows import ClockName
from repro.results.campaign_data import (
    CASES_SHOWN,
    NEAR_EMPTY,
    Campaign,
    Case,
    Method,
    ProblemRecord,
    R_co,
    ReportedTime,
)
from repro.results.columns import count
from repro.results.published import Published
from repro.results.tables import Cell, Column, Table, table_of

#: Description of each clock for captions.
CLOCK_WORDS: dict[ClockName, str] = {
    "event": "events around single launches",
    "graph": "replayed batches of launches",
    "host": "wall time from an idle device to an idle device",
}
#: Sentence on the costs that a GPU's event clock leaves out.
EVENTS_LEAVE_OUT = "Launches and their events are queued beforehand, so times exclude the host’s latency."
#: Marks after problem names in figures: `MARK` for rebuilt or stand-in problems, `ADDED` for problems in no paper.
MARK, ADDED = "†", "‡"
OF_NO_PAPER = "of no paper, added here"
#: First words of the sentences that `remarks` returns.
REMARKS = (f"Not the papers’ own ({MARK} in figures):", f"Of no paper, added here ({ADDED} in figures):")


@dataclass(frozen=True)
class ProblemLine:
    """One problem as a line of a table or figure."""

    problem: str
    #: Entry type for a matrix, else the kind of problem.
    entry: str
    #: Name of the papers' problem whose published numbers are in this line; None if the problem is in no paper.
    published: str | None
    #: The campaign's record of the problem; None if there are only published numbers.
    record: ProblemRecord | None
    #: Whether the problem is in no paper, while other problems of the campaign are.
    added: bool = False

    @property
    def cell(self) -> Cell:
        if self.record is None:
            return Cell(self.problem, notes=("not in this campaign",))
        cell = name_cell(self.record)
        return replace(cell, notes=(*cell.notes, OF_NO_PAPER)) if self.added else cell

    def noted_cell(self, reason: str | None) -> Cell:
        """Return the cell with the problem's name; for an available problem, `reason` is added as a note."""
        return replace(self.cell, notes=(*self.cell.notes, reason)) if reason and self.is_available else self.cell

    @property
    def is_available(self) -> bool:
        return self.record is not None and self.record.is_available

    @property
    def is_marked(self) -> bool:
        return is_marked(self.record)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remark on the problem, such as that it is a stand-in, as the only note; empty without one."""
        return (self.record.remark,) if self.record and self.record.remark else ()

    @property
    def marks(self) -> str:
        return MARK * self.is_marked + ADDED * self.added

    @property
    def label(self) -> str:
        return self.problem + self.marks


@dataclass(frozen=True)
class MethodTimes(Generic[R_co]):
    """The times of one problem in one precision by one clock: `times[method]` is None if there is no time."""

    line: ProblemLine
    case: Case[R_co]
    clock: ClockName = "graph"
    #: The times by whose clock the variants were chosen; None if these times chose the variants.
    chosen: Self | None = field(default=None, kw_only=True)

    def __getitem__(self, method: Method) -> ReportedTime[R_co] | None:
        if self.chosen is None or not method.tuning:
            return self.case.time(method, self.clock)
        winner = self.chosen[method]
        return self.case.reported_time(winner.name, self.clock) if winner else None

    @property
    def name(self) -> Cell:
        """Cell of the problem's name; a case without any time has the reason as a note."""
        return self.line.noted_cell(None if self.case.is_measured else self.case.why_not())

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts recorded of the problem for the study; empty if there are none."""
        return self.line.record.facts.get(self.case.campaign.study, {}) if self.line.record else {}

    @property
    def by_events(self) -> Self:
        """The times of the same problem by the event clock, which then also chooses the variants."""
        return replace(self, clock="event")

    @property
    def cold(self) -> Self | None:
        """Times with a cold cache: of the same variants, and of the routines that are then the fastest.

        None if the tables already print cold times. Only the event clock can measure cold times.
        """
        if self.case.campaign.cache == "cold":
            return None
        return replace(self, case=replace(self.case, cache="cold"), clock="event", chosen=self)


M = TypeVar("M", bound=MethodTimes[Any])


def times_of(
    kind: type[M], campaign: Campaign, published: Published, precisions: Sequence[str] = (), **options: Any
) -> list[M]:
    """Return the times of all recorded problems, in the papers' order, in each of some precisions (all measured ones).

    `options` are further fields of `kind`, such as the clock.
    """
    return [
        kind(line, Case(campaign, line.problem, precision), **options)
        for line in recorded_lines(campaign, published)
        for precision in precisions or campaign.precisions
    ]


def is_marked(record: ProblemRecord | None) -> bool:
    """Return whether a problem is available, but rebuilt or a stand-in instead of the papers' original."""
    return record is not None and record.is_available and record.remark is not None


def name_cell(record: ProblemRecord) -> Cell:
    return Cell(record.name, notes=(record.remark,) if record.remark else ())


def _case_name(line: Any) -> Cell:
    record = line.case.campaign.problems.get(line.case.problem)
    return name_cell(record) if record else Cell(line.case.problem)


#: Column of problem names for lines of a `case`.
CASE_NAME = Column[Any]("problem", "problem", numeric=False, cell=_case_name)


def remarks(lines: Iterable[ProblemLine]) -> str:
    """Return sentences that name the rebuilt problems, the stand-ins, and the problems that are in no paper."""
    lines = [*lines]
    marked_problems = [f"{line.problem} ({line.record.remark})" for line in lines if line.record and line.is_marked]
    added_problems = [line.problem for line in lines if line.added]
    return join_sentences(
        [
            f"{begin} {', '.join(names)}." if names else ""
            for begin, names in zip(REMARKS, (marked_problems, added_problems), strict=True)
        ]
    )


def missing_note(lines: Iterable[ProblemLine]) -> str:
    """Return a sentence that names the missing problems of the papers; empty if all or none are missing."""
    paper_lines = [line for line in lines if line.published is not None]
    names = [line.problem for line in paper_lines if line.record is None]
    return f"Of the papers’ problems missing: {', '.join(names)}." if 0 < len(names) < len(paper_lines) else ""


def mark_meanings(lines: Iterable[ProblemLine], *, launched: bool = False) -> str | None:
    """Return the line below a figure that explains the marks after problem names; None if there are no marks.

    With `launched` it also explains the star after a number whose times are mostly launch overhead.
    """
    lines = [*lines]
    marks = {
        f"{MARK} rebuilt, or a stand-in": any(line.is_marked for line in lines),
        f"{ADDED} of no paper, added": any(line.added for line in lines),
        "* mostly launch": launched,
    }
    return "; ".join(mark for mark, is_used in marks.items() if is_used) or None


def problem_lines(campaign: Campaign, published: Published, entry: str | None = None) -> list[ProblemLine]:
    """Return lines for the papers' problems in the papers' order, then for the other problems of the campaign.

    If the campaign has only a stand-in for a problem of the papers, its row shows the stand-in.
    """
    lines: list[ProblemLine] = []
    for name, kind in published.problems.items():
        record = campaign.problems.get(name)
        stand_ins = [r for r in campaign.problems.values() if r.stand_in == name]
        if record is not None or not stand_ins:
            lines.append(ProblemLine(name, kind, name, record))
        lines += [ProblemLine(r.name, _entry(r), name, r) for r in stand_ins]
    listed_names = {line.problem for line in lines}
    rank = {kind: i for i, kind in enumerate(dict.fromkeys(published.problems.values()))}
    other_records = [r for r in campaign.problems.values() if r.name not in listed_names]
    other_records.sort(key=lambda r: (rank.get(_entry(r), len(rank)), _entry(r), r.nnz or 0, r.name))
    has_available = any(line.is_available for line in lines)
    lines += [ProblemLine(r.name, _entry(r), None, r, added=has_available and r.is_available) for r in other_records]
    return [line for line in lines if entry in (None, line.entry)]


def _entry(record: ProblemRecord) -> str:
    return record.entry or record.kind


def recorded_lines(campaign: Campaign, published: Published) -> list[ProblemLine]:
    """Return only the lines of problems with a record in the campaign, sorted by entry type or kind."""
    lines = [line for line in problem_lines(campaign, published) if line.record is not None]
    rank = {kind: i for i, kind in enumerate(dict.fromkeys(line.entry for line in lines))}
    return sorted(lines, key=lambda line: rank[line.entry])


def measurement_note(campaign: Campaign, clock: ClockName, phase: str = "the report phase") -> str:
    """Return the sentence on the device, clock and cache state of our times."""
    if campaign.device is None:
        return "Ours: nothing was measured yet."
    machine = f"the CPU ({campaign.device}, through OpenCL)" if campaign.on_cpu else campaign.device
    read = f"the {clock} clock ({CLOCK_WORDS[clock]})"
    later_note = f" (measured again later: campaign {campaign.later.name})" if campaign.later else ""
    sentence = (
        f"Ours: {machine}, campaign {campaign.name}{later_note}, medians of {phase} by {read}, cache {campaign.cache}."
    )
    readings = empty_kernel_reading(campaign, clock)
    return join_sentences(
        [
            sentence,
            events_note(campaign) if clock == "event" else "",
            f"An empty kernel takes {readings} by this clock." if readings else "",
        ]
    )


def events_note(campaign: Campaign) -> str:
    """Return the sentence `EVENTS_LEAVE_OUT`; empty on a CPU, or if launches did not wait behind a blocked stream."""
    records = [campaign.environments.get(name, {}) for name in campaign.report.environment.dropna().unique()]
    is_blocking = all(record.get("blocking", True) for record in records)
    return EVENTS_LEAVE_OUT if is_blocking and not campaign.on_cpu else ""


def empty_kernel_reading(campaign: Campaign, clock: ClockName) -> str | None:
    """Return a text with the time of an empty kernel by a clock; None if it was not timed."""
    seconds = campaign.empty_readings(clock)
    if seconds is None:
        return None
    low, high = (f"{reading * 1e6:.2f}" for reading in seconds)
    return f"{low} µs" if low == high else f"{low} to {high} µs"


def launch_note(number: int, total: int) -> str:
    """Return a sentence with the number of times that are mostly launch overhead; empty if there are none."""
    if not number:
        return ""
    return f"Marked: {number} of {total} cases with a time within {NEAR_EMPTY:g}× of that, whose ratios mean little."


def unconfirmed_note(cases: Iterable[tuple[Case, ReportedTime | None, ReportedTime | None]]) -> str:
    """Return the sentence that names the cases in which the winner among the papers' kernels is faster than ours.

    `cases` has, for each case, the time of our winner and of the papers' winner. Empty if there is no such case.
    """
    names = [
        f"{case.problem} ({case.precision})"
        for case, own_time, paper_time in cases
        if case.is_faster(paper_time, own_time)
    ]
    if not names:
        return ""
    remainder = f" and {len(names) - CASES_SHOWN} more" if len(names) > CASES_SHOWN else ""
    return (
        "The search covered our kernels and the papers’ and chose ours, but in these rounds the papers’ winner was "
        f"faster on {', '.join(names[:CASES_SHOWN])}{remainder}. The choice stands, because taking the minimum of "
        "several noisy times would flatter us."
    )


def cpu_note(campaign: Campaign) -> str:
    """Return the sentence that CPU times are not compared with published GPU times; empty on a GPU."""
    return "The published GPU columns are only context: CPU times are not compared with GPU times." * (campaign.on_cpu)


def unavailable_note(campaign: Campaign, entry: str | None = None) -> str:
    """Return a sentence that names unavailable problems."""
    names = [r.name for r in campaign.problems.values() if not r.is_available and entry in (None, _entry(r))]
    return f"Unavailable (the report states the reasons): {', '.join(names)}." if names else ""


def closing_notes(campaign: Campaign, clock: ClockName, precision: str = "") -> str:
    """Return the last sentences of a caption: precision if it is a single one, device and clock, missing problems."""
    precision_text = f"{precision.capitalize()} precision." if precision else ""
    return join_sentences([precision_text, measurement_note(campaign, clock), unavailable_note(campaign)])


def join_sentences(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part)


def own_problems_table(records: Iterable[ProblemRecord]) -> Table:
    """Return a table that describes problems: sizes, row lengths, symmetry, and changes made when they were read."""
    records = [*records]
    return table_of(
        OWN_COLUMNS,
        records,
        "As the campaign read them. A row is one of the matrix in its entries, a 3×3 block or a number. Symmetric: to "
        "the last bit, in the precisions that are named.",
    )


def _row_lengths_cell(record: ProblemRecord) -> Cell:
    lengths = (record.statistics or {}).get("row_length")
    if not lengths:
        return Cell()
    return Cell(f"{lengths['min']:g} to {lengths['max']:g}, mean {lengths['mean']:.3g}")


def _symmetry_cell(record: ProblemRecord) -> Cell:
    """Return the cell that says whether a matrix is symmetric or Hermitian; one study tests this in each precision."""
    groups = (part for facts in record.facts.values() for part in (facts, *facts.values()) if isinstance(part, Mapping))
    kinds = next((group["symmetry"] for group in groups if "symmetry" in group), None)
    if kinds is None:
        return Cell("not tested") if record.is_available and record.kind == "matrix" else Cell()
    kinds_by_name = {f"{kind or 'no'}": [p for p in kinds if kinds[p] == kind] for kind in kinds.values()}
    return Cell(
        ", ".join(kinds_by_name)
        if len(kinds_by_name) == 1
        else "; ".join(f"{w} ({', '.join(ps)})" for w, ps in kinds_by_name.items())
    )


def _kind_cell(record: ProblemRecord) -> Cell:
    if record.cells is not None:
        return Cell(f"field of degree {record.degree} on {record.cells:,} cells, {record.dimension}D")
    return Cell(record.entry or record.kind)


def _remarks_cell(record: ProblemRecord) -> Cell:
    remark_texts = (record.origin or {}).get("notes") or () if record.is_available else (record.remark or "",)
    return Cell("; ".join(remark_texts) or None)


OWN_COLUMNS: tuple[Column[ProblemRecord], ...] = (
    Column("problem", "problem", numeric=False, cell=lambda record: Cell(record.name)),
    Column("what", "entries", numeric=False, cell=_kind_cell),
    Column("rows", "rows", cell=lambda record: count(record.n)),
    Column("nonzeros", "non-zeros", cell=lambda record: count(record.nnz)),
    Column("row_lengths", "non-zeros a row", numeric=False, cell=_row_lengths_cell),
    Column("symmetry", "symmetric", numeric=False, cell=_symmetry_cell),
    Column("remarks", "remarks", numeric=False, cell=_remarks_cell),
)
