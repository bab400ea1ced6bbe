"""Figures of sparse products and multigrid: GFLOPS, stages of the set-up, and speedups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from repro.results import figure_style
from repro.results.campaign_data import Campaign, Method, brief_reason
from repro.results.figure_forms import DASHED, PUBLISHED_MARK, UNITY, Fill, Pen, Reference, figure_of
from repro.results.figure_rows import Bars, Marks, Row, Rows, Segment, Stack, ratio_bars
from repro.results.figure_style import GREY, LIBRARY, OURS, PAPERS, Look
from repro.results.problem_lines import cpu_note, mark_meanings, measurement_note, remarks, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, Interval, geometric_mean, relative_interval, scaled_interval
from repro.results.tables import Figure
from repro.sparse.tuning_features import library_of
from repro.studies.spgemm_amg import CITED, PRODUCTS, SETUP_STAGES, STUDY_NAME, results, study

#: Colours of the set-up's stages, and patterns of those that look alike in greyscale.
STAGES = {
    "galerkin": (figure_style.VIOLET, ""),
    "radius": (figure_style.PINK, "////"),
    "aggregates": (figure_style.GREEN, ""),
    "tentative": ("#f0e442", ""),
    "prolongator": (figure_style.PALE, "---"),
    "transpose": (GREY, "xxxx"),
}
#: Colours of the set-up's levels; the last is that of all further ones too.
LEVELS = {"level 1": "#252525", "level 2": "#737373", "level 3": "#a6a6a6", "level 4 and coarser": "#d0d0d0"}


@figure(STUDY_NAME, "figure-setup", title="Phases of the set-up", numbering="ours")
def setup(campaign: Campaign, published: Published) -> Figure:
    """Times of the set-up's stages, one row for each problem: milliseconds on the left, shares on the right."""
    all_cases = results.all_times(campaign, published)
    cases = [case for case in all_cases if not case.is_squared_alone]
    squared = [case.line.problem for case in all_cases if case.is_squared_alone]
    lines = [case.line for case in cases]
    share = study.published_range(published, study.SHARE_MIN, study.SHARE_MAX)
    caption = [
        "The phases of the set-up with our kernels: medians by events, in separate samples. A phase that waits for a",
        "size includes host time. Left: all phases of each level, the finest first. Right: shares of the phases over",
        "all levels, the Galerkin products R·(A·P) first.",
        f"Left out because they are only squared: {', '.join(squared)}." if squared else "",
        _published_share(share, campaign.on_cpu),
        cpu_note(campaign),
        f"{campaign.main_precision.capitalize()} precision.",
        measurement_note(campaign, results.EVENT),
        remarks(lines),
        unavailable_note(campaign),
    ]
    rows = [Row(case.line.label, [case], reason=brief_reason(case.why_not(results.LEVEL))) for case in cases]
    keys = {SETUP_STAGES[name]: Fill(*look) for name, look in STAGES.items()}
    most = max((len(case.levels) for case in cases), default=0)
    levels = {name: Fill(colour) for name, colour in [*LEVELS.items()][:most]}
    ends = [] if campaign.on_cpu or share is None else [100 * end for end in share]
    entry, pen = f"published Galerkin share, {study.GPU}", Pen("black", dashes=DASHED, width=0.9, zorder=4)
    panels = [
        Rows(rows, "time of the phases, level by level [ms]", [Stack(_milliseconds, levels)], row_height=STAGES_ROW),
        Rows(
            rows,
            "share of all phases [%]",
            [Stack(_shares, keys)],
            references=[Reference(end, entry, pen) for end in ends],
            right=100,
            row_height=STAGES_ROW,
        ),
    ]
    empty = "no set-up was timed phase by phase in this campaign"
    return figure_of(panels, empty, caption, clock=results.EVENT, mark=mark_meanings(lines))


STAGES_ROW = 0.26


def _milliseconds(case: results.ProblemTimes) -> list[Segment]:
    """Return the levels, by the times of all their stages."""
    times = [results.MILLI * sum(results.stages_of(level.row).values()) for level in case.levels]
    looks = [*LEVELS.items()]
    looks += looks[-1:] * len(times)
    return [Segment(name, time, colour) for time, (name, colour) in zip(times, looks, strict=False)]


def _shares(case: results.ProblemTimes) -> list[Segment]:
    """Return the stages of all levels by their shares in percent; that of the Galerkin products is written."""
    if not case.stages:
        return []
    shares = {name: 100 * case.stages[name] / sum(case.stages.values()) for name in STAGES}
    texts = {"galerkin": f"{shares['galerkin']:.0f} %"}  # left of the published range
    return [Segment(SETUP_STAGES[name], shares[name], *look, texts.get(name, "")) for name, look in STAGES.items()]


