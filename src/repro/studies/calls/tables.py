"""Tables and the figure of calls: ours, those of the libraries whose arrays they take, and the kernel alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro.results import figure_style
from repro.results.campaign_data import Campaign, Case, ReportedTime, Selection
from repro.results.claims import target_device_note, targets_table
from repro.results.columns import MICRO, PRECISION, PROBLEM, count, microseconds, number_cell, speedup
from repro.results.comparisons import Cases, Comparison, no_notes
from repro.results.figure_forms import Axis, Curve, Curves, Dashes, Pen, figure_of
from repro.results.problem_lines import ProblemLine, join_sentences, measurement_note, recorded_lines
from repro.results.published import Published
from repro.results.registry import figure, table
from repro.results.tables import Cell, Column, Figure, Table, table_of
from repro.studies.calls import FUNCTIONS, LIBRARIES, OURS, STUDY_NAME
from repro.studies.calls.study import CallRow

#: Functions with a time of the kernel alone beside the library's routine, and those that set up an operator.
PRODUCTS, SET_UPS = ("product", "product-now"), ("set-up", "set-up-now")
#: How a time was measured.
PROTOCOL = (
    "Calls are timed by the host clock, from an idle device to an idle device. New: the result is a new array; out: it "
    "is written to an existing array."
)


@dataclass(frozen=True)
class CallCase:
    """One function on one problem, called with arrays of one library."""

    line: ProblemLine
    case: Case[CallRow]
    function: str
    arrays: str

    @property
    def library(self) -> str:
        """The library whose own functions take these arrays."""
        return LIBRARIES[self.arrays]

    @property
    def entries(self) -> int | None:
        return self.case.rows[0].entries

    def rows(self, library: str, result: str = "new") -> Selection[CallRow]:
        return self.case.select(function=self.function, arrays=self.arrays, library=library, result=result)

    def time(self, library: str, result: str = "new") -> ReportedTime[CallRow] | None:
        return self.rows(library, result).fastest("host")

    @property
    def kernel(self) -> float | None:
        rows = self.case.select(function=self.function, arrays=self.arrays, library=OURS)
        return next((row.kernel_seconds for row in rows if row.kernel_seconds is not None), None)

    @property
    def routine(self) -> float | None:
        """Seconds of the fastest of the library's routines for a product, alone."""
        rows = self.case.select(function="product") if self.function in PRODUCTS else ()
        seconds = [row.kernel_seconds for row in rows if row.library not in (OURS, *LIBRARIES.values())]
        return min((time for time in seconds if time is not None), default=None)


def call_cases(campaign: Campaign, published: Published) -> list[CallCase]:
    """Return the measured calls by function, problem, precision and arrays."""
    return [
        CallCase(line, case, function, arrays)
        for function in FUNCTIONS
        for line in recorded_lines(campaign, published)
        for precision in campaign.precisions
        for arrays in LIBRARIES
        if (case := Case[CallRow](campaign, line.problem, precision)).select(function=function, arrays=arrays)
    ]


def absent_note(campaign: Campaign) -> str:
    """Return a sentence on libraries without calls; empty if all have some."""
    there = {row["library"] for row in campaign.reported}
    absent = [name for name in ("CuPy", "PyTorch") if name not in there]
    if not there or not absent:
        return ""
    reason = "their arrays are on a GPU" if campaign.on_cpu else "not installed where this was measured"
    return f"No calls of {' and '.join(absent)}: {reason}."


def _time_column(whose: str, result: str) -> Column[CallCase]:
    def cell(case: CallCase) -> Cell:
        library = OURS if whose == "ours" else case.library
        time = case.time(library, result)
        return microseconds(time, reason=None if time else case.rows(library, result).failure)

    return Column(f"{whose}_{result}_us", f"{result}, µs", "ours" if whose == "ours" else "library’s own", cell=cell)


COLUMNS: tuple[Column[CallCase], ...] = (
    Column("function", "function", numeric=False, cell=lambda case: Cell(case.function)),
    PROBLEM,
    PRECISION,
    Column("arrays", "arrays", numeric=False, cell=lambda case: Cell(case.arrays)),
    Column("rows", "rows", cell=lambda case: count(case.case.rows[0].rows)),
    Column("entries", "entries", cell=lambda case: count(case.entries)),
    _time_column("ours", "new"),
    _time_column("ours", "out"),
    Column("kernel_us", "kernel alone, µs", cell=lambda case: number_cell(case.kernel, MICRO)),
    Column("routine_us", "cuSPARSE’s routine alone, µs", cell=lambda case: number_cell(case.routine, MICRO)),
    Column("library", "library", numeric=False, cell=lambda case: Cell(case.library)),
    _time_column("library", "new"),
    _time_column("library", "out"),
    Column("ratio", "library’s over ours, new", cell=lambda case: speedup(case.time(case.library), case.time(OURS))),
)


@table(
    STUDY_NAME,
    "table-calls",
    title="Time of a user’s call",
    numbering="ours",
    lead=("ours_new_us", "kernel_us", "library_new_us"),
)
def calls(campaign: Campaign, published: Published) -> Table:
    """A line for each function, problem, precision and library of arrays."""
    cases = call_cases(campaign, published)
    caption = [
        "Calls of our public functions, beside the calls of CuPy, PyTorch and SciPy that do the same work with the",
        "same arrays, timed in the same shuffled rounds.",
        PROTOCOL,
        "Kernel alone: what our call launches, by the graph clock; empty if a call launches no fixed sequence.",
        "set-up-now and product-now: an operator that is tuned on the spot.",
        "spmm: 8 columns; insert: 1,000 entries, all of them at occupied places; cg: 50 iterations.",
        "The libraries have no counterpart of set-up, insert and refill.",
        absent_note(campaign),
        measurement_note(campaign, "host"),
    ]
    return table_of(COLUMNS, cases, join_sentences(caption), is_empty=not cases)


