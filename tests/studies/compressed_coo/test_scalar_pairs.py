"""Symmetric pairs of numbers: as they are stored, and their kernels on the CPU, as CUDA on the CPU, and for an H200."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen import nvcc
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.targets import CPU, STATIC_SHARED, get_target
from repro.errors import Unsupported
from repro.problems.generators import generate
from repro.problems.matrix import Matrix
from repro.sparse.operands import csr_bytes, make_operands
from repro.sparse.ordering import cluster_rows
from repro.sparse.pairs import SLICE, find_pairs
from repro.sparse.symmetry import SYMMETRIC, symmetry_of
from repro.studies.compressed_coo import STUDY_NAME, runnables
from repro.studies.compressed_coo import runnables as coordinates
from repro.studies.compressed_coo.coordinate_format import deinterleave
from repro.studies.compressed_coo.ids import LOADS, PAIRS, RUNS, TILES, Blocking, CoordinateId, blockings
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.compressed_coo.runnables import PLAIN, TABLED, SymmetricPairs, store_pairs
from repro.studies.compressed_coo.study import variant_of
from support.emulated_cuda import needs_compiler
from support.emulated_workspace import EmulatedWorkspace
from support.symmetric_problems import disturbed, symmetric_problem, without_entry

pytestmark = pytest.mark.medium

PRECISIONS = ("single", "double")
EFFORT = SamplingPlan(3)
SM_90 = get_target("sm_90")
#: Several tiles, the last partly filled, with empty rows, beside these.
SHAPES = {
    "one tile": {"n": 64},
    "less than a slice": {"n": 5},
    "two rows": {"n": 2},
    "no diagonal": {"n": 150, "diagonal": False},
    "a row longer than a tile": {"n": 200, "hub": 40},
    "one row more than tiles": {"n": 129},
}


def problem_of(values: str, n: int = 300, **shape: object) -> Matrix:
    """Return a symmetric matrix whose values are distinct, repeat, or repeat in its second half alone."""
    problem = symmetric_problem("real", SYMMETRIC, n, **shape)
    if values == "distinct":
        return problem
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    later = np.maximum(rows, problem.indices)[:, None] >= (0 if values == "repeat" else n // 2)
    rounded = np.where(problem.values >= 0, np.ceil(problem.values), np.floor(problem.values))
    return replace(problem, values=np.where(later, rounded, problem.values))


def values_stored(stored: SymmetricPairs, dtype: type, rows: int, entries: int) -> np.ndarray:
    """Return what is stored of the diagonal and for each slot, 0 for what fills it up, as the arrays alone say it."""
    diagonal, slots = [], []
    starts = stored.pairs.index[: len(stored.tiles) * rows // SLICE + 1]
    for number, (start, first_code, looked_up, _) in enumerate(stored.tiles):
        begin, end = starts[number * rows // SLICE], starts[(number + 1) * rows // SLICE]
        assert first_code == begin
        codes = int(end - begin)
        at = stored.values[16 * int(start) :]
        if looked_up:
            numbers = stored.table[at[: rows + codes]]
        else:
            numbers = at[: (rows + codes) * np.dtype(dtype).itemsize].view(dtype).copy()
            numbers[rows:] = deinterleave(numbers[rows:], SLICE, entries)
        diagonal.append(numbers[:rows])
        slots.append(numbers[rows:])
    return np.concatenate([*diagonal, *slots])


def stored_of(
    problem: Matrix, dtype: type, tile_rows: int, entries: int, rows: np.ndarray | None = None
) -> SymmetricPairs:
    """Return a symmetric matrix as it is stored, its values in a precision."""
    values = problem.values.astype(dtype)
    pairs = find_pairs(problem, symmetry_of(problem, values), tile_rows, rows, entries)
    return store_pairs(pairs, values.ravel(), tile_rows, entries)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("entries", RUNS)
@pytest.mark.parametrize(
    ("values", "encodings"), [("distinct", {PLAIN}), ("repeat", {TABLED}), ("both", {PLAIN, TABLED})]
)
def test_every_value_is_in_its_slot(values: str, encodings: set[str], entries: int, dtype: type) -> None:
    problem = problem_of(values, 1000)
    given = problem.values.astype(dtype)
    stored = stored_of(problem, dtype, 64, entries)
    assert stored.encodings().keys() == encodings
    places = len(stored.pairs.tiles.diagonal)
    expected = np.zeros(places + stored.pairs.slots, dtype)
    expected[:places] = np.where(stored.pairs.tiles.diagonal >= 0, given.ravel()[stored.pairs.tiles.diagonal], 0)
    expected[places + stored.pairs.position] = given.ravel()[stored.pairs.tiles.entries]
    np.testing.assert_array_equal(values_stored(stored, dtype, 64, entries), expected)
    assert stored.nbytes == sum(array.nbytes for array in stored.arrays.values())


def test_values_that_repeat_take_a_byte() -> None:
    many, few = (problem_of(values, 3000) for values in ("distinct", "repeat"))
    bytes_of = [stored_of(problem, np.float64, 128, 2) for problem in (many, few)]
    slots = bytes_of[0].pairs.slots + len(bytes_of[0].pairs.tiles.diagonal)
    assert 7 * slots <= bytes_of[0].nbytes - bytes_of[1].nbytes <= 7 * (slots + 128)


@pytest.mark.parametrize(("coefficients", "most"), [("constant", 0.35), ("variable", 0.72)])
def test_bytes_are_fewer_than_those_of_csr(coefficients: str, most: float) -> None:
    made = generate("diffusion", points=[30, 30, 30], stencil=7, coefficients=coefficients)
    problem = Matrix("cube", "real", made.n, made.indptr, made.indices, made.values)
    stored = stored_of(problem, np.float64, 256, 2, cluster_rows(problem))
    assert stored.nbytes < most * csr_bytes(problem, 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules: what one test has compiled others take."""
    return tmp_path_factory.mktemp("pairs")


