"""Schedules that split rows over warps: on the CPU, and as CUDA on its emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from repro.codegen.build_cache import compile_module
from repro.codegen.targets import get_target
from repro.entries import entries, get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.compound import kernels
from repro.sparse.compound.kernels import MANY_ROWS, columns_schedule, render_module, run_count, split_columns
from repro.sparse.compound.packing import pack
from repro.sparse.compound.product import CompoundProduct, Steps, vector_entry_bytes
from repro.sparse.compound.variants import RUN_OF_LANE, VariantId, extended_layouts, extended_space
from repro.sparse.elementwise import pack_vector
from repro.sparse.operands import make_operands
from support.emulated_cuda import EmulatedCuda, compile_kernels

SM_90 = get_target("sm_90")


@pytest.fixture
def load(device, tmp_path_factory):
    def program_of(source):
        folder = tmp_path_factory.mktemp("split")
        if isinstance(device, EmulatedCuda):
            return compile_kernels(source, folder)
        return device.load(folder / str(compile_module(source, device.target, folder / "module.json").binary))

    return program_of


def matrix_of(lengths, entry="real", columns=None, seed=3):
    """Return a matrix with rows of given lengths, whose entries are side by side from random columns on."""
    lengths = np.asarray(lengths)
    columns = max(int(lengths.max()), 1) if columns is None else columns
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.arange(indptr[-1]) + np.repeat(rng.integers(0, columns - lengths + 1) - indptr[:-1], lengths)
    values = rng.uniform(-1, 1, (int(lengths.sum()), len(get_entry(entry).members)))
    return Matrix("split", entry, len(lengths), indptr, indices.astype(np.int32), values, columns)


def power_law(n=700, seed=1):
    return np.minimum((np.random.default_rng(seed).pareto(0.8, n) * 2).astype(int), 3000)


def with_hubs(n=900, length=2500):
    lengths = np.full(n, 3)
    lengths[[0, 1, n // 2, n - 1]] = length
    return lengths


#: Lengths of rows. Blocks and tiles begin and end within rows, between them, and in runs of empty ones.
LENGTHS = {
    "one dense row": [6000],
    "a dense row between short ones": [2] * 40 + [5000] + [1] * 40,
    "hubs": with_hubs(),
    "a power law": power_law(),
    "empty rows first and last": [0] * 2500 + [4, 4000, 0, 0, 3] + [0] * 2500,
    "every other row empty": [0, 5] * 600,
    "one entry": [0, 0, 1, 0],
    "rows of a run each": [256] * 40,
    "even rows": [7] * 800,
    "more empty rows than are many": [2, 300] + [0] * (3 * MANY_ROWS) + [1] * 30 + [0] * 50 + [90],
}


def multiplied(device, program, id, operands, times=2):
    """Return y of each launch as bytes' words, and as members `(n, size)`; each launch finds NaN in y and scratch."""
    problem = operands.problem
    packed = pack(problem, operands.values, id.layout, device.target.warp)
    scratches = []

    def scratch(nbytes):
        scratches.append((device.allocate(nbytes), nbytes))
        device.fill(scratches[-1][0], 0xFF)
        return scratches[-1][0]

    product = CompoundProduct(
        device, program, id, packed.facts, {name: device.upload(array) for name, array in packed.arrays.items()},
        problem.n, vector_entry_bytes(id.layout, operands.entry.size, operands.dtype.itemsize), scratch,
    )  # fmt: skip
    assert product.bind_call() is None or device.target.dialect == "cuda"
    x = device.upload(pack_vector(operands.x, id.layout.vector))
    flat = pack_vector(operands.reference.astype(operands.dtype), id.layout.vector)
    results = []
    for _ in range(times):
        y = device.upload(np.full_like(flat, np.nan))
        device.write(scratches[0][0], np.full(run_count(packed.slots, device.target.warp), np.nan, np.float32))
        product.bind(x, y)()
        result = np.empty_like(flat)
        device.download(y, result)
        results.append(result)
    size, n = operands.entry.size, problem.n
    members = results[0].reshape(size, n).T if id.layout.vector == "SoA" else results[0].reshape(n, -1)[:, :size]
    return results, members


def schedule_for(device, shape="u8"):
    return f"split-64-3-{shape}" if device.target.dialect == "opencl" else f"split-128-4-{shape}"


