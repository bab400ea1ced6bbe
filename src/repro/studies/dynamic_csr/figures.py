"""The paper's figures (5.3 to 5.5): updates, GFLOPS of the products, speedup over several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from repro.results import figure_style
from repro.results.campaign_data import Campaign, brief_reason
from repro.results.figure_forms import PUBLISHED_MARK, UNITY, Axis, Curve, Curves, Pen, Reference, figure_of
from repro.results.figure_rows import Bars, Marks, Row, Rows, ratio_bars
from repro.results.figure_style import GREY, LIBRARY, OURS, PAPERS
from repro.results.problem_lines import (
    cpu_note,
    mark_meanings,
    measurement_note,
    problem_lines,
    remarks,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS
from repro.results.tables import Figure
from repro.studies.dynamic_csr import (
    CITED,
    PRODUCTS_PER_BATCH,
    STUDY_NAME,
    number_of,
    results,
    stated_device_means,
    stated_graph_speedups,
    stated_speedups,
)

PUBLISHED_GPU = "K20c"
PickTimes = Callable[[results.DynamicCase], results.TimePair]
UpdateBars = Bars[results.DynamicCase]


def _as_published(times: PickTimes) -> PickTimes:
    """Return the same times of the campaign of the paper's updates as published, where there is one."""

    def published_times(case: results.DynamicCase) -> results.TimePair:
        judging = case.campaign.as_published
        return times(results.DynamicCase(judging, case.problem, case.precision) if judging else case)

    return published_times


ITERATIVE_BARS = (
    ratio_bars(OURS.label, OURS.fill, results.iterative_pair(results.DCSR)),
    ratio_bars(PAPERS.label, PAPERS.fill, _as_published(results.iterative_pair(results.DCSR_PUBLISHED))),
    ratio_bars("CSR rebuilt", GREY, results.iterative_pair(results.REBUILD)),
    ratio_bars("cuSPARSE csrgeam2", LIBRARY.fill, results.iterative_pair(results.GEAM)),
)
_PUBLISHED_STREAMS = (
    _as_published(results.streaming_pair(order, results.DCSR_PUBLISHED)) for order in (results.SORTED, results.ANY)
)
STREAMING_BARS = (
    ratio_bars("ours, by row", OURS.fill, results.streaming_pair(results.SORTED)),
    ratio_bars("ours, any order", OURS.fill, results.streaming_pair(results.ANY), hatch="////"),
    ratio_bars("papers’, by row", PAPERS.fill, next(_PUBLISHED_STREAMS)),
    ratio_bars("papers’, any order", PAPERS.fill, next(_PUBLISHED_STREAMS), hatch="////"),
)
PAPERS_BARS = (ITERATIVE_BARS[1], *STREAMING_BARS[2:])


