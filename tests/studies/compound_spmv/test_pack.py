from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.codegen.build_cache import Module
from repro.errors import Unsupported
from repro.problems.matrix import Matrix
from repro.sparse import operands, pairs
from repro.sparse.compound import product
from repro.sparse.compound.packing import count_bytes, pack
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import Layout, VariantId, all_layouts
from repro.sparse.elementwise import pack_vector
from repro.sparse.operands import symmetry_on
from repro.sparse.symmetry import symmetry_of


def random_problem(lengths: list[int], seed: int = 0) -> Matrix:
    """Return a complex problem with rows of those lengths."""
    random = np.random.default_rng(seed)
    n = len(lengths)
    lengths = [min(length, n) for length in lengths]
    indices = [np.sort(random.choice(n, length, replace=False)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = np.concatenate(indices).astype(np.int32)
    return Matrix("random", "complex", n, indptr, columns, random.normal(size=(len(columns), 2)))


def multiply(problem: Matrix, layout: Layout, warp: int, x: np.ndarray) -> np.ndarray:
    """Multiply from the packed arrays alone, row by row, as a kernel does."""
    packed = pack(problem, problem.values, layout, warp)
    index, columns = packed.arrays["index"], packed.arrays["columns"]
    values = packed.arrays["values"]
    values = values.reshape(-1, 2) if layout.inner == "AoS" else values.reshape(2, -1).T
    assert len(columns) == len(values) == packed.slots
    a, y = values[:, 0] + 1j * values[:, 1], np.zeros(problem.n, complex)
    for row in range(problem.n):
        if layout.outer == "CSR":
            slots = np.arange(index[row], index[row + 1])
        elif layout.outer == "ELL":
            slots = np.arange(index[row]) * packed.stride + row
        else:
            k = int(layout.outer.removeprefix("Sl-"))
            slots = np.arange(index[row // k] + row % k, index[row // k + 1], k)
        y[row] = a[slots] @ x[columns[slots]]
    return y


lengths = st.lists(st.integers(0, 40), min_size=1, max_size=70).filter(any)


@settings(max_examples=40, deadline=None)
@given(lengths=lengths, layout=st.sampled_from(all_layouts()), seed=st.integers(0, 9))
def test_every_layout_holds_the_same_matrix(lengths, layout, seed):
    problem = random_problem(lengths, seed)
    x = np.random.default_rng(seed).normal(size=(problem.n, 2)) @ [1, 1j]
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    expected = np.zeros(problem.n, complex)
    np.add.at(expected, rows, problem.values @ [1, 1j] * x[problem.indices])
    np.testing.assert_allclose(multiply(problem, layout, 32, x), expected, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(lengths=lengths, outer=st.sampled_from(["CSR", "ELL", "Sl-16", "Sl-32"]))
def test_counted_bytes_are_the_packed_ones(lengths, outer):
    problem = random_problem(lengths)
    packed = pack(problem, problem.values.astype(np.float32), Layout(outer, "AoS", "AoS"), warp=1)
    assert packed.nbytes == count_bytes(problem.row_lengths, 2, 4, outer)


def test_padding_has_valid_columns_and_no_value():
    problem = random_problem([3, 0, 1])
    packed = pack(problem, problem.values, Layout("Sl-16", "AoS", "AoS"), warp=32)
    assert packed.slots == 3 * 16
    assert packed.arrays["columns"].min() >= 0
    assert packed.arrays["columns"].max() < problem.n
    assert np.count_nonzero(packed.arrays["values"]) == 2 * problem.nnz


def test_rows_of_ell_are_padded_to_the_warp():
    assert pack(random_problem([3] * 33), random_problem([3] * 33).values, Layout("ELL", "AoS", "AoS"), 32).stride == 64


@pytest.mark.wording
def test_more_slots_than_an_index_counts_are_refused():
    n = 1 << 17
    row = np.zeros(n + 1, np.int32)
    row[1:] = n // 2
    problem = Matrix("wide", "real", n, row, np.arange(n // 2, dtype=np.int32), np.ones((n // 2, 1)))
    with pytest.raises(Unsupported, match="too large for 32-bit indices"):
        pack(problem, problem.values, Layout("ELL", "AoS", "AoS"), 32)


@pytest.mark.wording
@pytest.mark.parametrize(
    ("layout", "past"),
    [
        ("CSR-AoS-AoS", 256),
        ("ELL-AoS-AoS", 128 * 96),
        ("ELLPACK-AoS-AoS", 128 * 96),
        ("Sl-4-AoS-AoS", 128 * 4),
        ("Sl-32-AoS-AoS", 128 * 32),
        ("CSR-AoS-AoS@clustered", 4096),
        ("Sl-8-AoS-AoS@clustered", 4096 * 8),
    ],
)
def test_the_last_step_past_the_end_is_counted_too(monkeypatch, layout, past):
    problem = random_problem([3] * 70)
    rows = np.arange(70) if layout.endswith("@clustered") else None
    layout = Layout.parse(layout)
    needed = pack(problem, problem.values, layout, 32, rows).slots + past
    monkeypatch.setattr(pairs, "MAX_INDEX", needed)
    pack(problem, problem.values, layout, 32, rows)
    monkeypatch.setattr(pairs, "MAX_INDEX", needed - 1)
    with pytest.raises(Unsupported, match=f"the last step goes {past} past them"):
        pack(problem, problem.values, layout, 32, rows)


def test_values_that_are_in_the_working_precision_are_not_copied(make_bench, small_problem, monkeypatch):
    problem, given = small_problem("real"), []

    def seen(function):
        return lambda matrix, values, *rest: given.append(values) or function(matrix, values, *rest)

    monkeypatch.setattr(product, "pack", seen(pack))
    monkeypatch.setattr(operands, "symmetry_of", seen(symmetry_of))
    bench = make_bench(problem, "double")
    id = VariantId.parse("CSR-AoS-AoS/static-32-1")
    Variant(id, Module("ok", "", "", ()), Path()).packed(bench.workspace)
    symmetry_on(bench.workspace)
    bench.release()
    assert [np.shares_memory(values, problem.values) for values in given] == [True, True]


def test_vectors_are_packed_member_by_member_or_entry_by_entry():
    vector = np.arange(6.0).reshape(3, 2)
    assert pack_vector(vector, "AoS").tolist() == [0, 1, 2, 3, 4, 5]
    assert pack_vector(vector, "SoA").tolist() == [0, 2, 4, 1, 3, 5]


@pytest.mark.parametrize("inner", ["AoS", "SoA", "AoSoA"])
@pytest.mark.parametrize("outer", ["Sl-4", "Sl-16", "ELLPACK"])
def test_padding_of_entries_without_members_has_no_column(outer, inner):
    lengths = [int(length) for length in np.random.default_rng(4).integers(0, 7, 100)]
    problem = replace(random_problem(lengths), entry="pattern", values=np.empty((sum(lengths), 0)))
    packed = pack(problem, problem.values, Layout(outer, inner, "AoS"), 32)
    columns = packed.arrays["columns"]
    assert packed.arrays["values"].nbytes == 0
    assert packed.slots > problem.nnz
    assert np.count_nonzero(columns >= 0) == problem.nnz
    assert (columns[columns < 0] == -1).all()