@pytest.mark.sampled(6)
@pytest.mark.medium
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_rows_of_all_lengths_are_split_with_the_same_bits_each_time(device, load, templates, entry, precision):
    id = VariantId.parse(f"CSR-AoSoA-AoS/{schedule_for(device)}-cs")
    program = load(render_module(templates, entry, precision, id.layout, [id.schedule], device.target, "tests"))
    for name, lengths in LENGTHS.items():
        operands = make_operands(matrix_of(lengths, entry), precision, 1, rectangular=True)
        results, members = multiplied(device, program, id, operands)
        assert (np.abs(members - operands.reference) <= operands.bound).all(), name
        assert results[0].tobytes() == results[1].tobytes(), name


#: Rows: empty ones, short ones, or one that ends up to two entries in front of the edge of a run, at it, or behind it.
PIECES = st.one_of(
    st.tuples(st.just("empty"), st.integers(1, 200)),
    st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 100)),
    st.tuples(st.just("to an edge"), st.sampled_from([0, 1, 2, 30, 70, 130]), st.integers(-2, 2)),
)


def pieced(pieces, run):
    """Return the lengths of rows in `PIECES`; `run` is the number of entries of a run."""
    lengths = []
    for what, count, *shift in pieces:
        if shift:
            lengths.append(max(0, -sum(lengths) % run + count * run + shift[0]))
        else:
            lengths += [0 if what == "empty" else what] * count
    return lengths


@pytest.mark.medium
@pytest.mark.parametrize(
    ("shape", "entry"), [("", "complex"), ("-u2", "block3"), ("-u4", "pattern"), ("-u8", "real")], ids=str
)
def test_rows_that_begin_and_end_about_the_edges_of_runs_are_right(device, load, templates, monkeypatch, shape, entry):
    monkeypatch.setattr(kernels, "MANY_ROWS", 60)
    monkeypatch.setattr(kernels, "WARPS_OF_RUNS", 2)  # so that a row is in several blocks of `add_carries`
    warp = device.target.warp
    id = VariantId.parse(f"CSR-AoSoA-AoS/split-{2 * warp}-2{shape}")
    program = load(render_module(templates, entry, "double", id.layout, [id.schedule], device.target, "tests"))

    @settings(max_examples=20, deadline=None)
    @given(st.lists(PIECES, min_size=1, max_size=8))
    def multiply(pieces):
        lengths = pieced(pieces, RUN_OF_LANE * warp)
        assume(any(lengths))
        operands = make_operands(matrix_of(lengths, entry), "double", 1, rectangular=True)
        results, members = multiplied(device, program, id, operands)
        assert (np.abs(members - operands.reference) <= operands.bound).all()
        assert results[0].tobytes() == results[1].tobytes()

    multiply()


@pytest.mark.sampled(4)
@pytest.mark.medium
@pytest.mark.parametrize(
    ("layout", "shape"),
    [("CSR-AoS-AoS", "u1"), ("CSR-SoA-SoA", "u2"), ("CSR-AoSoA-Padded", "u4-el"), ("CSR-AoSoA-AoS@rcm", "u4-cg")],
)
def test_all_orders_of_members_and_vectors_can_be_split(device, load, templates, monkeypatch, layout, shape):
    id = VariantId.parse(f"{layout}/{schedule_for(device, shape)}".removesuffix("-u1"))
    source = render_module(templates, "block3", "double", id.layout, [id.schedule], device.target, "tests")
    if device.target.dialect == "cuda":  # else `el` would be refused: all of the matrix fits in L2
        monkeypatch.setattr(device, "l2_bytes", 1)
    program = load(source)
    for lengths in ([2] * 400 + [405] + [0] * 4, power_law(500)):
        problem = matrix_of(np.minimum(lengths, len(lengths)), "block3", len(lengths))
        operands = make_operands(problem, "double", 1)
        _, members = multiplied(device, program, id, operands)
        assert (np.abs(members - operands.reference) <= operands.bound).all()