def _set_ups(function: str, arrays: str) -> Comparison[CallCase]:
    """Return the milliseconds of a set-up from a matrix of a library."""
    return Comparison(
        lambda case: case.time(OURS),
        unit=1e3,
        counts=lambda case: (case.function, case.arrays) == (function, arrays),
        notes=no_notes,
        reason=lambda case: case.rows(OURS).failure or "not measured",
        empty_reason="no set-ups",
    )


def _kernels(function: str) -> Comparison[CallCase]:
    """Compare the library's fastest routine with our kernel, both alone."""
    return Comparison(
        lambda case: case.routine,
        lambda case: case.kernel,
        counts=lambda case: (case.function, case.arrays) == (function, "CuPy"),
        notes=no_notes,
        empty_reason="no routine of the library alone",
    )


def _gains(function: str, arrays: str) -> Comparison[CallCase]:
    """Compare the library's call with ours, both with new arrays, on all problems."""
    return Comparison(
        lambda case: case.time(case.library),
        lambda case: case.time(OURS),
        counts=lambda case: (case.function, case.arrays) == (function, arrays),
        notes=no_notes,
        reason=lambda case: case.rows(OURS).failure or case.rows(case.library).failure or "not measured",
        empty_reason=f"no calls of {LIBRARIES[arrays]}",
    )


TARGET_QUANTITIES = {
    **{
        f"{function}_{arrays}": _gains(function, arrays).geometric_mean()
        for function in FUNCTIONS
        for arrays in LIBRARIES
        if function not in SET_UPS
    },
    **{
        f"{function}_{arrays}": _set_ups(function, arrays).worst(is_time=True)
        for function in SET_UPS
        for arrays in LIBRARIES
    },
    **{f"{function}_kernel_mean": _kernels(function).geometric_mean() for function in PRODUCTS},
    **{f"{function}_kernel_worst": _kernels(function).worst() for function in PRODUCTS},
}


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    caption = [
        "Time of the library’s call over that of ours, as in the table of calls: geometric mean over all problems and",
        "precisions.",
        measurement_note(campaign, "host"),
        target_device_note(campaign),
    ]
    cases = Cases(campaign, published, call_cases(campaign, published))
    return targets_table(campaign, published, TARGET_QUANTITIES, cases, join_sentences(caption))


PENS = {
    OURS: Pen(figure_style.OURS.colour, figure_style.OURS.marker, "-"),
    "CuPy": Pen(figure_style.LIBRARY.colour, "s", "-"),
    "PyTorch": Pen(figure_style.GREEN, "^", "-"),
    "SciPy": Pen(figure_style.PINK, "v", "-"),
}
RESULTS: Mapping[str, Dashes] = {"new": "-", "out": (0, (3, 1.5))}


def call_curves(cases: Sequence[CallCase]) -> list[Curve]:
    """Return microseconds over entries: ours with arrays of one library, each library's, and the kernel alone."""

    def points(arrays: str, seconds: Callable[[CallCase], float | None]) -> list[tuple[float, float]]:
        pairs = ((case.entries, seconds(case)) for case in cases if case.arrays == arrays)
        return sorted((entries, MICRO * time) for entries, time in pairs if entries and time)

    def timed(library: str, result: str) -> Callable[[CallCase], float | None]:
        return lambda case: time.seconds if (time := case.time(library, result)) else None

    arrays = next((name for name in LIBRARIES if any(case.arrays == name for case in cases)), "")
    callers = {
        f"ours, {arrays}’s arrays": (OURS, arrays),
        **{library + " (CPU)" * (name == "NumPy"): (library, name) for name, library in LIBRARIES.items()},
    }
    curves = [
        Curve(f"{label}, {result}", PENS[whose]._replace(dashes=dashes, size=3.4), points(of, timed(whose, result)))
        for label, (whose, of) in callers.items()
        for result, dashes in RESULTS.items()
    ]
    kernel = points(arrays, lambda case: case.kernel)
    return [*curves, Curve("our kernel alone", Pen(figure_style.GREY, "D", "-", size=3.4), kernel)]


@figure(STUDY_NAME, "figure-calls", title="Time of a product’s call", numbering="ours")
def drawn(campaign: Campaign, published: Published) -> Figure:
    """Products in the last precision of the campaign."""
    precision = campaign.precisions[-1] if campaign.precisions else "double"
    cases = [
        case
        for case in call_cases(campaign, published)
        if case.function == "product" and case.case.precision == precision
    ]
    axes = Axis("entries of the matrix", "log"), Axis("µs of a call of A @ x", "log")
    panel = Curves(call_curves(cases), *axes, height=2.1)
    caption = [
        f"Products in {precision} precision: time of a call, against the number of entries of the matrix.",
        PROTOCOL,
        "Kernel alone is timed by the graph clock.",
        absent_note(campaign),
        measurement_note(campaign, "host"),
    ]
    empty = "no product was called in this campaign"
    return figure_of([panel], empty, caption, is_empty=panel.is_empty, clock="host")
