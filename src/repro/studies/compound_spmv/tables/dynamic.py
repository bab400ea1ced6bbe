"""Table 8 (where the dynamic schedule wins), and 8b (how sensitive each kind is to the schedule)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.artifacts.beside import column_beside, others_on, together, why_blank
from repro.artifacts.case import MOSTLY_LAUNCH, Case, Timed, fastest, median
from repro.artifacts.cells import from_rows
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import (
    ABBREVIATIONS,
    PROBLEM,
    Line,
    context,
    launches,
    lineup,
    measured_on,
    ours,
    sentences,
    unavailable,
)
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.printed import ENTRY_WORDS, gpus
from repro.studies.compound_spmv.recorded import paper_rows

BLANK = Cell(None, " ")  # a dash says that static wins
CASES = {"SP": 1, "DP": 1, "both": 2, "none": 0}


def dynamic_wins(case: Case) -> bool | None:
    """Return whether dynamic beats static by more than a tie in the best layout; None where one has no time."""
    static, dynamic = case.winner("static", "event"), case.winner("dynamic", "event")
    if static is None or dynamic is None:
        return None
    return static.seconds > dynamic.seconds * (1 + case.campaign.tie)


@table(STUDY, "table-8", title="Where the dynamic schedule is preferred", numbering=f"Table 8 of {PAPER}")
def preferred(campaign: Campaign, published: Published) -> Table:
    """SP, DP, both or none for each problem and GPU, with the share of cases at the bottom."""
    printed = {(item["problem"], item["gpu"]): item["preferred"] for item in published["dynamic"]}
    measured = (campaign, *campaign.beside)
    counts = [_Count() for _ in measured]
    rows = []
    for line in lineup(together(campaign), published):
        cells = [line.cell, Cell(line.entry, ENTRY_WORDS.get(line.entry, line.entry))]
        for gpu in gpus(published):
            cells.append(_kind(printed[line.published, gpu]) if line.published else BLANK)
        cells += [_ours(one, line, count) for one, count in zip(measured, counts, strict=True)]
        rows.append(tuple(cells))
    columns = (
        PROBLEM,
        Column("entry", "entry", numeric=False),
        *(Column(f"published_{gpu}".replace(" ", "_"), gpu, "published", numeric=False) for gpu in gpus(published)),
        Column("ours", campaign.column, "ours", numeric=False),
        *(
            Column(f"ours_{other.name}", column_beside(campaign, other), "ours", numeric=False, campaign=other.name)
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
    caption = sentences(
        [
            "Precisions (SP single, DP double) in which the best dynamic schedule is faster than the best static",
            f"one in the best layout; a difference within {100 * campaign.tie:g} % is a tie and counts as not",
            "preferred (–);",
            "a blank cell is not known, and where one precision alone has times it is named.",
            f"Published in Table 8 of {PAPER}, whose section 5.4 puts it at about {percent} % of all cases.",
            measured_on(campaign, "event"),
            launches(own.marked, own.timed),
            f"Ties of static and dynamic: {own.ties} of {own.timed}.",
            others_on(campaign),
            context(campaign),
            unavailable(campaign),
        ]
    )
    return Table(columns, rows, caption, summary)


@dataclass
class _Count:
    """Cases of one campaign: those where dynamic wins, of how many; ties, and those that are mostly launch."""

    won: int = 0
    timed: int = 0
    ties: int = 0
    marked: int = 0


def _ours(campaign: Campaign, line: Line, count: _Count) -> Cell:
    """Return in which precisions dynamic wins on the problem of a line in a campaign, and count them."""
    blank = why_blank(campaign.problems.get(line.problem), line.record)
    if blank is not None:
        return Cell(None, " ", blank)
    answers: dict[str, bool] = {}
    notes: dict[str, None] = {}
    winners: list[Timed] = []
    for precision in campaign.precisions:
        case = Case(campaign, line.problem, precision)
        static, dynamic = case.winner("static", "event"), case.winner("dynamic", "event")
        wins = dynamic_wins(case)
        if wins is None or static is None or dynamic is None:
            notes[f"{ABBREVIATIONS[precision]}: {case.why_not()}"] = None
            continue
        answers[ABBREVIATIONS[precision]] = wins
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
    if len(answers) == 1:  # of the other precision nothing is known
        only = f" ({next(iter(answers))} only)"
        return Cell(f"{cell.value}{only}", f"{cell.text}{only}", notes)
    return Cell(cell.value, cell.text, notes)


def _share(won: int, timed: int) -> Cell:
    return Cell(won / timed, f"{won}/{timed} ({100 * won / timed:.0f} %)") if timed else Cell()


@table(
    STUDY,
    "table-8b",
    title="Sensitivity to the schedule, static and dynamic",
    numbering=f"Section 5.4 of {PAPER}",
)
def sensitivity(campaign: Campaign, published: Published) -> Table:
    """Slowest over fastest schedule of each kind in the best layout, and the registers of its kernels."""
    rows = []
    more = cases = layouts_won = layouts = marked = 0
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            case = Case(campaign, line.problem, precision)
            best = case.winner("joint", "event")
            search = paper_rows(campaign, line.problem, precision)
            won, of = _layouts_won(search, campaign.tie)
            layouts_won, layouts = layouts_won + won, layouts + of
            used = [row for row in search if best and row["layout"] == best.row["layout"]]
            spreads: dict[str, float | None] = {}
            ends: dict[str, tuple[Timed, ...]] = {}
            for kind in ("static", "dynamic"):
                times = [t for row in used if row["schedule"] == kind and (t := fastest([row], "event"))]
                times.sort(key=lambda timed: timed.seconds)
                spreads[kind] = times[-1].seconds / times[0].seconds if times else None
                ends[kind] = (times[0], times[-1]) if times else ()
            static, dynamic = spreads["static"], spreads["dynamic"]
            if static and dynamic:
                cases, more = cases + 1, more + (dynamic > static)
                marked += case.mostly_launch("event", *(times[0] for times in ends.values()))
            registers = [int(row["registers"]) for row in used if row["registers"] is not None]
            spills = [int(row["spills"]) for row in used if row["spills"] is not None]
            why = (case.why_not(),) if best is None and line.record and line.record.available else ()
            rows.append(
                (
                    line.cell,
                    Cell(precision),
                    Cell(best.row["layout"] if best else None, notes=why),
                    *(
                        from_rows(Cell(s, f"{s:.2f}", case.launch_note("event", ends[kind][0])), *ends[kind])
                        if s
                        else Cell()
                        for kind, s in spreads.items()
                    ),
                    Cell(f"{min(registers)}–{max(registers)}") if registers else Cell(),
                    Cell(max(spills)) if spills else Cell(),
                )
            )
    columns = (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        Column("layout", "best layout", numeric=False),
        Column("static_worst_over_best", "static", "slowest / fastest"),
        Column("dynamic_worst_over_best", "dynamic", "slowest / fastest"),
        Column("registers", "registers", numeric=False),
        Column("spilled_bytes", "spills [B/thread]"),
    )
    few, most = (published.quantity(f"{word} registers") for word in ("fewest", "most"))
    caption = sentences(
        [
            "How much the choice of schedule matters: median time of the slowest schedule over that of the",
            "fastest, of each kind, in the best layout, over all schedules of the search, where the slow ones have",
            "a few screening launches only. Registers: least and most of its kernels; spills: the most of any.",
            f"Dynamic is the more sensitive one in {more} of {cases} cases; over all searched layouts its best",
            f"schedule beats static’s by more than {100 * campaign.tie:g} % in {layouts_won} of {layouts}.",
            f"Section 5.4 of {PAPER} finds dynamic more sensitive, with {few} to {most} registers a thread",
            "and no spills.",
            measured_on(campaign, "event", "the search"),
            launches(marked, cases),
            unavailable(campaign),
        ]
    )
    return Table(columns, rows, caption)


def _layouts_won(search: list[dict[str, object]], tie: float) -> tuple[int, int]:
    """Return in how many layouts dynamic's fastest schedule beats static's, and of how many."""
    best: dict[tuple[str, str], float] = {}
    for row in search:
        seconds = median(row, "event")
        if seconds is not None and row["kind"] == "variant":
            key = (str(row["layout"]), str(row["schedule"]))
            best[key] = min(seconds, best.get(key, seconds))
    both = [name for name, kind in best if kind == "static" and (name, "dynamic") in best]
    return sum(best[n, "static"] > best[n, "dynamic"] * (1 + tie) for n in both), len(both)
