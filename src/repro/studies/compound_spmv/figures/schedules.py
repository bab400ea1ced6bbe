"""Figures 1 and 7: time over threads per block and blocks per SM."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from repro.artifacts import style
from repro.artifacts.case import median
from repro.artifacts.cells import digits
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import MARK, context, is_marked, measured_on, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.recorded import paper_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

PREFERRED = "fem/NX_MotorH67k"
PRECISION = "double"
MICRO = 1e6


@dataclass(frozen=True)
class Surface:
    """Median times of one layout and kind of schedule.

    Attributes
    ----------
    title
        Layout and kind.
    n_t, n_b
        Sorted values along the axes.
    seconds
        `(len(n_b), len(n_t))`, NaN where there is no time.
    failed
        bool, same shape: a variant was tried there and has no valid time.
    screened
        Times that come from a few screening launches only.
    """

    title: str
    n_t: tuple[int, ...]
    n_b: tuple[int, ...]
    seconds: NDArray[np.float64]
    failed: NDArray[np.bool_]
    screened: int


def surface(campaign: Campaign, problem: str, layout: str, kind: str) -> Surface:
    """Collect the times of one layout and kind of schedule from the search."""
    rows = [
        row
        for row in paper_rows(campaign, problem, PRECISION)
        if row["layout"] == layout and row["schedule"] == kind and None not in (row["n_t"], row["n_b"])
    ]
    n_t = tuple(sorted({int(row["n_t"]) for row in rows}))
    n_b = tuple(sorted({int(row["n_b"]) for row in rows}))
    seconds = np.full((len(n_b), len(n_t)), np.nan)
    failed = np.zeros(seconds.shape, dtype=bool)
    screened = 0
    for row in rows:
        at = n_b.index(int(row["n_b"])), n_t.index(int(row["n_t"]))
        time = median(row, "event")
        failed[at] = time is None
        if time is not None:
            seconds[at] = time
            screened += row["protocol"] == "screen"
    return Surface(f"{layout}, {kind}", n_t, n_b, seconds, failed, screened)


def choose_problem(campaign: Campaign) -> tuple[str, str] | None:
    """Return the problem to show and why: the papers', else the largest 3×3 one searched, else the largest."""
    measured = [r for r in campaign.problems.values() if paper_rows(campaign, r.name, PRECISION)]
    measured = [r for r in measured if r.available]
    if not measured:
        return None
    for record in measured:
        if PREFERRED in (record.name, record.stand_in):
            theirs = "the papers’ problem rebuilt" if is_marked(record) else "the papers’ problem"
            return record.name, theirs if record.name == PREFERRED else "its stand-in"
    blocks = [record for record in measured if record.entry == "block3"]
    largest = max(blocks or measured, key=lambda r: (r.nnz or 0, r.name))
    return largest.name, f"the largest {'3×3 ' if blocks else ''}problem searched in {PRECISION} precision"


def _make(campaign: Campaign, number: int, pairs: tuple[tuple[str, str], ...], what: str) -> Figure:
    chosen = choose_problem(campaign)
    if chosen is None:
        why = f"Nothing was searched in {PRECISION} precision in this campaign."
        return Figure(lambda: style.empty(why), why)
    problem, reason = chosen
    record = campaign.problems[problem]
    label = f"{problem}{MARK}" if is_marked(record) else problem
    surfaces = [surface(campaign, problem, layout, kind) for layout, kind in pairs]
    shown = [
        f"{s.title}: {digits(np.nanmin(s.seconds) * MICRO)} to {digits(np.nanmax(s.seconds) * MICRO)} µs"
        for s in surfaces
        if np.isfinite(s.seconds).any()
    ]
    failed = sum(int(s.failed.sum()) for s in surfaces)
    screened = sum(s.screened for s in surfaces)
    timed = sum(int(np.isfinite(s.seconds).sum()) for s in surfaces)
    unit = "compute unit" if campaign.on_cpu else "SM"
    caption = [
        f"Time over threads per block n_t and blocks per {unit} n_b: {what}, {PRECISION} precision.",
        f"Figure {number} of {PAPER} shows NX_MotorH67k on the GP100 and prints no values;",
        f"ours is {problem}, {reason}. A white star marks the fastest pair, a cross one without a valid time;",
        "blank pairs are outside of the device’s limits.",
        f"{MARK} {problem}: {record.remark}." if is_marked(record) else "",
        f"{'; '.join(shown)}." if shown else "",
        f"{screened} of {timed} times are from the few launches of the screening.",
        f"{failed} variants without a valid time." if failed else "",
        measured_on(campaign, "event", "the search"),
        context(campaign),
    ]
    what = f"{label}, {PRECISION} precision"
    if is_marked(record):
        what += f" ({MARK} {record.remark})"
    return Figure(lambda: _draw(surfaces, what, unit), sentences(caption))


