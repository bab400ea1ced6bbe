"""Packing on the device, for operators and campaigns, equals packing on the host bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.targets import DTYPES
from repro.devices.base import Buffer, Device, Program
from repro.entries import entries, get_entry
from repro.errors import Unsupported
from repro.problems.matrix import Matrix
from repro.sparse import pairs
from repro.sparse.compound.device_csr import CheckWord, DeviceCsr, FlawedCsr, SharedMemory, render_check
from repro.sparse.compound.device_packing import DevicePacker, render_packing
from repro.sparse.compound.device_pairs import PairPacker
from repro.sparse.compound.outer import outer_formats
from repro.sparse.compound.packing import Packed, PackedFacts, pack, pack_pairs
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import CLUSTERED, INNER, TILE_ROWS, Layout, Schedule, VariantId
from repro.sparse.device_primitives import keep
from repro.sparse.operands import ProductOperands
from repro.sparse.ordering import cluster_rows, long_rows, sort_rows
from repro.sparse.spgemm.csr_arrays import CsrArrays
from repro.sparse.symmetry import HERMITIAN, symmetry_of
from support.emulated_cuda import EmulatedCuda, compile_kernels
from support.symmetric_problems import KINDS, disturbed, symmetric_problem, without_entry

Packer = Callable[[str, str, str], DevicePacker]
LAYOUTS = [Layout(outer, inner, "AoS") for outer, inner in product(outer_formats(), INNER)]
CLUSTERED_LAYOUTS = [Layout(outer, inner, "AoS", "clustered") for outer, inner in product(CLUSTERED, INNER)]
SIGMA_LAYOUTS = [Layout(outer, inner, "AoS", "sigma") for outer, inner in product((*CLUSTERED, "Sl-32"), INNER)]


@pytest.fixture(scope="session")
def load(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Program]:
    """Compile and load a source under a name."""
    folder = tmp_path_factory.mktemp("packing")

    def compiled(source: str, name: str) -> Program:
        if isinstance(device, EmulatedCuda):
            return compile_kernels(source, folder)
        manifest = folder / f"{name}.json"
        module = compile_module(source, device.target, manifest)
        assert module.binary, module.message
        return device.load(manifest.parent / module.binary)

    return compiled


@pytest.fixture(scope="session")
def packer(device: Device, templates: Path, load: Callable[[str, str], Program]) -> Packer:
    """Return the packer of an entry, precision and inner order, compiled at its first use."""

    def make(entry: str, precision: str, inner: str) -> DevicePacker:
        source = render_packing(templates, entry, precision, inner, device.target, "tests")
        return DevicePacker(device, load(source, f"{entry}-{precision}-{inner}"), entry, precision)

    return cache(make)


@pytest.fixture(scope="session")
def checks(device: Device, templates: Path, load: Callable[[str, str], Program]) -> Program:
    return load(render_check(templates, device.target, "tests"), "checks")


def drawn(lengths: list[int], columns: int, entry: str, seed: int = 0) -> Matrix:
    """Return a matrix with rows of up to those lengths."""
    random, n = np.random.default_rng(seed), len(lengths)
    rows = [np.sort(random.choice(columns, min(length, columns), replace=False)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    indices = np.concatenate([*rows, []]).astype(np.int32)
    values = random.normal(size=(len(indices), len(get_entry(entry).members)))
    return Matrix("drawn", entry, n, indptr, indices, values, None if columns == n else columns)


def read(device: Device, buffer: Buffer, like: np.ndarray) -> np.ndarray:
    array = np.full_like(like, 7)
    if array.size:
        device.download(buffer, array)
    return array


def require_equal(device: Device, facts: PackedFacts, arrays: Mapping[str, Buffer], packed: Packed) -> None:
    assert facts == packed.facts
    for name, array in packed.arrays.items():
        np.testing.assert_array_equal(read(device, arrays[name], array), array, name)


@contextmanager
def campaign(device: Device, problem: Matrix, scalar: np.dtype) -> Iterator[Workspace]:
    """Open a workspace with the matrix."""
    rows, columns = (np.zeros((length, get_entry(problem.entry).size)) for length in problem.shape)
    precision = "single" if scalar == np.float32 else "double"
    operands = ProductOperands(problem, precision, columns.astype(scalar), rows, rows)
    workspace = Workspace(SimpleNamespace(first=device), operands)
    yield workspace
    workspace.release()


def check(device: Device, packer: DevicePacker, problem: Matrix, layout: Layout, rows: np.ndarray | None) -> None:
    """Compare with what the host packs, in a campaign too; fill in other values, and read the matrix back."""
    values = problem.values.astype(packer.scalar)
    ordered = sort_rows(problem) if layout.ordering == "sigma" else rows
    expected = pack(problem, values, layout, device.target.warp, ordered)
    last = 0 if rows is None else int(long_rows(problem).sum())
    # numbers in double precision are rounded by the device as NumPy rounds them
    for numbers in (values, problem.values) if values.shape[1] else (values,):
        with ExitStack() as stack:
            matrix = DeviceCsr.upload(device, problem, numbers)
            keep(stack, matrix)
            packed = packer.pack(matrix, layout, stack, rows, last)
            require_equal(device, packed.facts, packed.arrays, expected)
            pointers = matrix.pointers.buffer
            packer.fill(packed, pointers, keep(stack, device.upload(-numbers)), numbers.dtype)
            filled = read(device, packed.arrays["values"], expected.arrays["values"])
            np.testing.assert_array_equal(filled, -expected.arrays["values"])
            back = [keep(stack, device.allocate(array.nbytes)) for array in (problem.indices, values)]
            packer.unpack(packed, pointers, *back)
            np.testing.assert_array_equal(read(device, back[0], problem.indices), problem.indices)
            np.testing.assert_array_equal(read(device, back[1], values), -values)
    with campaign(device, problem, packer.scalar) as workspace:
        workspace.cached(("row order", "bisected"), lambda: rows)
        module, id = (
            SimpleNamespace(program=lambda workspace: packer._program),
            VariantId(layout, Schedule("static", 32, 1)),
        )
        variant = Variant(id, Module("ok", "", "", ()), Path(), "extended", module)
        require_equal(device, *variant.packed(workspace), expected)


SHAPES = st.one_of(
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=80), st.integers(1, 60)),
    st.tuples(st.lists(st.integers(0, 3), max_size=3), st.integers(0, 3)),
    st.tuples(st.lists(st.sampled_from([0, 0, 0, 1, 40, 200]), min_size=1, max_size=70), st.just(200)),
)


@pytest.mark.sampled(3)
@pytest.mark.medium
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("entry", entries())
@settings(max_examples=25, deadline=None)
@given(shape=SHAPES, layout=st.sampled_from(LAYOUTS + SIGMA_LAYOUTS), seed=st.integers(0, 9))
def test_the_device_packs_what_the_host_packs(device, packer, entry, precision, shape, layout, seed):
    lengths, columns = shape
    check(device, packer(entry, precision, layout.inner), drawn(lengths, columns, entry, seed), layout, None)


@pytest.mark.sampled(5)
@pytest.mark.medium
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("entry", entries())
@settings(max_examples=15, deadline=None)
@given(shape=SHAPES, layout=st.sampled_from(CLUSTERED_LAYOUTS), seed=st.integers(0, 9))
def test_the_device_packs_rows_in_another_order(device, packer, entry, precision, shape, layout, seed):
    problem = drawn(*shape, entry, seed)
    rows = np.random.default_rng(seed).permutation(problem.n)
    check(device, packer(entry, precision, layout.inner), problem, layout, rows)


@pytest.fixture(scope="session")
def pair_packer(device: Device, templates: Path, load: Callable[[str, str], Program]) -> Callable[..., PairPacker]:
    """Return the packer of pairs of an entry, precision and inner order, compiled at its first use."""

    def make(entry: str, precision: str, inner: str) -> PairPacker:
        source = render_packing(templates, entry, precision, f"pairs-{inner}", device.target, "tests")
        return PairPacker(device, load(source, f"{entry}-{precision}-pairs-{inner}"), entry, precision)

    return cache(make)


PAIR_LAYOUTS = [
    Layout(outer, inner, "AoS", ordering)
    for outer, inner, ordering in product(TILE_ROWS, INNER, ("natural", "clustered"))
]


def packed_or_refusal(pack: Callable[[], tuple[PackedFacts, dict]]) -> tuple[PackedFacts, dict] | str:
    try:
        return pack()
    except Unsupported as refusal:
        return str(refusal)


def check_pairs(device: Device, packer: PairPacker, problem: Matrix, layout: Layout, seed: int) -> None:
    """Compare arrays, sizes and refusals with those of the host, in an order of rows drawn by `seed`."""
    values = problem.values.astype(packer.scalar)
    order = np.random.default_rng(seed).permutation(problem.n) if layout.ordering == "clustered" else None

    def on_host() -> tuple[PackedFacts, dict]:
        packed = pack_pairs(problem, values, symmetry_of(problem, values), layout, order)
        return packed.facts, packed.arrays

    expected = packed_or_refusal(on_host)
    for numbers in (values, problem.values) if values.shape[1] else (values,):
        with ExitStack() as stack:
            matrix = keep(stack, DeviceCsr.upload(device, problem, numbers))

            def on_device(matrix: DeviceCsr = matrix, stack: ExitStack = stack) -> tuple[PackedFacts, dict]:
                return packer.pack(matrix, layout, stack, None if order is None else lambda: order)

            found = packed_or_refusal(on_device)
            if isinstance(expected, str) or isinstance(found, str):
                assert found == expected
                continue
            assert found[0] == expected[0] and list(found[1]) == list(expected[1])
            for name, array in expected[1].items():
                np.testing.assert_array_equal(read(device, found[1][name], array), array, name)


@pytest.mark.sampled(5)
@pytest.mark.medium
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize(("entry", "kind"), KINDS)
@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 600),
    reach=st.integers(1, 90),
    diagonal=st.booleans(),
    hub=st.one_of(st.none(), st.integers(0, 599)),
    layout=st.sampled_from(PAIR_LAYOUTS),
    seed=st.integers(0, 9),
)
def test_the_device_packs_pairs_as_the_host(
    device, pair_packer, entry, kind, precision, n, reach, diagonal, hub, layout, seed
):
    problem = symmetric_problem(entry, kind, n, reach=reach, diagonal=diagonal, hub=None if hub is None else hub % n)
    assume(problem.nnz)
    check_pairs(device, pair_packer(entry, precision, layout.inner), problem, layout, seed)


@pytest.mark.parametrize("layout", PAIR_LAYOUTS[:: len(INNER)])
def test_matrices_without_pairs_are_refused_as_on_the_host(device, pair_packer, layout):
    packer = pair_packer("complex", "single", layout.inner)
    hermitian = symmetric_problem("complex", HERMITIAN, 90)
    for problem in (
        disturbed(hermitian, 40), without_entry(hermitian, 41), drawn([3, 2, 0], 4, "complex"),
        symmetric_problem("complex", HERMITIAN, 700, hub=600),
    ):  # fmt: skip
        check_pairs(device, packer, problem, layout, 3)


@pytest.mark.sampled(1)
def test_long_rows_come_last_and_are_counted(device, packer):
    problem = drawn([3] * 200 + [600, 3, 700], 900, "real")
    rows = cluster_rows(problem)
    for layout in CLUSTERED_LAYOUTS:
        check(device, packer("real", "double", layout.inner), problem, layout, rows)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 5000])
def test_rows_are_sorted_by_length_within_windows(device, packer, n):
    lengths = np.random.default_rng(n).geometric(0.2, n).tolist()
    lengths[n // 2] = lengths[-1] = 300  # long, if there are others
    problem = drawn(lengths, 900, "real")
    if n >= 1024:
        rows, last = sort_rows(problem), int(long_rows(problem).sum())
        assert sorted(rows) == list(range(n)) and last == 2 and rows[-2] == n // 2
        assert (np.diff(problem.row_lengths[rows[: 1024 - 2]]) <= 0).all()
    for layout in SIGMA_LAYOUTS[::4]:
        check(device, packer("real", "double", layout.inner), problem, layout, None)


def test_equal_arrays_are_shared_unless_they_are_borrowed(device, packer):
    problem = drawn([3, 0, 5], 7, "real")
    matrix = DeviceCsr.upload(device, problem, problem.values)
    single = DeviceCsr.upload(device, problem, problem.values.astype(np.float32))

    def names_of_shared(text: str, given: DeviceCsr) -> set[str]:
        arrays = [memory.buffer for memory in (given.pointers, given.indices, given.values)]
        with ExitStack() as stack:
            layout = Layout.parse(text)
            packed = packer("real", "double", layout.inner).pack(given, layout, stack)
            return {name for name, buffer in packed.arrays.items() if buffer in arrays}

    assert names_of_shared("CSR-AoS-AoS", matrix) == {"index", "columns", "values"}
    assert names_of_shared("CSR-AoSoA-AoS", matrix) == {"index", "columns"}
    assert names_of_shared("CSR-AoS-AoS", single) == {"index", "columns"}
    assert not names_of_shared("Sl-4-AoS-AoS", matrix)
    arrays = matrix.pointers, matrix.indices, matrix.values
    borrowed = [SharedMemory(memory.buffer, borrowed=True) for memory in arrays]
    assert not names_of_shared(
        "CSR-AoS-AoS", DeviceCsr("m", problem.shape, problem.nnz, *borrowed, problem.values.dtype)
    )


def test_shared_memory_is_freed_by_its_last_owner(device):
    freed = []

    class Freed:
        def release(self) -> None:
            freed.append(self)

    memory = SharedMemory(Freed())
    memory.retain().release()
    assert not freed
    memory.release()
    assert len(freed) == 1


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
def test_the_last_step_past_the_end_is_counted_too(device, packer, monkeypatch, layout, past):
    problem = drawn([3] * 70, 70, "real")
    rows = np.arange(70) if layout.endswith("@clustered") else None
    layout = Layout.parse(layout)
    matrix = DeviceCsr.upload(device, problem, problem.values)
    needed = pack(problem, problem.values, layout, device.target.warp, rows).slots + past
    if layout.outer.startswith("ELL") and device.target.warp != 32:
        needed += 128 * (80 - 96)
    monkeypatch.setattr(pairs, "MAX_INDEX", needed)
    with ExitStack() as stack:
        packer("real", "double", "AoS").pack(matrix, layout, stack, rows)
        monkeypatch.setattr(pairs, "MAX_INDEX", needed - 1)
        with pytest.raises(Unsupported, match="and the last step goes"):
            packer("real", "double", "AoS").pack(matrix, layout, stack, rows)


@pytest.mark.parametrize(
    ("layout", "slots"),
    [("Sl-32-AoS-AoS", 32 * (2**31 - 1)), ("Sl-4-AoS-AoS", 4 * (2**31 - 1)), ("ELL-SoA-AoS", 2**36)],
)
def test_more_slots_than_an_index_counts_are_counted_and_refused(device, packer, layout, slots):
    pointers = np.repeat([0, 2**30, 2**31 - 1], [1, 32, 32]).astype(np.int32)  # of which nothing is read behind them
    memory = [SharedMemory(device.upload(array)) for array in (pointers, np.zeros(1, np.int32), np.zeros(1))]
    matrix = DeviceCsr("wide", (64, 2**30), 2**31 - 1, *memory, np.dtype(float))
    with ExitStack() as stack, pytest.raises(Unsupported, match=f"wide in {layout} has {slots} slots"):
        packer("real", "double", Layout.parse(layout).inner).pack(matrix, Layout.parse(layout), stack)


FLAWS = [
    ("pointers", 0, 1, CheckWord.WRONG),
    ("pointers", 3, -1, CheckWord.WRONG),
    ("pointers", 3, 10**6, CheckWord.WRONG),
    ("pointers", -1, 10**6, CheckWord.WRONG),
    ("columns", 0, -1, CheckWord.WRONG),
    ("columns", -1, 30, CheckWord.WRONG),
    ("columns", 5, 2**31 - 1, CheckWord.WRONG),
    ("columns", 1, 0, CheckWord.UNORDERED),
    ("columns", 1, 2, CheckWord.UNORDERED),
    ("values", -1, np.nan, CheckWord.INFINITE),
    ("values", 0, -np.inf, CheckWord.INFINITE),
    ("values", 7, 1e39, CheckWord.LOST),
    ("values", 7, -1e-40, CheckWord.LOST),
    ("values", 7, float(np.float32(1e-40)), None),
    ("values", 7, 0.0, None),
    ("values", 7, 1 / 3, None),
    (None, 0, 0, None),
]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(("name", "place", "value", "flaw"), FLAWS)
def test_a_matrix_of_another_library_is_checked(device, checks, name, place, value, flaw, index):
    matrix = sp.csr_array(np.triu(np.ones((30, 30)))[:20])
    arrays = {"pointers": matrix.indptr.astype(index), "columns": matrix.indices.astype(index), "values": matrix.data}
    if name is not None:
        arrays[name][place] = value
    buffers = list(map(device.upload, arrays.values()))

    def check(narrow: bool, dtype: type = np.float64) -> DeviceCsr:
        values = device.upload(arrays["values"].astype(dtype))
        given = CsrArrays(matrix.shape, matrix.nnz, *buffers[:2], values, index == np.int64)
        return DeviceCsr.checked(device, checks, "m", given, 1, np.dtype(dtype), narrow=narrow)

    if flaw is None:
        taken = check(narrow=True)
        for array, expected in zip(taken.download(device, 1), arrays.values(), strict=True):
            np.testing.assert_array_equal(array.ravel(), expected)
        assert taken.nnz == matrix.nnz
        assert (taken.pointers.borrowed, taken.indices.borrowed, taken.values.borrowed) == (
            False,
            index == np.int32,
            True,
        )
        return
    with pytest.raises(FlawedCsr) as raised:
        check(narrow=True)
    assert raised.value.flaw == flaw
    if flaw == CheckWord.LOST:
        check(narrow=False)
    if flaw == CheckWord.INFINITE:
        with pytest.raises(FlawedCsr, match="INFINITE"):
            check(narrow=False, dtype=np.float32)
