"""What was aimed at, and what was reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from repro.artifacts.case import Timed
from repro.artifacts.cells import from_rows, ratio
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, measured_on, ours, remarks, sentences, unavailable
from repro.artifacts.numbers import geometric_mean, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.artifacts.targets import wanted_on
from repro.sparse.times import library_of
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.standing import Standing, standings, worst

MEDIUM, LARGE = 20_000_000, 60_000_000
NOT_SEARCHED = "the space `extended` was not searched in this campaign"


class Compared(NamedTuple):
    """A kernel, the library's fastest routine that it is compared with, and the fastest variant without pairs."""

    kernel: Timed | None
    library: Timed | None
    unpaired: Timed | None


@dataclass(frozen=True)
class Side:
    """One column, and what is compared in it."""

    key: str
    title: str
    pick: Callable[[Standing], Compared]


Clocked = Literal["graph", "event", "cold"]


@dataclass(frozen=True)
class Quantity:
    """How a quantity is measured.

    Attributes
    ----------
    ratio
        Returns it of a case, given what is compared in a column.
    worst
        Whether the worst case is wanted, else the geometric mean.
    clock
        What chose and timed the variants: both clocks with a warm cache, or with a cold one those that the graph clock
        chose, by events.
    counts
        Which cases it is of.
    only
        The one column that it has a number in, which is then held against the wanted one; empty: all, and that is ours.
    """

    ratio: Callable[[Standing, Compared], float | None]
    worst: bool = False
    clock: Clocked = "graph"
    counts: Callable[[Standing], bool] = lambda case: True
    only: str = ""


def _over_library(case: Standing, compared: Compared) -> float | None:
    return ratio_of(compared.library, compared.kernel)


def _over_papers_choice(case: Standing, compared: Compared) -> float | None:
    """Return the speedup over the papers' choice of routine in the ordering of the kernel."""
    return ratio_of(case.routine(compared.kernel, papers_choice=True), compared.kernel)


def _over_unpaired(case: Standing, compared: Compared) -> float | None:
    return ratio_of(compared.unpaired, compared.kernel)


def _of_floor(case: Standing, compared: Compared) -> float | None:
    return ratio_of(case.floor, compared.kernel)


def _of_own_floor(case: Standing, compared: Compared) -> float | None:
    return ratio_of(case.own_floor(compared.kernel), compared.kernel)


def _medium_or_large(case: Standing) -> bool:
    return (case.bytes or 0) >= MEDIUM


def _medium(case: Standing) -> bool:
    return MEDIUM <= (case.bytes or 0) < LARGE


def _large_symmetric(case: Standing) -> bool:
    return (case.bytes or 0) >= LARGE and case.unpaired is not None


def _papers(case: Standing) -> bool:
    return case.line.published is not None


#: By their names in `config/targets/compound_spmv.csv`.
QUANTITIES: Mapping[str, Quantity] = {
    "speedup_worst": Quantity(_over_library, worst=True),
    "speedup_worst_least": Quantity(_over_library, worst=True),
    "speedup_mean": Quantity(_over_library),
    "speedup_mean_papers": Quantity(_over_library, counts=_papers),
    "event_worst": Quantity(_over_library, worst=True, clock="event"),
    "event_mean": Quantity(_over_library, clock="event"),
    "event_mean_papers": Quantity(_over_library, clock="event", counts=_papers),
    "cold_worst": Quantity(_over_library, worst=True, clock="cold"),
    "cold_mean": Quantity(_over_library, clock="cold"),
    "cold_mean_papers": Quantity(_over_library, clock="cold", counts=_papers),
    "papers_choice_mean": Quantity(_over_papers_choice),
    "event_papers_choice_mean": Quantity(_over_papers_choice, clock="event"),
    "floor_worst": Quantity(_of_floor, worst=True, counts=_medium_or_large),
    "floor_mean": Quantity(_of_floor),
    "floor_worst_medium": Quantity(_of_floor, worst=True, counts=_medium),
    "floor_mean_medium": Quantity(_of_floor, counts=_medium),
    "floor_mean_large": Quantity(_of_floor, counts=_large_symmetric, only="ours"),
    "floor_mean_large_reordered": Quantity(_of_floor, counts=_large_symmetric, only="reordered"),
    "own_floor_mean_large": Quantity(_of_own_floor, counts=_large_symmetric),
    "unpaired_mean_large": Quantity(_over_unpaired, counts=_large_symmetric, only="ours"),
    "unpaired_mean_large_reordered": Quantity(_over_unpaired, counts=_large_symmetric, only="reordered"),
}

