"""Tables on the benefit of the search space and of search strategies.

The tables have the loss of the best variant if one idea is omitted, time against bytes, the winners of one device on
another, the loss of a search with a budget against the exhaustive one, and the loss of tuning one parameter after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log2
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from repro.bench.rows import median_column
from repro.config.models import StudySettings
from repro.results.campaign_data import NEAR_EMPTY, Campaign, Case
from repro.results.columns import BLANK, MICRO, PROBLEM, number_cell
from repro.results.cross_campaign import column_title, conflict_note, others_note
from repro.results.problem_lines import ProblemLine, join_sentences, measurement_note, name_cell, recorded_lines
from repro.results.published import Published
from repro.results.registry import table
from repro.results.significance import geometric_mean
from repro.results.tables import Cell, Column, Table, table_of
from repro.sparse.compound.variants import LOADS, TILE_ROWS
from repro.sparse.tuning_features import pareto_front
from repro.studies.compound_spmv import CITED, STUDY_NAME, searches
from repro.studies.compound_spmv.results import kernels_note, papers_space
from repro.studies.compound_spmv.searches import (
    SPACE_TITLES,
    Order,
    Transfer,
    recordings_of_space,
    replayed_searches,
    transfers,
)
from repro.studies.compound_spmv.study import CompoundRow
from repro.tuning.recordings import Recording
from repro.tuning.strategies import SEEDS, Array, Evaluation, sample_note
from repro.words import EXTENDED

#: Relative losses above this value are counted in the table of ideas.
NOTABLE = 0.02
TIME = median_column("event")
#: Columns of rows that `table-ablation` reads.
COLUMNS = ("problem", "precision", "space", "status", "protocol", "name", "layout", "schedule", "n_t", "width",
           "unroll", "load", "ahead", "outer", "vector", "clustered", "least_bytes", "event_launches", TIME,
           "device_uuid", "environment")  # fmt: skip
CASE = ["problem", "precision"]
#: For each idea of our space, the function that selects the rows of `described_rows` that use it.
IDEAS: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {
    "several entries in flight": lambda rows: rows.unroll > 1,
    "more than 8 threads to a row": lambda rows: rows.width > 8,
    "clustered rows": lambda rows: rows.clustered,
    "padded vectors": lambda rows: rows.vector == "Padded",
    "loads past L1 (cg)": lambda rows: rows.load == "cg",
    "loads that leave nothing in L2 (cs)": lambda rows: rows.load == "cs",
    "any hint to the caches": lambda rows: rows.load != LOADS[0],
    "chunks of neighbouring rows": lambda rows: rows.schedule == "chunk",
    "blocks of fewer than 256 threads": lambda rows: rows.n_t < 256,
    "ELLPACK": lambda rows: rows.outer.isin(["ELL", "ELLPACK"]),
    "slices": lambda rows: rows.outer.str.startswith("Sl-"),
    "CSR": lambda rows: rows.outer == "CSR",
    "pairs of symmetric matrices, stored once": lambda rows: rows.outer.isin(list(TILE_ROWS)),
}
#: Ideas that older campaigns did not try; they get a line only if the campaign tried them.
LATER_IDEAS: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {
    "loads that keep a share in L2 (el)": lambda rows: rows.load == "el",
    "next entries asked for ahead": lambda rows: rows.ahead != "",
}
ALL = "all of it: the papers’ space"


@dataclass(frozen=True)
class IdeaLoss:
    """The loss of one problem in one precision if an idea is not used."""

    problem: str
    precision: str
    #: Whether the matrix in CSR-AoS and both vectors fit into the last-level cache; None where its size is unknown.
    cached: bool | None
    #: Time of the best variant without the idea / time of the best variant, each minus an empty kernel's time; at least
    #: 1.
    ratio: float
    #: Whether the best variant without the idea has only a screened time.
    screened: bool


def described_rows(campaign: Campaign) -> pd.DataFrame:
    """Return the searched variants in the matrix's own order, with the columns that `IDEAS` read.

    Besides `COLUMNS` these are `cached` as in `IdeaLoss`, and `beyond`: the median by the event clock minus an empty
    kernel's, in seconds, missing if the variant failed. Cases without a complete search of our space are left out, and
    so are rows of the papers' space if that was not searched completely.
    """
    rows = campaign.search
    rows = rows[(rows.kind == "variant") & (rows.ordering == "natural") & (rows.cache == campaign.cache)]
    full = {
        space: {(recording.problem, recording.precision) for recording in recordings_of_space(campaign, space)}
        for space in SPACE_TITLES
    }
    cases = pd.Series(list(zip(rows.problem, rows.precision, strict=True)), index=rows.index, dtype=object)
    row_mask = cases.isin(full["extended"]) & ((rows.space == EXTENDED) | cases.isin(full[papers_space(campaign)]))
    rows = rows.loc[row_mask, list(COLUMNS)]
    rows = rows.assign(beyond=rows[TIME].where(rows.status == "ok") - offset(campaign), cached=None)
    cache = rows.environment.map({name: record.get("cache_bytes") for name, record in campaign.environments.items()})
    streamed_bytes = rows.groupby(CASE).least_bytes.transform("max")  # `least_bytes` may be missing in a failed row
    if cache.notna().all() and streamed_bytes.notna().all():
        rows["cached"] = streamed_bytes <= cache
    return rows


def offset(campaign: Campaign) -> float:
    """Return the median time of an empty kernel by the event clock over the campaign, in seconds; 0 if untimed."""
    rows = campaign.report
    empty = rows.loc[(rows.kind == "empty") & (rows.cache == campaign.cache), TIME].dropna()
    return float(empty.median()) if len(empty) else 0.0


def idea_losses(frame: pd.DataFrame, use_mask: pd.Series) -> list[IdeaLoss]:
    """Return the loss of each case without the rows `use_mask`, which use an idea; cases without one are omitted.

    A screened time below the best full time is noise and counts as no loss.
    """
    losses = []
    rows = frame[[*CASE, "protocol", "beyond", "cached"]].assign(uses=use_mask)
    for (problem, precision), case in rows.groupby(CASE, sort=True):
        timed_rows = case[case.beyond > 0]
        without = timed_rows[~timed_rows.uses]
        if not case.uses.any() or without.empty:
            continue
        full = timed_rows[timed_rows.protocol == "full"]
        best = (timed_rows if full.empty else full).beyond.min()
        best_without = without.sort_values("beyond", kind="stable").iloc[0]
        is_cached = None if best_without.cached is None else bool(best_without.cached)
        ratio = max(float(best_without.beyond / best), 1.0)
        losses.append(IdeaLoss(str(problem), str(precision), is_cached, ratio, best_without.protocol != "full"))
    return losses


@table(STUDY_NAME, "table-ablation", title="What our space loses without one of its ideas", numbering="ours")
def ablation(campaign: Campaign, published: Published) -> Table:
    """One line for each idea: mean loss without it on matrices that fit the L2 cache and on larger ones, worst loss."""
    rows = described_rows(campaign)
    own_rows = rows[rows.space == EXTENDED]
    has_sizes = not own_rows.cached.isna().any()
    groups = {"cached": (True, "fits L2"), "larger": (False, "larger")} if has_sizes else {"mean": (None, "all")}
    columns = (
        Column("without", "without", numeric=False),
        *(Column(key, head, "slower, mean [%]") for key, (_, head) in groups.items()),
        Column("worst", "worst [%]"),
        Column("where", "worst at", numeric=False),
        Column("lose", f"above {100 * NOTABLE:g} %"),
    )
    sizes = [is_cached for is_cached, _ in groups.values()]
    lines: list[tuple[Cell, ...]] = []
    summary: list[tuple[Cell, ...]] = []
    if len(own_rows):
        later_ideas = {name: use_of for name, use_of in LATER_IDEAS.items() if use_of(own_rows).any()}
        ideas = {**IDEAS, **later_ideas}
        lines = [
            _idea_line(campaign, name, idea_losses(own_rows, use_of(own_rows)), sizes) for name, use_of in ideas.items()
        ]
        if len(own_rows) < len(rows):
            summary = [_idea_line(campaign, ALL, idea_losses(rows, rows.space == EXTENDED), sizes)]
    caption = [
        "How much slower, in percent, the fastest variant of our space becomes if one idea is left out and everything",
        "else is tuned again, in the problem’s own order of unknowns, by the exhaustive search. A case is a problem in",
        "a precision; it is small if its matrix in CSR-AoS and both vectors fit into the L2 cache. Columns: geometric",
        "mean over the small cases and over the larger ones; the worst case; and how many of the cases that tried the",
        f"idea lose more than {100 * NOTABLE:g} %.",
        "The last line compares the best of the papers’ space with the best of both spaces.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        *(
            _limit_notes(campaign, rows, own_rows)
            if len(own_rows)
            else ["No problem of this campaign was searched in full in our space."]
        ),
    ]
    return Table(columns, lines, join_sentences(caption), summary, is_empty=not lines)


def _idea_line(
    campaign: Campaign, name: str, losses: Sequence[IdeaLoss], sizes: Sequence[bool | None]
) -> tuple[Cell, ...]:
    if not losses:
        return Cell(name), *(Cell() for _ in range(len(sizes) + 3))
    worst_loss = max(losses, key=lambda loss: loss.ratio)
    remarks = name_cell(campaign.problems[worst_loss.problem]).notes
    notable_count = sum(loss.ratio > 1 + NOTABLE for loss in losses)
    screened_count = sum(loss.screened for loss in losses)
    note = f"in {screened_count} of {len(losses)} cases the best without it was only screened"
    return (
        Cell(name, notes=(note,) if screened_count else ()),
        *(_mean_slowdown_cell(loss.ratio for loss in losses if loss.cached is is_cached) for is_cached in sizes),
        _percent_cell(worst_loss.ratio - 1),
        Cell(f"{worst_loss.problem}, {worst_loss.precision}", notes=remarks) if worst_loss.ratio > 1 else Cell(),
        Cell(notable_count, f"{notable_count} of {len(losses)}"),
    )


def _mean_slowdown_cell(ratios: Iterable[float]) -> Cell:
    mean = geometric_mean(ratios)
    return Cell() if mean is None else _percent_cell(mean - 1)


def _percent_cell(share: float) -> Cell:
    return Cell(round(100 * share, 6), f"{100 * share:.1f}") if np.isfinite(share) else Cell(None, "none works")


def _limit_notes(campaign: Campaign, frame: pd.DataFrame, own_rows: pd.DataFrame) -> list[str]:
    """Return the sentences on the limits of the table's numbers."""
    sentences = []
    empty = offset(campaign)
    if empty:
        best = own_rows.groupby(CASE).beyond.min()
        count = int((best <= (NEAR_EMPTY - 1) * empty).sum())
        sentences += [
            f"The clock’s offset, an empty kernel’s {empty * 1e6:.2f} µs (median), is subtracted before ratios are",
            f"formed. In {count} of {len(best)} cases our best time is within {NEAR_EMPTY:g}× of it, so one tick of",
            "the clock may be several percent of the difference.",
        ]
    launches = own_rows.loc[own_rows.protocol == "screen", "event_launches"].dropna()
    if len(launches):
        sentences.append(
            f"Times are from the full protocol if a variant got it. Screened times, with at most {launches.max()}"
            " launches, scatter more; one below the best of the full protocol is no loss."
        )
    cards = frame.groupby([*CASE, "space"]).device_uuid.first().unstack("space")
    papers = papers_space(campaign)
    if papers in cards:
        other_card_count = int((cards[papers] != cards[EXTENDED]).sum())
        sentences.append(
            f"In {other_card_count} cases the spaces were searched on two cards of this model."
            if other_card_count
            else ""
        )
    return sentences


