"""Forms of figures: data in, marks out, and no text on another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from matplotlib.figure import Figure as Canvas

from repro.results.figure_forms import (
    CROSS,
    PUBLISHED_MARK,
    UNITY,
    Axis,
    Curve,
    Curves,
    Panel,
    Pen,
    Reference,
    draw_panels,
)
from repro.results.figure_rows import Bars, Boxes, Marks, Row, Rows, Segment, Stack, draw_whisker
from repro.results.figure_style import COLUMN_WIDTH, GREEN, GREY, OURS, PAPERS, VIOLET, Shape, canvas, name_marks
from repro.results.significance import geometric_mean
from repro.results.tables import Figure
from support.figure_flaws import flaws, laid_out

Numbers = tuple[float | None, float | None]
SPEEDUPS: dict[str, Numbers] = {"small": (4.0, 2.0), "large": (1.0, None), "gone": (None, None)}
OUR_BARS: Bars[Numbers] = Bars(
    "ours", OURS.fill, lambda case: case[0], lambda case: (3.5, 4.5) if case[0] == 4 else None, head="ours"
)
PAPERS_BARS: Bars[Numbers] = Bars("papers’", PAPERS.fill, lambda case: case[1], head="of papers", absent="–")
HOLLOW = Pen(VIOLET, "s", is_hollow=True)


def rows() -> list[Row[Numbers]]:
    """Return a heading, a row for each case, and their mean."""
    cases = [*SPEEDUPS.values()]
    measured = [
        Row(name, [case], reason="unavailable", has_star=name == "large", has_cross=name == "large")
        for name, case in SPEEDUPS.items()
    ]
    return [Row("a group"), *measured, Row("mean", cases, geometric_mean)]


def drawn(panels: Sequence[Panel], **layout: object) -> Canvas:
    """Return a figure as it is written, which has no flaw, also of another width."""
    figure = Figure(lambda: draw_panels(panels, "nothing in this campaign", **layout), "A caption.")  # type: ignore[arg-type]
    for shape in (None, Shape(width=COLUMN_WIDTH)):
        assert flaws(laid_out(figure, shape)) == []
    return laid_out(figure)


def texts(figure: Canvas) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def labels(figure: Canvas) -> list[str]:
    """Return the entries of the legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def points(figure: Canvas, marker: str, panel: int = 0) -> list[tuple[float, float]]:
    lines = [line for line in figure.axes[panel].lines if line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in line.get_xydata()]


def test_a_row_has_bars_whiskers_numbers_or_a_reason() -> None:
    panel = Rows(rows(), "speedup", [OUR_BARS, PAPERS_BARS], references=[Reference(1, "as fast", UNITY)], columns=2)
    figure = drawn([panel])
    (axes,) = figure.axes
    lengths = [bar.get_width() for bar in axes.patches]
    assert lengths == pytest.approx([4, 2, 1, 2, 2])  # the means are of 4 and 1, and of 2
    assert [*axes.lines[0].get_xdata()] == [3.5, 4.5]
    assert labels(figure) == ["ours", "papers’", "as fast"]
    assert {"4.00", "1.00*", "2.00", "–", "unavailable", "of\npapers"} <= {*texts(figure)}
    assert texts(figure).count("unavailable") == 1
    names = {label.get_text(): label.get_fontweight() for label in axes.get_yticklabels()}
    assert names == {"a group": "bold", "small": "normal", "large": "normal", "gone": "normal", "mean": "bold"}
    assert points(figure, "x") == [(0.012, 2)], "a cross says that a number of the row is missing"


def test_a_tooltip_names_series_row_and_number() -> None:
    left, right = (Rows(rows(), unit, [OUR_BARS]) for unit in ("speedup", "rate"))
    figure = drawn([left, right])
    tooltips = [text for mark in name_marks(figure).values() for text in mark]
    assert {"ours\nsmall\nspeedup: 4", "ours\nsmall\nrate: 4", "ours\nmean\nspeedup: 2"} <= {*tooltips}
    assert not [text for text in right_names(figure) if text], "names stand at the left alone"


def right_names(figure: Canvas) -> list[str]:
    return [label.get_text() for label in figure.axes[1].get_yticklabels()]


