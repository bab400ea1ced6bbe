"""The Gaussian process: it learns as by the textbook's formula, and proposes the most promising variants."""

import numpy as np
import pytest

from repro.tuning.strategies import MEDIAN_DEVIATION, NEAR, SPEED_DEVIATION, VARIANT_DEVIATION, GaussianProcess

N = 30


@pytest.fixture
def parts():
    random = np.random.default_rng(0)
    places = random.uniform(0, 3, N)
    factors = random.normal(0, 0.3, (4, N))
    mean = random.uniform(0, 1, N)
    return mean, factors, lambda index: np.exp(-((places - places[index]) ** 2) / 2), np.arange(N) // 10


def test_the_process_learns_what_conditioning_says(parts):
    mean, factors, likeness, _ = parts
    belief = GaussianProcess(*parts)
    seen, times = [3, 17, 4, 29], [2e-6, 3e-6, 1.5e-6, 9e-6]
    for index, seconds in zip(seen, times, strict=True):
        belief.observe(index, seconds)
    prior = (
        factors.T @ factors
        + SPEED_DEVIATION**2
        + NEAR**2 * np.array([likeness(i) for i in range(N)])
        + VARIANT_DEVIATION**2 * np.eye(N)
    )
    gain = prior[:, seen] @ np.linalg.inv(prior[np.ix_(seen, seen)] + MEDIAN_DEVIATION**2 * np.eye(len(seen)))
    assert belief.mean == pytest.approx(mean + gain @ (np.log(times) - mean[seen]), abs=1e-6)
    assert belief.variance == pytest.approx(np.diag(prior - gain @ prior[seen]), abs=1e-6)


def test_one_time_tells_how_fast_the_whole_problem_is(parts):
    belief = GaussianProcess(*parts)
    belief.observe(0, 1e-3)
    shift = belief.mean - parts[0]
    assert np.abs(shift - shift.mean()).max() < 1  # all are about as much slower than was believed
    assert shift.mean() == pytest.approx(np.log(1e-3) - parts[0][0], abs=0.5)


def test_nothing_is_asked_for_twice(parts):
    belief = GaussianProcess(*parts)
    asked = []
    for _ in range(N):
        asked.append(belief.most_promising())
        belief.observe(asked[-1], 1e-6)
    assert sorted(asked) == list(range(N))


def test_the_first_is_the_one_believed_fastest_of_those_allowed(parts):
    belief = GaussianProcess(*parts)
    assert belief.most_promising() == belief.fastest() == np.argmin(parts[0])
    among = np.arange(N) % 2 == 1
    assert belief.fastest(among) == min(range(1, N, 2), key=lambda index: parts[0][index])


def test_a_layout_that_failed_comes_later():
    # two layouts of alike variants; the one that is believed faster does not compile
    layouts = np.repeat([0, 1], 10)
    mean = np.where(layouts == 0, 0.0, 0.05) + np.arange(20) * 1e-3
    factors = 0.1 * np.array([layouts == 0, layouts == 1])
    belief = GaussianProcess(mean, factors, lambda index: (layouts == layouts[index]).astype(float), layouts)
    asked = []
    for _ in range(10):
        asked.append(belief.most_promising())
        belief.observe(asked[-1], None if layouts[asked[-1]] == 0 else 1e-6)
    assert list(layouts[asked])[:2] == [0, 1]
    assert list(layouts[asked]).count(0) <= 4
