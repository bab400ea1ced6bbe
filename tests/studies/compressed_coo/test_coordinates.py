"""Each layout of coordinates, blocking and encoding is run on the CPU and verified; slices and pairs are elsewhere."""

import json
from itertools import product

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.studies.compressed_coo import STUDY_NAME
from repro.studies.compressed_coo.coordinate_format import ENTRIES_PER_THREAD
from repro.studies.compressed_coo.ids import HEIGHTS, PAIRS, SPLITS, Blocking, CoordinateId
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.compressed_coo.runnables import CoordinateVariant
from repro.studies.compressed_coo.study import variant_of
from support.encoded_problems import ENCODINGS, encoded, possible

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(3)
COORDINATES = [layout for layout in SPLITS if layout not in (*HEIGHTS, *PAIRS)]
#: Threads and slots of each, a kernel each: all there are, each number in both precisions.
KERNELS = {
    "single": [(32, 1), (64, 1), (64, 2), (32, 4), (32, 8)],
    "double": [(32, 1), (32, 2), (64, 2), (32, 4), (64, 4), (64, 8)],
}
BLOCKINGS = {
    precision: [Blocking(*kernel, chunks) for kernel in kernels for chunks in (1, 3)]
    for precision, kernels in KERNELS.items()
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory, templates):
    """A module of each layout and precision with all of its blockings."""
    folder = tmp_path_factory.mktemp("coordinates")
    return {
        (layout, precision): (
            compile_module(
                render_coo(templates, precision, layout, BLOCKINGS[precision], CPU),
                CPU,
                folder / f"{precision}/{layout}.json",
            ),
            folder / precision,
        )
        for layout in COORDINATES
        for precision in BLOCKINGS
    }


def test_all_kernels_are_run():
    assert {*KERNELS["single"], *KERNELS["double"]} == set(product((32, 64), ENTRIES_PER_THREAD))
    for kernels in KERNELS.values():
        assert {entries for _, entries in kernels} == set(ENTRIES_PER_THREAD)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("precision", BLOCKINGS)
@pytest.mark.parametrize("layout", COORDINATES)
def test_every_blocking_is_right(modules, make_bench, small_problem, layout, precision):
    module, folder = modules[layout, precision]
    bench = make_bench(small_problem("real", n=400), precision, STUDY_NAME)
    rows = [
        bench.try_once(variant_of(CoordinateId(layout, blocking), module, folder), "search", EFFORT)
        for blocking in BLOCKINGS[precision]
    ]
    bench.release()
    # the problem has rows of 4 entries on average: what pads them to 8 is refused
    assert {row.status for row in rows} <= {"ok", "unsupported"}, [row.message for row in rows]
    done = {(row["n_t"], row["per_thread"], row["chunks"]) for row in rows if row.status == "ok"}
    assert {(32, 1, 1), (32, 1, 3), (64, 2, 1), (64, 2, 3)} <= done
    assert all(0 < row.error <= 1 for row in rows if row.status == "ok")


CASES = [
    (encoding, threads, entries)
    for encoding in ENCODINGS
    for threads, entries in ((32, 1), (32, 2), (32, 4), (64, 4), (64, 8))
    if possible(encoding, threads, entries)
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("encoding", "threads", "entries"), CASES)
def test_every_encoding_is_decoded(modules, make_bench, encoding, threads, entries):
    bench = make_bench(encoded(encoding, threads, entries), study=STUDY_NAME)
    rows = []
    for layout in ("CCOO-unpadded",) if encoding.startswith("16") else ("CCOO", "CCOO-unpadded", "CCOO-aligned"):
        module, folder = modules[layout, "double"]
        variant = CoordinateVariant(CoordinateId(layout, Blocking(threads, entries, 3)), module, folder)
        rows.append(bench.try_once(variant, "search", EFFORT))
    bench.release()
    assert [(row.name, row.message) for row in rows if row.status != "ok"] == []
    assert all(row.error <= 1 and json.loads(row["encodings"]).get(encoding, 0) >= 2 for row in rows), [
        row["encodings"] for row in rows
    ]


def test_the_product_takes_other_vectors(modules, make_bench, small_problem):
    problem = small_problem("real", n=300)
    module, folder = modules["CCOO-aligned", "double"]
    bench = make_bench(problem, study=STUDY_NAME)
    variant = CoordinateVariant(CoordinateId("CCOO-aligned", Blocking(32, 2)), module, folder)
    bench.prepare(variant)
    given = np.linspace(-1, 1, problem.n)
    x, y = bench.device.upload(given), bench.device.upload(np.full(problem.n, np.nan))
    variant.product(x, y)()
    found = np.empty(problem.n)
    bench.device.download(y, found)
    expected = np.zeros(problem.n)
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    np.add.at(expected, rows, problem.values[:, 0] * given[problem.indices])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    bench.release()


def test_entries_that_are_not_real_are_refused(modules, make_bench, small_problem):
    module, folder = modules["CCOO", "double"]
    bench = make_bench(small_problem("complex"), study=STUDY_NAME)
    row = bench.try_once(CoordinateVariant(CoordinateId("CCOO", Blocking(32, 1)), module, folder), "search", EFFORT)
    bench.release()
    assert row.status == "unsupported"
    assert "complex" in row.message
