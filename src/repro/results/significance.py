"""Ratios and means of times, and how sure they are.

The interval of a time, or of a ratio of two, comes from the rounds of one campaign.

Between two campaigns a change is the natural logarithm of a ratio of medians. Searched rows and older records have
quantiles and a count alone, so that a median's error is approximated from these. That error is the smaller part:
launches of one process share its addresses, its device and its clocks, and a repetition differs by many such
errors. The larger part, between runs, is therefore taken from the rows themselves, most of which a repetition
leaves as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import exp, log, log1p
from statistics import median

import numpy as np
from numpy.typing import NDArray

from repro.results.campaign_data import ReportedTime

Floats = NDArray[np.float64]
Interval = tuple[float, float]

#: Rows of like duration whose spread between runs is taken together; short ones scatter by more.
GROUP = 100
#: Degrees of freedom of Student's t that changes between runs are held against: their tails are heavier than the
#: normal distribution's, since a kernel can have two speeds. Of `results/first-h200` and its repetition, no level down
#: to 0.001 is then reached by more rows than it should be, all clocks of a row taken together; by the graph clock alone
#: the tails are heavier still.
DEGREES = 5
#: The spread between runs where the compared rows do not tell it: of `results/first-h200` and its repetition, in the
#: group that has the largest. The clock `host` has no repetition on record, and reads at least what events do.
RECORDED: Mapping[str, float] = {"event": 0.0225, "graph": 0.0094, "host": 0.0225}
#: Of the quartiles' distance and the count, the standard error of a normal sample's median.
MEDIAN_ERROR = 1.25 / 1.35
#: Draws of cases that an interval is taken from; and of rounds, of which there are so few that few draws differ.
CASE_DRAWS, ROUND_DRAWS = 9999, 1999
LEVEL = 0.95
#: What a caption says of whiskers.
WHISKERS = "Whiskers: 95 % intervals of each ratio, over the rounds of this campaign."


def sampling_error(q1: Floats, median: Floats, q3: Floats, launches: Floats) -> Floats:
    """Return the standard error of medians, as a fraction of each, as if samples were normal and independent.

    Source: R. McGill, J. W. Tukey, W. A. Larsen: Variations of Box Plots, The American Statistician 32(1), 1978.

    Parameters
    ----------
    q1, median, q3
        Of each sample in seconds, of shape (rows,).
    launches
        Its size, of shape (rows,); NaN, where it was not recorded, counts as one.
    """
    error: Floats = MEDIAN_ERROR * (q3 - q1) / (median * np.sqrt(np.where(launches >= 1, launches, 1)))
    return error


def spread_between_runs(changes: Floats, seconds: Floats, clock: str) -> Floats:
    """Return for each row the scale of t that changes of rows of like duration have from one run to another.

    Rows are sorted by duration and cut into groups of at least `GROUP`. A group's scale is that of the shortest
    interval that holds half of its changes, wherever that lies: a change of fewer than half of the rows hardly enters
    it, and one that all rows share does not. Fewer rows than `GROUP` have at least the recorded spread, and so have
    groups half of which did not change at all: a clock read no finer, or one campaign is a copy.

    Source: P. J. Rousseeuw, A. M. Leroy: A robust scale estimator based on the shortest half, Statistica Neerlandica
    42(2), 1988; here for Student's t in the place of the normal distribution.

    Parameters
    ----------
    changes, seconds
        Change and duration of each row, of shape (rows,).
    clock
        Which of `repro.bench.rows.ALL_CLOCKS` read them.
    """
    from scipy.stats import t

    spreads = np.empty(len(changes))
    if not len(changes):
        return spreads
    for group in np.array_split(np.argsort(seconds, kind="stable"), max(1, len(changes) // GROUP)):
        ordered = np.sort(changes[group])
        half = len(ordered) // 2 + 1
        shortest = (ordered[half - 1 :] - ordered[: len(ordered) - half + 1]).min()
        told = len(changes) >= GROUP and shortest > 0
        spreads[group] = max(shortest / 2 / t.ppf(0.75, DEGREES), 0 if told else RECORDED[clock])
    return spreads


def p_values(changes: Floats, spreads: Floats, errors: Floats, tolerance: float) -> Floats:
    """Return how likely changes this large are where no true change is larger than the tolerance, either way.

    Source: D. J. McCarthy, G. K. Smyth: Testing significance relative to a fold-change threshold is a TREAT,
    Bioinformatics 25(6), 2009; here without their moderated variance.

    Parameters
    ----------
    changes, spreads, errors
        Change, spread between runs and sampling error of each row, of shape (rows,). The spread holds errors of
        sampling already; to add them again errs towards no change.
    tolerance
        The smallest change that matters, as a fraction.
    """
    from scipy.stats import t

    scale = np.maximum(np.hypot(spreads, errors), np.finfo(float).eps)
    sizes, margin = np.abs(changes), log1p(tolerance)
    both = t.sf((sizes - margin) / scale, DEGREES) + t.sf((sizes + margin) / scale, DEGREES)
    p: Floats = np.minimum(both, 1)
    return p


def adjusted(p: Floats) -> Floats:
    """Return p values corrected for their number: those up to a level have at most that share of false ones.

    Source: Y. Benjamini, Y. Hochberg: Controlling the False Discovery Rate, J. R. Stat. Soc. B 57(1), 1995. Rows of a
    process go together, which it bears where they do so positively (Y. Benjamini, D. Yekutieli, Ann. Stat. 29(4),
    2001).

    Parameters
    ----------
    p
        Of shape (rows,); NaN stays NaN and is not counted.
    """
    from scipy.stats import false_discovery_control

    corrected = np.full(len(p), np.nan)
    judged = ~np.isnan(p)
    if judged.any():
        corrected[judged] = false_discovery_control(p[judged])
    return corrected


def relative_interval(*rounds: Sequence[Sequence[float]]) -> Interval | None:
    """Return the bootstrap's 95 % interval of a median, or of one median over another, in parts of it.

    Whole rounds are drawn, of the two sides apart, since launches that follow each other are not independent: the
    interval of the launches alone would be too narrow. Of so few rounds it is too narrow still, of three it is about
    their least to their largest; and what all rounds of a run share is not in it.

    Parameters
    ----------
    rounds
        Of one side or of both, the samples of each round.

    Returns
    -------
    tuple[float, float] or None
        What the value is multiplied by at either end; None where a side has fewer than two rounds.
    """
    if any(len(side) < 2 for side in rounds):
        return None
    return _drawn_interval(tuple(tuple(map(tuple, side)) for side in rounds))


@lru_cache(maxsize=1 << 16)  # a ratio is in several tables and figures
def _drawn_interval(rounds: tuple[tuple[tuple[float, ...], ...], ...]) -> Interval:
    """Return `relative_interval` of sides that have two rounds at the least."""
    from scipy.stats import bootstrap

    parts = [[np.asarray(part, float) for part in side] for side in rounds]

    def statistic(*draws: NDArray[np.integer], axis: int = -1) -> Floats:
        medians = [_medians(side, drawn) for side, drawn in zip(parts, draws, strict=True)]
        return medians[0] / medians[1] if len(medians) > 1 else medians[0]

    every = [np.arange(len(side)) for side in parts]
    drawn = bootstrap(
        every,
        statistic,
        vectorized=True,
        n_resamples=ROUND_DRAWS,
        confidence_level=LEVEL,
        method="percentile",
        random_state=np.random.default_rng(0),
    )
    low, high = np.array(drawn.confidence_interval) / statistic(*every)
    return float(low), float(high)


def _medians(rounds: Sequence[Floats], draws: NDArray[np.integer]) -> Floats:
    """Return the median of all samples of each draw of rounds; of few rounds there are few different draws."""
    flat = draws.reshape(-1, len(rounds))
    # a draw is told by the sum of its rounds' numbers, which are random, so that no two draws have the same
    codes = np.random.default_rng(1).integers(1 << 62, size=len(rounds))[flat].sum(axis=1)
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    medians = np.array([np.median(np.concatenate([rounds[number] for number in flat[one]])) for one in first])
    return medians[place].reshape(draws.shape[:-1])


def interval_of_mean(changes: Floats, cases: Sequence[object]) -> Interval | None:
    """Return the bootstrap's 95 % interval of the geometric mean of ratios; None of fewer than two cases.

    Whole cases are drawn, since a case is measured in one process and its rows are not independent. What all processes
    of a campaign share, such as the device, is not in it.

    Parameters
    ----------
    changes
        Logarithms of the ratios, of shape (rows,).
    cases
        The case of each row, of length rows; only whether two are equal counts.
    """
    from scipy.stats import bootstrap

    names = {case: place for place, case in enumerate(dict.fromkeys(cases))}
    if len(names) < 2:
        return None
    places = [names[case] for case in cases]
    sums, counts = np.bincount(places, weights=changes), np.bincount(places)
    drawn = bootstrap(
        (sums, counts),
        lambda sums, counts, axis: sums.sum(axis=axis) / counts.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=CASE_DRAWS,
        confidence_level=LEVEL,
        method="percentile",
        random_state=np.random.default_rng(0),  # the same campaigns always have the same interval
    )
    low, high = drawn.confidence_interval
    return exp(low), exp(high)


def ratio_of(base: ReportedTime | None, over: ReportedTime | None) -> float | None:
    """Return how many times faster `over` is than `base`, None if either is missing."""
    return base.seconds / over.seconds if base and over else None


def interval_of(timed: ReportedTime | None) -> Interval | None:
    """Return the interval of a time in seconds; None without samples of several rounds."""
    factors = relative_interval(timed.rounds) if timed else None
    return (timed.seconds * factors[0], timed.seconds * factors[1]) if timed and factors else None


def interval_of_ratio(base: ReportedTime | None, over: ReportedTime | None) -> Interval | None:
    """Return the interval of `ratio_of`; None without samples of several rounds of both."""
    ratio = ratio_of(base, over)
    factors = relative_interval(base.rounds, over.rounds) if base and over else None
    return (ratio * factors[0], ratio * factors[1]) if ratio and factors else None


def scaled(interval: Interval | None, factor: float) -> Interval | None:
    """Return an interval in another unit."""
    return (interval[0] * factor, interval[1] * factor) if interval else None


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of the numbers that are there, None of none."""
    numbers = [value for value in values if value]
    return exp(sum(map(log, numbers)) / len(numbers)) if numbers else None


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the numbers that are there, None of none."""
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
