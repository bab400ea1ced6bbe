"""Every layout of coordinates, blocking and encoding is run on the GPU and verified, also under compute-sanitizer."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from encoded_problems import ENCODINGS, encoded, possible
from repro.bench.timing import Effort
from repro.codegen.compile import compile_module
from repro.studies.compressed_coo.balanced import ENTRIES
from repro.studies.compressed_coo.blocking import SPLITS, Blocking
from repro.studies.compressed_coo.render import render_coo
from repro.studies.compressed_coo.variant import CoordinateVariant
from repro.studies.compressed_coo.variant_id import VariantId

pytestmark = pytest.mark.gpu

EFFORT = Effort(5, 5, 5)
BLOCKINGS = [
    Blocking(threads, entries, chunks, load)
    for threads in (64, 128, 256)
    for entries in ENTRIES
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

    wanted = [(layout, precision) for layout in SPLITS for precision in ("single", "double")]
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(wanted, pool.map(build, wanted), strict=True))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("layout", SPLITS)
def test_every_blocking_is_right(modules, make_gpu_bench, small_problem, layout, precision):
    module, folder = modules[layout, precision]
    bench = make_gpu_bench(small_problem("real", n=5000), precision, "compressed_coo")
    rows = [
        bench.try_once(CoordinateVariant(VariantId(layout, blocking), module, folder, "paper"), "search", EFFORT)
        for blocking in BLOCKINGS
    ]
    # the problem has rows of 4 entries on average: what pads them to 8 is refused
    assert {row.status for row in rows} <= {"ok", "unsupported"}, [row.message for row in rows]
    done = [row for row in rows if row.status == "ok"]
    assert {(row["n_t"], row["per_thread"]) for row in done} >= {(n_t, k) for n_t in (64, 128, 256) for k in (1, 2)}
    assert all(0 < row.error <= 1 and row.event_median > 0 and row.graph_median > 0 for row in done)


@pytest.mark.parametrize(("encoding", "threads", "entries"), CASES)
def test_every_encoding_is_decoded(modules, make_gpu_bench, encoding, threads, entries):
    bench = make_gpu_bench(encoded(encoding, threads, entries), "double", "compressed_coo")
    rows = []
    for layout in ("CCOO-unpadded",) if encoding.startswith("16") else ("CCOO", "CCOO-unpadded", "CCOO-aligned"):
        module, folder = modules[layout, "double"]
        variant = CoordinateVariant(VariantId(layout, Blocking(threads, entries, 3)), module, folder, "paper")
        rows.append(bench.try_once(variant, "search", EFFORT))
    assert [(row.name, row.message) for row in rows if row.status != "ok"] == []
    assert all(row.error <= 1 and json.loads(row["encodings"]).get(encoding, 0) >= 2 for row in rows)