@dataclass(frozen=True)
class TimesAndBytes:
    """Time and bytes of the fastest variant of each layout, for one problem and precision."""

    #: A row of the search for each layout that has a valid time.
    rows: tuple[CompoundRow, ...]
    #: Median times of these rows, `(layouts,)`; `matrix_bytes` has the same shape.
    seconds: Array
    matrix_bytes: Array
    #: Indices of the Pareto front, ascending in bytes.
    front: NDArray[np.intp]


def times_and_bytes(campaign: Campaign, problem_name: str, precision: str) -> TimesAndBytes | None:
    """Return the fastest variant of each layout in natural ordering; None where nothing was timed."""
    fastest: dict[str | None, tuple[bool, float, CompoundRow]] = {}
    variants = Case[CompoundRow](campaign, problem_name, precision).searched.select(kind="variant", ordering="natural")
    for row in variants:
        seconds, best = row.seconds("event"), fastest.get(row.layout)
        # prefer full timings, since a few screening launches are less exact
        rank = row.protocol != "full", seconds or 0.0
        if seconds and row.matrix_bytes and (best is None or rank < best[:2]):
            fastest[row.layout] = (*rank, row)
    if not fastest:
        return None
    _, times, rows = zip(*fastest.values(), strict=True)
    seconds_of_layouts, bytes_of_layouts = (
        np.array(times),
        np.array([row.matrix_bytes for row in rows], dtype=np.float64),
    )
    return TimesAndBytes(rows, seconds_of_layouts, bytes_of_layouts, pareto_front(seconds_of_layouts, bytes_of_layouts))


