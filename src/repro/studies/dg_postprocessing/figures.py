"""Figures of filters in the plane (3.11 and 3.12): speed-ups and errors over the mesh size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from repro.results import figure_style
from repro.results.campaign_data import Campaign, Method
from repro.results.figure_forms import (
    CROSS,
    DASHED,
    PUBLISHED_LINE,
    UNITY,
    Axis,
    Curve,
    Curves,
    Fill,
    Pen,
    Reference,
    draw_panels,
)
from repro.results.figure_rows import Bars, Marks, Row, Rows
from repro.results.figure_style import COLUMN_WIDTH, GREY, OURS, PAPERS, TEXT_WIDTH
from repro.results.problem_lines import cpu_note, join_sentences, measurement_note, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, Interval, interval_of_ratio
from repro.results.tables import Figure
from repro.studies.dg_postprocessing import (
    CITED,
    FILTER_CLOCK,
    GAIN_CONTRADICTS,
    MAX_OVER_POINT,
    MIN_OVER_POINT,
    OVER_POINT,
    STATED_GPU,
    STUDY_NAME,
    results,
    stated_number,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Number = Callable[[results.Filtering], float | None]
#: Names and looks of the methods' curves and bars, and looks of degrees.
METHOD_PENS = {
    results.POINT: ("papers’, per point", Pen(GREY, "s", "-")),
    results.ELEMENT: ("papers’, per element", Pen(PAPERS.colour, PAPERS.marker, "-")),
    results.OURS: (OURS.label, Pen(OURS.colour, OURS.marker, "-")),
}
SCALING_FILLS = {results.ELEMENT: PAPERS.fill, results.OURS: OURS.fill}
DEGREE_PENS = {
    degree: Pen(colour, marker, "-")
    for degree, (colour, marker) in enumerate(
        ((figure_style.GREEN, "o"), (figure_style.PINK, "s"), (figure_style.VIOLET, "D")), 1
    )
}
#: Mesh sizes get separate ticks if they differ by more than this factor.
MIN_TICK_RATIO = 1.7


def family_fields(
    fields: Sequence[results.Filtering], family: str, degree: int | None = None
) -> list[results.Filtering]:
    """Return the fields of a family, for one degree or for all, sorted by mesh size."""
    members = [field for field in fields if field.family == family and field.triangles]
    return sorted(
        (field for field in members if degree in (None, field.degree)), key=lambda field: field.triangles or 0
    )


def drawn_families(fields: Sequence[results.Filtering], number: Number) -> list[str]:
    """Return the paper's families that have at least one field with a number."""
    return [name for name in results.FAMILIES if points(family_fields(fields, name), number)]


def drawn_degrees(fields: Sequence[results.Filtering], number: Number) -> list[int]:
    """Return the degrees for which at least one field of the paper's families has a number."""
    members = [field for name in results.FAMILIES for field in family_fields(fields, name)]
    return [degree for degree in DEGREE_PENS if any(f.degree == degree and number(f) is not None for f in members)]


def points(fields: Sequence[results.Filtering], number: Number) -> list[tuple[float, float]]:
    """Return numbers of triangles with a number of each field that has it."""
    return [(field.triangles or 0, value) for field in fields if (value := number(field)) is not None]


def mesh_axis(fields: Sequence[results.Filtering]) -> Axis:
    """Return an axis with ticks at the fields' mesh sizes."""
    sizes = mesh_ticks([field.triangles for field in fields if field.triangles and field.family in results.FAMILIES])
    limits = (sizes[0] / MIN_TICK_RATIO, sizes[-1] * MIN_TICK_RATIO) if sizes else (None, None)
    return Axis("triangles", "log", limits, {size: triangle_count_text(size) for size in sizes})


def mesh_ticks(sizes: Sequence[int]) -> list[int]:
    """Return the mesh sizes that get a tick, in ascending order: those well above the previous tick."""
    ticks: list[int] = []
    for size in sorted(sizes):
        if not ticks or size > MIN_TICK_RATIO * ticks[-1]:
            ticks.append(size)
    return ticks