OURS = "ours"
SIDES = (
    Side("papers_space", "papers’ space", lambda s: Compared(s.papers, s.library, None)),
    Side(OURS, "ours", lambda s: Compared(s.ours, s.library, s.unpaired)),
    Side("reordered", "ours, any ordering", lambda s: Compared(*s.best, s.reordered_unpaired)),
)


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the prototype's number, the wanted one and the measured ones."""
    cases = standings(campaign, published)
    by_clock: dict[Clocked, list[Standing]] = {
        "graph": cases,
        "event": standings(campaign, published, "event"),
        "cold": [cold for case in cases if (cold := case.cold)],
    }
    columns = [
        Column("target", "target", numeric=False),
        Column("prototype", "prototype"),
        Column("wanted", "wanted"),
        *(Column(side.key, side.title, "measured") for side in SIDES),
        Column("over_wanted", "over wanted", "ours"),
        Column("worst_case", "worst case", "ours", numeric=False),
    ]
    rows = []
    for item in published.targets:
        quantity = QUANTITIES[item["quantity"]]
        cells = {side.key: _measured(quantity, by_clock[quantity.clock], side) for side in SIDES}
        mine, where = cells[quantity.only or OURS]
        rows.append(
            (
                Cell(item["what"].replace("'", "’")),
                Cell(float(item["prototype"]), item["prototype"]) if item["prototype"] else Cell(),
                Cell(float(item["wanted"]), item["wanted"]) if item["wanted"] else Cell(None, "reported"),
                *(_shown(quantity, key, value) for key, (value, _) in cells.items()),
                _over_wanted(mine, item["wanted"]),
                _place(where) if where else Cell(None, " "),
            )
        )
    moved = sum(case.reordered is not None for case in cases)
    count = sum(case.ours is not None for case in cases)
    sizes = [sum(map(counts, cases)) for counts in (_medium_or_large, _medium, _large_symmetric)]
    theirs = [case for case in cases if _papers(case)]
    library = library_of(campaign)
    caption = [
        "What was aimed at and what was reached: speedups of the best variant over routines of",
        f"{library}, and its fraction of the streaming floor, over all problems and precisions that have the",
        "times. Papers’ space: the best of the papers’ layouts and schedules. Ours: the best of those and of our own.",
        "Any ordering: where a reordered matrix is faster, it is compared with the library’s fastest routine on the",
        f"matrix in the same order: {moved} of {len(cases)} cases; permuting is not in the times.",
        "The papers’ choice: 4×4 and 3×3 BSR for quaternions and 3×3 blocks, CSR for complex numbers.",
        "By the event clock, as in the papers, variants and routines are chosen by it, too. With a cold cache the",
        "variants are those that the graph clock chose, timed by events after the L2 cache was overwritten, and the",
        "routines those that are the fastest then. Reported: no number is wanted.",
        f"The papers’ own problems: {len({case.line.problem for case in theirs})}, rebuilt ones and stand-ins among",
        f"them, {len(theirs)} cases. The fastest routine: of any representation.",
        f"By the bytes of CSR-AoS {sizes[0]} cases are of 20 MB and more, and {sizes[1]} of these below 60 MB.",
        _pairs_said(sizes[2]),
        "Prototype: a C++ prototype on an H200, on eight other matrices; of symmetric matrices one of pairs, on four",
        "of these, seven cases.",
        measured_on(campaign, "graph"),
        "" if count else f"Ours is absent: {NOT_SEARCHED}.",
        wanted_on(campaign),
        remarks(ours(campaign, published)),
        unavailable(campaign),
    ]  # fmt: skip
    return Table(tuple(columns), rows, sentences(caption))


def _measured(quantity: Quantity, cases: Sequence[Standing], side: Side) -> tuple[float | None, Standing | None]:
    """Return one number of one column, and the case that it is from where it is the worst."""
    if side.key == "reordered" and not any(case.reordered for case in cases):
        return None, None
    ratios = [(quantity.ratio(case, side.pick(case)), case) for case in cases if quantity.counts(case)]
    if quantity.worst:
        return worst(ratios) or (None, None)
    return geometric_mean(value for value, _ in ratios), None


def _shown(quantity: Quantity, side: str, value: float | None) -> Cell:
    if quantity.only not in ("", side):
        return Cell(None, " ")
    return Cell(None, "not measured") if value is None and quantity.counts is _large_symmetric else ratio(value)


def _pairs_said(large: int) -> str:
    """Return the sentences on formats of pairs; or that none has a time."""
    if not large:
        return "Symmetric: no format of pairs was timed on a matrix of 60 MB and more."
    return (
        f"Symmetric: those on which a format of pairs was timed, {large} cases of 60 MB and more, by the graph clock."
        " Without pairs:"
        " the fastest variant of all other formats, chosen by the same search and timed in the same rounds. The floor"
        " streams the bytes of CSR-AoS, and a format of pairs, which moves fewer, may pass it; its own floor streams"
        " its own."
    )


def _over_wanted(measured: float | None, wanted: str) -> Cell:
    if measured is None or not wanted:
        return Cell(None, " " if not wanted else "")
    over = measured / float(wanted)
    return Cell(over, f"{100 * (over - 1):+.0f} %".replace("-", "−"))


def _place(where: Standing) -> Cell:
    remark = where.line.record.remark if where.line.record else None
    name = f"{where.line.problem}, {ABBREVIATIONS[where.case.precision]}"
    notes = where.case.launch_note(where.clock, where.ours) if where.case.cache is None else ()
    return from_rows(Cell(name, notes=((remark,) if remark else ()) + notes), where.ours, where.library, where.floor)
