"""The papers' tables with our numbers beside theirs.

Table 1 has the sizes of the matrices and Table 9 the memory of the layouts. Tables 2 to 7 have the best layout, and the
speedup of layout tuning over schedule tuning alone. Table 8 states where the dynamic schedule wins, and Table 8b how
much the times of each schedule kind vary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from repro.results.campaign_data import MOSTLY_LAUNCH, Campaign, Case
from repro.results.claims import register_claims
from repro.results.columns import ABBREVIATIONS, BLANK, PROBLEM, add_row_keys, count, number_cell, printed_cell, speedup
from repro.results.cross_campaign import blank_reason, column_title, join_reference_problems, others_note
from repro.results.problem_lines import (
    ProblemLine,
    cpu_note,
    join_sentences,
    launch_note,
    problem_lines,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import table
from repro.results.tables import Cell, Column, Table, table_of
from repro.studies.compound_spmv import CITED, STUDY_NAME, results
from repro.studies.compound_spmv.study import CompoundRow

KIB = 1024
FORMATS = ("ELL", "Sl-16", "Sl-32", "cuSPARSE")
NAME = replace(PROBLEM, cell=lambda line: line.cell)
ENTRY = Column[ProblemLine](
    "entry", "entry", numeric=False, cell=lambda line: Cell(line.entry, results.ENTRY_WORDS.get(line.entry, line.entry))
)


@table(STUDY_NAME, "table-1", title="Sizes of the matrices", numbering=f"Table 1 of {CITED}")
def sizes(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: rows and stored entries of the matrix, published and ours."""
    published_sizes = {item["problem"]: item for item in published["sizes"]}

    def published_cell(key: str) -> Callable[[ProblemLine], Cell]:
        return lambda line: count(int(published_sizes[line.published][key]) if line.published else None)

    columns = (
        NAME,
        ENTRY,
        Column("published_rows", "rows", "published", cell=published_cell("rows")),
        Column("published_nonzeros", "non-zeros", "published", cell=published_cell("nonzeros")),
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
    published_memory = {item["problem"]: item for item in published["memory"]}
    rows = []
    for line in problem_lines(campaign, published):
        published_row = published_memory[line.published] if line.published else None
        if published_row is None:
            published_cells = [Cell()] * (1 + len(FORMATS))
        else:
            size = float(published_row["csr_size"]) * KIB ** {"KiB": 1, "MiB": 2}[published_row["csr_unit"]]
            published_cells = [Cell(round(size), f"{published_row['csr_size']} {published_row['csr_unit']}")]
            published_cells += [printed_cell(published_row[name]) for name in FORMATS]
        layouts = results.memory_of(line.record).get("double", {})
        csr = layouts.get("CSR")
        own_cells = [Cell(csr, size_text(csr)) if csr else Cell()]
        for name in FORMATS:
            own_cells.append(number_cell(layouts[name] / csr if csr and layouts.get(name) else None, spec=".1f"))
        rows.append((line.cell, *published_cells, *own_cells))
    columns = [NAME]
    for group, prefix in (("published", "published_"), ("ours", "")):
        columns.append(Column(f"{prefix}CSR_bytes", "CSR/BSR", group))
        columns += [Column(f"{prefix}{name}", name, group) for name in FORMATS]
    caption = join_sentences(
        [
            "Memory of a matrix in double precision, with 4-byte indices and 8-byte values: the size as CSR",
            "(3×3 entries: BSR), and every other format as a multiple of it. cuSPARSE: the matrix that the papers pass",
            "to that library, real 4×4 BSR for quaternions.",
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
    published_layouts = {(i["problem"], i["gpu"]): i for i in published["layouts"] if i["table"] == str(number)}
    rows = []
    ties = time_count = marked_count = 0
    for line in problem_lines(join_reference_problems(campaign), published, entry):
        cells = [line.cell]
        for gpu in results.gpus(published):
            if line.published:
                item = published_layouts[line.published, gpu]
                cells += [Cell(item["layout"]), printed_cell(item["speedup"])]
            else:
                cells += [Cell(), Cell()]
        case = Case[CompoundRow](campaign, line.problem, precision)
        best = case.winner("joint", "event")
        ties, time_count = ties + bool(results.tied_layouts(case, best)), time_count + (best is not None)
        marked_count += case.is_mostly_launch("event", best)
        for measured_on in (campaign, *campaign.beside):
            cells += _layout_cells(Case(measured_on, line.problem, precision), line)
        rows.append(tuple(cells))
    columns = [NAME]
    for group, prefix, name in [
        *((f"published: {gpu}", f"published_{gpu}".replace(" ", "_"), "") for gpu in results.gpus(published)),
        (f"ours: {campaign.column}", "ours", ""),
        *(
            (f"ours: {column_title(campaign, reference)}", f"ours_{reference.name}", reference.name)
            for reference in campaign.beside
        ),
    ]:
        columns.append(Column(f"{prefix}_layout", "layout", group, numeric=False, campaign=name))
        columns.append(Column(f"{prefix}_speedup", "speedup", group, campaign=name))
    caption = join_sentences(
        [
            f"Best layout for {results.ENTRY_WORDS[entry]} entries in {precision} precision, and the speedup of layout",
            "tuning: time of the best schedule for CSR-AoS-AoS over time of the best layout and schedule.",
            "The search chose by its own times; ours are from timing side by side afterwards, and can be below 1.",
            f"Published in Table {number} of {CITED}.",
            results.kernels_note(campaign),
            results.clock_note(campaign),
            launch_note(marked_count, time_count),
            f"Other layouts within {100 * campaign.tie:g} % of the best in the search are ties, named below:",
            f"{ties} of {time_count} cases.",
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
    tied_names = results.tied_layouts(case, best)
    ties = (f"tie with {', '.join(tied_names)}",) if tied_names else ()
    layout = add_row_keys(Cell(best.row.layout, notes=ties), best)
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
        title=f"Best layout and speedup by layout tuning, {results.ENTRY_WORDS[entry]}, {precision} precision",
        numbering=f"Table {number} of {CITED}",
    )
    def make(campaign: Campaign, published: Published) -> Table:
        return best_layouts(campaign, published, number)


for _number in NUMBERS:
    _register(_number)


CASES = {"SP": 1, "DP": 1, "both": 2, "none": 0}


@table(STUDY_NAME, "table-8", title="Where the dynamic schedule is preferred", numbering=f"Table 8 of {CITED}")
def preferred(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: precisions (SP, DP, both, none) in which dynamic schedules win, for each GPU."""
    published_preferences = {(item["problem"], item["gpu"]): item["preferred"] for item in published["dynamic"]}
    compared_campaigns = (campaign, *campaign.beside)
    counts = [_Count() for _ in compared_campaigns]
    rows = []
    for line in problem_lines(join_reference_problems(campaign), published):
        cells = [NAME.cell(line), ENTRY.cell(line)]
        for gpu in results.gpus(published):
            # not a dash, which means that static wins
            cells.append(_kind_cell(published_preferences[line.published, gpu]) if line.published else BLANK)
        cells += [
            _preference_cell(preference, line, preference_count)
            for preference, preference_count in zip(compared_campaigns, counts, strict=True)
        ]
        rows.append(tuple(cells))
    columns = (
        NAME,
        ENTRY,
        *(
            Column(f"published_{gpu}".replace(" ", "_"), gpu, "published", numeric=False)
            for gpu in results.gpus(published)
        ),
        Column("ours", campaign.column, "ours", numeric=False),
        *(
            Column(
                f"ours_{reference.name}",
                column_title(campaign, reference),
                "ours",
                numeric=False,
                campaign=reference.name,
            )
            for reference in campaign.beside
        ),
    )
    shares = []
    for gpu in results.gpus(published):
        kinds = [item["preferred"] for item in published["dynamic"] if item["gpu"] == gpu]
        shares.append(_share_cell(sum(CASES[k] for k in kinds), 2 * len(kinds)))
    shares += [_share_cell(item.won, item.timed) for item in counts]
    summary = [(Cell("share of cases"), BLANK, *shares)]
    own_count = counts[0]
    percent = published.quantity("share of cases where dynamic is better in percent")
    caption = join_sentences(
        [
            "Precisions (SP single, DP double) in which the best dynamic schedule is faster than the best static",
            f"one in the best layout. A difference within {100 * campaign.tie:g} % is a tie and counts as not",
            "preferred (–). An empty cell is unknown; if only one precision has times, it is named. Published in Table",
            f"8 of {CITED}, whose section 5.4 states about {percent} % of all cases.",
            results.kernels_note(campaign),
            results.clock_note(campaign),
            launch_note(own_count.marked, own_count.timed),
            f"Ties of static and dynamic: {own_count.ties} of {own_count.timed}.",
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


def _preference_cell(campaign: Campaign, line: ProblemLine, preference_count: _Count) -> Cell:
    """Return the cell with the precisions in which dynamic schedules win on a problem; update `preference_count`."""
    blank = blank_reason(campaign.problems.get(line.problem), line.record)
    if blank is not None:
        return Cell(None, " ", blank)
    answers: dict[str, bool] = {}
    notes: dict[str, None] = {}
    winners: list[results.Time] = []
    for precision in campaign.precisions:
        case = Case[CompoundRow](campaign, line.problem, precision)
        static, dynamic = case.winner("static", "event"), case.winner("dynamic", "event")
        if static is None or dynamic is None:
            notes[f"{ABBREVIATIONS[precision]}: {case.why_not()}"] = None
            continue
        answers[ABBREVIATIONS[precision]] = static.seconds > dynamic.seconds * (1 + campaign.tie)
        winners += [static, dynamic]
        if max(static.seconds, dynamic.seconds) <= min(static.seconds, dynamic.seconds) * (1 + campaign.tie):
            preference_count.ties += 1
            notes[f"static and dynamic tie in {ABBREVIATIONS[precision]}"] = None
        if case.is_mostly_launch("event", static, dynamic):
            preference_count.marked += 1
            notes[f"{ABBREVIATIONS[precision]}: {MOSTLY_LAUNCH}"] = None
        notes |= dict.fromkeys(static.notes + dynamic.notes)
    preference_count.won += sum(answers.values())
    preference_count.timed += len(answers)
    return add_row_keys(_answer_cell(answers, tuple(notes)), *winners)


def _kind_cell(kind: str) -> Cell:
    return Cell(kind, "–" if kind == "none" else kind)


def _answer_cell(answers: dict[str, bool], notes: tuple[str, ...]) -> Cell:
    if not answers:
        return Cell(None, " ", notes)
    winners = [name for name, is_winner in answers.items() if is_winner]
    cell = _kind_cell({0: "none", 1: "".join(winners), 2: "both"}[len(winners)])
    if len(answers) == 1:  # the other precision has no time
        note_text = f" ({next(iter(answers))} only)"
        return Cell(f"{cell.value}{note_text}", f"{cell.text}{note_text}", notes)
    return Cell(cell.value, cell.text, notes)


def _share_cell(win_count: int, time_count: int) -> Cell:
    return (
        Cell(win_count / time_count, f"{win_count}/{time_count} ({100 * win_count / time_count:.0f} %)")
        if time_count
        else Cell()
    )


register_claims(STUDY_NAME, CITED, results.CLAIM_QUANTITIES, results.claim_cases, papers="papers’")