def _published_share(share: tuple[float, float] | None, is_cpu: bool) -> str:
    if share is None:
        return ""
    drawn_text = "not drawn beside a CPU’s" if is_cpu else "between the dashed lines"
    return (
        f"{CITED} states, for a {study.GPU}, that the Galerkin products are {100 * share[0]:.0f} to "
        f"{100 * share[1]:.0f} % of the set-up: {drawn_text}."
    )


#: Markers of the two products within the set-up, which are hollow.
MARKS: Mapping[str, str] = {"AP": "o", "RAP": "s"}
Number = Callable[[results.ProblemTimes], float | None]
ProblemBars = Bars[results.ProblemTimes]
ProblemMarks = Marks[results.ProblemTimes]


def _pairs_of_times(
    problem: results.ProblemTimes, method: Method, products: Sequence[str]
) -> list[tuple[results.Time, results.Time]]:
    """Return for each product the times of sorting all products and of a method; empty if one is missing."""
    times = [problem.product(name) for name in products]
    pairs = [(base, own_time) for time in times if (base := time[results.COORDINATES]) and (own_time := time[method])]
    return pairs if len(pairs) == len(products) else []


def _galerkin(method: Method, *products: str) -> Number:
    """Return a function for the speedup of the Galerkin products together over sorting all products."""

    def number(problem: results.ProblemTimes) -> float | None:
        pairs = _pairs_of_times(problem, method, products)
        return (
            sum(base.seconds for base, _ in pairs) / sum(own_time.seconds for _, own_time in pairs) if pairs else None
        )

    return number


def _galerkin_interval(method: Method, *products: str) -> Callable[[results.ProblemTimes], Interval | None]:
    """Return a function for the interval of `_galerkin`, over the sums of the products' medians in each round."""

    def interval(problem: results.ProblemTimes) -> Interval | None:
        sides = zip(*_pairs_of_times(problem, method, products), strict=True)
        rounds = [
            [[sum(map(median, samples))] for samples in zip(*(time.rounds for time in side), strict=False)]
            for side in sides
        ]
        number, factors = _galerkin(method, *products)(problem), relative_interval(*rounds) if rounds else None
        return scaled_interval(factors, number) if number else None

    return interval


def product_bars(look: Look, method: Method) -> ProblemBars:
    """Return the bars of both Galerkin products together."""
    return Bars(look.label, look.fill, _galerkin(method, *MARKS), _galerkin_interval(method, *MARKS))


def product_mark(look: Look, method: Method, product: str) -> ProblemMarks:
    """Return the marks of one Galerkin product on the bars of both."""
    pen = Pen(look.colour, MARKS[product], is_hollow=True, size=3, zorder=5)
    return Marks(f"{look.label}, {PRODUCTS[product]} alone", pen, _galerkin(method, product), look.label, has_key=False)


def set_up_bars(look: Look, method: Method) -> ProblemBars:
    """Return the bars of the whole set-up."""
    return ratio_bars(look.label, look.fill, lambda case: (case[results.COORDINATE_SET_UP], case[method]))


