"""Generated graphs: exactly the counts that are asked for, and the columns of their family."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.errors import ReproError
from repro.problems.assembly import Assembled
from repro.problems.generators import generate
from repro.problems.registry import Generated, load_registry
from repro.problems.surrogates import RUN, Family, LengthTargets, assemble_graph, row_lengths

REGISTRY = Path(__file__).parents[2] / "config/problems.yaml"
FAMILIES: tuple[Family, ...] = ("web", "social", "road", "uniform")
STAND_INS = [item for item in load_registry(REGISTRY).expand("king_stand_ins") if isinstance(item, Generated)]
#: Beyond these a stand-in takes more than a second; the lengths alone are quick.
QUICK = 2_000_000


def check(lengths: np.ndarray, wanted: LengthTargets) -> None:
    assert (len(lengths), lengths.sum()) == (wanted.rows, wanted.nonzeros)
    assert lengths.max() == wanted.longest
    assert lengths.min() >= wanted.shortest
    assert np.maximum(lengths - wanted.width, 0).sum() == wanted.overflow


def keys_of(matrix: Assembled) -> tuple[np.ndarray, np.ndarray]:
    rows = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr))
    return rows, rows * (matrix.columns or matrix.n) + matrix.indices


def random_wish(seed: int) -> tuple[LengthTargets, int]:
    """Draw lengths and ask for what they have, so that there are such lengths."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 400))
    lengths = np.minimum(rng.integers(0, 8, rows) + (rng.pareto(1.0, rows) * rng.integers(0, 6)).astype(int), 300)
    width = int(rng.integers(1, 12))
    spread = float(np.std(lengths)) if seed % 2 else None
    overflow = int(np.maximum(lengths - width, 0).sum())
    shortest, longest = int(lengths.min()), int(lengths.max())
    return LengthTargets(rows, int(lengths.sum()), min(shortest, width), longest, width, overflow, spread), max(
        1, 2 * longest
    )


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(40))
def test_counts_are_exact_whatever_is_asked_for(seed: int) -> None:
    wanted, columns = random_wish(seed)
    lengths = row_lengths(wanted)
    check(lengths, wanted)
    assert (np.diff(lengths) <= 0).all()
    family = FAMILIES[seed % len(FAMILIES)]
    matrix = assemble_graph(wanted, columns, family, seed)
    check(np.diff(matrix.indptr), wanted)
    assert (np.diff(keys_of(matrix)[1]) > 0).all(), "columns ascend, none twice"
    assert matrix.indices.size == 0 or 0 <= matrix.indices.min() <= matrix.indices.max() < columns
    again = assemble_graph(wanted, columns, family, seed)
    assert again.indices.tobytes() == matrix.indices.tobytes()
    assert again.values.tobytes() == matrix.values.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_full_rows(family: Family) -> None:
    matrix = assemble_graph(LengthTargets(3, 150, 0, 50, 4, 3 * 46), 50, family, 1)
    np.testing.assert_array_equal(matrix.indices.reshape(3, 50), np.tile(np.arange(50), (3, 1)))


@pytest.mark.parametrize(
    "wanted",
    [
        LengthTargets(10, 80, 9, 20, 8, 0),
        LengthTargets(10, 80, 0, 20, 8, 11),
        LengthTargets(10, 80, 0, 20, 4, 30),
        LengthTargets(10, 200, 0, 12, 8, 4),
        LengthTargets(10, 80, 0, 8, 8, 1),
        LengthTargets(10, 5, 0, 7, 8, 0),
        LengthTargets(0, 0, 0, 0, 1, 0),
    ],
    ids=lambda wanted: str(wanted.__dict__.values()),
)
def test_lengths_that_no_rows_have(wanted: LengthTargets) -> None:
    with pytest.raises(ReproError, match="no rows have these lengths"):
        row_lengths(wanted)


def test_overflow_that_fewer_rows_than_needed_can_hold() -> None:
    # at most three entries beyond the width in a row, so five take two rows; entries within it are there for one
    wanted = LengthTargets(rows=3, nonzeros=7, shortest=0, longest=5, width=2, overflow=5)
    assert (wanted.fewest, wanted.most) == (2, 1)
    with pytest.raises(ReproError, match="no rows have these lengths"):
        wanted.check()


@pytest.mark.wording
def test_a_row_cannot_be_longer_than_the_matrix_is_wide() -> None:
    with pytest.raises(ReproError, match="no such graph exists"):
        assemble_graph(LengthTargets(10, 80, 0, 20, 8, 15), 19, "web", 1)


@pytest.mark.sampled(5)
@pytest.mark.medium
@pytest.mark.parametrize("item", STAND_INS, ids=lambda item: item.name)
def test_the_lengths_of_every_stand_in_are_those_of_the_tables(item: Generated) -> None:
    given: dict[str, Any] = item.parameters
    wanted = LengthTargets(
        *given["size"], *(given[key] for key in ("shortest", "longest", "width", "overflow", "spread"))
    )
    if wanted.rows > QUICK:
        wanted.check()
        return
    lengths = row_lengths(wanted)
    check(lengths, wanted)
    assert np.std(lengths) == pytest.approx(wanted.spread, rel=0.05, abs=0.5)


def test_a_web_is_near_and_repeats_its_neighbours() -> None:
    matrix = generate("graph", size=[20_000, 200_000], longest=400, width=12, overflow=60_000, family="web")
    rows, _ = keys_of(matrix)
    assert 0.8 <= np.mean(np.abs(rows - matrix.indices) <= 1000) <= 0.92
    lists = [set(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]) for row in range(10 * RUN)]
    shared = [len(a & b) / max(1, len(a)) for a, b in pairwise(lists)]
    assert np.mean(shared) > 0.2


def test_few_columns_of_a_social_network_have_most_entries() -> None:
    social, uniform = (
        np.sort(np.bincount(generate("graph", family=family).indices, minlength=10_000))[::-1]
        for family in ("social", "uniform")
    )
    assert social[:100].sum() > 10 * uniform[:100].sum()
    assert social[0] > 100


def test_popular_columns_do_not_lie_together() -> None:
    counts = np.bincount(generate("graph", family="social").indices, minlength=10_000)
    popular = np.sort(np.argsort(counts)[-64:])
    assert np.median(np.diff(popular)) > 16


def test_a_road_is_near_in_a_grid() -> None:
    matrix = generate("graph", size=[10_000, 25_000], longest=9, width=4, overflow=600, family="road")
    rows, _ = keys_of(matrix)
    apart = np.abs(np.array(np.divmod(rows, 100)) - np.array(np.divmod(matrix.indices, 100)))
    assert np.mean(apart.max(axis=0) <= 4) > 0.9


def test_a_rectangular_graph() -> None:
    matrix = generate("graph", size=[40, 4000], columns=3000, longest=400, width=100, overflow=1200, family="uniform")
    assert (matrix.n, matrix.columns) == (40, 3000)
    assert matrix.indices.max() > 2500
