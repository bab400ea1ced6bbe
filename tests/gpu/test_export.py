"""Exported kernels are compiled as a user would, give SciPy's results, and are as fast as what the bench timed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen import nvcc
from repro.codegen.build_cache import compile_module
from repro.devices.cuda import CudaDevice
from repro.entries import get_entry
from repro.export.bundle import Export, parse_variant, render_export, write_matrix
from repro.problems.generators import KINDS, generate
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.operands import expand

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

BANDED = {"poisson": {"points": (90, 90, 90)}}
BOX = {"helmholtz_box": {"cells": (40, 40, 40)}}
TORUS = {"dirac_torus": {"rings": 500, "segments": 240}}
#: With long rows.
HUBS = {"helmholtz_hubs": {"cells": (40, 40, 40)}}
ELASTIC = {"elasticity_box": {"cells": (24, 24, 60)}}
CASES = [
    (BANDED, "double", "ELLPACK-AoS-AoS/direct-256-4"),
    (BOX, "single", "ELL-SoA-AoS/dynamic-256-4"),
    (BOX, "double", "CSR-AoS-SoA/direct-256-8-w8-u2"),
    (TORUS, "single", "Sl-32-SoA-AoS/static-64-6"),
    (TORUS, "double", "Sl-16-AoSoA-AoS/chunk-512-2-w2-u2-cs"),
    (ELASTIC, "single", "Sl-8-AoSoA-Padded/direct-128-8-w4-u2-cs"),
    (ELASTIC, "double", "Sl-32-SoA-SoA/static-256-2"),
    (ELASTIC, "double", "Sl-8-AoSoA-Padded@clustered/chunk-512-2-w4-u2"),
    (TORUS, "single", "CSR-AoSoA-AoS@clustered/chunk-1024-1-w2-u2"),
    (HUBS, "double", "Sl-8-AoSoA-AoS@clustered/direct-256-4-w4-u2"),
    (HUBS, "single", "CSR-AoSoA-AoS@clustered/chunk-512-2-w4-u2"),
    (TORUS, "double", "Pairs-128-AoSoA-AoS@clustered/direct-128-4-u2-cs"),
    (ELASTIC, "single", "Pairs-256-AoSoA-AoS/direct-512-1-w2"),
]
ROUNDS = 3
#: Seconds of launches before a measurement: the GPU's clocks go down while code is compiled and matrices are built.
WARM_UP = 0.3
#: By how much the exported kernel's best time may be the longer one.
TOLERANCE = 0.03
#: Where the rows' order is found anew, and is about as good.
CLUSTERED_TOLERANCE = 0.1


def build(kind: dict[str, dict[str, object]]) -> Matrix:
    ((name, parameters),) = kind.items()
    made = generate(name, **parameters)
    return Matrix(name, KINDS[name].entry, made.n, made.indptr, made.indices, made.values).validate()


def example_vector(n: int, size: int, dtype: np.dtype) -> np.ndarray:
    """Return the x that the example makes up, `(n, size)`."""
    hashed = (np.arange(n * size, dtype=np.uint64) * 2654435769).astype(np.uint32).view(np.int32)
    return (np.trunc(hashed / 256) / 8388608).astype(dtype).reshape(n, size)


def keep_busy(gpu: CudaDevice, launch: Callable[[], None]) -> None:
    """Launch for so long that the clocks are up."""
    begin = perf_counter()
    while perf_counter() - begin < WARM_UP:
        for _ in range(100):
            launch()
        gpu.synchronize()


@pytest.fixture(scope="module")
def exported(gpu: CudaDevice, templates: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The examples of all cases, exported and compiled side by side."""
    folder = tmp_path_factory.mktemp("export")

    def make(case: tuple[dict[str, dict[str, object]], str, str]) -> None:
        kind, precision, variant = case
        entry = KINDS[next(iter(kind))].entry
        place = folder / variant.replace("/", "-")
        place.mkdir()
        id = parse_variant(variant, gpu.target)
        what = Export("taken", entry, precision, id.layout, id.schedule, gpu.target)
        for name, text in render_export(templates, what).items():
            (place / name).write_text(text)
        command = [
            nvcc.find(),
            f"-arch={gpu.target.name}",
            "-O3",
            "-std=c++17",
            "-o",
            "example",
            "taken.cu",
            "example.cpp",
        ]
        subprocess.run(command, cwd=place, check=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, CASES))
    return lambda variant: folder / variant.replace("/", "-") / "example"


@pytest.mark.parametrize(
    ("kind", "precision", "variant"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_exported_kernel_is_right_and_as_fast_as_the_one_that_was_timed(
    gpu: CudaDevice,
    make_gpu_bench: Callable[..., Bench],
    exported: Callable[..., Path],
    templates: Path,
    tmp_path: Path,
    kind: dict[str, dict[str, object]],
    precision: str,
    variant: str,
) -> None:
    problem = build(kind)
    id = parse_variant(variant, gpu.target)
    source = render_module(templates, problem.entry, precision, id.layout, [id.schedule], gpu.target, "tests")
    module = compile_module(source, gpu.target, tmp_path / "module.json")
    bench = make_gpu_bench(problem, precision)
    write_matrix(problem, precision, tmp_path / "matrix")
    words = [exported(variant), tmp_path / "matrix", "--benchmark", "--output", tmp_path / "y"]
    measured = Variant(id, module, tmp_path)
    bench.prepare(measured)
    bench.check(measured)
    tolerance = CLUSTERED_TOLERANCE if id.layout.ordering == "clustered" else TOLERANCE
    ours = theirs = np.inf
    for _ in range(ROUNDS):
        keep_busy(gpu, measured.launch)
        ours = min(ours, 1e6 * np.median(bench.sample(measured, SamplingPlan(20, 100, 20)).seconds["graph"]))
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout  # it warms up itself
        theirs = min(theirs, float(re.search(r"^([\d.]+) us$", said, re.MULTILINE)[1]))
        if theirs <= (1 + tolerance) * ours:
            break

    operands = bench.operands
    x = example_vector(problem.n, get_entry(problem.entry).size, operands.dtype).astype(np.float64).ravel()
    matrix = expand(problem, operands.values)
    reference = matrix @ x
    matrix.data = np.abs(matrix.data)
    size = get_entry(problem.entry).size
    terms = np.repeat((problem.row_lengths + 2) * size, size)
    y = np.fromfile(tmp_path / "y", operands.dtype)
    assert (np.abs(y - reference) <= terms * np.finfo(operands.dtype).eps * (matrix @ np.abs(x))).all()

    print(f"\n{problem.name} {precision} {variant}: exported {theirs:.3f} us, bench {ours:.3f} us")
    assert theirs <= (1 + tolerance) * ours
