"""Strategies on problems with made-up times: which find the best variant with few measurements."""

from dataclasses import replace

import numpy as np
import pytest

from repro.codegen.targets import get_target
from repro.errors import ReproError
from repro.sparse.compound.variants import REFERENCE, VariantId, all_layouts, paper_space
from repro.tuning.recordings import Recording
from repro.tuning.strategies import (
    Exhaustive,
    Predicted,
    RandomSample,
    budgeted_count,
    likeness_weights,
    prior,
    replay,
    variant_covariance,
)

NAMES = [f"{layout}/{schedule}" for layout in all_layouts() for schedule in paper_space(get_target("sm_90"))]
LIKENESS = variant_covariance(tuple(NAMES), VariantId)
BUDGET = 0.02


def recording(number, names=NAMES, failed=()):
    """A problem that likes one format and one shape of block, as its number says, with some noise."""
    random = np.random.default_rng(number)
    liked = ("CSR", "ELL", "Sl")[number % 3]
    n_t, n_b = 6 + number % 4, number % 3
    seconds = {}
    for name in names:
        point = VariantId.parse(name).point
        words, numbers = point.words, point.numbers
        slow = 0.3 * (words[0] != liked) + 0.1 * (words[1] != "AoS") + 0.2 * (words[4] == "dynamic")
        slow += 0.05 * (numbers[1] - n_t) ** 2 + 0.03 * (numbers[2] - n_b) ** 2
        seconds[name] = 1e-6 * (1 + number) * np.exp(slow + random.normal(0, 0.01))
    for name in failed:
        seconds[name] = None
    features = np.array([number % 3, number % 4, 1.0])
    return Recording(f"p{number}", "real", "single", "cuda", features, seconds)


RECORDED = [recording(number) for number in range(8)]


def predicted(recordings, one):
    return replay(Predicted(recordings, one.features, BUDGET, VariantId, str(REFERENCE)), one)


def test_the_budget_is_a_share_of_the_space():
    assert budgeted_count(NAMES, BUDGET) == 38
    assert budgeted_count(NAMES[:3], BUDGET) == 1


@pytest.mark.parametrize(
    "strategy", [Exhaustive(), RandomSample(BUDGET, 1), Predicted(RECORDED, RECORDED[0].features, BUDGET, VariantId)]
)
def test_a_space_without_variants_of_a_problem_is_no_error(strategy):
    strategy([], lambda index: pytest.fail("nothing is to be measured"))


def test_exhaustive_tries_all_in_order():
    assert replay(Exhaustive(), RECORDED[0]) == NAMES


def test_a_random_sample_is_as_large_as_it_may_be_and_depends_on_the_seed():
    first, again, other = (replay(RandomSample(BUDGET, seed), RECORDED[0]) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) == 38


@pytest.mark.parametrize("number", range(8, 12))
def test_predicted_finds_the_best_of_a_problem_it_has_not_seen(number):
    one = recording(number)
    tried = predicted(RECORDED, one)
    assert len(tried) == len(set(tried)) == 38
    assert one.losses(tried)[-1] < 0.02
    assert np.mean([one.losses(replay(RandomSample(BUDGET, seed), one))[-1] for seed in range(5)]) > 0.03


class Builds:
    """What a search lets build before it measures."""

    def __init__(self, width):
        self.width, self.batches = width, []

    def __call__(self, indices):
        self.batches.append(list(indices))


def built(strategy, one, width):
    """Return what a search that builds so many at once measures, and what it builds."""
    builds, tried = Builds(width), []

    def measure(index):
        assert any(index in batch for batch in builds.batches)
        tried.append(one.names[index])
        return one.seconds[one.names[index]]

    strategy(one.names, measure, builds)
    return tried, builds.batches


@pytest.mark.parametrize("number", range(8, 12))
@pytest.mark.parametrize("width", [1, 16])
def test_what_predicted_measures_does_not_depend_on_what_it_builds_ahead(number, width):
    one = recording(number)
    strategy = Predicted(RECORDED, one.features, BUDGET, VariantId, str(REFERENCE))
    tried, batches = built(strategy, one, width)
    assert tried == predicted(RECORDED, one)
    of_all = [index for batch in batches for index in batch]
    assert len(of_all) == len(set(of_all))
    if width == 1:
        assert {one.names[index] for index in of_all} == set(tried)
    else:  # a wait for many, in place of one for each
        assert len(batches) < 38 / 2
        assert len(of_all) < 5 * 38