def tried(bench: Bench, templates: Path, folder: Path, precision: str, layout: str, tried: list[Blocking]) -> list:
    source = render_coo(templates, precision, layout, tried, CPU)
    module = compile_module(source, CPU, folder / f"{layout}.json")
    variants = [variant_of(CoordinateId(layout, blocking), module, folder) for blocking in tried]
    return [bench.try_once(variant, "search", EFFORT) for variant in variants]


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("values", ["distinct", "repeat", "both"])
@pytest.mark.parametrize("layout", PAIRS)
def test_every_blocking_is_right(
    folder: Path, templates: Path, make_bench: Callable[..., Bench], layout: str, values: str, precision: str
) -> None:
    bench = make_bench(problem_of(values), precision, STUDY_NAME)
    rows = tried(bench, templates, folder, precision, layout, blockings(CPU, layout))
    rows += tried(bench, templates, folder, precision, layout, [Blocking(rows, 2) for rows in TILES])
    bench.release()
    assert not [(row.name, row.status, row.message) for row in rows if row.status != "ok"]
    assert all(0 < row.error <= 1 for row in rows)
    assert {row["layout"] for row in rows} == {layout}
    assert {row["per_thread"] for row in rows} == set(RUNS)
    assert all(0 < row["matrix_bytes"] < row.bytes and json.loads(row["encodings"]) for row in rows)


@pytest.fixture
def padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have matrices run that are mostly padding, as small ones are."""
    monkeypatch.setattr(coordinates, "MAX_PADDING", 20)


@pytest.mark.usefixtures("padded")
@pytest.mark.parametrize("shape", SHAPES)
def test_matrices_of_all_shapes(folder: Path, templates: Path, make_bench: Callable[..., Bench], shape: str) -> None:
    bench = make_bench(problem_of("distinct", **SHAPES[shape]), "single", STUDY_NAME)
    rows = [row for layout in PAIRS for row in tried(bench, templates, folder, "single", layout, [Blocking(64, 1)])]
    bench.release()
    assert [row.status for row in rows] == ["ok", "ok"], [row.message for row in rows]


@pytest.mark.parametrize("break_it", [without_entry, disturbed])
def test_what_is_not_symmetric_is_not_tried(
    folder: Path, templates: Path, make_bench: Callable[..., Bench], break_it: Callable[[Matrix], Matrix]
) -> None:
    bench = make_bench(break_it(problem_of("distinct")), "double", STUDY_NAME)
    for layout in PAIRS:
        (row,) = tried(bench, templates, folder, "double", layout, [Blocking(64, 2)])
        assert (row.status, row.message.split(":")[0]) == ("unsupported", "not symmetric")
    bench.release()


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a test fail where values are written."""
    monkeypatch.setattr(runnables, "store_pairs", lambda *_: pytest.fail("values were written"))


@pytest.mark.usefixtures("unwritten")
def test_what_is_mostly_padding_is_not_tried(folder: Path, templates: Path, make_bench: Callable[..., Bench]) -> None:
    rod = sp.diags_array([1.0, 1.0], offsets=[-320, 320], shape=(640, 640)).tocsr()
    bench = make_bench(Matrix("rod", "real", 640, rod.indptr, rod.indices, rod.data[:, None]), "double", STUDY_NAME)
    (row,) = tried(bench, templates, folder, "double", "Pairs", [Blocking(64, 4)])
    bench.release()
    assert (row.status, row.message) == ("unsupported", "padded to 4.0 times the non-zeros, more than 2")