class ParetoPoint(NamedTuple):
    """A variant of a Pareto front: its row, matrix bytes and seconds, and the least bytes and seconds of all."""

    line: ProblemLine
    row: CompoundRow
    size: float
    seconds: float
    least_size: float
    least_seconds: float


FRONT_COLUMNS = (
    PROBLEM,
    Column[ParetoPoint]("precision", "precision", numeric=False, cell=lambda point: Cell(point.row.precision)),
    Column[ParetoPoint](
        "variant", "variant", numeric=False, cell=lambda point: Cell(point.row.name, keys=(point.row.key,))
    ),
    Column[ParetoPoint]("bytes", "MiB", cell=lambda point: Cell(int(point.size), f"{point.size / 2**20:.3g}")),
    Column[ParetoPoint](
        "bytes_over_least", "× least", cell=lambda point: number_cell(point.size / point.least_size, spec=".3f")
    ),
    Column[ParetoPoint]("seconds", "µs", cell=lambda point: Cell(point.seconds, f"{point.seconds * MICRO:.2f}")),
    Column[ParetoPoint](
        "seconds_over_best", "× best", cell=lambda point: number_cell(point.seconds / point.least_seconds, spec=".3f")
    ),
)


@table(STUDY_NAME, "table-pareto", title="Time against memory", numbering=f"open in {CITED}")
def fronts(campaign: Campaign, published: Published) -> Table:
    """One line for each variant on the Pareto front of a problem and precision, from least bytes to least time."""
    points: list[ParetoPoint] = []
    singles = cases = 0
    for line, precision in product(recorded_lines(campaign, published), campaign.precisions):
        if (layout_times := times_and_bytes(campaign, line.problem, precision)) is None:
            continue
        cases, singles = cases + 1, singles + (len(layout_times.front) == 1)
        sizes, seconds = layout_times.matrix_bytes.tolist(), layout_times.seconds.tolist()
        least_values = min(sizes), min(seconds)
        points += [
            ParetoPoint(line, layout_times.rows[index], sizes[index], seconds[index], *least_values)
            for index in layout_times.front
        ]
    caption = [
        "Variants that no other beats in both time and bytes of the matrix, from the smallest matrix to the fastest",
        "product, among the fastest variants of all layouts in natural ordering.",
        f"In {singles} of {cases} cases one variant is both the smallest and the fastest. {CITED} leaves open how to",
        "weigh time against memory; the key `memory_weight` sets it.",
        measurement_note(campaign, "event", "the search"),
    ]
    return table_of(FRONT_COLUMNS, points, join_sentences(caption))


SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "median": lambda losses: float(np.median(losses)),
    "worst": lambda losses: float(np.max(losses)),
}


@table(STUDY_NAME, "table-portability", title="What a winner loses on another GPU", numbering="ours", needs="beside")
def portability(campaign: Campaign, published: Published) -> Table:
    """Loss in percent of the other device's winner here, and of ours there, for each problem and precision."""
    transfers_by_name = {reference.name: transfers(campaign, reference) for reference in campaign.beside}
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    for reference in campaign.beside:
        group = column_title(campaign, reference)
        columns += [
            Column(f"{reference.name}_here", "winner here", group, numeric=False),
            Column(f"{reference.name}_loss_there", "slower there [%]", group),
            Column(f"{reference.name}_there", "winner there", group, numeric=False),
            Column(f"{reference.name}_loss_here", "slower here [%]", group),
        ]
    rows = []
    for line, precision in product(recorded_lines(campaign, published), campaign.precisions):
        cases = [transfers_by_name[reference.name].get((line.problem, precision)) for reference in campaign.beside]
        if any(cases):
            rows.append((line.cell, Cell(precision), *(cell for case in cases for cell in _transfer_row(case))))
    summary = []
    counts_text = _counts_text({name: len(cases) for name, cases in transfers_by_name.items()})
    for statistic_name, statistic in SUMMARIES.items() if rows else ():
        cells = (cell for cases in transfers_by_name.values() for cell in _summary_row([*cases.values()], statistic))
        summary.append((Cell(f"{statistic_name} of {counts_text}"), BLANK, *cells))
    caption = [
        f"How much slower, in percent, the winner on {campaign.column} is on another device than the fastest variant",
        "there, and the winner there on this device, among the variants that both searches timed, in the problem’s own",
        "order of unknowns. Variants that are not finalists have times from screening, with few launches; a time below",
        "the best of the full protocol is no loss.",
        measurement_note(campaign, "event", "the search"),
        others_note(campaign),
        conflict_note(campaign),
        "" if rows else "No case was searched in two campaigns on devices of one kind.",
    ]
    return Table(tuple(columns), rows, join_sentences(caption), summary)