@figure(STUDY_NAME, "figure-5-3", title="Streaming and iterative updates over HYB", numbering=f"Figure 5.3 of {CITED}")
def updates(campaign: Campaign, published: Published) -> Figure:
    """Speedups of updates, one row for each problem: iterative updates on the left, streaming updates on the right."""
    sweeps = {sweep.line.problem for sweep in results.batch_sweeps(campaign, published)}
    recorded_problems = [line for line in problem_lines(campaign, published) if line.record is not None]
    lines = [line for line in recorded_problems if line.problem not in sweeps]
    cases = [results.DynamicCase(campaign, line.problem, results.operation_precision(campaign)) for line in lines]
    mean, best, max_rate = (
        published.quantity(f"speedup of {updates} updates over HYB, {rank}", gpu=PUBLISHED_GPU)
        for updates, rank in (("streaming", "mean"), ("streaming", "largest"), ("iterative", "largest"))
    )
    own_bars = [
        bars for bars in (*ITERATIVE_BARS, *STREAMING_BARS) if not (campaign.as_published and bars in PAPERS_BARS)
    ]
    has_whiskers = any(bars.interval(case) for bars in own_bars for case in cases)
    has_papers = any(bars.number(case) for bars in PAPERS_BARS for case in cases)
    is_gpu = not campaign.on_cpu
    marks_text = "diamonds" if is_gpu else "they are not drawn beside a CPU’s"
    published_speedups = published_bars(published) if is_gpu else {}
    by_problem = {line.problem: published_speedups.get(line.published or "") for line in lines}
    diamonds = Marks[results.DynamicCase](
        f"published, {PUBLISHED_GPU}", PUBLISHED_MARK, lambda case: by_problem[case.problem]
    )

    def panel(
        title: str, bars: Sequence[UpdateBars], operation: str, missing: str, published_numbers: Sequence[Reference]
    ) -> Rows[results.DynamicCase]:
        def reason(case: results.DynamicCase) -> str:
            if not case.is_measured:
                return brief_reason(case.why_not())
            return results.update_failure(case, (results.DCSR, results.HYB), operation) or missing

        return Rows(
            [Row(line.label, [case], reason=reason(case)) for line, case in zip(lines, cases, strict=True)],
            "speedup over HYB",
            bars,
            [diamonds] if operation == "stream" and is_gpu else [],
            title,
            [*(published_numbers if is_gpu else ()), Reference(1, pen=UNITY)],
            row_height=0.3,
        )

    entry = f"published: iterative largest {max_rate}; streaming mean {mean}, largest {best}"
    iterative, streaming = ([Reference(float(text), entry) for text in texts] for texts in ((max_rate,), (mean, best)))
    title = f"iterative: a batch and {PRODUCTS_PER_BATCH} products"
    panels = [
        panel(title, ITERATIVE_BARS, "iterate", "was not iterated with HYB", iterative),
        panel("streaming: the whole matrix", STREAMING_BARS, "stream", "was not streamed into both", streaming),
    ]
    caption = [
        "Speedup over HYB. Left (the paper’s upper half): batches are inserted one after the other, each followed by",
        f"{PRODUCTS_PER_BATCH} products; HYB’s total time over that of each format. Batches are sorted by row.",
        "Products use nothing that a batch would change: dynamic CSR bins its rows by their sizes before the first",
        "batch (the paper’s adaptive product), CSR uses as many threads per row as suit its mean row, more for longer",
        "rows. HYB sorts its coordinates with every batch. CSR is rebuilt with every batch: rows are counted, sizes",
        "summed and rows copied, or cuSPARSE’s csrgeam2 adds the batch.",
        results.geam_sentence(campaign),
        _papers_note(campaign) if has_papers else "",
        "The paper’s graphs, and their stand-ins, get 50 batches of random entries, each 0.2 % of the matrix.",
        "Sweeps, whose batches grow in size, are not drawn." if sweeps else "",
        "Right (the paper’s lower half): the grown matrix is inserted as one batch into an empty one, whose rows have",
        "a segment of mean size; HYB’s time, including its sort, over dynamic CSR’s, with entries by row or in any",
        "order.",
        WHISKERS if has_whiskers else "",
        _means_sentence(cases),
        f"{CITED} states, for a {PUBLISHED_GPU}, a mean of {mean}× and a maximum of {best}× for streaming, and up",
        f"to {max_rate}× for iterative updates. Its bars for streaming are recovered from Table 5.4 (HYB’s update over",
        f"DCSR’s), where an update is “1000 updates”, which the text does not define: {marks_text}.",
        f"{results.operation_precision(campaign).capitalize()} precision; the paper does not state the precision of",
        "its updates.",
        measurement_note(campaign, results.OPERATION_CLOCK),
        cpu_note(campaign),
        remarks(lines),
        unavailable_note(campaign),
    ]
    judging = campaign.as_published if has_papers else None
    return figure_of(
        panels,
        "no updates were measured in this campaign",
        caption,
        clock=results.OPERATION_CLOCK,
        campaigns=(campaign.name, judging.name) if judging else (),
        mark=mark_meanings(lines),
    )


def _papers_note(campaign: Campaign) -> str:
    """Return the sentence on the bars of the paper's updates."""
    judging = campaign.as_published
    source = f", from campaign {judging.name} on the same GPU model, over HYB there" if judging else ""
    intervals = " Their whiskers are 95 % intervals over the rounds of that campaign." if judging else ""
    return (
        f"Light: our implementation of the paper’s algorithms 4, 5 and 7{source}. It judges the paper’s claims, and "
        f"has no bar where it was not timed.{intervals}"
    )


def published_bars(published: Published) -> dict[str, float]:
    """Return the published bars of streaming updates for each problem, computed from Table 5.4."""
    pairs = {
        item["problem"]: (number_of(item["HYB_update"]), number_of(item["DCSR_update"]))
        for item in published["operations"]
    }
    return {problem: hybrid / dynamic for problem, (hybrid, dynamic) in pairs.items() if hybrid and dynamic}


def _means_sentence(cases: Sequence[results.DynamicCase]) -> str:
    """Return the sentence with the means and the largest ratios of ours and the paper's; empty if there are none."""
    texts = []
    for updates, all_bars in (("iterative", ITERATIVE_BARS[:2]), ("streaming", STREAMING_BARS)):
        for bars in all_bars:
            numbers = [number for case in cases if (number := bars.number(case)) is not None]
            if numbers:
                mean = f"mean {fmean(numbers):.2f}× over {len(numbers)}"
                texts.append(f"{updates}, {bars.label}: {mean}, at most {max(numbers):.2f}×")
    return f"Measured: {'; '.join(texts)}." if texts else ""