@pytest.mark.usefixtures("unwritten")
def test_a_tile_that_does_not_fit_into_shared_memory_is_not_tried(
    folder: Path, templates: Path, make_bench: Callable[..., Bench]
) -> None:
    bench = make_bench(problem_of("distinct", 8000, hub=40), "double", STUDY_NAME)
    (row,) = tried(bench, templates, folder, "double", "Pairs", [Blocking(64, 1)])
    bench.release()
    assert row.status == "unsupported"
    assert f"which has room for {(STATIC_SHARED - 128) // 8}" in row.message


def test_a_product_takes_other_vectors(folder: Path, templates: Path, make_bench: Callable[..., Bench]) -> None:
    """Also where they are not the ones that it was prepared with, as in a solver."""
    problem = problem_of("repeat")
    blocking = Blocking(64, 2)
    module = compile_module(render_coo(templates, "double", PAIRS[1], [blocking], CPU), CPU, folder / "m.json")
    variant = variant_of(CoordinateId(PAIRS[1], blocking), module, folder)
    bench = make_bench(problem, study=STUDY_NAME)
    bench.prepare(variant)
    given, found = np.linspace(-1, 1, problem.n), np.full(problem.n, np.nan)
    x, y = bench.device.upload(given), bench.device.upload(found)
    variant.product(x, y)()
    bench.device.download(y, found)
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    expected = np.bincount(rows, problem.values[:, 0] * given[problem.indices], minlength=problem.n)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    bench.release()


def emulated(problem: Matrix, precision: str, variant: CoordinateId, templates: Path, folder: Path) -> np.ndarray:
    """Return the errors of y, as parts of its bounds, of a kernel's CUDA text; NaN where it wrote nothing."""
    operands = make_operands(problem, precision, 1)
    source = render_coo(templates, precision, variant.layout, [variant.blocking], SM_90)
    workspace = EmulatedWorkspace(operands, source, folder)
    runnable = variant_of(variant, Module("ok", "", "g++", (), "none"), folder)
    runnable.prepare(workspace)
    y = runnable.result()
    assert y is not None
    workspace.device.fill(y, 0xFF)
    runnable.launch()
    numbers = np.empty(operands.x.size, operands.dtype)
    workspace.device.download(y, numbers)
    return np.abs(numbers[:, None] - operands.reference) / np.maximum(operands.bound, 1e-300)


@pytest.mark.sampled(3)
@needs_compiler
@pytest.mark.parametrize("entries", RUNS)
@pytest.mark.parametrize("rows", TILES)
def test_as_cuda_on_the_cpu(built_folder: Path, templates: Path, rows: int, entries: int) -> None:
    """Layouts, loads, values and precisions take turns."""
    turn = TILES.index(rows) + RUNS.index(entries)
    id = CoordinateId(PAIRS[turn % 2], Blocking(rows, entries, 1, LOADS[turn // 2 % 2]))
    problem = problem_of(("distinct", "repeat", "both")[turn % 3], 700)
    errors = emulated(problem, PRECISIONS[turn // 2 % 2], CoordinateId.parse(str(id)), templates, built_folder)
    assert errors.max() <= 1  # and no NaN


@needs_compiler
@pytest.mark.usefixtures("padded")
@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_as_cuda_on_the_cpu(built_folder: Path, templates: Path, shape: str) -> None:
    id = CoordinateId.parse("Pairs@clustered/b64-k4-c1")
    assert emulated(problem_of("both", **SHAPES[shape]), "double", id, templates, built_folder).max() <= 1


@pytest.mark.sampled(1)
@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_compiled_for_an_h200_nothing_spills(tmp_path: Path, templates: Path, precision: str) -> None:
    whole = blockings(SM_90, PAIRS[1])
    module = compile_module(render_coo(templates, precision, PAIRS[1], whole, SM_90), SM_90, tmp_path / "m")
    assert module.resources, module.message
    assert {blocking.kernel for blocking in whole} <= module.resources.keys()
    assert {module.resources[blocking.kernel]["spills"] for blocking in whole} == {0}


def test_numbers_beyond_a_code_are_refused() -> None:
    problem = problem_of("distinct", 256, hub=0)
    with pytest.raises(Unsupported, match="more than 128"):
        stored_of(problem, np.float64, 256, 1)