@figure(
    STUDY_NAME,
    "figure-6-1",
    title="Products and set-up over a sort of all products, not over the library",
    numbering=f"Figure 6.1 of {CITED}",
)
def speedup(campaign: Campaign, published: Published) -> Figure:
    """Speedups over sorting all products, one row for each problem: products on the left, set-up on the right."""
    all_cases = results.all_times(campaign, published)
    cases = [  # some problems only have rows of A·A
        case
        for case in all_cases
        if not case.case.is_measured
        or any(case.product(product).rows for product in MARKS)
        or case.case.select(what="setup")
    ]
    omitted_problems = [case.line.problem for case in all_cases if case not in cases]
    is_gpu = not campaign.on_cpu
    band = study.published_range(published, study.SHORT_MIN, study.SHORT_MAX)
    best = study.published_value(published, study.BEST)
    looks = {
        results.OURS: OURS,
        results.PAPER_KERNELS: PAPERS,
        results.LIBRARY: LIBRARY._replace(label=f"{library_of(campaign)}, fastest"),
    }
    set_ups = [set_up_bars(OURS, results.OUR_SET_UP), set_up_bars(PAPERS, results.PAPERS_SET_UP)]
    bars = {"A·P and R·(A·P)": [product_bars(look, method) for method, look in looks.items()], "set-up": set_ups}

    def panel(
        task: str, title: str, quantity: str, missing: str, marks: Sequence[ProblemMarks], lines: list[Reference]
    ) -> Rows[results.ProblemTimes]:
        stated = _stated(published, quantity) if is_gpu else {}
        diamonds = ProblemMarks(
            f"published, {study.GPU}", PUBLISHED_MARK, lambda case: stated.get(case.line.published or "")
        )
        rows = [
            Row(case.line.label, [case], reason=missing if case.case.is_measured else brief_reason(case.case.why_not()))
            for case in cases
        ]
        return Rows(
            rows,
            "speedup over the sort of all products",
            bars[task],
            [*marks, diamonds],
            title,
            [*lines, Reference(1, pen=UNITY)],
            scale="log",
            within=(0.9, 2.0),
            row_height=0.36,
        )

    panels = [
        panel(
            "A·P and R·(A·P)",
            "the first level’s A·P and R·(A·P)",
            study.BEST,
            "products were not timed",
            [product_mark(look, method, product) for method, look in looks.items() for product in MARKS],
            [
                *([Reference(best, "published best")] if is_gpu and best is not None else []),
                *([Reference(band, "published, rows ≤ 2,048")] if is_gpu and band else []),
            ],
        ),
        panel("set-up", "the set-up of all levels", study.SET_UP, "set-ups were not timed", [], []),
    ]
    keys = {
        f"{PRODUCTS[product]} alone": Pen(GREY, marker, is_hollow=True, size=3) for product, marker in MARKS.items()
    }
    lines = [case.line for case in cases]
    caption = [
        "Speedup over sorting all products by row and column, the paper’s baseline. Axes are logarithmic, and bars",
        "begin at 1.",
        "Left: the two products of the first level’s set-up, A·P and R·(A·P), with their times added; circles and",
        "squares show each alone. Right: the whole set-up, in which only the products differ. The paper’s kernels:",
        "rows in bins by their products, sorted in shared memory. Ours: products by our fastest kernels in one phase",
        f"or two; the set-up by the kernels expected to be fastest, in one phase. {library_of(campaign)}: its fastest",
        "routine for each product; the paper does not compare with it.",
        WHISKERS if any(bar.interval(case) for series in bars.values() for bar in series for case in cases) else "",
        f"Not drawn, because neither was tried: {', '.join(omitted_problems)}." if omitted_problems else "",
        _means(bars, cases),
        _published_speedups(published, is_gpu),
        cpu_note(campaign),
        f"{campaign.main_precision.capitalize()} precision.",
        measurement_note(campaign, results.HOST),
        remarks(lines),
        unavailable_note(campaign),
    ]
    empty = "neither products nor set-ups were measured in this campaign"
    return figure_of(panels, empty, caption, clock=results.HOST, keys=keys, mark=mark_meanings(lines))


def _stated(published: Published, quantity: str) -> dict[str, float]:
    numbers = {name: study.published_value(published, quantity, name) for name in published.problems}
    return {name: number for name, number in numbers.items() if number is not None}


def _means(bars: Mapping[str, Sequence[ProblemBars]], cases: Sequence[results.ProblemTimes]) -> str:
    """Return the sentence with the geometric means; empty if there are none."""
    means = {
        f"{task}, {bar.label}": geometric_mean(map(bar.number, cases))
        for task, series in bars.items()
        for bar in series
    }
    texts = [f"{label}: {mean:.2f}×" for label, mean in means.items() if mean]
    return f"Geometric means: {'; '.join(texts)}." if texts else ""


def _published_speedups(published: Published, is_gpu: bool) -> str:
    """Return the speedups stated in the paper's text; empty if none are published."""
    best, short = (
        study.published_value(published, study.BEST),
        study.published_range(published, study.SHORT_MIN, study.SHORT_MAX),
    )
    if best is None or short is None:
        return ""
    drawn = "line, band and diamonds" if is_gpu else "not drawn beside a CPU’s"
    ratios = [
        f"{number:g}× for the {task} of {name}"
        for task, quantity in (("products", study.BEST), ("set-up", study.SET_UP))
        for name, number in _stated(published, quantity).items()
    ]
    return (
        f"{CITED} states, for a {study.GPU}, more than {best:g}× at best, {short[0]:g}× to {short[1]:g}× for "
        f"matrices without a row of more than 2,048 products, and {', '.join(ratios)}: {drawn}. Its other bars are not "
        "printed as numbers."
    )