@figure(
    STUDY_NAME, "figure-5-5", title="Speed-up over several devices", numbering=f"Figure 5.5 of {CITED}", needs="devices"
)
def scaling(campaign: Campaign, published: Published) -> Figure:
    """Speedup over the number of devices: a panel for each problem, a line for each kind of product and precision."""
    cases_by_problem: dict[str, list[results.DeviceTimes]] = {}
    for precision in campaign.precisions:
        for case in results.device_times(campaign, published, precision):
            if case.counts:
                cases_by_problem.setdefault(case.line.problem, []).append(case)
    panels = [*cases_by_problem.values()]
    most = max((count for cases in panels for case in cases for count in case.counts), default=1)
    lines = [cases[0].line for cases in panels]
    drawn_cases = [
        "A launch each: one product per launch, and y stays distributed, as in the paper. Alone: the same with several",
        "products in one launch on all devices. With exchange: y is sent to all devices before the next product, in",
        "the fastest way. Overlapped: x is copied while each device multiplies its own columns. Grey: linear speedup.",
        "Numbers at the lines are values on the largest number of devices.",
        "Dashed: single precision." if len(campaign.precisions) > 1 else "",
        measurement_note(campaign, results.DEVICE_CLOCK),
        remarks(lines),
    ]
    caption = [
        "Speedup of y = A x with the grown matrix over one device, with rows sorted by size and dealt out in turns.",
        *(drawn_cases if panels else [results.NO_DEVICES]),
        _published_sentence(published),
        unavailable_note(campaign),
    ]
    return figure_of(
        [_scaling_panel(cases, published, most) for cases in panels],
        "nothing was measured over several devices in this campaign",
        caption,
        is_empty=not panels,
        clock=results.DEVICE_CLOCK,
        across=4,
        labels=("devices", "speedup over one device"),
        mark=mark_meanings(lines),
    )


def _published_sentence(published: Published) -> str:
    """Return the sentence with the paper's number for all graphs; empty if none is published."""
    means_text = " and ".join(stated_device_means(published))
    if not means_text:
        return ""
    return (
        f"Published for two Tesla K20c, the mean over all graphs without an exchange: {means_text}. "
        f"{stated_graph_speedups(published)}"
    )


#: First point of each line: on one device nothing is exchanged, so the speed-up is 1.
ONE_DEVICE = (1, 1.0)
#: Label, look and number of each kind of product over several devices.
SPEEDUP_CURVES: tuple[tuple[str, Pen, Callable[[results.DeviceTimes, int], float | None]], ...] = (
    ("a launch each", Pen(GREY, "s"), lambda case, n: case.launch_speedup(n)),
    ("without exchange", Pen(figure_style.VIOLET, "o"), lambda case, n: case.speedup(case.alone(n))),
    ("with exchange", Pen(figure_style.PINK, "^"), lambda case, n: case.speedup(case.exchanged(n))),
    ("overlapped", Pen(figure_style.GREEN, "v"), lambda case, n: case.speedup(case.overlapped(n))),
)


def _scaling_panel(cases: Sequence[results.DeviceTimes], published: Published, most: int) -> Curves:
    """Return the panel of a problem, whose cases are one for each precision; `most` is the most devices of all."""
    stated = [(n, float(text)) for n, text in stated_speedups(published, cases[0].line.published) if n <= most]
    curves = [
        Curve("speedup = number of devices", Pen(GREY, dashes=(0, (1, 1.5)), zorder=2), [ONE_DEVICE, (most, most)])
    ]
    for case in cases:
        is_single = case.case.precision == "single"
        for label, pen, speedup in SPEEDUP_CURVES:
            numbers = [(n, number) for n in case.counts if (number := speedup(case, n)) is not None]
            curves.append(
                Curve(
                    label + ", single precision" * is_single,
                    pen._replace(dashes=(0, (3, 1.5)) if is_single else "-", size=3.2),
                    [ONE_DEVICE, *numbers] if numbers else [],
                    has_key=not is_single,
                    has_value=not is_single and bool(numbers) and numbers[-1][0] == most,
                )
            )
    curves.append(Curve("published, M2090", PUBLISHED_MARK, stated))
    counts = {1, *(count for case in cases for count in case.counts)}
    return Curves(
        curves,
        Axis(scale="log", ticks={count: str(count) for count in sorted(counts)}),
        Axis(scale="log", ticks={2.0**power: f"{2.0**power:g}" for power in range(-2, most.bit_length())}),
        cases[0].line.label,
        height=1.65,
    )