def test_bars_of_a_logarithmic_axis_begin_at_one() -> None:
    panel = Rows(rows(), "speedup", [OUR_BARS], scale="log", within=(0.5, 20))
    (axes,) = drawn([panel]).axes
    assert {bar.get_x() for bar in axes.patches} == {1} and axes.patches[0].get_width() == 3
    assert axes.get_xlim()[0] <= 0.5 and axes.get_xlim()[1] >= 20


@pytest.mark.parametrize(("end", "arrow"), [(2.59, False), (40.0, True)])
def test_a_whisker_ends_in_the_frame_or_in_an_arrow(end: float, arrow: bool) -> None:
    bars: Bars[float] = Bars("ours", OURS.fill, lambda case: case, lambda case: (1.88, end))
    right = Rows([Row("one", [2.0])], "speedup", [bars]).end
    axes = canvas(COLUMN_WIDTH, 1.5).add_subplot()
    draw_whisker(axes, None, 0)
    assert not axes.lines
    draw_whisker(axes, (1.88, end), 3, right)
    assert (right < end) == arrow and right <= 3.0
    line, *arrows = axes.lines
    assert line.get_xdata()[1] == min(end, right) and [*line.get_ydata()] == [3, 3]
    assert [mark.get_marker() for mark in arrows] == [">"] * arrow


def test_marks_stand_below_bars_on_a_bar_or_apart() -> None:
    marks = [
        Marks[Numbers]("below", HOLLOW, lambda case: case[0], "below"),
        Marks[Numbers]("on ours", HOLLOW._replace(marker="D"), lambda case: case[0], "ours"),
        Marks[Numbers]("published", PUBLISHED_MARK._replace(marker="v"), lambda case: case[0]),
    ]
    figure = drawn([Rows(rows(), "speedup", [OUR_BARS, PAPERS_BARS], marks)])
    first, second = figure.axes[0].patches[:2]
    bottom = second.get_y() + second.get_height()
    assert points(figure, "s")[0][1] > bottom > points(figure, "D")[0][1]
    assert points(figure, "D")[0] == (4, pytest.approx(first.get_y() + first.get_height() / 2))
    assert points(figure, "v")[0] == (4, 1)

    several: list[Marks[Numbers]] = [
        Marks("all", Pen(GREEN, "o", size=2.6), lambda case: [x for x in case if x], "apart", spread=0.2),
        Marks("first", HOLLOW, lambda case: case[0], "apart", has_key=False),
    ]
    figure = drawn([Rows(rows(), "loss", marks=several, scale="symlog")])
    (x, y), (other_x, other_y) = points(figure, "o")[:2]
    assert (x, other_x) == (4, 2) and y < other_y < 1 < points(figure, "s")[0][1]
    assert labels(figure) == ["all"]


def test_a_published_mark_alone_makes_no_figure() -> None:
    mark = Marks[Numbers]("published", PUBLISHED_MARK, lambda case: 2.0)
    empty = draw_panels([Rows([Row("gone", [(None, None)])], "speedup", [OUR_BARS], [mark])], "nothing was measured")
    assert [text.get_text() for text in empty.texts] == ["nothing was measured"] and not empty.axes


def test_stacks_have_parts_side_by_side() -> None:
    def parts(case: Sequence[float]) -> list[Segment]:
        return [part for width in case for part in (Segment("sort", width, OURS.fill, text="a"), SUM)]

    rows = [Row("one", [[4.0, 2.0]]), Row("none", [[]], reason="not timed")]
    figure = drawn([Rows(rows, "time [ms]", [Stack(parts)])])
    (axes,) = figure.axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 4), (4, 1), (5, 2), (7, 1)]
    assert "not timed" in texts(figure)


SUM = Segment("sum", 1, GREEN, "//")


@pytest.mark.parametrize("least", [0.0, 3.0])
def test_boxes_have_quartiles_also_of_numbers_that_can_be_zero(least: float) -> None:
    box = {"min": least, "q1": 4.0, "median": 5.0, "q3": 8.0, "max": 900.0}
    rows = [Row("one", [box]), Row("other", [{}], reason="no statistics")]
    panel = Rows(rows, "entries in a row", [Boxes(lambda case: case or None)], scale="log" if least else "symlog")
    figure = drawn([panel], width=COLUMN_WIDTH)
    (axes,) = figure.axes
    extents = [axes.transData.inverted().transform(bar.get_window_extent()) for bar in axes.patches]
    assert [extents[0][0][0], extents[0][1][0]] == pytest.approx([4, 8], rel=1e-6)
    assert axes.get_xlim()[0] <= least and axes.get_xlim()[1] >= 900 and "no statistics" in texts(figure)


