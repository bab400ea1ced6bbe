"""Ratios and means of times with confidence intervals, and tests of changes between two campaigns.

The interval of a time, or of a ratio of two times, is computed from the rounds of one campaign.

A change between two campaigns is the natural logarithm of a ratio of medians. It has two errors. The sampling error of
a median is approximated from quartiles and the number of launches, since some rows have no single samples. The error
between runs is larger, because all launches of one process share memory addresses, device state and clock rates. It is
estimated from the compared rows themselves, assuming that most of them did not really change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import exp, log, log1p
from statistics import median

import numpy as np
from numpy.typing import NDArray

from repro.results.campaign_data import ReportedTime

Floats = NDArray[np.float64]
Interval = tuple[float, float]

#: Least number of rows with similar duration that share one estimated spread; short kernels scatter more.
MIN_GROUP = 100
#: Degrees of freedom of Student's t distribution for changes between runs; its tails are heavier than those of a normal
#: distribution, since a kernel can alternate between two speeds. Checked on `results/first-h200` and its repetition:
#: with all clocks of a row together, no level down to 0.001 has too many false positives (the graph clock alone has).
DEGREES = 5
#: Spread between runs by clock, used if there are too few rows to estimate it: the largest value of any group in
#: `results/first-h200` and its repetition. The clock `host` was not repeated and uses the value of `event`.
RECORDED: Mapping[str, float] = {"event": 0.0225, "graph": 0.0094, "host": 0.0225}
#: Standard error of a normal sample's median = this factor x interquartile range / sqrt(count).
MEDIAN_ERROR = 1.25 / 1.35
#: Number of bootstrap draws of cases, and of rounds (fewer, since few rounds have few different draws).
CASE_DRAWS, ROUND_DRAWS = 9999, 1999
LEVEL = 0.95
#: Minimum number of rounds, or of cases, with an interval: fewer have too few different draws for 95 %.
MIN_SAMPLES = 5
#: Sentence on whiskers in captions.
WHISKERS = "Whiskers: 95 % intervals of each ratio, over the rounds of this campaign."


def sampling_error(q1: Floats, median: Floats, q3: Floats, launches: Floats) -> Floats:
    """Return the relative standard errors of medians, assuming normal and independent samples.

    `launches` are the sample sizes; NaN (not recorded) counts as 1.

    Source: R. McGill, J. W. Tukey, W. A. Larsen: Variations of Box Plots, The American Statistician 32(1), 1978.
    """
    error: Floats = MEDIAN_ERROR * (q3 - q1) / (median * np.sqrt(np.where(launches >= 1, launches, 1)))
    return error


def spread_between_runs(changes: Floats, seconds: Floats, clock: str) -> Floats:
    """Return for each row the scale of Student's t for changes between runs of kernels with similar duration.

    Rows are sorted by duration and split into groups of at least `MIN_GROUP` rows. The scale of a group is computed
    from the shortest interval that contains half of its changes. It is robust: changes in fewer than half of the rows
    hardly affect it, and a change common to all rows does not. The value in `RECORDED` is a lower bound for fewer than
    `MIN_GROUP` rows, and for groups in which half of the rows did not change at all (coarse clock, or a copied
    campaign).

    Source: P. J. Rousseeuw, A. M. Leroy: A robust scale estimator based on the shortest half, Statistica Neerlandica
    42(2), 1988; here with Student's t instead of the normal distribution.
    """
    from scipy.stats import t

    spreads = np.empty(len(changes))
    if not len(changes):
        return spreads
    for group in np.array_split(np.argsort(seconds, kind="stable"), max(1, len(changes) // MIN_GROUP)):
        sorted_changes = np.sort(changes[group])
        half = len(sorted_changes) // 2 + 1
        shortest_length = (sorted_changes[half - 1 :] - sorted_changes[: len(sorted_changes) - half + 1]).min()
        is_sufficient = len(changes) >= MIN_GROUP and shortest_length > 0
        spreads[group] = max(shortest_length / 2 / t.ppf(0.75, DEGREES), 0 if is_sufficient else RECORDED[clock])
    return spreads


def p_values(changes: Floats, spreads: Floats, errors: Floats, tolerance: float) -> Floats:
    """Return the probabilities of changes this large if all true changes are within the tolerance.

    Spreads between runs already include sampling errors; adding `errors` again is on the safe side (fewer changes).

    Source: D. J. McCarthy, G. K. Smyth: Testing significance relative to a fold-change threshold is a TREAT,
    Bioinformatics 25(6), 2009; here without their moderated variance.
    """
    from scipy.stats import t

    scale = np.maximum(np.hypot(spreads, errors), np.finfo(float).eps)
    sizes, margin = np.abs(changes), log1p(tolerance)
    tail_sum = t.sf((sizes - margin) / scale, DEGREES) + t.sf((sizes + margin) / scale, DEGREES)
    p: Floats = np.minimum(tail_sum, 1)
    return p


def adjusted_p_values(p: Floats) -> Floats:
    """Return p values corrected for multiple tests: selecting values up to a level bounds the false discovery rate.

    NaN stays NaN and is not counted. Rows of one process are correlated; the method allows positive dependence
    (Y. Benjamini, D. Yekutieli, Ann. Stat. 29(4), 2001).

    Source: Y. Benjamini, Y. Hochberg: Controlling the False Discovery Rate, J. R. Stat. Soc. B 57(1), 1995.
    """
    from scipy.stats import false_discovery_control

    corrected_values = np.full(len(p), np.nan)
    is_given = ~np.isnan(p)
    if is_given.any():
        corrected_values[is_given] = false_discovery_control(p[is_given])
    return corrected_values


def relative_interval(*rounds: Sequence[Sequence[float]], min_rounds: int = MIN_SAMPLES) -> Interval | None:
    """Return the 95 % bootstrap interval of a median, or of a ratio of two medians, relative to its value.

    Each argument has the samples of one kernel, grouped by round; fewer than `min_rounds` give None. Whole rounds
    are drawn, since consecutive launches are not independent. With few rounds the interval is somewhat too narrow, and
    it does not include errors that all rounds of a run share.
    """
    if any(len(side) < min_rounds for side in rounds):
        return None
    return _bootstrap_interval(tuple(tuple(map(tuple, side)) for side in rounds))


@lru_cache(maxsize=1 << 16)  # cached, since several tables and figures show the same ratio
def _bootstrap_interval(rounds: tuple[tuple[tuple[float, ...], ...], ...]) -> Interval:
    """Compute `relative_interval` for at least two rounds per kernel."""
    from scipy.stats import bootstrap

    parts = [[np.asarray(part, float) for part in side] for side in rounds]

    def statistic(*draws: NDArray[np.integer], axis: int = -1) -> Floats:
        medians = [_medians(side, draw) for side, draw in zip(parts, draws, strict=True)]
        return medians[0] / medians[1] if len(medians) > 1 else medians[0]

    round_indices = [np.arange(len(side)) for side in parts]
    bootstrap_result = bootstrap(
        round_indices,
        statistic,
        vectorized=True,
        n_resamples=ROUND_DRAWS,
        confidence_level=LEVEL,
        method="percentile",
        random_state=np.random.default_rng(0),
    )
    low, high = np.array(bootstrap_result.confidence_interval) / statistic(*round_indices)
    return float(low), float(high)


def _medians(rounds: Sequence[Floats], draws: NDArray[np.integer]) -> Floats:
    """Return, for each draw of rounds, the median of all samples; equal draws are computed once."""
    flat_draws = draws.reshape(-1, len(rounds))
    # hash of a draw, independent of order: the sum of random numbers, one per round
    codes = np.random.default_rng(1).integers(1 << 62, size=len(rounds))[flat_draws].sum(axis=1)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    distinct_draws = flat_draws[first]
    if len({len(part) for part in rounds}) == 1:
        medians: Floats = np.median(np.asarray(rounds)[distinct_draws].reshape(len(first), -1), axis=1)
    else:
        medians = np.array([np.median(np.concatenate([rounds[number] for number in draw])) for draw in distinct_draws])
    return medians[inverse].reshape(draws.shape[:-1])


def interval_of_mean(changes: Floats, cases: Sequence[object]) -> Interval | None:
    """Return the 95 % bootstrap interval of the geometric mean of ratios; None for fewer than `MIN_SAMPLES` cases.

    `changes` are logarithms of ratios, and `cases` names the case of each. Whole cases are drawn, since rows of one
    case are measured in one process and not independent. Errors common to all processes are not included.
    """
    from scipy.stats import bootstrap

    names = {case: index for index, case in enumerate(dict.fromkeys(cases))}
    if len(names) < MIN_SAMPLES:
        return None
    case_indices = [names[case] for case in cases]
    sums, counts = np.bincount(case_indices, weights=changes), np.bincount(case_indices)
    bootstrap_result = bootstrap(
        (sums, counts),
        lambda sums, counts, axis: sums.sum(axis=axis) / counts.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=CASE_DRAWS,
        confidence_level=LEVEL,
        method="percentile",
        random_state=np.random.default_rng(0),  # reproducible intervals
    )
    low, high = bootstrap_result.confidence_interval
    return exp(low), exp(high)


def interval_of_statistic(
    values: Sequence[float], statistic: Callable[[Iterable[float]], float | None]
) -> Interval | None:
    """Return the 95 % bootstrap interval of a statistic of one value per case; None for fewer than `MIN_SAMPLES`."""
    if len(values) < MIN_SAMPLES:
        return None
    draws = np.random.default_rng(0).choice(np.asarray(values, float), size=(CASE_DRAWS, len(values)))
    statistics = [float(statistic(draw) or 0) for draw in draws.tolist()]
    low, high = np.quantile(statistics, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def ratio_of(base: ReportedTime | None, divisor: ReportedTime | None) -> float | None:
    """Return the speedup of `divisor` relative to `base`: the quotient of their times; None if either is missing."""
    return base.seconds / divisor.seconds if base and divisor else None


def interval_of(time: ReportedTime | None) -> Interval | None:
    """Return the confidence interval of a time in seconds; None without samples of `MIN_SAMPLES` rounds."""
    factors = relative_interval(time.rounds) if time else None
    return (time.seconds * factors[0], time.seconds * factors[1]) if time and factors else None


def interval_of_ratio(
    base: ReportedTime | None, divisor: ReportedTime | None, *, min_rounds: int = MIN_SAMPLES
) -> Interval | None:
    """Return the confidence interval of `ratio_of`; None if either time has samples of fewer than `min_rounds`."""
    ratio = ratio_of(base, divisor)
    factors = relative_interval(base.rounds, divisor.rounds, min_rounds=min_rounds) if base and divisor else None
    return (ratio * factors[0], ratio * factors[1]) if ratio and factors else None


def scaled_interval(interval: Interval | None, factor: float) -> Interval | None:
    return (interval[0] * factor, interval[1] * factor) if interval else None


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of all values but None and 0; None if there are none."""
    numbers = [value for value in values if value]
    return exp(sum(map(log, numbers)) / len(numbers)) if numbers else None


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of all values but None; None if there are none."""
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
