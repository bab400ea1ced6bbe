"""Exported code is compiled and run on the host, which stands in for a GPU; its results are compared with SciPy's."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from repro.codegen.targets import DTYPES, STATIC_SHARED, get_target
from repro.entries import get_entry
from repro.export.bundle import Export, parse_variant, render_export, write_matrix
from repro.problems.generators import generate
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import launches, run_count
from repro.sparse.compound.outer import outer_formats
from repro.sparse.compound.packing import pack, pack_pairs
from repro.sparse.compound.product import is_square_only
from repro.sparse.compound.variants import INNER, LOADS, STORED_ORDERS
from repro.sparse.operands import ProductOperands, expand, make_operands
from repro.sparse.ordering import CLUSTER, cluster_rows, long_rows, reorder, select_rows, sort_rows
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC, symmetry_of
from support.symmetric_problems import disturbed, symmetric_problem, without_entry

HERE = Path(__file__).parent
SM_90 = get_target("sm_90")
#: Of the device that host_cuda/cuda_runtime_api.h has.
MULTIPROCESSORS = 2
LAUNCH = re.escape("kernel<<<grid, block, 0, stream>>>(static_cast<Parameters>(arguments)...);").replace("0", r"\w+")
ON_HOST = "host::run<Parameters...>(kernel, grid, block, static_cast<Parameters>(arguments)...);"

#: Every outer format, inner order, vector order, order of rows, kind of schedule, way to load, entry and precision at
#: least once.
CASES = {
    "real_csr": ("real", "double", "CSR-AoS-AoS/static-32-1"),
    "block3_csr": ("block3", "single", "CSR-AoSoA-Padded/direct-64-2-w4-u2-cs"),
    "complex_ell": ("complex", "single", "ELL-SoA-SoA/dynamic-32-1"),
    "block3_ell": ("block3", "double", "ELL-AoSoA-AoS/static-32-2"),
    "quaternion_ellpack": ("quaternion", "double", "ELLPACK-AoSoA-AoS/chunk-64-8-w2-u4-cs"),
    "quaternion_sl4": ("quaternion", "single", "Sl-4-SoA-SoA/direct-32-1-w8"),
    "block3_sl8": ("block3", "double", "Sl-8-AoSoA-Padded/direct-32-4-w4-u2"),
    "complex_sl16": ("complex", "double", "Sl-16-SoA-AoS/static-64-1"),
    "quaternion_sl32": ("quaternion", "single", "Sl-32-SoA-AoS/dynamic-64-2"),
    "block3_csr_clustered": ("block3", "double", "CSR-AoSoA-AoS@clustered/chunk-64-2-w4-u2"),
    "block3_sl4_clustered": ("block3", "single", "Sl-4-AoSoA-Padded@clustered/direct-32-2-w8-cs"),
    "block3_sl8_clustered": ("block3", "double", "Sl-8-AoSoA-Padded@clustered/chunk-64-2-w4-u2"),
    "quaternion_csr_clustered": ("quaternion", "single", "CSR-AoSoA-AoS@clustered/direct-64-2-w2"),
    "quaternion_sl4_clustered": ("quaternion", "double", "Sl-4-AoSoA-AoS@clustered/static-64-2"),
    "quaternion_sl8_clustered": ("quaternion", "single", "Sl-8-SoA-SoA@clustered/dynamic-64-2-w4"),
    "block3_sl4_kept": ("block3", "double", "Sl-4-AoSoA-AoS/direct-64-2-w4-u2-el-p"),
    "complex_csr_copied": ("complex", "single", "CSR-AoSoA-AoS/direct-64-2-w2-a"),
    "complex_sl8_clustered": ("complex", "single", "Sl-8-AoSoA-AoS@clustered/direct-64-2-u2-cg"),
    "real_sl32_sorted": ("real", "double", "Sl-32-AoSoA-AoS@sigma/direct-64-2-u4"),
    "complex_csr_sorted": ("complex", "single", "CSR-AoSoA-AoS@sigma/direct-64-2-w4-u2"),
    "block3_csr_split": ("block3", "double", "CSR-AoSoA-Padded/split-64-2-u2-cs"),
    "real_csr_split": ("real", "single", "CSR-AoS-AoS/split-32-3-u8"),
}
CLUSTERED = [case for case in CASES if case.endswith("clustered")]
#: Of pairs, which want symmetric matrices: how theirs are.
PAIRS = {
    "real_pairs": ("real", SYMMETRIC, "double", "Pairs-64-AoSoA-AoS/direct-64-4"),
    "complex_pairs": ("complex", SYMMETRIC, "single", "Pairs-64-SoA-SoA/direct-64-4-u2"),
    "hermitian_pairs": ("complex", HERMITIAN, "double", "Pairs-128-AoSoA-AoS@clustered/direct-128-4-u2-cs"),
    "quaternion_pairs": ("quaternion", HERMITIAN, "single", "Pairs-64-AoS-AoS@clustered/direct-128-4-w2"),
    "quaternion_pairs_ahead": ("quaternion", HERMITIAN, "double", "Pairs-64-AoSoA-AoS/direct-64-4-u2-a"),
    "block3_pairs_kept": ("block3", SYMMETRIC, "single", "Pairs-128-AoSoA-AoS@clustered/direct-128-4-el-p"),
    "block3_pairs": ("block3", SYMMETRIC, "double", "Pairs-256-AoSoA-Padded@clustered/direct-256-2-u4"),
}

pytestmark = [pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed"), pytest.mark.medium]


def host_sources(name: str, templates: Path) -> dict[str, str]:
    """Return a case's files, its launches made calls of the host."""
    entry, precision, variant = CASES[name] if name in CASES else (PAIRS[name][0], *PAIRS[name][2:])
    id = parse_variant(variant, SM_90)
    export = Export(name, entry, precision, id.layout, id.schedule, SM_90)
    files = render_export(templates, export)
    source, count = re.subn(LAUNCH, ON_HOST, files[f"{name}.cu"])
    assert count == 1 + (name in PAIRS)
    # what a launch gives is all that there is
    source = source.replace(
        "extern __shared__ vector_entry shared[]", f"__shared__ vector_entry shared[{STATIC_SHARED} / 4]"
    )
    return files | {f"{name}.cu": source}