@pytest.mark.medium
@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize(
    ("entry", "count"), [("real", 7), ("real", 11), ("complex", 3), ("quaternion", 2), ("block3", 5)]
)
def test_columns_of_a_matrix_with_long_rows_are_multiplied_at_once(device, load, templates, entry, count, row_major):
    id = VariantId.parse(f"CSR-AoSoA-AoS/{schedule_for(device)}")
    size, parts = get_entry(entry).size, 2 if entry == "complex" else 1
    width, starts = split_columns(count, size)
    id = replace(id, schedule=columns_schedule(id.schedule, device.target, size))
    program = load(
        render_module(templates, entry, "double", id.layout, [id.schedule], device.target, "tests", columns=width)
    )
    # among the runs are some of many empty rows, some of short ones, and some within a row
    for lengths in (
        with_hubs(),
        [0] * 5 + [1] * 900 + [0] * 2000 + [3000, 0, 7] + [0] * 40,
        [0] * 900 + [2] + [0] * 600,
    ):
        operands = make_operands(matrix_of(lengths, entry), "double", 1, rectangular=True)
        packed = pack(operands.problem, operands.values, id.layout, device.target.warp)
        product = CompoundProduct(
            device, program, id, packed.facts, {name: device.upload(array) for name, array in packed.arrays.items()},
            operands.problem.n, width * size * 8, device.allocate,
        )  # fmt: skip
        factors = np.arange(1, count + 1)
        # rows of numbers, a column each, of complex numbers' parts
        X, exact, bound = (
            (factors[:, None, None] * array).reshape(count, -1, parts).transpose(1, 0, 2)
            for array in (operands.x, operands.reference, operands.bound)
        )
        order = (0, 1, 2) if row_major else (1, 0, 2)
        x, y = (device.upload(array.transpose(order).copy()) for array in (X, np.full_like(exact, np.nan)))
        steps = [Steps.of(array.shape[:2], parts, row_major=row_major) for array in (X, exact)]
        for first in starts:
            product.bind_columns(x, y, first, *steps)()
        Y = np.empty_like(exact.transpose(order).copy())
        device.download(y, Y)
        assert (np.abs(Y.transpose(order) - exact) <= bound).all()


def long_row(length, n=1000):
    """Return a matrix whose row in the middle has so many entries, and whose other rows have one."""
    rng = np.random.default_rng(2)
    lengths = np.ones(n, np.int64)
    lengths[n // 2] = length
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, length, indptr[-1])
    indices[indptr[n // 2] : indptr[n // 2 + 1]] = np.arange(length)
    values = rng.uniform(-1, 1, (len(indices), 1))
    return Matrix("long", "real", n, indptr.astype(np.int32), indices.astype(np.int32), values, length)


@pytest.mark.parametrize("length", [1_200_000, pytest.param(10_000_000, marks=pytest.mark.exhaustive)])
def test_a_row_of_a_million_entries_is_right(device, load, templates, length):
    if isinstance(device, EmulatedCuda):
        pytest.skip("takes minutes")
    id = VariantId.parse("CSR-AoSoA-AoS/split-64-3-u8")
    program = load(render_module(templates, "real", "double", id.layout, [id.schedule], device.target, "tests"))
    operands = make_operands(long_row(length), "double", 1, rectangular=True)
    results, members = multiplied(device, program, id, operands)
    # sums of parts err far less than the bound for one sum after the other
    assert (np.abs(members - operands.reference) <= 1e-3 * operands.bound + 1e-15).all()
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ELL-SoA-AoS/split-64-3", "only CSR splits rows"),
        ("Sl-32-AoSoA-AoS/split-64-3-u8", "only CSR splits rows"),
        ("CSR-AoSoA-AoS@clustered/split-64-3-u8", "only CSR splits rows"),
        ("Pairs-64-AoSoA-AoS/split-64-3", "only CSR splits rows"),
        ("CSR-AoSoA-AoS/split-64-3-w8", "neither threads a row nor prefetches"),
        ("CSR-AoSoA-AoS/split-64-3-u2-p", "neither threads a row nor prefetches"),
        ("CSR-AoSoA-AoS/split-64-3-u3", "divisor of 8"),
        ("CSR-AoS-AoS/split-64-3-u8-cs", "only tiles"),
        ("CSR-AoS-AoS/split-64-3-rolled", "not unrolled"),
    ],
)
def test_what_cannot_be_split_is_refused_by_the_id(text, message):
    with pytest.raises(ReproError, match=message):
        VariantId.parse(text)


def test_a_batch_that_exceeds_shared_memory_is_refused(templates):
    id = VariantId.parse("CSR-AoSoA-AoS/split-512-2-u4")
    render_module(templates, "real", "single", id.layout, [id.schedule], SM_90, "tests")
    with pytest.raises(ReproError, match="shared memory"):
        render_module(templates, "quaternion", "double", id.layout, [id.schedule], SM_90, "tests")


@pytest.mark.parametrize("entry", sorted(entries()))
def test_all_split_schedules_of_the_space_fit_in_shared_memory(templates, entry):
    for layout in extended_layouts(get_entry(entry)):
        schedules = [schedule for schedule in extended_space(SM_90, layout) if schedule.kind == "split"]
        assert bool(schedules) == (layout.outer == "CSR" and layout.ordering == "natural")
        if schedules:
            render_module(templates, entry, "double", layout, schedules, SM_90, "tests")
