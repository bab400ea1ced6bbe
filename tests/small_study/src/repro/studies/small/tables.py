"""The table and the figure of this study."""

from __future__ import annotations

from repro.results.campaign_data import Campaign, Case, ReportedTime
from repro.results.columns import MICRO, PROBLEM, microseconds, number_cell
from repro.results.figure_forms import draw_panels
from repro.results.figure_rows import Bars, Row, Rows
from repro.results.figure_style import COLUMN_WIDTH, OURS, PALE
from repro.results.problem_lines import MethodTimes, join_sentences, measurement_note, recorded_lines, times_of
from repro.results.published import Published
from repro.results.registry import figure, table
from repro.results.tables import Cell, Column, Figure, Table, table_of

WAYS = ("exact", "bound")


def timed(case: Case, way: str) -> ReportedTime | None:
    return case.select(way=way).fastest("host")


def way_column(way: str) -> Column[MethodTimes]:
    return Column(f"{way}_us", f"{way} [µs]", cell=lambda case: microseconds(timed(case.case, way)))


def stage_column(stage: str) -> Column[MethodTimes]:
    """Return the column of a stage's median in microseconds."""

    def cell(case: MethodTimes) -> Cell:
        exact = timed(case.case, "exact")
        return number_cell(exact.row[f"stage_{stage}"] if exact else None, MICRO)

    return Column(f"{stage}_us", f"{stage} [µs]", "stages of exact", cell=cell)


def parts(case: MethodTimes) -> Cell:
    exact = timed(case.case, "exact")
    return Cell(exact.row["parts"] if exact else None)


COLUMNS: tuple[Column[MethodTimes], ...] = (
    PROBLEM,
    *map(way_column, WAYS),
    stage_column("count"),
    stage_column("take"),
    Column("parts", "devices", cell=parts),
)


@table("small", "table-ways", title="Both ways", numbering="ours")
def ways(campaign: Campaign, published: Published) -> Table:
    """A line a problem: each way's time, and the stages of the one that has some."""
    cases = times_of(MethodTimes, campaign, published, campaign.precisions[-1:])
    caption = ["Taking the large entries out.", measurement_note(campaign, "host")]
    return table_of(COLUMNS, cases, join_sentences(caption))


@figure("small", "figure-ways", title="Both ways", numbering="ours")
def drawn(campaign: Campaign, published: Published) -> Figure:
    """A group of bars a problem."""
    cases = [Case(campaign, line.problem, campaign.precisions[-1]) for line in recorded_lines(campaign, published)]

    def bars(way: str, colour: str) -> Bars[Case]:
        return Bars(way, colour, lambda case: MICRO * time.seconds if (time := timed(case, way)) else None)

    rows = [Row(case.problem, [case], reason=case.why_not()) for case in cases]
    colours = zip(WAYS, (OURS.fill, PALE), strict=True)
    panel = Rows(rows, "µs by the host’s clock", [bars(way, colour) for way, colour in colours])
    caption = join_sentences(["Taking the large entries out.", measurement_note(campaign, "host")])
    return Figure(lambda: draw_panels([panel], "no way was timed in this campaign", width=COLUMN_WIDTH), caption)