@figure(STUDY, "figure-1", title="Time over the schedule for two layouts", numbering=f"Figure 1 of {PAPER}")
def layouts(campaign: Campaign, published: Published) -> Figure:
    """Static schedules of CSR-AoS-AoS and ELL-SoA-AoS."""
    pairs = (("CSR-AoS-AoS", "static"), ("ELL-SoA-AoS", "static"))
    return _make(campaign, 1, pairs, "the static schedule in CSR-AoS-AoS and in ELL-SoA-AoS")


@figure(STUDY, "figure-7", title="Time over the schedule, static and dynamic", numbering=f"Figure 7 of {PAPER}")
def kinds(campaign: Campaign, published: Published) -> Figure:
    """Static and dynamic schedules of ELL-AoS-SoA."""
    pairs = (("ELL-AoS-SoA", "static"), ("ELL-AoS-SoA", "dynamic"))
    return _make(campaign, 7, pairs, "static and dynamic schedules in ELL-AoS-SoA")


def _draw(surfaces: list[Surface], what: str, unit: str) -> Canvas:
    times = np.concatenate([s.seconds[np.isfinite(s.seconds)] for s in surfaces]) * MICRO
    if not times.size:
        return style.empty(f"no valid time of these layouts for {what}")
    norm = LogNorm(times.min(), times.max() if times.max() > times.min() else times.min() * 1.01)
    rows = max(len(s.n_b) for s in surfaces)
    panel = 0.19 * max(rows, 4)  # inches
    drawn = style.canvas(style.TEXT, 1.0 + panel)
    panels = drawn.subplots(1, len(surfaces), squeeze=False)[0]
    for axes, one in zip(panels, surfaces, strict=True):
        _panel(axes, one, norm)
    panels[0].set_ylabel(f"blocks per {unit} $n_b$")
    bar = drawn.colorbar(
        ScalarMappable(norm, style.HEAT), ax=list(panels), label="median time [µs]", pad=0.02, aspect=25
    )
    bar.set_ticks(ticks := _ticks(norm, 0.12 / panel), labels=[f"{x:g}" for x in ticks])
    bar.ax.yaxis.set_minor_locator(NullLocator())
    drawn.suptitle(what, fontsize=7.5)
    return drawn


def _ticks(norm: LogNorm, gap: float) -> list[float]:
    """Return round numbers, and both ends to three digits, no two nearer than that share of the axis."""
    low, high = norm.vmin or 1.0, norm.vmax or 1.0
    apart = (high / low) ** gap
    chosen = [float(f"{x:.3g}") for x in (low, high)]
    for steps in ((1.0,), (2.0, 5.0), (1.5, 3.0, 4.0, 7.0)):
        for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
            for tick in (step * 10.0**decade for step in steps):
                if low < tick < high and all(max(tick / other, other / tick) > apart for other in chosen):
                    chosen.append(tick)
    return sorted(set(chosen))


def _panel(axes: Axes, one: Surface, norm: LogNorm) -> None:
    finite = one.seconds[np.isfinite(one.seconds)] * MICRO
    span = f": {digits(finite.min())} to {digits(finite.max())} µs" if finite.size else ""
    axes.set_title(one.title + span)
    axes.set_xlabel("threads per block $n_t$")
    axes.set_xticks(np.arange(len(one.n_t)) + 0.5, [str(v) for v in one.n_t], rotation=45)
    axes.set_yticks(np.arange(len(one.n_b)) + 0.5, [str(v) for v in one.n_b])
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    if not one.n_t:
        axes.text(0.5, 0.5, "not searched", ha="center", color=style.GREY, transform=axes.transAxes)
        return
    shown = np.ma.masked_invalid(one.seconds * MICRO)
    axes.pcolormesh(shown, cmap=style.HEAT, norm=norm, edgecolors="white", linewidth=0.3)
    for i, j in zip(*np.nonzero(one.failed), strict=True):
        axes.plot(j + 0.5, i + 0.5, "x", color=style.ACCENT, markersize=5, markeredgewidth=1)
    if np.isfinite(one.seconds).any():
        i, j = np.unravel_index(int(np.nanargmin(one.seconds)), one.seconds.shape)
        axes.plot(j + 0.5, i + 0.5, "*", color="white", markeredgecolor="black", markeredgewidth=0.6, markersize=8)
