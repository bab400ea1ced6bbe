"""Kernels of compressed sliced ELLPACK: on the CPU, as CUDA on the CPU, and compiled for an H200."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen import nvcc
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.targets import CPU, get_target
from repro.problems.matrix import Matrix
from repro.sparse.operands import make_operands
from repro.studies.compressed_coo import STUDY_NAME
from repro.studies.compressed_coo import runnables as coordinates
from repro.studies.compressed_coo.ids import CHUNKS, HEIGHTS, Blocking, CoordinateId, blockings
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.compressed_coo.runnables import SlicedVariant
from repro.studies.compressed_coo.study import variant_of
from support.emulated_cuda import needs_compiler
from support.emulated_workspace import EmulatedWorkspace
from support.sliced_problems import PROBLEMS, REACH, coded, matrix, uneven

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(3)
SM_90 = get_target("sm_90")
#: What each matrix is tried with: each number of entries in flight.
TRIED = [Blocking(64, 4), Blocking(64, 8, 2, "cs"), Blocking(32, 1, 3), Blocking(32, 2)]
#: Of precisions, threads, entries in flight and loads each with each other.
EMULATED = [
    ("single", 64, 4, "ca"),
    ("double", 64, 8, "cs"),
    ("single", 128, 8, "cs"),
    ("double", 128, 4, "ca"),
    ("double", 64, 4, "cs"),
    ("single", 64, 8, "ca"),
]


@pytest.fixture(scope="module")
def modules(tmp_path_factory, templates):
    """A module of each height and precision, which takes seconds to compile, and its folder."""
    folder = tmp_path_factory.mktemp("slices")

    @cache
    def module_of(layout, precision):
        source = render_coo(templates, precision, layout, TRIED, CPU)
        return compile_module(source, CPU, folder / f"{precision}/{layout}.json"), folder / precision

    return module_of


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("layout", HEIGHTS)
@pytest.mark.parametrize("precision", [pytest.param("single", marks=pytest.mark.exhaustive), "double"])
def test_every_kernel_is_right(modules, make_bench, monkeypatch, layout, precision, name):
    monkeypatch.setattr(coordinates, "MAX_PADDING", 1000)  # a slice has more places than small matrices entries
    problem = PROBLEMS[name]
    module, folder = modules(layout, precision)
    bench = make_bench(problem, precision, STUDY_NAME)
    variants = [variant_of(CoordinateId(layout, blocking), module, folder) for blocking in TRIED]
    rows = [bench.try_once(variant, "search", EFFORT) for variant in variants]
    bench.release()
    assert {row.status for row in rows} == {"ok"}, [row.message for row in rows]
    assert all(row.error <= 1 for row in rows)
    assert all(row.bytes >= row["matrix_bytes"] + 2 * problem.n * bench.operands.dtype.itemsize for row in rows)


@pytest.mark.parametrize("bits", REACH)
@pytest.mark.parametrize("values", ["distinct", "repeat"])
def test_rows_say_what_their_steps_are(modules, make_bench, bits, values):
    module, folder = modules("CSELL-16", "double")
    bench = make_bench(coded(bits, values), study=STUDY_NAME)
    row = bench.try_once(variant_of(CoordinateId.parse("CSELL-16/b64-k8-c1-cs"), module, folder), "search", EFFORT)
    bench.release()
    steps = json.loads(row["encodings"])
    assert steps[f"none/{bits}/{'table' if values == 'repeat' else 'plain'}"] >= 8
    assert (row["layout"], row["per_thread"], row["n_t"], row["chunks"]) == ("CSELL-16", 8, 64, 1)


def test_the_same_bits_each_time_and_for_other_vectors(modules, make_bench):
    problem = uneven()
    module, folder = modules("CSELL-8", "double")
    bench = make_bench(problem, study=STUDY_NAME)
    variant = variant_of(CoordinateId.parse("CSELL-8/b32-k1-c2"), module, folder)
    bench.prepare(variant)
    given = np.linspace(-1, 1, problem.n)
    x = bench.device.upload(given)
    results = []
    for _ in range(3):
        y = bench.device.upload(np.full(problem.n, np.nan))
        variant.product(x, y)()
        results.append(np.empty(problem.n))
        bench.device.download(y, results[-1])
    bench.release()
    assert all(np.array_equal(result, results[0]) for result in results)
    expected = np.zeros(problem.n)
    np.add.at(
        expected, np.repeat(np.arange(problem.n), problem.row_lengths), problem.values[:, 0] * given[problem.indices]
    )
    np.testing.assert_allclose(results[0], expected, rtol=1e-12, atol=1e-12)


def test_what_would_be_mostly_padding_is_not_tried(modules, make_bench):
    module, folder = modules("CSELL-32", "double")
    sparse = np.zeros(64 * 1024, int)
    sparse[::1024] = 1
    bench = make_bench(matrix("sparse", sparse, np.arange(64)), study=STUDY_NAME)
    row = bench.try_once(variant_of(CoordinateId.parse("CSELL-32/b64-k4-c1"), module, folder), "search", EFFORT)
    bench.release()
    assert row.status == "unsupported"
    assert row.message == "padded to 32.0 times the non-zeros, more than 2"


def emulated(problem: Matrix, precision: str, id: CoordinateId, templates: Path, folder: Path) -> np.ndarray:
    """Return how far entries of y by a kernel's CUDA text are off, over their bounds; NaN where it wrote nothing."""
    operands = make_operands(problem, precision, 1)
    source = render_coo(templates, precision, id.layout, [id.blocking], SM_90)
    workspace = EmulatedWorkspace(operands, source, folder)
    runnable = SlicedVariant(id, Module("ok", "", "g++", (), "none"), folder)
    runnable.prepare(workspace)
    y = runnable.result()
    workspace.device.fill(y, 0xFF)
    runnable.launch()
    numbers = np.empty(operands.x.size, operands.dtype)
    workspace.device.download(y, numbers)
    off = np.abs(numbers[:, None] - operands.reference)
    # an empty row has a bound of nothing, and nothing in it
    return np.where(operands.bound > 0, off / np.maximum(operands.bound, 1e-300), off)


@pytest.mark.sampled(2)
@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", PROBLEMS)
def test_as_cuda_on_the_cpu(built_folder: Path, templates: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Kernels and chunks take turns."""
    monkeypatch.setattr(coordinates, "MAX_PADDING", 1000)
    turn = list(PROBLEMS).index(name)
    problem = PROBLEMS[name]
    for number, layout in enumerate(HEIGHTS):
        precision, threads, entries, load = EMULATED[(turn + 2 * number) % len(EMULATED)]
        blocking = Blocking(threads, entries, CHUNKS[(turn // 2 + number) % 3], load)
        assert blocking in blockings(SM_90, layout)
        errors = emulated(problem, precision, CoordinateId(layout, blocking), templates, built_folder)
        assert errors.max() <= 1  # and no NaN


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("layout", HEIGHTS)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_few_numbers_spill_on_an_h200(tmp_path: Path, templates: Path, layout: str, precision: str) -> None:
    source = render_coo(templates, precision, layout, blockings(SM_90, layout), SM_90)
    module = compile_module(source, SM_90, tmp_path / "m")
    assert module.resources, module.message
    # none with nvcc 13.0; NVRTC 13 keeps two numbers of eight entries in flight in memory, of sixteen up to nine
    for name, found in module.resources.items():
        assert found["spills"] <= (72 if "_k16" in name else 16), name
    assert len(module.resources) == 13  # two sizes, three numbers in flight, two loads, and what adds parts