def _counts_text(counts: Mapping[str, int]) -> str:
    """Return the number of cases of a median as text; for each campaign if the numbers differ."""
    if len({*counts.values()}) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(f"{count} ({name})" for name, count in counts.items())


def _transfer_row(case: Transfer | None) -> tuple[Cell, ...]:
    if case is None:
        return (Cell(), Cell(), Cell(), Cell())
    return Cell(case.here), _percent_cell(case.loss_there), Cell(case.there), _percent_cell(case.loss_here)


def _summary_row(cases: Sequence[Transfer], statistic: Callable[[Sequence[float]], float]) -> tuple[Cell, ...]:
    if not cases:
        return (BLANK, Cell(), BLANK, Cell())
    losses_there, losses_here = ([getattr(case, name) for case in cases] for name in ("loss_there", "loss_here"))
    return BLANK, _percent_cell(statistic(losses_there)), BLANK, _percent_cell(statistic(losses_here))


BUDGET = float(StudySettings.model_fields["budget"].default)
Learnt = Mapping[str, tuple[str, Callable[[Evaluation], Array | None]]]
#: Columns of search losses: key, head, and a function for the losses.
JUDGED: Learnt = {
    "problem_unknown": ("problem unknown", lambda evaluation: evaluation.problem_unknown),
    "entry_unknown": ("entry unknown", lambda evaluation: evaluation.family_unknown),
    "random": ("random", lambda evaluation: evaluation.random),
}
#: As `JUDGED`, for searches that learn from the campaigns in `beside` on other devices.
ELSEWHERE: Learnt = {
    "device_unknown": ("GPU unknown", lambda evaluation: evaluation.device_unknown),
    "both_unknown": ("GPU and problem unknown", lambda evaluation: evaluation.both_unknown),
}
LEARNT_ELSEWHERE = (
    "“GPU unknown” learns only from the campaigns on other GPUs beside this one; “GPU and problem unknown” from these "
    "without that problem."
)


