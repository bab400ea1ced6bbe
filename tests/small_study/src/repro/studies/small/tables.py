"""The table and the figure of this study."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas

from repro.results import figure_style
from repro.results.campaign_data import Campaign, Case, ReportedTime, fastest_time
from repro.results.problem_rows import PROBLEM, join_sentences, measurement_note, ours
from repro.results.published import Published
from repro.results.registry import figure, table
from repro.results.tables import Cell, Column, Figure, Table, digits, microseconds

WAYS = ("exact", "bound")


def timed(case: Case, way: str) -> ReportedTime | None:
    """Return the time of a way by the host's clock."""
    return fastest_time([row for row in case.rows if row["way"] == way], "host")


def stage_cell(exact: ReportedTime | None, stage: str) -> Cell:
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
        rows.append(
            (line.cell, microseconds(exact), microseconds(bound), *stages, Cell(exact.row["parts"] if exact else None))
        )
    return Table(columns, rows, join_sentences(["Taking the large entries out.", measurement_note(campaign, "host")]))


@figure("small", "figure-ways", title="Both ways", numbering="ours")
def drawn(campaign: Campaign, published: Published) -> Figure:
    """A group of bars a problem."""
    lines = ours(campaign, published)
    cases = [Case(campaign, line.problem, campaign.precisions[-1]) for line in lines]

    def draw() -> Canvas:
        canvas = figure_style.canvas(figure_style.COLUMN, figure_style.height(len(lines)))
        axes = canvas.add_subplot()
        for at, case in enumerate(cases):
            for way, offset, colour in zip(WAYS, (-0.2, 0.2), (figure_style.DARK, figure_style.LIGHT), strict=True):
                if time := timed(case, way):
                    axes.barh(at + offset, 1e6 * time.seconds, height=0.38, color=colour)
        axes.set_xlabel("µs by the host’s clock: exact (dark), bound (light)")
        missing = [None if case.rows else case.why_not() for case in cases]
        figure_style.rows_axis(axes, [line.label for line in lines], missing=missing)
        return canvas

    return Figure(draw, join_sentences(["Taking the large entries out.", measurement_note(campaign, "host")]))
