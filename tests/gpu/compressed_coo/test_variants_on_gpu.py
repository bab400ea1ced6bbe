"""Every layout of coordinates, blocking and encoding is run on the GPU and verified, also under compute-sanitizer."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.sparse.symmetry import SYMMETRIC
from repro.studies.compressed_coo import runnables as coordinates
from repro.studies.compressed_coo.coordinate_format import ENTRIES_PER_THREAD
from repro.studies.compressed_coo.ids import HEIGHTS, PAIRS, SPLITS, TILES, Blocking, CoordinateId, blockings
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.compressed_coo.runnables import CoordinateVariant
from repro.studies.compressed_coo.study import variant_of
from support.encoded_problems import ENCODINGS, encoded, possible
from support.sliced_problems import PROBLEMS
from support.symmetric_problems import symmetric_problem

pytestmark = pytest.mark.gpu

EFFORT = SamplingPlan(5, 5, 5)
COORDINATES = [layout for layout in SPLITS if layout not in PAIRS]
BLOCKINGS = [
    Blocking(threads, entries, chunks, load)
    for threads in (64, 128, 256)
    for entries in ENTRIES_PER_THREAD
    for chunks, load in ((1, "cs"), (3, "ca"))
]
CASES = [
    (encoding, threads, entries)
    for encoding in ENCODINGS
    for threads, entries in ((64, 1), (64, 4), (128, 2), (256, 4), (128, 8))
    if possible(encoding, threads, entries)
]


@pytest.fixture(scope="module")
def modules(gpu, templates, tmp_path_factory):
    """A module of each layout and precision with all blockings."""
    folder = tmp_path_factory.mktemp("coordinates")

    def build(what):
        layout, precision = what
        source = render_coo(templates, precision, layout, BLOCKINGS, gpu.target)
        return compile_module(source, gpu.target, folder / precision / f"{layout}.json"), folder / precision

    wanted = [(layout, precision) for layout in COORDINATES for precision in ("single", "double")]
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(wanted, pool.map(build, wanted), strict=True))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("layout", COORDINATES)
def test_every_blocking_is_right(modules, make_gpu_bench, small_problem, layout, precision):
    module, folder = modules[layout, precision]
    bench = make_gpu_bench(small_problem("real", n=5000), precision, "compressed_coo")
    rows = [
        bench.try_once(variant_of(CoordinateId(layout, blocking), module, folder), "search", EFFORT)
        for blocking in BLOCKINGS
    ]
    # the problem has rows of 4 entries on average: what pads them to 8 is refused
    assert {row.status for row in rows} <= {"ok", "unsupported"}, [row.message for row in rows]
    done = [row for row in rows if row.status == "ok"]
    assert {(row["n_t"], row["per_thread"]) for row in done} >= {(n_t, k) for n_t in (64, 128, 256) for k in (1, 2)}
    assert all(0 < row.error <= 1 and row.event_median > 0 and row.graph_median > 0 for row in done)


@pytest.mark.parametrize("values", ["distinct", "repeat"])
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("layout", PAIRS)
def test_every_kernel_of_pairs_is_right(gpu, make_gpu_bench, templates, tmp_path, layout, precision, values):
    problem = symmetric_problem("real", SYMMETRIC, 5000, reach=8)
    if values == "repeat":
        problem = replace(problem, values=np.round(problem.values))
    bench = make_gpu_bench(problem, precision, "compressed_coo")
    source = render_coo(templates, precision, layout, blockings(gpu.target, layout), gpu.target)
    module = compile_module(source, gpu.target, tmp_path / f"{layout}.json")
    variants = [variant_of(CoordinateId(layout, b), module, tmp_path) for b in blockings(gpu.target, layout)]
    rows = [bench.try_once(variant, "search", EFFORT) for variant in variants]
    assert [(row.name, row.message) for row in rows if row.status not in ("ok", "unsupported")] == []
    done = [row for row in rows if row.status == "ok"]
    assert {(row["n_t"], row["per_thread"]) for row in done} >= {(n_t, k) for n_t in TILES for k in (1, 2)}
    assert all(0 < row.error <= 1 and row.graph_median > 0 for row in done)
    # tiles of clusters may have so few entries that all their values have room in a table
    possible_ones = {"none/16/table"} if values == "repeat" else {"none/16/plain", "none/16/table"}
    met = set().union(*(json.loads(row["encodings"]) for row in done))
    assert met <= possible_ones
    assert values == "repeat" or "none/16/plain" in met


@pytest.mark.parametrize(("encoding", "threads", "entries"), CASES)
def test_every_encoding_is_decoded(modules, make_gpu_bench, encoding, threads, entries):
    bench = make_gpu_bench(encoded(encoding, threads, entries), "double", "compressed_coo")
    rows = []
    for layout in ("CCOO-unpadded",) if encoding.startswith("16") else ("CCOO", "CCOO-unpadded", "CCOO-aligned"):
        module, folder = modules[layout, "double"]
        variant = CoordinateVariant(CoordinateId(layout, Blocking(threads, entries, 3)), module, folder)
        rows.append(bench.try_once(variant, "search", EFFORT))
    assert [(row.name, row.message) for row in rows if row.status != "ok"] == []
    assert all(row.error <= 1 and json.loads(row["encodings"]).get(encoding, 0) >= 2 for row in rows)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("layout", HEIGHTS)
def test_every_kind_of_slice_is_read(modules, make_gpu_bench, monkeypatch, layout, name):
    monkeypatch.setattr(coordinates, "MAX_PADDING", 1000)  # a slice has more places than small matrices entries
    for precision in ("single", "double"):
        module, folder = modules[layout, precision]
        bench = make_gpu_bench(PROBLEMS[name], precision, "compressed_coo")
        rows = [
            bench.try_once(variant_of(CoordinateId(layout, blocking), module, folder), "search", EFFORT)
            for blocking in BLOCKINGS[-8:]
        ]
        assert {row.status for row in rows} == {"ok"}, [row.message for row in rows]
        assert all(row.error <= 1 for row in rows)