@table(STUDY_NAME, "table-predicted", title="Loss of the predicted search against the exhaustive one", numbering="ours")
def prediction_losses(campaign: Campaign, published: Published) -> Table:
    """One line for each problem and precision: loss in percent if the search does not learn from this problem."""
    replays_by_space = {space: replayed_searches(campaign, space, BUDGET) for space in SPACE_TITLES}
    replays_by_space = {space: replays for space, replays in replays_by_space.items() if replays}
    replays_by_case = {
        space: {(j.recording.problem, j.recording.precision): j for j in replays_by_space[space]}
        for space in replays_by_space
    }
    sources = {
        **JUDGED,
        **(ELSEWHERE if any(reference.device != campaign.device for reference in campaign.beside) else {}),
    }
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    for space in replays_by_space:
        columns.append(Column(f"{space}_variants", "variants", SPACE_TITLES[space]))
        columns.append(Column(f"{space}_tried", "tried", SPACE_TITLES[space]))
        columns += [Column(f"{space}_{key}", head, SPACE_TITLES[space]) for key, (head, _) in sources.items()]
    rows = []
    for line, precision in product(recorded_lines(campaign, published), campaign.precisions):
        cases = [replays_by_case[space].get((line.problem, precision)) for space in replays_by_space]
        if any(cases):
            rows.append(
                (line.cell, Cell(precision), *(cell for case in cases for cell in _prediction_row(case, sources)))
            )
    summary = []
    for statistic_name, statistic in SUMMARIES.items() if rows else ():
        cells = (
            cell
            for space in replays_by_space
            for cell in _prediction_summary(replays_by_space[space], statistic, sources)
        )
        summary.append((Cell(f"{statistic_name} of {len(rows)}"), BLANK, *cells))
    caption = [
        f"How much slower, in percent, the fastest variant that `search: predicted` finds with {100 * BUDGET:g} % of",
        "the variants is than the fastest of the exhaustive search. Every search is replayed on recorded times.",
        "“Problem unknown” learns from all other problems of this campaign, in both precisions; “entry unknown” only",
        f"from those of other entries; “random” is the mean over {SEEDS} random samples of the same size.",
        LEARNT_ELSEWHERE if len(sources) > len(JUDGED) else "",
        "Most times are from screening, with few launches; a time below the best of the full protocol is no loss.",
        sample_note(replays_by_space.values()),
        measurement_note(campaign, "event", "the search"),
        "" if replays_by_space else "No problem of this campaign was searched in full.",
    ]
    return Table(tuple(columns), rows, join_sentences(caption), summary)


def _prediction_row(evaluation: Evaluation | None, sources: Learnt) -> list[Cell]:
    if evaluation is None:
        return [Cell() for _ in range(2 + len(sources))]
    curves = [losses_of(evaluation) for _, losses_of in sources.values()]
    return [
        Cell(len(evaluation.recording.seconds)),
        Cell(evaluation.tried),
        *(Cell() if curve is None else _percent_cell(float(curve[-1])) for curve in curves),
    ]


def _prediction_summary(
    replays: Sequence[Evaluation], statistic: Callable[[Sequence[float]], float], sources: Learnt
) -> list[Cell]:
    cells = [BLANK, BLANK]
    for _, losses_of in sources.values():
        final = [float(curve[-1]) for evaluation in replays if (curve := losses_of(evaluation)) is not None]
        cells.append(_percent_cell(statistic(final)) if final else Cell())
    return cells


#: Orders in which parameters are tuned one after the other, with the parameters of each stage.
SEQUENCES: Mapping[str, Order] = {
    "schedule alone": searches.schedule_alone,
    "layout alone": searches.layout_alone,
    "schedule, then layout": searches.schedule_first,
    "layout, then schedule": searches.layout_first,
    "jointly": searches.joint_tuning,
}
#: Orders that tune layout, schedule kind and the product n_t·n_b jointly, by the rule that splits the product.
PRODUCTS: Mapping[str, Order] = {
    "n_t·n_b, largest n_t": searches.by_product(lambda schedule: -schedule.block_size),
    "n_t·n_b, n_t nearest 256": searches.by_product(lambda schedule: abs(log2(schedule.block_size / 256))),
    "n_t·n_b, n_t nearest 128": searches.by_product(lambda schedule: abs(log2(schedule.block_size / 128))),
    "n_t·n_b, smallest n_t": searches.by_product(lambda schedule: schedule.block_size),
}