def curves(*ends: float) -> list[Curve]:
    """Return a curve to each number; the legend has that to 2."""
    return [
        Curve(f"to {end:g}", Pen(colour, marker, "-"), [(1, 1.0), (10, end)], has_key=end == 2, has_value=True)
        for end, colour, marker in zip(ends, (OURS.colour, VIOLET, GREEN), "osv", strict=False)
    ]


def test_curves_of_panels_that_share_an_axis_are_all_inside() -> None:
    x, y = Axis("size", "log", ticks={1: "one", 10: "ten"}), Axis("time", limits=(0, None))
    ends = (2, 30, 4, 60)
    panels = [Curves(curves(end), x, y, f"up to {end}", [Reference((1, 2), "published")]) for end in ends]
    figure = drawn(panels, across=2, is_shared=True)
    assert all(axes.get_ylim()[0] == 0 and axes.get_ylim()[1] >= 60 for axes in figure.axes)
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes] == [
        ("", "time"), ("", ""), ("size", "time"), ("size", ""),
    ]  # fmt: skip
    assert labels(figure) == ["to 2", "published"]


def test_a_panel_without_curves_says_why_and_leaves_its_labels_to_the_one_above() -> None:
    x, y = Axis("size", "log"), Axis("time", "log")
    panels = [Curves(curves(2), x, y, "first"), Curves([Curve("none", HOLLOW, [])], x, y, reason="no such field")]
    figure = drawn(panels, across=1, is_shared="row")
    assert "no such field" in texts(figure) and not figure.axes[1].axison
    assert figure.axes[0].get_xlabel() == "size" and labels(figure) == ["to 2"]


def test_values_at_the_ends_of_curves_stand_apart() -> None:
    figure = drawn([Curves(curves(2.01, 2.0, 1.99), Axis(), Axis("speedup"))], width=COLUMN_WIDTH)
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert texts(figure) == ["2.01", "2.00", "1.99"]
    assert boxes[0].y0 > boxes[1].y0 + 5 > boxes[2].y0 + 10


def test_shifted_marks_have_their_numbers_and_crosses_no_number() -> None:
    shifted = Curve("tuned", HOLLOW, [(1, 2.0)], [(1, (1.5, 2.5))], [1, 4], shift=5)
    figure = drawn([Curves([Curve("plain", Pen(GREEN, "o"), [(1, 2.0)]), shifted], Axis("size"), Axis("speedup"))])
    plain, tuned = (
        line.get_transform().transform((1, 2.0)) for line in figure.axes[0].lines if line.get_marker() in ("o", "s")
    )
    assert tuned[0] - plain[0] == pytest.approx(5 / 72 * figure.dpi) and tuned[1] == pytest.approx(plain[1])
    assert points(figure, "x") == [(1, 1.04), (4, 1.04)]
    tooltips = [text for mark in name_marks(figure).values() for text in mark]
    assert "tuned\nsize: 1\nspeedup: 2" in tooltips and not any("1.04" in text for text in tooltips)


def test_numbers_far_from_one_are_powers_of_ten_and_counts_whole() -> None:
    curve = Curve("error", HOLLOW, [(1, 1e-14), (7, 1e-3)])
    (axes,) = drawn([Curves([curve], Axis("fields", is_count=True), Axis("error", "log"))]).axes
    assert all("10^{" in label.get_text() for label in axes.get_yticklabels())
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_panels_name_each_entry_of_the_legend_once() -> None:
    panels = [Rows(rows(), "speedup", [OUR_BARS, PAPERS_BARS], references=[Reference(2.0, name="V100")]) for _ in "ab"]
    figure = drawn(panels, keys={"not timed": CROSS, "ours": Pen(GREY, "o")}, mark="† a stand-in")
    assert labels(figure) == ["ours", "papers’", "not timed"] and texts(figure).count("V100") == 2
    assert "† a stand-in" in [text.get_text() for legend in figure.legends for text in legend.get_texts()]
