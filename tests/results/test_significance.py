"""Changes told from how runs scatter: each formula by itself, and a recorded campaign beside its repetition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import exp, log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import CLOCKS, QUANTILES
from repro.results.campaign_data import Campaign
from repro.results.cross_campaign import Comparison, compare_campaigns
from repro.results.significance import (
    CASE_DRAWS,
    DEGREES,
    MIN_GROUP,
    RECORDED,
    ROUND_DRAWS,
    adjusted_p_values,
    interval_of_mean,
    p_values,
    relative_interval,
    sampling_error,
    spread_between_runs,
)  # fmt: skip
from repro.studies import get_study

RESULTS = Path(__file__).parents[2] / "results"
STUDY = "compound_spmv"
TOLERANCE = 0.02
Change = Callable[[pd.DataFrame], "np.ndarray | float"]


def draw(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_error_of_a_median_is_that_of_normal_samples() -> None:
    samples = draw().normal(10, 0.5, (4000, 100))
    q1, median, q3 = np.quantile(samples, [0.25, 0.5, 0.75], axis=1)
    errors = sampling_error(q1, median, q3, np.full(4000, 100.0))
    assert np.median(errors) == pytest.approx((median / 10).std(), rel=0.05)


def test_a_sample_of_unknown_size_counts_as_one_launch() -> None:
    ones, sizes = np.ones(3), np.array([1, np.nan, 4])
    assert list(sampling_error(0.9 * ones, ones, 1.1 * ones, sizes)) == pytest.approx(
        [0.2 * 1.25 / 1.35, 0.2 * 1.25 / 1.35, 0.1 * 1.25 / 1.35]
    )


@pytest.mark.parametrize("shared", [0.0, log(1.2)])
@pytest.mark.parametrize("part", [0.0, 0.3])
def test_spreads_are_of_like_durations_and_not_of_changes(shared: float, part: float) -> None:
    """Neither a change of three rows in ten nor one of all rows counts; each duration has its own spread."""
    rows = 20 * MIN_GROUP
    seconds = np.repeat([1e-6, 1e-3], rows // 2)
    scale = np.repeat([0.02, 0.002], rows // 2)
    changes = draw(1).standard_t(DEGREES, rows) * scale + shared
    changes[draw(2).random(rows) < part] += 1.0
    spreads = spread_between_runs(changes, seconds, "event")
    for short in (True, False):
        ours, true = spreads[(seconds < 1e-4) == short], scale[(seconds < 1e-4) == short]
        assert np.median(ours / true) == pytest.approx(1.0 / (1 - part), rel=0.35)


def test_few_rows_and_unchanged_ones_have_the_recorded_spread() -> None:
    none, tiny = np.zeros(MIN_GROUP), np.linspace(0, 1e-3, MIN_GROUP)
    assert set(spread_between_runs(none, none + 1, "event")) == {RECORDED["event"]}
    assert set(spread_between_runs(tiny[1:], tiny[1:] + 1, "event")) == {RECORDED["event"]}
    assert max(spread_between_runs(tiny, tiny + 1, "event")) < 1e-3
    assert min(spread_between_runs(1e3 * tiny[1:], tiny[1:] + 1, "event")) > RECORDED["event"]
    assert not len(spread_between_runs(none[:0], none[:0], "graph"))


def test_p_values_hold_their_level_at_the_edge_of_the_tolerance_and_within() -> None:
    noise = 0.01 * draw(3).standard_t(DEGREES, 40_000)
    spreads, errors = np.full(40_000, 0.01), np.zeros(40_000)
    for true, lowest in ((log(1 + TOLERANCE), 0.7), (-log(1 + TOLERANCE), 0.7), (0.0, 0.0)):
        p = p_values(true + noise, spreads, errors, TOLERANCE)
        for level in (0.1, 0.01, 0.001):
            assert lowest * level <= (p <= level).mean() <= 1.25 * level
    assert (p_values(noise + 0.2, spreads, errors, TOLERANCE) < 0.01).mean() > 0.99


def test_no_spread_at_all_decides_by_the_tolerance() -> None:
    changes, none = np.log([1.0, 1.019, 1.021, 1 / 1.021]), np.zeros(4)
    assert list(p_values(changes, none, none, TOLERANCE)) == pytest.approx([1, 1, 0, 0])
    assert list(p_values(changes, none, none + 1, TOLERANCE) > 0.9) == [True] * 4


def test_p_values_near_zero_are_those_by_hand() -> None:
    # within the tolerance, a change of the other direction can be as large: P(T > 0) + P(T > 1) of Student's T with
    # five degrees of freedom, where P(T > 1) = 1/2 - (arctan(1/√5) + 7 √5/27) / π
    one = np.ones(3)
    p = p_values(np.array([0.0, 0.5, -0.5]), one, 0 * one, exp(0.5) - 1)
    assert list(p) == pytest.approx([1, 0.681609, 0.681609], abs=1e-6)


def test_adjusted_values_are_those_of_benjamini_and_hochberg() -> None:
    p = np.array([0.01, np.nan, 0.04, 0.03, 0.5])
    assert adjusted_p_values(p) == pytest.approx([0.04, np.nan, 0.16 / 3, 0.16 / 3, 0.5], nan_ok=True)
    assert np.isnan(adjusted_p_values(np.full(2, np.nan))).all() and not len(adjusted_p_values(p[:0]))


def test_intervals_cover_the_mean_of_dependent_rows() -> None:
    """Rows of a case share most of their error: rows drawn one by one would cover far less."""
    hits, cases = 0, np.repeat(np.arange(30), 10)
    for seed in range(60):
        changes = log(1.1) + np.repeat(draw(seed).normal(0, 0.05, 30), 10) + draw(seed + 1000).normal(0, 0.01, 300)
        low, high = interval_of_mean(changes, list(cases)) or (0.0, 0.0)
        hits += low <= 1.1 <= high
    assert hits >= 50


def test_intervals_are_the_same_each_time_and_need_five_cases() -> None:
    changes, cases = np.log([1.1, 1.2, 1.3, 1.2, 1.1, 1.2]), ["a", "b", "b", "c", "d", "e"]
    interval = interval_of_mean(changes, cases)
    assert interval is not None and interval == interval_of_mean(changes, cases)
    assert 1.1 <= interval[0] < exp(changes.mean()) < interval[1] <= 1.25
    assert interval_of_mean(changes[:5], cases[:5]) is None and interval_of_mean(changes[:0], []) is None


def test_intervals_are_those_of_scipys_bootstrap() -> None:
    ours, theirs = (1 + 0.1 * draw(seed).random(size) for seed, size in ((1, 5), (2, 7)))
    by_percentiles = {"method": "percentile", "vectorized": True, "rng": 0}
    scipys = bootstrap(
        (ours, theirs),
        lambda one, other, axis: np.median(one, axis) / np.median(other, axis),
        n_resamples=ROUND_DRAWS,
        **by_percentiles,
    ).confidence_interval
    own = np.median(ours) / np.median(theirs)
    assert relative_interval(ours[:, None], theirs[:, None]) == pytest.approx(np.divide(scipys, own), rel=1e-12)
    scipys = bootstrap((ours,), np.mean, n_resamples=CASE_DRAWS, **by_percentiles).confidence_interval
    assert interval_of_mean(ours, range(len(ours))) == pytest.approx(np.exp(scipys), rel=1e-12)


@cache
def recorded(name: str) -> Campaign:
    return Campaign.load(CampaignFolder.of(name, RESULTS), STUDY, get_study(STUDY).columns)


def made_slower(campaign: Campaign, change: Change) -> Campaign:
    report = campaign.report.copy()
    for column in [f"{clock}_{quantile}" for clock in CLOCKS for quantile in QUANTILES]:
        report[column] *= change(report)
    return replace(campaign, report=report)


def compared(first: str, second: str, change: Change = lambda rows: 1.0) -> Comparison:
    """The recorded files, the second one's times multiplied by what `change` returns for its rows."""
    ours = [recorded(first), made_slower(recorded(second), change)]
    folders = [CampaignFolder.of(name, RESULTS) for name in (first, second)]
    only = dict(zip(folders, ours, strict=True))
    # the repetition has one study, so that no other one is asked for
    return compare_campaigns(*folders, tolerance=TOLERANCE, load=lambda folder, study: only[folder])


