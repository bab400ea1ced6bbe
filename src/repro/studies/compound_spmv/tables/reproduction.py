"""The papers' tables with our numbers beside theirs.

Table 1 has the sizes of the matrices and Table 9 the memory of the layouts. Tables 2 to 7 have the best layout, and the
speedup of layout tuning over schedule tuning alone. Table 8 states where the dynamic schedule wins, and Table 8b how
much the times of each schedule kind vary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from repro.results.campaign_data import MOSTLY_LAUNCH, Campaign, Case
from repro.results.claims import Variants, claims_table, load_claims
from repro.results.cross_campaign import blank_reason, column_title, others_note, with_all_problems
from repro.results.problem_lines import (
    ABBREVIATIONS,
    ProblemLine,
    cpu_note,
    join_sentences,
    launch_note,
    measurement_note,
    ours,
    problem_lines,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import table
from repro.results.tables import Cell, Column, Table, count, from_rows, speedup, table_of
from repro.studies.compound_spmv import CITED, STUDY_NAME
from repro.studies.compound_spmv.results import (
    CLAIMS,
    ENTRY_WORDS,
    ClaimCases,
    Sensitivity,
    Time,
    clock_note,
    gpus,
    kernels_note,
    memory_of,
    tied_layouts,
)
from repro.studies.compound_spmv.study import CompoundRow

KIB = 1024
FORMATS = ("ELL", "Sl-16", "Sl-32", "cuSPARSE")
NAME = Column[ProblemLine]("problem", "problem", numeric=False, cell=lambda line: line.cell)
ENTRY = Column[ProblemLine](
    "entry", "entry", numeric=False, cell=lambda line: Cell(line.entry, ENTRY_WORDS.get(line.entry, line.entry))
)


@table(STUDY_NAME, "table-1", title="Sizes of the matrices", numbering=f"Table 1 of {CITED}")
def sizes(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: rows and stored entries of the matrix, published and ours."""
    by_problem = {item["problem"]: item for item in published["sizes"]}

    def printed(key: str) -> Callable[[ProblemLine], Cell]:
        return lambda line: count(int(by_problem[line.published][key]) if line.published else None)

    columns = (
        NAME,
        ENTRY,
        Column("published_rows", "rows", "published", cell=printed("rows")),
        Column("published_nonzeros", "non-zeros", "published", cell=printed("nonzeros")),
        Column("rows", "rows", "ours", cell=lambda line: count(line.record.n if line.record else None)),
        Column("nonzeros", "non-zeros", "ours", cell=lambda line: count(line.record.nnz if line.record else None)),
    )
    caption = [
        f"Sizes of the matrices, counted in compound entries: published in Table 1 of {CITED}, and ours.",
        "They do not depend on the device.",
        unavailable_note(campaign),
    ]
    return table_of(columns, problem_lines(campaign, published), join_sentences(caption))


