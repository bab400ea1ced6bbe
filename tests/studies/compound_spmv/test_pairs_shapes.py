"""Every format of pairs with every entry in both precisions, as CUDA on the CPU, on matrices of all shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_pairs_kernels import PRECISIONS, emulated

from repro.errors import Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.compound.variants import TILE_ROWS, Layout, Schedule, VariantId
from repro.sparse.symmetry import HERMITIAN
from support.emulated_cuda import needs_compiler
from support.symmetric_problems import KINDS, disturbed, symmetric_problem, without_entry

pytestmark = pytest.mark.medium

CASES = [
    (outer, entry, precision)
    for outer in TILE_ROWS
    for entry in dict.fromkeys(entry for entry, _ in KINDS)
    for precision in PRECISIONS
]


def variant(outer: str, entry: str, precision: str) -> VariantId:
    """Threads of a row, entries in flight, hints to the caches and orders of the rows take turns."""
    turn = CASES.index((outer, entry, precision))
    of_entry, of_tile, single = turn // 2 % 4, turn // 8, precision == "single"
    width, unroll, load = 1 + (of_entry + single) % 2, (1, 2, 4)[turn % 3], ("ca", "cs")[(of_entry // 2 + of_tile) % 2]
    layout = Layout(outer, "AoSoA", "AoS", ("natural", "clustered")[(of_entry + of_tile) % 2])
    return VariantId(layout, Schedule("direct", TILE_ROWS[outer] * width, 1, width, unroll, load))


def without_rows(problem: Matrix, first: int, last: int) -> Matrix:
    """Return it with neither rows nor columns from the first to before the last: empty ones in their place."""
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    gone = ((rows >= first) & (rows < last)) | ((problem.indices >= first) & (problem.indices < last))
    lengths = np.bincount(rows[~gone], minlength=problem.n)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return replace(problem, indptr=indptr, indices=problem.indices[~gone], values=problem.values[~gone]).validate()


def shapes(entry: str, kind: str, tile: int) -> dict[str, Matrix]:
    """Return matrices of all shapes for tiles of so many rows; in all but one each 11th row is empty."""
    hub = 2 * tile + 25  # in a last tile of few rows, since a row has slots for no more than 128 products
    made = {
        "one tile": symmetric_problem(entry, kind, tile),
        "a row more than a tile": symmetric_problem(entry, kind, tile + 1),
        "less than a slice": symmetric_problem(entry, kind, 5),
        "no diagonal": symmetric_problem(entry, kind, tile + 40, diagonal=False),
        "a row longer than a tile": symmetric_problem(entry, kind, 2 * tile + 30, hub=hub),
        "an empty tile": without_rows(symmetric_problem(entry, kind, 2 * tile + 9, reach=2 * tile), tile, 2 * tile),
        "the last rows empty": without_rows(symmetric_problem(entry, kind, tile + 30), tile - 3, tile + 30),
    }
    assert made["a row longer than a tile"].row_lengths[hub] > tile
    rows = {name: np.repeat(np.arange(one.n), one.row_lengths) for name, one in made.items()}
    assert not (rows["no diagonal"] == made["no diagonal"].indices).any()
    assert all((one.row_lengths == 0).any() for one in made.values())
    return made


@pytest.mark.sampled(3)
@needs_compiler
@pytest.mark.parametrize(("outer", "entry", "precision"), CASES)
def test_products_of_all_shapes_are_right(
    built_folder: Path, templates: Path, outer: str, entry: str, precision: str
) -> None:
    id = variant(outer, entry, precision)
    for kind in (kind for name, kind in KINDS if name == entry):
        for shape, problem in shapes(entry, kind, TILE_ROWS[outer]).items():
            errors = emulated(problem, precision, id, templates, built_folder)
            assert errors.shape[0] == problem.n and errors.max() <= 1, f"{kind}, {shape}: {errors.max()}"  # nor NaN


@needs_compiler
@pytest.mark.parametrize(("outer", "entry", "precision"), CASES)
def test_what_is_not_symmetric_is_refused(
    built_folder: Path, templates: Path, outer: str, entry: str, precision: str
) -> None:
    id = variant(outer, entry, precision)
    for kind in (kind for name, kind in KINDS if name == entry):
        problem = symmetric_problem(entry, kind, TILE_ROWS[outer] + 9)
        values = problem.values.copy()
        values[np.repeat(np.arange(problem.n), problem.row_lengths) < problem.indices] *= 2
        for wrong, why in (
            (without_entry(problem), r"row \d+, column \d+, and none across from it"),
            (replace(problem, values=values), "and across from it do not agree exactly"),  # symmetric in pattern only
        ):
            with pytest.raises(Unsupported, match=f"not symmetric: .*{why}"):
                emulated(wrong, precision, id, templates, built_folder)


@needs_compiler
@pytest.mark.parametrize("outer", TILE_ROWS)
def test_the_last_bit_decides_in_the_precision_that_is_multiplied_in(
    built_folder: Path, templates: Path, outer: str
) -> None:
    problem = disturbed(symmetric_problem("complex", HERMITIAN, 150))
    with pytest.raises(Unsupported, match="not symmetric"):
        emulated(problem, "double", variant(outer, "complex", "double"), templates, built_folder)
    single = emulated(problem, "single", variant(outer, "complex", "single"), templates, built_folder)
    assert single.max() <= 1