@pytest.mark.parametrize("strategy", [RandomSample(BUDGET, 1), Exhaustive()])
def test_what_is_known_before_is_built_in_full_batches(strategy):
    one = RECORDED[0]
    tried, batches = built(strategy, one, 16)
    assert [one.names[index] for batch in batches for index in batch] == tried
    assert {len(batch) for batch in batches[:-1]} == {16}


def test_predicted_begins_with_the_reference_layout_and_repeats_itself():
    one = recording(9)
    tried = predicted(RECORDED, one)
    assert tried[0].startswith(f"{REFERENCE}/")
    assert tried == predicted(RECORDED, one)


def test_predicted_finds_what_works_where_the_favourite_format_does_not():
    one = recording(9, failed=[name for name in NAMES if name.startswith("CSR")])
    assert one.losses(predicted(RECORDED, one))[-1] < 0.05


def test_problems_that_are_alike_count_more():
    one = recording(9)
    near, far = recording(0), recording(1)
    near, far = (Recording(r.problem, "real", "single", "cuda", f, r.seconds) for r, f in (
        (near, one.features), (far, one.features + 9)))  # fmt: skip
    mean = prior(NAMES, [near, far], one.features, LIKENESS).mean
    expected = np.log([near.seconds[name] for name in NAMES])
    assert np.corrcoef(mean, expected)[0, 1] > 0.99


def test_problems_are_compared_by_what_is_known_of_both():
    """Of what is NaN nothing follows; and a feature that is known of none changes nothing."""
    target = np.array([1.0, 2.0, 0.5])
    known = np.array([[1.0, 2.0, 0.5], [1.0, 2.0, 9.0], [1.0, 5.0, 0.4], [3.0, 2.0, 0.5]])
    unknown = np.column_stack([known[:, :2], np.full(4, np.nan)])
    np.testing.assert_allclose(likeness_weights(unknown, target), likeness_weights(known[:, :2], target[:2]))
    first, second, *_ = likeness_weights(known, target)
    assert first > 1.5 * second
    partly = known.copy()
    partly[1, 2] = np.nan
    first, second, *_ = likeness_weights(partly, target)
    assert first == pytest.approx(second), "they are the same in all that is known of both"
    assert np.isfinite(likeness_weights(np.full((2, 3), np.nan), target)).all()


def test_variants_that_were_never_recorded_are_judged_by_those_like_them():
    known = [name for name in NAMES if "-192-" not in name]
    belief = prior(NAMES, [recording(0, known), recording(3, known)], RECORDED[0].features, LIKENESS)
    whole = prior(NAMES, [recording(0), recording(3)], RECORDED[0].features, LIKENESS)
    new = np.array([name not in known for name in NAMES])
    assert np.corrcoef(belief.mean[new], whole.mean[new])[0, 1] > 0.8


def test_a_variant_that_failed_before_is_expected_to_be_slow():
    failed = [name for name in NAMES if name.startswith("ELL-SoA-SoA")]
    mean = prior(NAMES, [recording(1, failed=failed)], RECORDED[1].features, LIKENESS).mean
    assert mean[NAMES.index(failed[0])] == mean.max()


def test_a_problem_on_which_all_of_a_space_failed_tells_nothing_of_it():
    failed = recording(0, failed=NAMES)
    failed = replace(failed, seconds={**failed.seconds, "of another space": 1e-6})
    alone = prior(NAMES, RECORDED, RECORDED[1].features, LIKENESS).mean
    np.testing.assert_array_equal(prior(NAMES, [failed, *RECORDED], RECORDED[1].features, LIKENESS).mean, alone)
    with pytest.raises(ReproError, match="no recorded campaign searched this space"):
        predicted([failed], recording(9))


@pytest.mark.wording
def test_a_space_that_nobody_searched_is_an_error():
    few = recording(0, NAMES[:100])
    with pytest.raises(ReproError, match="no recorded campaign searched this space"):
        predicted([few], recording(9))