BOTH_WAYS = pytest.mark.parametrize(
    ("first", "second"),
    [("first-h200", "repeat-h200"), ("repeat-h200", "first-h200")],
    ids=["recorded-first", "repetition-first"],
)


@BOTH_WAYS
def test_a_repetition_is_no_regression(first: str, second: str) -> None:
    comparison = compared(first, second)
    counts = comparison.rows["verdict"].value_counts()
    assert len(comparison.rows) == 1602
    assert set(counts.index) == {"same", "undecided"}
    assert counts["same"] > 1200
    for level in (0.1, 0.05, 0.01, 0.001):
        assert (comparison.rows["p"] <= level).mean() <= level
    mean, interval = comparison.mean_ratio()
    assert interval is not None
    assert interval[0] < 1 < interval[1]
    assert interval[0] < mean < interval[1]


def test_spreads_on_record_are_those_of_the_repetition() -> None:
    rows = compared("first-h200", "repeat-h200").rows
    for clock in CLOCKS:
        assert rows[f"{clock}_spread"].max() == pytest.approx(RECORDED[clock], rel=0.01)


@BOTH_WAYS
@pytest.mark.parametrize("part", [1.0, 0.3, 0.1], ids=["all", "three-in-ten", "one-in-ten"])
def test_rows_made_slower_are_told_and_others_are_not(first: str, second: str, part: float) -> None:
    def change(rows: pd.DataFrame) -> np.ndarray:
        return np.where(changed(rows), 1.2, 1.0)

    def changed(rows: pd.DataFrame) -> np.ndarray:
        hashes = pd.util.hash_pandas_object(rows[["problem", "precision", "kind", "name"]], index=False)
        return (hashes.to_numpy() % np.uint64(1000)) < 1000 * part

    rows = compared(first, second, change).rows
    is_slower, is_changed = (rows["verdict"] == "slower").to_numpy(), changed(rows)
    assert is_slower[is_changed].mean() > 0.95
    assert (is_slower & ~is_changed).sum() <= 0.05 * is_slower.sum()
    assert rows["verdict"].eq("faster").sum() <= 0.05 * is_slower.sum()


def test_one_long_kernel_made_slower_is_told_among_all() -> None:
    """A single row among 1,602: where launches take long enough to be read well."""
    rows = compared("first-h200", "repeat-h200").rows
    longest = rows[rows["kind"] == "variant"].nlargest(1, "event_first").iloc[0]

    def change(rows: pd.DataFrame) -> np.ndarray:
        keys = ["problem", "precision", "kind", "name", "cache"]
        return np.where((rows[keys] == longest[keys]).all(axis=1), 1.2, 1.0)

    assert list(compared("first-h200", "repeat-h200", change).slower["name"]) == [longest["name"]]
