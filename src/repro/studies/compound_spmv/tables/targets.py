"""What was aimed at, and what was reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro.artifacts.case import Timed
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, measured_on, ours, remarks, sentences, unavailable
from repro.artifacts.numbers import geometric_mean, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.artifacts.targets import rehearsal
from repro.sparse.times import baseline, library_of
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.standing import Standing, standings, worst

LARGE = 20_000_000
NOT_SEARCHED = "the space `extended` was not searched in this campaign"


@dataclass(frozen=True)
class Side:
    """One column: the kernel and the library that are compared, and what is said where there is nothing."""

    key: str
    title: str
    pick: Callable[[Standing], tuple[Timed | None, Timed | None]]


SIDES = (
    Side("papers_space", "papers’ space", lambda s: (s.papers, s.library)),
    Side("ours", "ours", lambda s: (s.ours, s.library)),
    Side("reordered", "ours, any ordering", lambda s: s.best),
)


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the prototype's number, the wanted one and the measured ones."""
    cases = standings(campaign, published)
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
        wanted = float(item["wanted"])
        cells = [_measured(item["quantity"], cases, side) for side in SIDES]
        mine, where = cells[1]
        rows.append(
            (
                Cell(item["what"].replace("'", "’")),
                Cell(float(item["prototype"]), item["prototype"]),
                Cell(wanted, item["wanted"]),
                *(_number(value) for value, _ in cells),
                Cell()
                if mine is None
                else Cell(mine / wanted, f"{100 * (mine / wanted - 1):+.0f} %".replace("-", "−")),
                _place(where) if where else Cell(None, " "),
            )
        )
    moved = sum(case.reordered is not None for case in cases)
    count = sum(case.ours is not None for case in cases)
    large = sum((case.bytes or 0) >= LARGE for case in cases)
    library = library_of(campaign)
    caption = [
        "What was aimed at and what was reached: speedups of the best variant over routines of",
        f"{library}, and its fraction of the streaming floor, over all problems and precisions that have the",
        "times. Papers’ space: the best of the papers’ layouts and schedules. Ours: the best of those and of our own.",
        "Any ordering: where a reordered matrix is faster, it is compared with the library’s fastest routine on the",
        f"matrix in the same order: {moved} of {len(cases)} cases; permuting is not in the times.",
        "The papers’ choice: 4×4 and 3×3 BSR for quaternions and 3×3 blocks, CSR for complex numbers.",
        f"Matrices of 20 MB and more: {large} cases, by the bytes of CSR-AoS.",
        "Prototype: a C++ prototype on an H200, on eight other matrices.",
        measured_on(campaign, "graph"),
        "" if count else f"Ours is absent: {NOT_SEARCHED}.",
        rehearsal(campaign),
        remarks(ours(campaign, published)),
        unavailable(campaign),
    ]  # fmt: skip
    return Table(tuple(columns), rows, sentences(caption))


def _measured(quantity: str, cases: Sequence[Standing], side: Side) -> tuple[float | None, Standing | None]:
    """Return one number of one column, and the case that it is from where it is the worst."""
    if side.key == "reordered" and not any(case.reordered for case in cases):
        return None, None
    picked = [(case, *side.pick(case)) for case in cases]
    match quantity:
        case "speedup_worst" | "speedup_mean":
            ratios = [(ratio_of(library, kernel), case) for case, kernel, library in picked]
        case "papers_choice_mean":
            ratios = [(ratio_of(_papers_choice(case, kernel), kernel), case) for case, kernel, _ in picked]
        case "floor_worst":
            ratios = [(ratio_of(case.floor, kernel), case) for case, kernel, _ in picked if (case.bytes or 0) >= LARGE]
        case "floor_mean":
            ratios = [(ratio_of(case.floor, kernel), case) for case, kernel, _ in picked]
        case _:
            raise ValueError(f"no way to measure {quantity}")
    if quantity.endswith("_worst"):
        return worst(ratios) or (None, None)
    return geometric_mean(value for value, _ in ratios), None


def _papers_choice(case: Standing, kernel: Timed | None) -> Timed | None:
    """Return the papers' choice of routine in the ordering of the kernel."""
    if kernel is None or kernel is not case.reordered:
        return case.papers_choice
    return baseline(case.case, "graph", papers_choice=True, ordering=str(kernel.row["ordering"]))


def _number(value: float | None) -> Cell:
    return Cell() if value is None else Cell(value, f"{value:.2f}")


def _place(where: Standing) -> Cell:
    remark = where.line.record.remark if where.line.record else None
    name = f"{where.line.problem}, {ABBREVIATIONS[where.case.precision]}"
    return Cell(name, notes=((remark,) if remark else ()) + where.case.launch_note("graph", where.ours))
