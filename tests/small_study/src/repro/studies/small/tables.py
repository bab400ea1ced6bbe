"""The table and the figure of this study."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas

from repro.artifacts import style
from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.cells import digits, micro
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Figure, Table
from repro.artifacts.lineup import PROBLEM, measured_on, ours, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import figure, table

WAYS = ("exact", "bound")


def timed(case: Case, way: str) -> Timed | None:
    """Return the time of a way by the host's clock."""
    return fastest([row for row in case.rows if row["way"] == way], "host")


def stage_cell(exact: Timed | None, stage: str) -> Cell:
    """Return a stage's median in microseconds."""
    seconds = exact.row[f"stage_{stage}"] if exact else None
    return Cell() if seconds is None else Cell(1e6 * seconds, digits(1e6 * seconds))


@table("small", "table-ways", title="Both ways", numbering="ours")
def ways(campaign: Campaign, published: Published) -> Table:
    """A line a problem: each way's time, and the stages of the one that has some."""
    columns = (
        PROBLEM,
        *(Column(f"{way}_us", f"{way} [µs]") for way in WAYS),
        *(Column(f"{stage}_us", f"{stage} [µs]", "stages of exact") for stage in ("count", "take")),
        Column("parts", "devices"),
    )
    rows = []
    for line in ours(campaign, published):
        case = Case(campaign, line.problem, campaign.precisions[-1])
        exact, bound = (timed(case, way) for way in WAYS)
        stages = [stage_cell(exact, stage) for stage in ("count", "take")]
        rows.append((line.cell, micro(exact), micro(bound), *stages, Cell(exact.row["parts"] if exact else None)))
    return Table(columns, rows, sentences(["Taking the large entries out.", measured_on(campaign, "host")]))


@figure("small", "figure-ways", title="Both ways", numbering="ours")
def drawn(campaign: Campaign, published: Published) -> Figure:
    """A group of bars a problem."""
    lines = ours(campaign, published)
    cases = [Case(campaign, line.problem, campaign.precisions[-1]) for line in lines]

    def draw() -> Canvas:
        canvas = style.canvas(style.COLUMN, style.height(len(lines)))
        axes = canvas.add_subplot()
        for at, case in enumerate(cases):
            for way, offset, colour in zip(WAYS, (-0.2, 0.2), (style.DARK, style.LIGHT), strict=True):
                if time := timed(case, way):
                    axes.barh(at + offset, 1e6 * time.seconds, height=0.38, color=colour)
        axes.set_xlabel("µs by the host’s clock: exact (dark), bound (light)")
        missing = [None if case.rows else case.why_not() for case in cases]
        style.rows_axis(axes, [line.label for line in lines], missing=missing)
        return canvas

    return Figure(draw, sentences(["Taking the large entries out.", measured_on(campaign, "host")]))