@dataclass(frozen=True)
class OrderLoss:
    """The loss of one order of tuning on one problem in one precision."""

    recording: Recording
    #: Number of variants that the order measures.
    tried: int
    #: Fraction by which the chosen variant is slower than the exhaustive search's; None if none was chosen.
    loss: float | None
    #: Whether the chosen variant has only a screened time.
    screened: bool


def order_losses(recordings: Sequence[Recording], order: Order) -> list[OrderLoss]:
    """Replay an order of tuning on every recorded problem."""
    answers = []
    for recording in recordings:
        outcome = order(searches.times_of(recording))
        answer = None if outcome.variant is None else str(outcome.variant)
        loss = None if answer is None else float(recording.losses([answer])[0])
        answers.append(OrderLoss(recording, outcome.tried, loss, answer not in recording.full))
    return answers


@table(
    STUDY_NAME,
    "table-strategies",
    title="What tuning in parts loses against joint tuning",
    numbering=f"Section 5.4 of {CITED}",
)
def strategies(campaign: Campaign, published: Published) -> Table:
    """One line for each order of tuning: distribution of its losses over all problems and precisions."""
    recordings = recordings_of_space(campaign, papers_space(campaign))
    columns = (
        Column("tuning", "tuning", numeric=False),
        Column("tried", "tried"),
        Column("exact", f"within {100 * campaign.tie:g} %"),
        *(Column(key, key, "slower than joint [%]") for key in ("median", "mean", "worst")),
        Column("where", "worst at", numeric=False),
    )
    customary = ", ".join(
        sorted({str(searches.default_schedule(searches.times_of(recording))) for recording in recordings})
    )
    rows = [
        _order_row(name, order_losses(recordings, order), campaign.tie)
        for name, order in {**SEQUENCES, **PRODUCTS}.items()
        if recordings
    ]
    caption = [
        "How much slower, in percent, the result of tuning in another order is than that of joint tuning, and how many",
        f"variants each order tries, over {len(recordings)} pairs of problem and precision. Joint tuning finds the",
        "fastest variant of the papers’ space by exhaustive search. “Schedule” comes first in CSR-AoS-AoS.",
        f"“Layout” comes first under the schedule {customary or 'that is customary'}: static, 256",
        "threads per block where the device has them, and as many blocks as fit.",
        "“n_t·n_b” tunes the product as one parameter, each with a rule that splits it, jointly with the rest.",
        f"Section 5.4 of {CITED} asks this question; the first schedule is our choice.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        "Times from screening, with few launches, are rarely exact to the percent; a time below the best of the full",
        "protocol is no loss.",
        "" if recordings else "No problem of this campaign was searched in full.",
    ]
    return Table(columns, rows, join_sentences(caption))


def _order_row(name: str, answers: Sequence[OrderLoss], tie: float) -> tuple[Cell, ...]:
    known_losses = [(answer.loss, answer) for answer in answers if answer.loss is not None]
    if not known_losses:
        return Cell(name), *(Cell() for _ in range(6))
    losses = np.array([loss for loss, _ in known_losses])
    worst_pair = max(known_losses, key=lambda pair: pair[0])
    exact = int((losses <= tie).sum())
    tried_counts = [answer.tried for answer in answers]
    screened_count = sum(answer.screened for answer in answers)
    notes = (f"{screened_count} of {len(answers)} results were only screened",) if screened_count else ()
    worst_name = (
        f"{worst_pair[1].recording.problem}, {worst_pair[1].recording.precision}" if worst_pair[0] > 0 else None
    )
    return (
        Cell(name, notes=notes),
        Cell(max(tried_counts), str(max(tried_counts))),
        Cell(exact, f"{exact} of {len(known_losses)}"),
        *(_percent_cell(float(share)) for share in (np.median(losses), losses.mean(), worst_pair[0])),
        Cell(worst_name),
    )