def compile_program(folder: Path, source: str, *options: str) -> Path:
    """Compile a source with the host's stand-in for CUDA; return the program."""
    command = ["g++", "-std=c++20", "-O0", "-pthread", "-I", HERE / "host_cuda", *options, "-o", "program", source]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"


def write_sources(folder: Path, templates: Path) -> str:
    """Write all cases; return the source of a program of all of them and the driver."""
    lines = []
    names = [*CASES, *PAIRS]
    for name in names:
        files = host_sources(name, templates)
        for file in (f"{name}.h", f"{name}.cu"):
            (folder / file).write_text(files[file])
        lines.append(f'#include "{name}.cu"')
    lines.append(f"#define FIRST {next(iter(CASES))}\n#define CLUSTERED {CLUSTERED[0]}")
    lines.append(f"#define CASES {' '.join(f'CASE({name})' for name in names)}")
    return "\n".join([*lines, f'#include "{HERE / "driver.cpp"}"', ""])


def last_grid(id, packed, n, long_rows=0):
    """Return the blocks of a product's last launch."""
    launch = launches(id.schedule, SM_90)[-1]
    return (
        -(-run_count(packed.slots, SM_90.warp) // launch.runs)
        if launch.runs
        else (id.schedule.blocks(n, MULTIPROCESSORS, long_rows))
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, templates: Path) -> Path:
    """All cases in one program, which several exports can live in."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "all.cpp").write_text(write_sources(folder, templates))
    return compile_program(folder, "all.cpp")


def run(program: Path, *words: object) -> str:
    return subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=60).stdout


def multiply(
    program: Path, case: str, operands: ProductOperands, folder: Path, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return y and x as the exported classes gave them back, and what the program said; rows in an order if given."""
    write_matrix(operands.problem, operands.precision, folder / "input")
    with (folder / "input").open("ab") as file:
        operands.x.tofile(file)
        if rows is not None:
            rows.astype(np.int32).tofile(file)
    said = run(program, case, folder / "input", folder / "output")
    y, x = np.split(np.fromfile(folder / "output", operands.dtype), [operands.reference.size])
    return y.reshape(operands.reference.shape), x.reshape(operands.x.shape), said


def test_without_a_gpu_an_export_says_that_there_is_none(
    program: Path, tmp_path: Path, small_problem: Callable[..., Matrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, (entry, precision, _) = next(iter(CASES.items()))
    monkeypatch.setenv("HOST_CUDA_WITHOUT_A_GPU", "1")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        multiply(program, case, make_operands(small_problem(entry), precision, 1), tmp_path)
    assert "no usable GPU: " in failed.value.stderr


def stored_order(program: Path, problem: Matrix, tmp_path: Path, case: str) -> np.ndarray | None:
    """Return the row of each stored row of a case's matrix; None: rows are stored in their order."""
    if case.endswith("sorted"):
        return sort_rows(problem)
    return find_order(program, problem, tmp_path) if case in CLUSTERED else None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_an_exported_product_is_right(
    program: Path, tmp_path: Path, small_problem: Callable[..., Matrix], case: str
) -> None:
    entry, precision, variant = CASES[case]
    operands = make_operands(small_problem(entry), precision, 1)
    y, x, said = multiply(program, case, operands, tmp_path)
    assert (np.abs(y - operands.reference) <= operands.bound).all()
    np.testing.assert_array_equal(x, operands.x)
    rows = stored_order(program, operands.problem, tmp_path, case)
    assert said == expected(operands, variant, rows)


def rectangular(entry: str, shape: tuple[int, int]) -> Matrix:
    """Return a matrix with empty rows and columns, and an entry in its last corner."""
    rng = np.random.default_rng(shape[0])
    present = rng.random(shape) < 0.1
    present[1::4] = False
    present[:, 2::5] = False
    present[-1, -1] = True
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
    values = rng.uniform(-1, 1, (indptr[-1], len(get_entry(entry).members)))
    return Matrix("rectangular", entry, shape[0], indptr, np.nonzero(present)[1].astype(np.int32), values, shape[1])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (1, 70), (70, 1)])
@pytest.mark.parametrize(
    "case",
    [case for case, (entry, _, name) in CASES.items() if not is_square_only(parse_variant(name, SM_90).layout, entry)],
)
def test_an_exported_product_of_a_rectangular_matrix_is_right(
    program: Path, tmp_path: Path, case: str, shape: tuple[int, int]
) -> None:
    entry, precision, variant = CASES[case]
    operands = make_operands(rectangular(entry, shape), precision, 1, rectangular=True)
    y, x, said = multiply(program, case, operands, tmp_path)
    assert (np.abs(y - operands.reference) <= operands.bound).all()
    np.testing.assert_array_equal(x, operands.x)
    rows = stored_order(program, operands.problem, tmp_path, case)
    if rows is not None:
        np.testing.assert_array_equal(np.sort(rows), np.arange(shape[0]))
    assert said == expected(operands, variant, rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "shape", [{"n": 300}, {"n": 64}, {"n": 130, "hub": 40}, {"n": 5}, {"n": 150, "diagonal": False}]
)
@pytest.mark.parametrize("case", PAIRS)
def test_an_exported_product_of_pairs_is_right(program: Path, tmp_path: Path, case: str, shape: dict) -> None:
    entry, kind, precision, variant = PAIRS[case]
    operands, id = make_operands(symmetric_problem(entry, kind, **shape), precision, 1), parse_variant(variant, SM_90)
    problem, values, rows = operands.problem, operands.values, None
    y, x, said = multiply(program, case, operands, tmp_path)
    assert (np.abs(y - operands.reference) <= operands.bound).all()
    np.testing.assert_array_equal(x, operands.x)
    if id.layout.ordering == "clustered":
        rows = np.random.default_rng(4).permutation(problem.n)
        y, _, said = multiply(program, case, operands, tmp_path, rows)
        assert (np.abs(y - operands.reference) <= operands.bound).all()
    packed = pack_pairs(problem, values, symmetry_of(problem, values), id.layout, rows)
    slots, nbytes, stride, blocks = map(int, re.findall(r"-?\d+", said))
    # which of its rows a pair goes to may differ
    assert (slots, nbytes) == pytest.approx((packed.slots, packed.nbytes), rel=0.03, abs=8 * 2 * 72)
    assert (stride, blocks) == (packed.stride, last_grid(id, packed, problem.n))


@pytest.mark.parametrize("case", PAIRS)
def test_exported_pairs_refuse_what_is_not_symmetric(program: Path, tmp_path: Path, case: str) -> None:
    entry, kind, precision, _ = PAIRS[case]
    problem = symmetric_problem(entry, kind)
    for broken, message in (
        (without_entry(problem), "not symmetric: there is an entry that has none across from it"),
        (disturbed(problem), "do not agree exactly"),
    ):
        values = broken.values.astype(np.float32) if precision == "single" else broken.values
        if symmetry_of(broken, values).kind:
            continue
        write_matrix(broken, precision, tmp_path / "input")
        with (tmp_path / "input").open("ab") as file:
            np.zeros((problem.n, get_entry(entry).size), DTYPES[precision]).tofile(file)
        done = subprocess.run(
            [program, case, tmp_path / "input", tmp_path / "output"], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert message in done.stderr


def expected(operands: ProductOperands, variant: str, rows: np.ndarray | None) -> str:
    """Return what the program is to say: what is packed and launched where variants are measured, long rows last."""
    id, problem = parse_variant(variant, SM_90), operands.problem
    if rows is not None:
        rows = rows[np.argsort(long_rows(problem)[rows], kind="stable")]
    packed = pack(problem, operands.values, id.layout, SM_90.warp, rows)
    blocks = last_grid(id, packed, problem.n, packed.stride if rows is not None else 0)
    return f"{packed.slots} slots, {packed.nbytes} bytes, stride {packed.stride}, {blocks} blocks\n"


def find_order(program: Path, problem: Matrix, folder: Path) -> np.ndarray:
    """Return the order of the rows that exported code finds."""
    write_matrix(problem, "single", folder / "input")
    run(program, "order", folder / "input", folder / "order")
    return np.fromfile(folder / "order", np.int32).astype(np.int64)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CLUSTERED)
def test_rows_are_stored_in_an_order_that_is_given(
    program: Path, tmp_path: Path, small_problem: Callable[..., Matrix], case: str
) -> None:
    entry, precision, variant = CASES[case]
    operands = make_operands(small_problem(entry), precision, 1)
    rows = np.random.default_rng(4).permutation(operands.problem.n)
    y, _, said = multiply(program, case, operands, tmp_path, rows)
    assert (np.abs(y - operands.reference) <= operands.bound).all()
    assert said == expected(operands, variant, rows)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("case", CLUSTERED)
def test_a_long_row_has_a_block_of_its_own(program: Path, tmp_path: Path, case: str, given: bool) -> None:
    """As blocks of the kernel that was measured have; two of the first rows of any order are long."""
    entry, precision, variant = CASES[case]
    problem = with_long_rows(entry)
    assert long_rows(problem).sum() == 2
    operands = make_operands(problem, precision, 1)
    rows = np.arange(problem.n) if given else None
    y, _, said = multiply(program, case, operands, tmp_path, rows)
    assert (np.abs(y - operands.reference) <= operands.bound).all()
    assert said == expected(operands, variant, find_order(program, problem, tmp_path) if rows is None else rows)


def with_long_rows(entry: str) -> Matrix:
    """Return a problem of 300 rows: two long ones, and the longest that is not, and an empty one."""
    random = np.random.default_rng(6)
    n = 300
    lengths = random.integers(1, 9, n)
    lengths[[0, 3, 4, 5]] = 150, 129, 128, 0
    indices = [np.sort(random.choice(n, length, replace=False)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = random.normal(size=(indptr[-1], len(get_entry(entry).members)))
    return Matrix("long rows", entry, n, indptr, np.concatenate(indices).astype(np.int32), values)


def columns_of_blocks(problem: Matrix, rows: np.ndarray) -> float:
    """Return how many columns 256 rows on end read, each counted once, over the non-zeros."""
    indptr, entries = select_rows(problem, rows)
    block = np.repeat(np.arange(problem.n) // 256, np.diff(indptr))
    return len(np.unique(block * problem.n + problem.indices[entries])) / problem.nnz


@pytest.mark.parametrize("shuffled", [False, True])
def test_clusters_are_as_good_as_those_that_were_measured(program: Path, tmp_path: Path, shuffled: bool) -> None:
    made = generate("elasticity_box", cells=(16, 16, 40))
    problem = Matrix("box", "block3", made.n, made.indptr, made.indices, made.values)
    if shuffled:
        problem = reorder(problem, np.random.default_rng(1).permutation(problem.n))
    found, measured = find_order(program, problem, tmp_path), cluster_rows(problem)
    np.testing.assert_array_equal(np.sort(found), np.arange(problem.n))
    assert columns_of_blocks(problem, found) == pytest.approx(columns_of_blocks(problem, measured), rel=0.1)
    assert columns_of_blocks(problem, found) < 0.75 * columns_of_blocks(problem, np.arange(problem.n))


def test_rows_of_a_cluster_are_sorted_by_length(
    program: Path, tmp_path: Path, small_problem: Callable[..., Matrix]
) -> None:
    problem = small_problem("real")
    lengths = problem.row_lengths[find_order(program, problem, tmp_path)]
    assert problem.n > CLUSTER
    for cluster in (lengths[:CLUSTER], lengths[CLUSTER:]):
        assert (np.diff(cluster) <= 0).all()


@pytest.mark.exhaustive
def test_a_matrix_without_entries_gives_zero(program: Path, tmp_path: Path) -> None:
    for case, (entry, precision, _) in CASES.items():
        nothing = np.zeros(0, np.int32)
        members = len(get_entry(entry).members)
        problem = Matrix("nothing", entry, 40, np.zeros(41, np.int32), nothing, np.zeros((0, members)))
        # made by hand: what is measured on has entries
        zeros = np.zeros((problem.n, get_entry(entry).size))
        operands = ProductOperands(problem, precision, (zeros + 1).astype(DTYPES[precision]), zeros, zeros)
        y, _, _ = multiply(program, case, operands, tmp_path)
        assert not y.any(), case


@pytest.mark.exhaustive
def test_the_example_checks_its_product_and_writes_it(
    tmp_path: Path, templates: Path, small_problem: Callable[..., Matrix]
) -> None:
    for name, text in host_sources("real_csr", templates).items():
        (tmp_path / name).write_text(text)
    example = compile_program(tmp_path, "example.cpp", "-include", "real_csr.cu")
    problem = small_problem("real")
    write_matrix(problem, "double", tmp_path / "matrix")
    said = run(example, tmp_path / "matrix", "--output", tmp_path / "y", "--benchmark")
    assert said.splitlines()[0].startswith(f"75 rows, {problem.nnz} non-zeros, ")
    assert said.splitlines()[1] == "5.000 us"
    # the example's x: a hash of the index, 24 bits of it
    x = np.trunc((np.arange(problem.n, dtype=np.uint64) * 2654435769).astype(np.uint32).view(np.int32) / 256) / 2**23
    np.testing.assert_allclose(np.fromfile(tmp_path / "y"), expand(problem, problem.values) @ x, atol=1e-12)

    for shape in ((300, 40), (40, 300)):
        wide = rectangular("real", shape)
        write_matrix(wide, "double", tmp_path / "rectangular")
        said = run(example, tmp_path / "rectangular", "--output", tmp_path / "y")
        assert said.startswith(f"{shape[0]} rows, {wide.nnz} non-zeros, ")
        i = np.arange(shape[1], dtype=np.uint64)
        x = np.trunc((i * 2654435769).astype(np.uint32).view(np.int32) / 256) / 2**23
        np.testing.assert_allclose(np.fromfile(tmp_path / "y"), expand(wide, wide.values) @ x, atol=1e-12)

    other = tmp_path / "other"
    write_matrix(problem, "single", other)
    for file, message in ((other, "is no file of sparse-repro CSR real double"), (tmp_path / "none", "is no file")):
        done = subprocess.run([example, file], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    content = (tmp_path / "matrix").read_bytes()
    other.write_bytes(content[:-1])
    assert "is too short" in subprocess.run([example, other], capture_output=True, text=True, check=False).stderr


def test_what_is_no_matrix_is_refused(program: Path) -> None:
    said = run(program, "errors").splitlines()
    assert len(said) == 12
    assert "row twice: the order has to have each row once" in said
    assert "descending: row pointers have to ascend from 0" in said


def test_the_cases_have_all_there_is() -> None:
    ids = [parse_variant(variant, SM_90) for _, _, variant in CASES.values()]
    layouts, schedules = [id.layout for id in ids], [id.schedule for id in ids]
    assert {layout.outer for layout in layouts} == set(outer_formats())
    assert {layout.inner for layout in layouts} == set(INNER)
    assert {layout.vector for layout in layouts} == {"AoS", "SoA", "Padded"}
    assert {layout.ordering for layout in layouts} == {"natural", *STORED_ORDERS}
    assert {schedule.kind for schedule in schedules} == {"static", "dynamic", "direct", "chunk", "split"}
    assert {schedule.load for schedule in schedules} == set(LOADS)
