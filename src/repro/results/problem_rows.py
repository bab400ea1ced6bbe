"""Which problems a table lists, in which order, and the sentences that captions of all studies share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from repro.bench.runnable import ClockName
from repro.results.campaign_data import NEAR_EMPTY, Campaign, ProblemRecord
from repro.results.published import Published
from repro.results.tables import Cell, Column

ABBREVIATIONS = {"single": "SP", "double": "DP"}
#: What each clock reads.
CLOCK_WORDS: dict[ClockName, str] = {
    "event": "events around single launches",
    "graph": "replayed batches of launches",
    "host": "the host’s, from an idle device to an idle device",
}
PROBLEM = Column("problem", "problem", numeric=False)
#: In figures, behind names: rebuilt or a stand-in, and of no paper.
MARK, ADDED = "†", "‡"
OF_NO_PAPER = "of no paper, added here"
#: How the sentences of `remarks` begin.
REMARKS = (f"Not the papers’ own ({MARK} in figures):", f"Of no paper, added here ({ADDED} in figures):")


@dataclass(frozen=True)
class ProblemRow:
    """One problem of a table.

    Attributes
    ----------
    problem, entry
        Its name, and of a matrix its entry, else its kind.
    published
        The problem of the papers whose numbers stand beside it, None for ours.
    record
        What the campaign has of it, None if it is only published.
    added
        Whether it is of no paper, in a campaign that has problems of the papers as well.
    """

    problem: str
    entry: str
    published: str | None
    record: ProblemRecord | None
    added: bool = False

    @property
    def cell(self) -> Cell:
        """The name, with the remark that belongs to it."""
        if self.record is None:
            return Cell(self.problem, notes=("not in this campaign",))
        cell = name_cell(self.record)
        return replace(cell, notes=(*cell.notes, OF_NO_PAPER)) if self.added else cell

    @property
    def marked(self) -> bool:
        """Whether the problem is there but not the papers' own: rebuilt, or a stand-in."""
        return is_marked(self.record)

    @property
    def marks(self) -> str:
        """What figures print behind the name."""
        return MARK * self.marked + ADDED * self.added

    @property
    def label(self) -> str:
        """The name as figures print it."""
        return self.problem + self.marks


def is_marked(record: ProblemRecord | None) -> bool:
    """Return whether a problem is there but not the papers' own: rebuilt, or a stand-in."""
    return record is not None and record.available and record.remark is not None


def name_cell(record: ProblemRecord) -> Cell:
    """Return the name of a problem with the remark that belongs to it."""
    return Cell(record.name, notes=(record.remark,) if record.remark else ())


def remarks(lines: Iterable[ProblemRow]) -> str:
    """Return the sentences that name what was rebuilt, what stands in for what, and what is of no paper."""
    lines = [*lines]
    marked = [f"{line.problem} ({line.record.remark})" for line in lines if line.record and line.marked]
    added = [line.problem for line in lines if line.added]
    return join_sentences(
        [f"{begin} {', '.join(names)}." if names else "" for begin, names in zip(REMARKS, (marked, added), strict=True)]
    )


def missing_note(lines: Iterable[ProblemRow]) -> str:
    """Return the sentence that names the papers' problems that are missing; empty where all are, or none is."""
    of_papers = [line for line in lines if line.published is not None]
    names = [line.problem for line in of_papers if line.record is None]
    return f"Of the papers’ problems missing: {', '.join(names)}." if 0 < len(names) < len(of_papers) else ""


def footnote(lines: Iterable[ProblemRow]) -> str | None:
    """Return the line of a figure's legend that explains the marks, None where nothing is marked."""
    lines = [*lines]
    marks = {
        f"{MARK} rebuilt, or a stand-in": any(line.marked for line in lines),
        f"{ADDED} of no paper, added": any(line.added for line in lines),
    }
    return "; ".join(mark for mark, shown in marks.items() if shown) or None


def problem_rows(campaign: Campaign, published: Published, entry: str | None = None) -> list[ProblemRow]:
    """Return the papers' problems in their order, each as the campaign has it, then the campaign's others.

    A problem of the papers that the campaign has only a stand-in for is represented by the stand-in.
    """
    lines: list[ProblemRow] = []
    for name, kind in published.problems.items():
        record = campaign.problems.get(name)
        stand_ins = [r for r in campaign.problems.values() if r.stand_in == name]
        if record is not None or not stand_ins:
            lines.append(ProblemRow(name, kind, name, record))
        lines += [ProblemRow(r.name, _entry(r), name, r) for r in stand_ins]
    listed = {line.problem for line in lines}
    rank = {kind: i for i, kind in enumerate(dict.fromkeys(published.problems.values()))}
    others = [r for r in campaign.problems.values() if r.name not in listed]
    others.sort(key=lambda r: (rank.get(_entry(r), len(rank)), _entry(r), r.nnz or 0, r.name))
    beside = any(line.record is not None and line.record.available for line in lines)
    lines += [ProblemRow(r.name, _entry(r), None, r, added=beside and r.available) for r in others]
    return [line for line in lines if entry in (None, line.entry)]


def _entry(record: ProblemRecord) -> str:
    return record.entry or record.kind


def ours(campaign: Campaign, published: Published) -> list[ProblemRow]:
    """Return the lines that the campaign has a record of, kind by kind."""
    lines = [line for line in problem_rows(campaign, published) if line.record is not None]
    rank = {kind: i for i, kind in enumerate(dict.fromkeys(line.entry for line in lines))}
    return sorted(lines, key=lambda line: rank[line.entry])


def measurement_note(campaign: Campaign, clock: ClockName, phase: str = "the report phase") -> str:
    """Return the sentence that says on what, by which clock and in which cache state our times were taken."""
    if campaign.device is None:
        return "Ours: nothing was measured yet."
    place = f"the CPU ({campaign.device}, through OpenCL)" if campaign.on_cpu else campaign.device
    read = f"the {clock} clock ({CLOCK_WORDS[clock]})"
    ours = f"Ours: {place}, campaign {campaign.name}, medians of {phase} by {read}, cache {campaign.cache}."
    readings = empty_kernel_reading(campaign, clock)
    return f"{ours} An empty kernel reads {readings} by this clock." if readings else ours


def empty_kernel_reading(campaign: Campaign, clock: ClockName) -> str | None:
    """Return what an empty kernel reads by a clock, in words; None where it was not timed."""
    seconds = campaign.empty_readings(clock)
    if seconds is None:
        return None
    low, high = (f"{reading * 1e6:.2f}" for reading in seconds)
    return f"{low} µs" if low == high else f"{low} to {high} µs"


def launch_note(marked: int, of: int) -> str:
    """Return the sentence that counts what is mostly launch, empty where nothing is."""
    if not marked:
        return ""
    return f"In {marked} of {of} cases a time is within {NEAR_EMPTY:g}× of that, and the ratio says little: marked."


def cpu_note(campaign: Campaign) -> str:
    """Return the sentence that keeps a CPU's column apart from the published GPUs'."""
    return "The published GPU columns are context for the CPU’s: no CPU time is compared with a GPU’s." * (
        campaign.on_cpu
    )


def unavailable_note(campaign: Campaign, entry: str | None = None) -> str:
    """Return the sentence that names what could not be had."""
    names = [r.name for r in campaign.problems.values() if not r.available and entry in (None, _entry(r))]
    return f"Unavailable, with the reasons in the report: {', '.join(names)}." if names else ""


def join_sentences(parts: Iterable[str]) -> str:
    """Join the sentences that are there."""
    return " ".join(part for part in parts if part)