@table(STUDY_NAME, "table-9", title="Memory of the layouts", numbering=f"Table 9 of {CITED}")
def memory(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: bytes as CSR, and other formats as multiples of them, in double precision."""
    by_problem = {item["problem"]: item for item in published["memory"]}
    rows = []
    for line in problem_lines(campaign, published):
        printed = by_problem[line.published] if line.published else None
        if printed is None:
            theirs = [Cell()] * (1 + len(FORMATS))
        else:
            size = float(printed["csr_size"]) * KIB ** {"KiB": 1, "MiB": 2}[printed["csr_unit"]]
            theirs = [Cell(round(size), f"{printed['csr_size']} {printed['csr_unit']}")]
            theirs += [Cell(float(printed[name]), printed[name]) for name in FORMATS]
        layouts = memory_of(line.record).get("double", {})
        csr = layouts.get("CSR")
        mine = [Cell(csr, size_text(csr)) if csr else Cell()]
        for name in FORMATS:
            multiple = layouts[name] / csr if csr and layouts.get(name) else None
            mine.append(Cell() if multiple is None else Cell(multiple, f"{multiple:.1f}"))
        rows.append((line.cell, *theirs, *mine))
    columns = [NAME]
    for group, prefix in (("published", "published_"), ("ours", "")):
        columns.append(Column(f"{prefix}CSR_bytes", "CSR/BSR", group))
        columns += [Column(f"{prefix}{name}", name, group) for name in FORMATS]
    caption = join_sentences(
        [
            "Memory of a matrix in double precision, with 4-byte indices and 8-byte values: the size as CSR",
            "(3×3 entries: BSR), and each other format as a multiple of it; cuSPARSE is what the papers hand to",
            "that library, a real 4×4 BSR matrix for quaternions.",
            f"Published in Table 9 of {CITED}, and ours, which does not depend on the device.",
            unavailable_note(campaign),
        ]
    )
    return Table(tuple(columns), rows, caption)


def size_text(size: int) -> str:
    """Return a size as the papers print it: KiB below one MiB, else MiB, one decimal."""
    return f"{size / KIB:.1f} KiB" if size < KIB**2 else f"{size / KIB**2:.1f} MiB"


NUMBERS = {
    2: ("complex", "single"),
    3: ("complex", "double"),
    4: ("quaternion", "single"),
    5: ("quaternion", "double"),
    6: ("block3", "single"),
    7: ("block3", "double"),
}


def best_layouts(campaign: Campaign, published: Published, number: int) -> Table:
    """Return Table `number` (2 to 7): best layout and speedup by layout tuning, for one entry type and precision."""
    entry, precision = NUMBERS[number]
    printed = {(i["problem"], i["gpu"]): i for i in published["layouts"] if i["table"] == str(number)}
    rows = []
    ties = timed = marked = 0
    for line in problem_lines(with_all_problems(campaign), published, entry):
        cells = [line.cell]
        for gpu in gpus(published):
            if line.published:
                item = printed[line.published, gpu]
                cells += [Cell(item["layout"]), Cell(float(item["speedup"]), item["speedup"])]
            else:
                cells += [Cell(), Cell()]
        case = Case[CompoundRow](campaign, line.problem, precision)
        best = case.winner("joint", "event")
        ties, timed = ties + bool(tied_layouts(case, best)), timed + (best is not None)
        marked += case.mostly_launch("event", best)
        for measured_on in (campaign, *campaign.beside):
            cells += _layout_cells(Case(measured_on, line.problem, precision), line)
        rows.append(tuple(cells))
    columns = [NAME]
    for group, prefix, name in [
        *((f"published: {gpu}", f"published_{gpu}".replace(" ", "_"), "") for gpu in gpus(published)),
        (f"ours: {campaign.column}", "ours", ""),
        *((f"ours: {column_title(campaign, other)}", f"ours_{other.name}", other.name) for other in campaign.beside),
    ]:
        columns.append(Column(f"{prefix}_layout", "layout", group, numeric=False, campaign=name))
        columns.append(Column(f"{prefix}_speedup", "speedup", group, campaign=name))
    caption = join_sentences(
        [
            f"Best layout for {ENTRY_WORDS[entry]} entries in {precision} precision, and the speedup of layout",
            "tuning: time of the best schedule for CSR-AoS-AoS over time of the best layout and schedule.",
            "The search chose by its first timing; ours are of the timing side by side afterwards, and can be below 1.",
            f"Published in Table {number} of {CITED}.",
            kernels_note(campaign),
            clock_note(campaign),
            launch_note(marked, timed),
            f"Other layouts within {100 * campaign.tie:g} % of the best in the search are a tie and named below:",
            f"{ties} of {timed} cases.",
            others_note(campaign),
            cpu_note(campaign),
            unavailable_note(campaign, entry),
        ]
    )
    return Table(tuple(columns), rows, caption)


def _layout_cells(case: Case[CompoundRow], line: ProblemLine) -> tuple[Cell, Cell]:
    """Return the cells of best layout and speedup for a case; blank if `line` shows a problem of other content."""
    blank = blank_reason(case.campaign.problems.get(case.problem), line.record)
    if blank is not None:
        return Cell(notes=blank), Cell()
    best = case.winner("joint", "event")
    if best is None:
        return Cell(notes=(case.why_not(),)), Cell()
    tied = tied_layouts(case, best)
    ties = (f"tie with {', '.join(tied)}",) if tied else ()
    layout = from_rows(Cell(best.row.layout, notes=ties), best)
    base = case.winner("schedule", "event")
    if base is None:
        return layout, Cell(notes=("no time for CSR-AoS-AoS",))
    notes = (*base.notes, *best.notes, *case.launch_note("event", base, best))
    return layout, replace(speedup(base, best), notes=notes)


def _register(number: int) -> None:
    entry, precision = NUMBERS[number]

    @table(
        STUDY_NAME,
        f"table-{number}",
        title=f"Best layout and speedup by layout tuning, {ENTRY_WORDS[entry]}, {precision} precision",
        numbering=f"Table {number} of {CITED}",
    )
    def make(campaign: Campaign, published: Published) -> Table:
        return best_layouts(campaign, published, number)


for _number in NUMBERS:
    _register(_number)


BLANK = Cell(None, " ")  # not a dash, which means that static wins
CASES = {"SP": 1, "DP": 1, "both": 2, "none": 0}


@table(STUDY_NAME, "table-8", title="Where the dynamic schedule is preferred", numbering=f"Table 8 of {CITED}")
def preferred(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: precisions (SP, DP, both, none) in which dynamic schedules win, for each GPU."""
    printed = {(item["problem"], item["gpu"]): item["preferred"] for item in published["dynamic"]}
    measured = (campaign, *campaign.beside)
    counts = [_Count() for _ in measured]
    rows = []
    for line in problem_lines(with_all_problems(campaign), published):
        cells = [NAME.cell(line), ENTRY.cell(line)]
        for gpu in gpus(published):
            cells.append(_kind(printed[line.published, gpu]) if line.published else BLANK)
        cells += [_preference_cell(preference, line, count) for preference, count in zip(measured, counts, strict=True)]
        rows.append(tuple(cells))
    columns = (
        NAME,
        ENTRY,
        *(Column(f"published_{gpu}".replace(" ", "_"), gpu, "published", numeric=False) for gpu in gpus(published)),
        Column("ours", campaign.column, "ours", numeric=False),
        *(
            Column(f"ours_{other.name}", column_title(campaign, other), "ours", numeric=False, campaign=other.name)
            for other in campaign.beside
        ),
    )
    shares = []
    for gpu in gpus(published):
        kinds = [item["preferred"] for item in published["dynamic"] if item["gpu"] == gpu]
        shares.append(_share(sum(CASES[k] for k in kinds), 2 * len(kinds)))
    shares += [_share(count.won, count.timed) for count in counts]
    summary = [(Cell("share of cases"), BLANK, *shares)]
    own = counts[0]
    percent = published.quantity("share of cases where dynamic is better in percent")
    caption = join_sentences(
        [
            "Precisions (SP single, DP double) in which the best dynamic schedule is faster than the best static",
            f"one in the best layout; a difference within {100 * campaign.tie:g} % is a tie and counts as not",
            "preferred (–);",
            "a blank cell is not known, and where one precision alone has times it is named.",
            f"Published in Table 8 of {CITED}, whose section 5.4 puts it at about {percent} % of all cases.",
            kernels_note(campaign),
            clock_note(campaign),
            launch_note(own.marked, own.timed),
            f"Ties of static and dynamic: {own.ties} of {own.timed}.",
            others_note(campaign),
            cpu_note(campaign),
            unavailable_note(campaign),
        ]
    )
    return Table(columns, rows, caption, summary)


@dataclass
class _Count:
    """Counts of one campaign's cases: dynamic wins, timed cases, ties, and cases that are mostly launch overhead."""

    won: int = 0
    timed: int = 0
    ties: int = 0
    marked: int = 0


def _preference_cell(campaign: Campaign, line: ProblemLine, count: _Count) -> Cell:
    """Return the cell with the precisions in which dynamic schedules win on a problem, and update `count`."""
    blank = blank_reason(campaign.problems.get(line.problem), line.record)
    if blank is not None:
        return Cell(None, " ", blank)
    answers: dict[str, bool] = {}
    notes: dict[str, None] = {}
    winners: list[Time] = []
    for precision in campaign.precisions:
        case = Case[CompoundRow](campaign, line.problem, precision)
        static, dynamic = case.winner("static", "event"), case.winner("dynamic", "event")
        if static is None or dynamic is None:
            notes[f"{ABBREVIATIONS[precision]}: {case.why_not()}"] = None
            continue
        answers[ABBREVIATIONS[precision]] = static.seconds > dynamic.seconds * (1 + campaign.tie)
        winners += [static, dynamic]
        if max(static.seconds, dynamic.seconds) <= min(static.seconds, dynamic.seconds) * (1 + campaign.tie):
            count.ties += 1
            notes[f"static and dynamic tie in {ABBREVIATIONS[precision]}"] = None
        if case.mostly_launch("event", static, dynamic):
            count.marked += 1
            notes[f"{ABBREVIATIONS[precision]}: {MOSTLY_LAUNCH}"] = None
        notes |= dict.fromkeys(static.notes + dynamic.notes)
    count.won += sum(answers.values())
    count.timed += len(answers)
    return from_rows(_answer(answers, tuple(notes)), *winners)


def _kind(kind: str) -> Cell:
    return Cell(kind, "–" if kind == "none" else kind)


def _answer(answers: dict[str, bool], notes: tuple[str, ...]) -> Cell:
    if not answers:
        return Cell(None, " ", notes)
    winning = [name for name, wins in answers.items() if wins]
    cell = _kind({0: "none", 1: "".join(winning), 2: "both"}[len(winning)])
    if len(answers) == 1:  # the other precision has no time
        only = f" ({next(iter(answers))} only)"
        return Cell(f"{cell.value}{only}", f"{cell.text}{only}", notes)
    return Cell(cell.value, cell.text, notes)


def _share(won: int, timed: int) -> Cell:
    return Cell(won / timed, f"{won}/{timed} ({100 * won / timed:.0f} %)") if timed else Cell()


def _best_layout(measured: Sensitivity) -> Cell:
    why = measured.best is None and measured.line.available
    return Cell(measured.best.row.layout if measured.best else None, notes=(measured.case.why_not(),) if why else ())


def _spread_column(kind: str) -> Column[Sensitivity]:
    def cell(measured: Sensitivity) -> Cell:
        if not (spread := measured.spread(kind)):
            return Cell()
        ratio, fastest, slowest = spread
        return from_rows(Cell(ratio, f"{ratio:.2f}", measured.case.launch_note("event", fastest)), fastest, slowest)

    return Column(f"{kind}_worst_over_best", kind, "slowest / fastest", cell=cell)


def _registers(measured: Sensitivity) -> Cell:
    used = [row.registers for row in measured.used if row.registers is not None]
    return Cell(f"{min(used)}–{max(used)}") if used else Cell()


SENSITIVITY_COLUMNS = (
    Column[Sensitivity]("problem", "problem", numeric=False, cell=lambda measured: measured.line.cell),
    Column[Sensitivity]("precision", "precision", numeric=False, cell=lambda measured: Cell(measured.case.precision)),
    Column[Sensitivity]("layout", "best layout", numeric=False, cell=_best_layout),
    _spread_column("static"),
    _spread_column("dynamic"),
    Column[Sensitivity]("registers", "registers", numeric=False, cell=_registers),
    Column[Sensitivity](
        "spilled_bytes",
        "spills [B/thread]",
        cell=lambda measured: Cell(max((row.spills for row in measured.used if row.spills is not None), default=None)),
    ),
)


@table(
    STUDY_NAME,
    "table-8b",
    title="Sensitivity to the schedule, static and dynamic",
    numbering=f"Section 5.4 of {CITED}",
)
def sensitivity(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: slowest / fastest time of each schedule kind in the best layout, and registers."""
    cases = [
        Sensitivity(line, Case(campaign, line.problem, precision))
        for line in ours(campaign, published)
        for precision in campaign.precisions
    ]
    both = [
        (measured, static, dynamic)
        for measured in cases
        if (static := measured.spread("static")) and (dynamic := measured.spread("dynamic"))
    ]
    more = sum(dynamic[0] > static[0] for _, static, dynamic in both)
    marked = sum(measured.case.mostly_launch("event", static[1], dynamic[1]) for measured, static, dynamic in both)
    won = [measured.layouts_won for measured in cases]
    few, most = (published.quantity(f"{word} registers") for word in ("fewest", "most"))
    caption = [
        "How much the choice of schedule matters: median time of the slowest schedule over that of the",
        "fastest, of each kind, in the best layout, over all schedules of the search, where the slow ones have",
        "a few screening launches only. Registers: least and most of its kernels; spills: the most of any.",
        f"Dynamic is the more sensitive one in {more} of {len(both)} cases; over all searched layouts its best",
        f"schedule beats static’s by more than {100 * campaign.tie:g} % in {sum(number for number, _ in won)} of",
        f"{sum(possible for _, possible in won)}.",
        f"Section 5.4 of {CITED} finds dynamic more sensitive, with {few} to {most} registers a thread",
        "and no spills.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        launch_note(marked, len(both)),
        unavailable_note(campaign),
    ]
    return table_of(SENSITIVITY_COLUMNS, cases, join_sentences(caption))


@table(STUDY_NAME, "table-claims", title="The papers’ claims, and the verdict on each", numbering=f"text of {CITED}")
def claims(campaign: Campaign, published: Published) -> Table:
    def data(measured: Campaign, variants: Variants) -> ClaimCases | None:
        return ClaimCases.of(measured, published, variants)

    return claims_table(campaign, load_claims(STUDY_NAME), CLAIMS, data)
