"""Memory against defragmentations: a panel a problem, a line for each number of segments, a mark for each slack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import Line, footnote, ours, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.shared_cells import facts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Panels in a row, and inches of a row of them.
ACROSS, ROW = 4, 1.5
#: Of the axis of defragmentations, which is logarithmic above 1.
TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
#: Colours and dashes by segments a row, marks by the slack in parts of the mean row size.
LOOKS: dict[int, tuple[str, Any]] = {
    1: (style.GREY, (0, (1, 1))),
    2: (style.GREEN, (0, (3, 1))),
    3: (style.ACCENT, (0, (5, 1, 1, 1))),
    4: (style.DARK, "-"),
}
MARKS = {0.0: ("o", "0"), 0.5: ("v", "µ/2"), 1.0: ("s", "µ"), 2.0: ("D", "2 µ"), 4.0: ("^", "4 µ")}


@figure(STUDY, "figure-room", title="Memory against defragmentations", numbering="ours")
def room(campaign: Campaign, published: Published) -> Figure:
    """A panel a problem that has batches."""
    lines = [line for line in ours(campaign, published) if facts_of(line).get("room")]
    caption = [
        "Memory against defragmentations while all batches of a problem are inserted one after the other: the most",
        "entries that segments had room for, over the entries of the grown matrix, and how many batches found a row",
        "whose k segments were full, so that all rows were brought together, with room for that batch only. Slack α:",
        "the room that a new segment has beside the entries it is made for, in parts of the mean row size µ of the",
        "matrix before the first batch, cut off. At first each row has one segment without room. Where marks coincide",
        "the larger k hides the smaller. While rows are brought together the old segments are there as well: that",
        "memory, and the table of segments, is not counted.",
        "Nothing of this was timed: it is simulated on the host from the sizes of the rows and of the batches, in a",
        "buffer that is never too small, and depends on no device. The paper has α = µ and k = 4, and publishes",
        "nothing of this.",
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(lines, footnote(lines)), sentences(caption))


def draw(lines: Sequence[Line], mark: str | None) -> Canvas:
    """Draw the panels.

    Parameters
    ----------
    mark
        What a mark at a name means; None where there is none.
    """
    if not lines:
        return style.empty("no problem of this campaign has batches on record")
    across = min(ACROSS, len(lines))
    down = -(-len(lines) // across)
    drawn = style.canvas(max(style.COLUMN, style.TEXT * across / ACROSS), 0.9 + ROW * down)
    panels = drawn.subplots(down, across, squeeze=False).ravel()
    for axes, line in zip(panels, lines, strict=False):
        _draw_panel(axes, line)
    for axes in panels[len(lines) :]:
        axes.set_axis_off()
    drawn.supxlabel("defragmentations", fontsize=7)
    drawn.supylabel("room / entries of the grown matrix", fontsize=7)
    handles = [
        *(
            Line2D([], [], color=colour, linestyle=dashes, label=f"k = {segments}")
            for segments, (colour, dashes) in LOOKS.items()
        ),
        *(
            Line2D([], [], linestyle="", marker=marker, markersize=3.4, color="black", label=f"α = {label}")
            for marker, label in MARKS.values()
        ),
    ]
    columns = len(handles) if across > 2 else -(-len(handles) // 2)
    drawn.legend(handles=handles, loc="outside upper left", ncols=columns, handlelength=1.6, columnspacing=0.9)
    style.footnote(drawn, mark)
    return drawn


def _draw_panel(axes: Axes, line: Line) -> None:
    facts = facts_of(line)
    grown = facts["nonzeros"] + facts["batches"]["entries"]
    rooms: list[dict[str, Any]] = facts["room"]
    for segments, (colour, dashes) in LOOKS.items():
        points = [
            (item["defragmentations"], item["allocated"] / grown, item["multiple"])
            for item in rooms
            if item["segments"] == segments
        ]
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], color=colour, linestyle=dashes, zorder=2)
        for x, y, multiple in points:
            axes.plot([x], [y], linestyle="", marker=MARKS[multiple][0], markersize=3.2, color=colour, zorder=3)
    axes.set_title(line.label)
    axes.grid(axis="both")
    batches = facts["batches"]["count"]
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.set_xlim(-0.25, 1.3 * batches)
    axes.set_xticks([tick for tick in TICKS if tick <= batches])
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    # no room less than the entries: the axis begins, and has a tick, at them
    high = max(1.1, *(item["allocated"] / grown for item in rooms))
    axes.set_ylim(1 - 0.05 * (high - 1), high + 0.05 * (high - 1))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