def triangle_count_text(value: float) -> str:
    """Format a number of triangles with three digits, large numbers in thousands or millions."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:g}"


#: The degree for which the text states speed-ups on meshes of low variance.
CUBIC = 3
#: Horizontal distance in points between the marks of two degrees on one mesh, so that similar speedups do not overlap.
DEGREE_STEP = 5.0


@figure(STUDY_NAME, "figure-3-11", title="Per element over per point", numbering=f"Figure 3.11 of {CITED}")
def speedup(campaign: Campaign, published: Published) -> Figure:
    """Speedups over the mesh size, one panel for each family: per-element over per-point method (exact and tuned), then
    ours.

    Times of the paper's methods are from the campaign that judges the claims on them. Our speedup over them is from
    that campaign too if it has our method, since both were then tuned in one search.
    """
    judging = campaign.as_published or campaign
    judged_fields = results.all_filterings(judging, published)
    has_ours = any(field.over(results.ELEMENT_TUNED, results.OURS) for field in judged_fields)
    source = judging if has_ours else campaign
    fields = judged_fields if has_ours else results.all_filterings(campaign, published)
    lines = {
        name: value
        for name, degree in zip(results.FAMILIES, (CUBIC, None), strict=True)
        if (value := stated_number(published, OVER_POINT, name, degree))
    }
    ends = stated_number(published, MIN_OVER_POINT), stated_number(published, MAX_OVER_POINT)
    band = (ends[0], ends[1]) if ends[0] and ends[1] else None
    caption = [
        "Per element over per point: time of the paper’s per-point method over that of its per-element method, as",
        "published, with one block or patch per multiprocessor and the fastest number of threads (filled), and tuned",
        "over threads, cells and blocks (hollow). Ours over per element: time of the tuned per-element method over",
        "that of our contours. Above 1, the per-element method or ours is faster. A cross above the panel, or a",
        "missing row, means that one was not measured. Marks of one mesh are side by side.",
        _judging_note(campaign, has_ours),
        f"Tuned, {text}." if (text := results.choice_text(fields, results.ELEMENT_TUNED)) else "",
        _published_speedups(lines, band, campaign.on_cpu),
        WHISKERS if any(map(_interval(results.ELEMENT_TUNED, results.OURS), fields)) else "",
        cpu_note(campaign),
        measurement_note(source, FILTER_CLOCK),
        unavailable_note(source),
    ]
    if campaign.on_cpu:
        lines, band = {}, None
    names = [judging.name, *([] if has_ours else [campaign.name])]
    return Figure(
        lambda: draw_speedup(fields, judged_fields, lines, band),
        join_sentences(caption),
        clock=FILTER_CLOCK,
        campaigns=tuple(dict.fromkeys(names)),
    )


def _judging_note(campaign: Campaign, has_ours: bool) -> str:
    """Return the sentence on the drawn campaigns; `has_ours`: the campaign with exact kernels also has our method."""
    if campaign.as_published is None:
        return ""
    rest = (
        f"the figure belongs to {campaign.name}, which refers to it"
        if has_ours
        else f"ours over per element is from {campaign.name}"
    )
    return (
        f"{'All' if has_ours else 'Per element over per point'} is drawn from campaign {campaign.as_published.name} on "
        f"the same GPU model, which has the paper’s kernels to the letter and judges its claims; {rest}."
    )


def _published_speedups(lines: Mapping[str, float], band: tuple[float, float] | None, is_cpu: bool) -> str:
    if not lines or not band:
        return ""
    gains = " and ".join(f"over {value:g}× for {name} variance" for name, value in lines.items())
    drawn_text = "not drawn beside a CPU’s" if is_cpu else "the dashed lines and the band"
    return (
        f"{CITED} states, for a {STATED_GPU}, {gains} (the first for P = {CUBIC}), and {band[0]:g}× to {band[1]:g}× "
        f"overall in its conclusions: {drawn_text}. {GAIN_CONTRADICTS}"
    )


#: The rows of the figure by the names of their ratios: pairs of the slower and the faster method. Marks are hollow if
#: the paper's methods of a pair are tuned.
SPEEDUPS: Mapping[str, Sequence[tuple[Method, Method]]] = {
    "per element over per point": results.PUBLISHED_PAIRS,
    "ours over per element": ((results.ELEMENT_TUNED, results.OURS),),
}


def _interval(slow: Method, fast: Method) -> Callable[[results.Filtering], Interval | None]:
    """Return a function that computes the confidence interval of one method's time over another's."""
    return lambda field: interval_of_ratio(field[slow], field[fast])


def draw_speedup(
    fields: Sequence[results.Filtering],
    judged_fields: Sequence[results.Filtering],
    lines: Mapping[str, float],
    band: tuple[float, float] | None,
) -> Canvas:
    """Draw the panels.

    Times of the paper's methods are those in `judged_fields`, of ours those in `fields`. `lines` (by family) and `band`
    are values from the dissertation's text, drawn if given.
    """
    members = {
        label: judged_fields if pairs is results.PUBLISHED_PAIRS else fields for label, pairs in SPEEDUPS.items()
    }
    timed_pairs = {
        label: [pair for pair in pairs if any(field.over(*pair) for field in members[label])]
        for label, pairs in SPEEDUPS.items()
    }

    def timed(label: str, candidates: Sequence[results.Filtering]) -> list[results.Filtering]:
        return [field for field in candidates if any(field.over(*pair) for pair in timed_pairs[label])]

    drawn = [field for label, candidates in members.items() for field in timed(label, candidates)]
    families, degrees = drawn_families(drawn, lambda field: 1), drawn_degrees(drawn, lambda field: 1)

    def curves(label: str, family: str, degree: int, index: int) -> list[Curve]:
        shown, pen = family_fields(members[label], family, degree), DEGREE_PENS[degree]._replace(dashes="")
        sizes = [field.triangles or 0 for field in timed(label, shown)]
        family_sizes = mesh_ticks([field.triangles or 0 for field in family_fields(drawn, family)])
        return [
            Curve(
                f"P = {degree}",
                pen._replace(is_hollow=pair != results.PUBLISHED_PAIRS[0]),
                points(shown, partial(results.Filtering.over, base=pair[0], method=pair[1])),
                [(field.triangles or 0, ends) for field in shown if (ends := _interval(*pair)(field))],
                [size for size in family_sizes if len(mesh_ticks([*sizes, size])) > len(mesh_ticks(sizes))],
                shift=DEGREE_STEP * (index - (len(degrees) - 1) / 2),
                has_key=False,
            )
            for pair in timed_pairs[label]
        ]

    def panel(label: str, family: str) -> Curves:
        stated = (lines.get(family), band) if SPEEDUPS[label] is results.PUBLISHED_PAIRS else ()
        references = [Reference(value) for value in stated if value]
        return Curves(
            [curve for index, degree in enumerate(degrees) for curve in curves(label, family, degree, index)],
            mesh_axis(drawn),
            Axis(label, limits=(0, None)),
            f"{family} variance" * (label == labels[0]),
            [*references, Reference(1, pen=UNITY)],
            height=1.6,
        )

    labels = [label for label, pairs in timed_pairs.items() if pairs]
    panels = [panel(label, family) for label in labels for family in families]
    keys: dict[str, Pen | Fill] = {f"P = {degree}": DEGREE_PENS[degree]._replace(dashes="") for degree in degrees}
    keys[f"{PAPERS.label}, to the letter"] = Pen(GREY, "o")
    keys[f"{PAPERS.label}, tuned"] = Pen(GREY, "o", is_hollow=True)
    if any(curve.crosses for panel in panels for curve in panel.curves):
        keys["not timed (above a panel)"] = CROSS
    if lines:
        keys[f"least gain published, {STATED_GPU}"] = PUBLISHED_LINE
    if band:
        keys["range of gains in its conclusions"] = Fill(figure_style.BAND)
    empty = "no two ways were timed on a field of this campaign"
    return draw_panels(panels, empty, across=len(families), is_shared="row", keys=keys)


@figure(
    STUDY_NAME, "figure-3-12", title="Speed-up over several GPUs", numbering=f"Figure 3.12 of {CITED}", needs="devices"
)
def scaling(campaign: Campaign, published: Published) -> Figure:
    """Speedup over several devices on the largest timed mesh: a panel per family, bars by degree, method, devices."""
    fields = results.all_filterings(campaign, published)
    is_empty = not results.device_counts(fields)
    caption = [
        "Time on one device over the time on several devices of the same host, for each family and degree on the",
        "largest mesh that was measured. Ours: values stay where they are computed. Per element: the paper’s method,",
        "whose second stage collects them on the first device; no bar if it was not timed. Lines: linear speedup. The",
        "paper draws P = 1 against the mesh size, on 1, 2, 4 and 8 Tesla M2090, and prints no speedups.",
        results.NO_DEVICES if is_empty else "",
        measurement_note(campaign, FILTER_CLOCK),
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_scaling(fields), join_sentences(caption), is_empty, clock=FILTER_CLOCK)


def draw_scaling(fields: Sequence[results.Filtering]) -> Canvas:
    counts = results.device_counts(fields)

    def largest_field(family: str, degree: int, way: Method) -> results.Filtering | None:
        candidates = family_fields(fields, family, degree)
        return next((field for field in candidates[::-1] if any(field.device_speedup(way, n) for n in counts)), None)

    largest = {
        (family, degree, way): field
        for family in results.FAMILIES
        for degree in DEGREE_PENS
        for way in results.DISTRIBUTED_METHODS
        if (field := largest_field(family, degree, way))
    }
    rows = [
        Row(f"P = {degree}, {n} devices", [(degree, n)])
        for degree in DEGREE_PENS
        for n in counts
        if any(key[1] == degree for key in largest)
    ]

    def panel(family: str) -> Rows[tuple[int, int]]:
        def bars(way: Method) -> Bars[tuple[int, int]]:
            def number(case: tuple[int, int]) -> float | None:
                field = largest.get((family, case[0], way))
                return field.device_speedup(way, case[1]) if field else None

            label = METHOD_PENS[way][0]
            return Bars(label, SCALING_FILLS[way], number, head=label.split(", ")[-1], absent="not timed")

        meshes = {triangle_count_text(field.triangles or 0) for key, field in largest.items() if key[0] == family}
        ideal = Marks[tuple[int, int]]("as many times as devices", Pen("black", "|", size=16), lambda case: case[1])
        title = f"{family} variance, {' or '.join(sorted(meshes))} triangles"
        bars_of_ways = [bars(way) for way in results.DISTRIBUTED_METHODS]
        return Rows(rows, "speedup over one device", bars_of_ways, [ideal], title, columns=2, row_height=0.3)

    panels = [panel(family) for family in results.FAMILIES if any(key[0] == family for key in largest)]
    width = TEXT_WIDTH if len(panels) > 1 else COLUMN_WIDTH
    return draw_panels(panels, "nothing was filtered over several devices in this campaign", width=width)


@figure(STUDY_NAME, "figure-errors", title="Errors before and after the filter", numbering="ours")
def errors(campaign: Campaign, published: Published) -> Figure:
    """Errors of the field before and after filtering over the mesh size: one panel for each family."""
    fields = results.all_filterings(campaign, published)
    caption = [
        "Errors in L² of fields that are projections of a known function, against the number of triangles: dashed",
        "lines and hollow marks before filtering, solid ones after it, where h is the longest edge. Numbers, orders",
        "and maximum errors are in table-errors.",
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_errors(fields), join_sentences(caption))


def draw_errors(fields: Sequence[results.Filtering]) -> Canvas:
    def before(field: results.Filtering) -> float | None:
        return found.l2 if (found := results.unfiltered_errors(field)) else None

    def filtered(field: results.Filtering) -> float | None:
        return found.l2 if (found := results.filtered_errors(field)) else None

    families, degrees = drawn_families(fields, filtered), drawn_degrees(fields, filtered)
    panels = [
        Curves(
            [
                Curve(
                    f"P = {degree}, {word}", pen, points(family_fields(fields, family, degree), number), has_key=False
                )
                for degree in degrees
                for word, number, pen in (
                    ("before the filter", before, DEGREE_PENS[degree]._replace(dashes=DASHED, is_hollow=True)),
                    ("filtered", filtered, DEGREE_PENS[degree]),
                )
            ],
            mesh_axis(fields),
            Axis("error in L²", "log"),
            f"{family} variance",
            height=2.2,
        )
        for family in families
    ]
    keys = {f"P = {degree}": DEGREE_PENS[degree] for degree in degrees}
    keys |= {"before the filter": Pen(GREY, dashes=DASHED), "filtered": Pen(GREY, dashes="-")}
    width = TEXT_WIDTH if len(families) > 1 else COLUMN_WIDTH
    return draw_panels(panels, "no errors are known in this campaign", width=width, is_shared=True, keys=keys)
