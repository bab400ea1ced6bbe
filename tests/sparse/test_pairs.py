"""Pairs as they are packed: the matrix can be had again from them, exactly, and nothing of it is there twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import Unsupported
from repro.problems.generators import generate
from repro.problems.matrix import Matrix
from repro.sparse.operands import csr_bytes
from repro.sparse.ordering import cluster_rows
from repro.sparse.pairs import LEADING, NO_COLUMN, NO_PAIR, SLICE, Pairs, find_pairs, orient
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC, adjoint_factors, symmetry_of
from support.symmetric_problems import KINDS, disturbed, symmetric_problem, without_entry

TILES = (64, 128, 256)


def unpacked(
    pairs: Pairs, problem: Matrix, given: np.ndarray, size: int, clustered: bool, run: int
) -> tuple[dict, int]:
    """Return the values by row and column as the arrays alone say them, and how many entries are stored.

    Products go where a kernel puts them: each slot of shared memory has to be written once, for the row that reads it.
    """
    n, members, columns = problem.n, problem.values.shape[1], pairs.tiles.columns
    tiles = -(-n // size)
    assert len(np.unique(pairs.position)) == len(pairs.tiles.entries), "two entries in a slot"
    values = np.zeros((pairs.slots, members), given.dtype)
    values[pairs.position] = given[pairs.tiles.entries]
    ends = np.cumsum([tiles * size // SLICE + 1, tiles + 1, tiles * size])
    slices, first_overflow, words, order = np.split(pairs.index, ends)
    assert len(order) == (n if clustered else 0)
    if not clustered:
        order = np.arange(n)
    words = words.view(np.uint32).astype(int)
    plain = (problem.entry, pairs.tiles.sign) == ("complex", 1)
    factors = np.eye(members) if plain else adjoint_factors(problem.entry)
    found: dict[tuple[int, int], np.ndarray] = {}
    used = 0
    for tile in range(tiles):
        own = words[tile * size : (tile + 1) * size]
        numbers, first_slot, counts = own & 255, own >> 8 & 0xFFFF, own >> 24
        assert sorted(numbers) == list(range(size))
        slots_of = {
            row: range(first, first + count) for row, first, count in zip(numbers, first_slot, counts, strict=True)
        }
        rows, leading = order[tile * size :][:size], columns[tile * pairs.tiles.leading :][: pairs.tiles.leading]
        foreign = np.concatenate([leading, columns[first_overflow[tile] : first_overflow[tile + 1]]])
        count = np.count_nonzero(foreign != NO_COLUMN)
        assert (foreign[:count] != NO_COLUMN).all() and len(set(foreign[:count])) == count
        assert size + len(foreign) + sum(counts) <= pairs.tiles.shared
        written = []
        for place, number in enumerate(numbers, tile * size):
            if pairs.tiles.diagonal[place] >= 0:
                found[int(rows[number]), int(rows[number])] = given[pairs.tiles.diagonal[place]]
                used += 1
            first, end = slices[place // SLICE], slices[place // SLICE + 1]
            assert (end - first) % (SLICE * run) == 0
            runs = range(first + run * (place % SLICE), end, SLICE * run)
            for slot in (slot + i for slot in runs for i in range(run)):
                code = int(pairs.codes[slot])
                if code >= NO_PAIR + size:
                    column = foreign[code - NO_PAIR - size]
                elif code >= NO_PAIR:
                    assert code == NO_PAIR + number and not values[slot].any(), "padding has a value"
                    continue
                else:
                    column = rows[code % size]
                    written.append(slots_of[code % size][code // size])
                    assert (column, rows[number]) not in found
                    found[int(column), int(rows[number])] = values[slot] @ factors
                assert (rows[number], column) not in found
                found[int(rows[number]), int(column)] = values[slot]
                used += 1
        assert sorted(written) == list(range(sum(counts))), "a slot that is not written, or twice"
    return found, used


def check(problem: Matrix, size: int, *, clustered: bool = False, dtype: type = np.float64, run: int = 1) -> Pairs:
    values = problem.values.astype(dtype)
    order = cluster_rows(problem) if clustered else None
    pairs = find_pairs(problem, symmetry_of(problem, values), size, order, run)
    found, used = unpacked(pairs, problem, values, size, clustered, run)
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    expected = {(int(i), int(j)): value for i, j, value in zip(rows, problem.indices, values, strict=True)}
    assert found.keys() == expected.keys()
    assert all((found[key] == expected[key]).all() for key in expected)
    assert used < len(expected) or problem.n == 1 or not (rows != problem.indices).any()
    return pairs


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("size", TILES)
@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_the_matrix_can_be_had_again(entry: str, kind: str, size: int, clustered: bool) -> None:
    pairs = check(symmetric_problem(entry, kind), size, clustered=clustered)
    assert pairs.tiles.sign == (-1 if kind == HERMITIAN else 1)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 200),
    reach=st.integers(1, 90),
    diagonal=st.booleans(),
    clustered=st.booleans(),
    run=st.sampled_from([1, 2, 4, 8]),
)
def test_matrices_of_any_size(n: int, reach: int, diagonal: bool, clustered: bool, run: int) -> None:
    problem = symmetric_problem("complex", HERMITIAN, n, reach=reach, diagonal=diagonal)
    check(problem, 64, clustered=clustered, dtype=np.float32, run=run)


def test_one_tile_has_no_foreign_columns() -> None:
    assert len(check(symmetric_problem("real", SYMMETRIC, 64), 64).tiles.columns) == 0


def test_a_tile_that_reads_many_columns_has_the_further_ones_behind_those_of_all() -> None:
    alike, uneven = symmetric_problem("real", SYMMETRIC, 1280), symmetric_problem("real", SYMMETRIC, 1280, hub=70)
    further = []
    for problem in (alike, uneven):
        pairs = check(problem, 64)
        tile = np.repeat(np.arange(problem.n), problem.row_lengths) // 64
        read = np.unique(tile * problem.n + problem.indices)
        counts = np.bincount((read // problem.n)[read // problem.n != read % problem.n // 64], minlength=20)
        assert pairs.tiles.leading == min(counts.max(), int(LEADING * counts.mean()))
        assert len(pairs.tiles.columns) == 20 * pairs.tiles.leading + np.maximum(counts - pairs.tiles.leading, 0).sum()
        further.append(len(pairs.tiles.columns) - 20 * pairs.tiles.leading)
    assert further[1] > 500 > further[0]


def test_a_row_that_is_longer_than_a_tile() -> None:
    problem = symmetric_problem("quaternion", HERMITIAN, 300, hub=40)
    assert problem.row_lengths.max() > 128
    check(problem, 64)
    check(problem, 128, clustered=True)


@pytest.mark.wording
def test_a_tile_with_more_foreign_columns_than_a_code_says_is_refused() -> None:
    n, ends = 40000, np.arange(64, 40000)
    rows = np.concatenate([ends % 64, ends])
    columns = np.concatenate([ends, ends % 64])
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int32)
    problem = Matrix("comb", "real", n, indptr, columns[order].astype(np.int32), np.ones((len(rows), 1)))
    with pytest.raises(Unsupported, match="reads 39936 columns of others, more than 32704"):
        find_pairs(problem, symmetry_of(problem, problem.values), 64)


def test_a_row_with_more_slots_than_a_code_says_is_refused() -> None:
    problem = symmetric_problem("real", SYMMETRIC, 256, hub=0)
    with pytest.raises(Unsupported, match=r"a row receives \d+ products in its tile, more than 128"):
        check(problem, 256)


def test_a_matrix_without_zeros() -> None:
    n = 256
    columns = np.tile(np.arange(n, dtype=np.int32), n)
    full = Matrix("full", "real", n, np.arange(n + 1, dtype=np.int32) * n, columns, np.ones((n * n, 1)))
    check(full, 256)


@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_what_is_not_symmetric_is_refused(entry: str, kind: str) -> None:
    problem = symmetric_problem(entry, kind)
    assert symmetry_of(problem, problem.values).kind == kind
    for other, message in (
        (without_entry(problem), r"not symmetric: there is an entry in row \d+, column \d+, and none across from it"),
        (disturbed(problem), r"the values of row \d+, column \d+, and across from it do not agree exactly"),
    ):
        symmetry = symmetry_of(other, other.values)
        assert symmetry.kind == ""
        with pytest.raises(Unsupported, match=message):
            find_pairs(other, symmetry, 64)
    single = disturbed(problem).values.astype(np.float32)
    assert symmetry_of(problem, single).kind == kind, "what agrees once it is rounded is symmetric then"


def test_the_place_that_is_named_is_the_first_without_a_partner() -> None:
    problem = symmetric_problem("real", SYMMETRIC, 60)
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    which = int(np.flatnonzero(rows < problem.indices)[5])
    row, column = int(rows[which]), int(problem.indices[which])
    lower = int(np.flatnonzero((rows == column) & (problem.indices == row))[0])
    off_diagonal = np.flatnonzero(rows != problem.indices)
    less = without_entry(problem, int(np.flatnonzero(off_diagonal == lower)[0]))
    assert f"row {row}, column {column}," in symmetry_of(less, less.values).why


def test_real_complex_numbers_are_hermitian_and_skew_ones_are_neither() -> None:
    problem = symmetric_problem("complex", SYMMETRIC)
    real = replace(problem, values=problem.values * [1, 0])
    assert symmetry_of(real, real.values).kind == HERMITIAN
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    skew = replace(problem, values=problem.values * np.where(rows < problem.indices, 1, -1)[:, None])
    assert symmetry_of(skew, skew.values).kind == ""


def test_rows_have_equally_much_to_do() -> None:
    problem = symmetric_problem("real", SYMMETRIC, 2000, reach=8)
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    upper = rows < problem.indices
    a, b = rows[upper], problem.indices[upper]
    work = np.random.default_rng(1).integers(0, 3, problem.n)
    first = orient(a, b, work)
    done = work + np.bincount(np.where(first, a, b), minlength=problem.n)
    owner, other = np.where(first, a, b), np.where(first, b, a)
    assert (done[owner] <= done[other] + 1).all(), "a pair could be moved"
    assert done[np.unique(a)].std() < 1.1


@pytest.mark.parametrize(
    ("name", "precision", "most"),
    [("dirac_torus", np.float32, 0.75), ("dirac_torus", np.float64, 0.7), ("elasticity_mapped", np.float64, 0.7)],
)
def test_bytes_are_fewer_than_those_of_csr(name: str, precision: type, most: float) -> None:
    made = generate(name)
    problem = Matrix(
        name, "quaternion" if "dirac" in name else "block3", made.n, made.indptr, made.indices, made.values
    )
    values = problem.values.astype(precision)
    pairs = find_pairs(problem, symmetry_of(problem, values), 128, cluster_rows(problem))
    stored = pairs.slots * values[0].nbytes + pairs.index.nbytes + pairs.codes.nbytes + pairs.tiles.columns.nbytes
    assert stored < most * csr_bytes(problem, values.itemsize)


def test_tiles_are_whole_and_have_each_row_once() -> None:
    problem = symmetric_problem("real", SYMMETRIC, 1000)
    order = cluster_rows(problem)
    assert sorted(order) == list(range(1000))
    tile = np.empty(1000, int)
    tile[order] = np.arange(1000) // 64
    rows = np.repeat(np.arange(1000), problem.row_lengths)
    i, j = rows[rows != problem.indices], problem.indices[rows != problem.indices]
    shuffled = np.random.default_rng(0).permutation(1000) // 64
    inside, by_chance = ((of[i] == of[j]).mean() for of in (tile, shuffled))
    assert inside > 3 * by_chance
