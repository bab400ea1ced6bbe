import pytest

from repro.bench.timing import SamplingPlan
from repro.entries import entries
from repro.errors import Unsupported
from repro.sparse.library import for_problem
from repro.sparse.library.cusparse import lacks_spmvop
from repro.sparse.library.cusparse_bindings import load, version
from support.product_checks import check_products

pytestmark = pytest.mark.gpu

EVERY = [(entry, r.name) for entry in sorted(entries()) for r in for_problem(entry, "cuda")]
EFFORT = SamplingPlan(50, 20, 5)


@pytest.fixture(scope="module", autouse=True)
def library(gpu):
    """cuSPARSE; where it is missing the tests are skipped."""
    try:
        return load()
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.fixture
def problem(small_problem):
    """Rows that fill neither a slice nor a block of threads, some empty, one long."""
    return lambda entry: small_problem(entry, n=1003)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("entry", "name"), EVERY)
def test_every_routine_is_correct_and_timed_by_both_clocks(make_gpu_bench, problem, entry, name, precision):
    bench = make_gpu_bench(problem(entry), precision)
    [runnable] = [r for r in for_problem(entry, "cuda") if r.name == name]
    row = bench.try_once(runnable, "search", EFFORT)
    print(f"{name} {precision}: {row.status} {row.message or ''} event {row.event_median} graph {row.graph_median}")
    if row.status == "unsupported":
        pytest.skip(f"{name}: {row.message}")
    assert row.status == "ok", row.message
    assert row.error <= 1
    assert row.event_median > 0
    assert row.graph_median is not None, row.message
    assert row.bytes > row["matrix_bytes"] > 0
    assert row.preprocess >= 0  # bsrmv has no analysis


def test_what_the_papers_compare_with_is_supported(make_gpu_bench, problem):
    for entry in ("complex", "quaternion", "block3"):
        bench = make_gpu_bench(problem(entry), "double")
        [chosen] = [r for r in for_problem(entry, "cuda") if r.columns["papers_choice"]]
        assert bench.try_once(chosen, "search", EFFORT).status == "ok"


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("entry", "name"), [(e, name) for e, name in EVERY if "spmvop" in name])
def test_spmvop_has_real_numbers_and_graphs_where_the_library_has_it(make_gpu_bench, problem, entry, name, precision):
    bench = make_gpu_bench(problem(entry), precision)
    [runnable] = [r for r in for_problem(entry, "cuda") if r.name == name]
    row = bench.try_once(runnable, "search", EFFORT)
    if (too_old := lacks_spmvop(version())) or "/complex" in name:
        assert row.status == "unsupported"
        assert (too_old or "NOT_SUPPORTED") in row.message
        return
    assert (row.status, row.message) == ("ok", None)
    assert row.graph_median > 0 and row.preprocess > 0


def test_all_are_on_the_device_at_once_and_memory_comes_back(make_gpu_bench, problem, taken):
    bench = make_gpu_bench(problem("quaternion"), "single")
    runnables = for_problem("quaternion", "cuda")
    ready = []
    for runnable in runnables:
        try:
            bench.prepare(runnable)
        except Unsupported:
            continue
        ready.append(runnable)
    for runnable in ready:
        assert bench.check(runnable) <= 1
    held = taken()
    assert held > 0
    for runnable in runnables:
        runnable.release()
        runnable.release()
    assert taken() <= held


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("entry", "name"), EVERY)
def test_every_routine_multiplies_other_vectors(make_gpu_bench, problem, entry, name, precision):
    bench = make_gpu_bench(problem(entry), precision)
    [runnable] = [r for r in for_problem(entry, "cuda") if r.name == name]
    try:
        check_products(bench, runnable)
    except Unsupported as error:
        pytest.skip(f"{name}: {error}")
