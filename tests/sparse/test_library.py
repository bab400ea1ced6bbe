from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.entries import entries
from repro.sparse import library
from repro.sparse.expansions import COMPLEX
from repro.sparse.library import baseline, for_problem
from repro.sparse.library.cusparse import PAPERS_BASELINE
from repro.sparse.library.scipy_products import SciPy, scipy_products
from support.product_checks import check_products

EFFORT = SamplingPlan(5, 2, 5)
SPMVOP = ("spmvop-csr-alg1", "spmvop-csr-alg2")
SPMV = ("spmv-csr-alg1", "spmv-csr-alg2", *SPMVOP, "spmv-coo-alg1", "spmv-coo-alg2", "spmv-sell-alg1")
BLOCKS = (*SPMV, "spmv-bsr-alg1", "bsrmv")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("real", [(SPMV, "real")]),
        ("complex", [(SPMV, "complex")]),
        ("quaternion", [(BLOCKS, "real4"), (BLOCKS, "complex2")]),
        ("block3", [(BLOCKS, "real3")]),
    ],
)
def test_every_fitting_routine_is_there_once(entry, expected):
    names = [runnable.name for runnable in for_problem(entry, "cuda")]
    wanted = [f"cusparse/{routine}/{what}" for routines, what in expected for routine in routines]
    assert sorted(names) == sorted(wanted)


@pytest.mark.parametrize("entry", sorted(PAPERS_BASELINE))
def test_the_papers_choice_is_marked(entry):
    marked = [r.name for r in for_problem(entry, "cuda") if r.columns["papers_choice"]]
    assert marked == [f"cusparse/{PAPERS_BASELINE[entry]}"]


def test_each_call_returns_new_runnables():
    first, second = for_problem("block3", "opencl"), for_problem("block3", "opencl")
    assert not {id(r) for r in first} & {id(r) for r in second}


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_scipy_is_verified_and_timed_as_a_kernel_is(make_bench, small_problem, entry, precision):
    problem = small_problem(entry)
    bench = make_bench(problem, precision)
    for runnable in for_problem(entry, "opencl"):
        row = bench.try_once(runnable, "search", EFFORT)
        assert (row.status, row.message) == ("ok", None), runnable.name
        assert row.error <= 1
        assert row.event_median > 0
        numbers = {"pattern": 1, "real": 1, "complex": 2, "quaternion": 16, "block3": 9}[entry]
        if runnable.name.startswith("scipy/csr/real") and entry != "complex":
            size = np.dtype(precision).itemsize
            entries_of_row = problem.n * bench.operands.entry.size + 1
            assert row["matrix_bytes"] == problem.nnz * numbers * (size + 4) + 4 * entries_of_row


def test_scipy_has_complex_numbers_as_they_are_and_expanded():
    assert [r.name for r in scipy_products("complex", "natural")] == [
        "scipy/csr/real2",
        "scipy/bsr/real2",
        "scipy/csr/complex",
    ]
    assert [r.name for r in scipy_products("real", "natural")] == ["scipy/csr/real"]


@pytest.mark.parametrize("entry", sorted(entries()))
def test_reordered_the_product_is_the_same(make_bench, small_problem, entry):
    bench = make_bench(small_problem(entry))
    natural, reordered = (for_problem(entry, "opencl", ordering) for ordering in ("natural", "rcm"))
    assert [r.name for r in reordered] == [f"{r.name}@rcm" for r in natural]
    for runnable in reordered:
        row = bench.try_once(runnable, "search", EFFORT)
        assert (row.status, row["ordering"]) == ("ok", "rcm")


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_scipy_multiplies_other_vectors(make_bench, small_problem, entry, precision):
    bench = make_bench(small_problem(entry), precision)
    for ordering in ("natural", "rcm"):
        for runnable in for_problem(entry, "opencl", ordering):
            check_products(bench, runnable)


def test_a_wrong_product_is_incorrect(make_bench, small_problem):
    bench = make_bench(small_problem("complex"))
    row = bench.try_once(SciPy("csr", replace(COMPLEX, blocks=_conjugate)), "search", EFFORT)
    assert row.status == "incorrect"
    assert row.event_median is None


def _conjugate(values):
    return (values[:, 0] - 1j * values[:, 1]).reshape(-1, 1, 1)


def test_cusparse_without_its_library_or_a_gpu_is_unsupported_and_says_why(make_bench, small_problem):
    bench = make_bench(small_problem("quaternion"))
    for runnable in for_problem("quaternion", "cuda"):
        runnable.release()  # harmless before it was prepared
        row = bench.try_once(runnable, "search", EFFORT)
        assert row.status == "unsupported"
        assert "cuSPARSE" in row.message


def test_a_baseline_of_ones_own_is_found(monkeypatch):
    monkeypatch.setattr(library, "_PROVIDERS", [])
    mine = SimpleNamespace(name="mine")

    @baseline("cuda")
    def provide(entry, ordering):
        return [mine] if (entry, ordering) == ("real", "natural") else []

    assert for_problem("real", "cuda") == [mine]
    assert for_problem("real", "opencl") == for_problem("complex", "cuda") == []
