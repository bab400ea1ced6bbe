"""Everything that a case times of ours, on the CPU: right, right again, in stages, and all memory given back."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from repro.codegen.targets import CPU
from repro.devices.base import OutOfDeviceMemory
from repro.errors import IncorrectError, ModuleError, Unsupported
from repro.sparse.device_primitives import ModuleFile, RunnableContext
from repro.sparse.multigrid.hierarchy import NearNull
from repro.sparse.spgemm.kernels import BINS, LIMITS
from repro.studies.spgemm_amg import operands as amg_expected
from repro.studies.spgemm_amg import runnables_products as amg_bins
from repro.studies.spgemm_amg import runnables_setup as amg_setup
from repro.studies.spgemm_amg.operands import factors_on, make_operands, upload
from repro.studies.spgemm_amg.runnables_products import (
    MODES,
    BinKernel,
    ChosenKernels,
    Product,
    Refill,
    WholeProduct,
    kernels_of,
)
from repro.studies.spgemm_amg.runnables_setup import SETUP_STAGES, LevelSetUp, LevelSteps, SetUp, Solution
from repro.words import SPACES
from support.amg_problems import PROBLEMS, around_limits, as_problem, only_multiplied, runnables
from support.products_by_shape import five_point

pytestmark = pytest.mark.medium

cases = pytest.mark.parametrize(
    ("problem", "precision"),
    [(name, "double") for name in PROBLEMS] + [("five points", "single"), ("blocks", "single")],
)


@pytest.mark.sampled(3)
@cases
def test_everything_is_right_again_and_again_and_gives_all_memory_back(built, workspace_of, live, problem, precision):
    operands = make_operands(PROBLEMS[problem], precision, 1)
    workspace = workspace_of(operands)
    for name in operands.products:
        factors_on(workspace, name)
    kept = set(live)
    every = runnables(built[precision], operands)
    assert (
        len({runnable.name for runnable in every})
        == len(every)
        == 8 * len(operands.products) + 3 + len(operands.levels)
    )
    for runnable in every:
        for _ in range(2):  # prepared anew, it does the same
            runnable.prepare(workspace)
            for _ in range(2):
                if isinstance(runnable, LevelSetUp):  # of which nothing is read
                    runnable.before()
                    runnable.launch()
                else:
                    assert operands.check(runnable, workspace) <= 1, runnable.name
            workspace.guards.check()
            runnable.release()
            runnable.release()
            assert set(live) == kept, runnable.name
    workspace.release()
    assert not live


@cases
def test_stages_do_what_the_launch_does(built, workspace_of, live, problem, precision):
    operands = make_operands(PROBLEMS[problem], precision, 1)
    workspace = workspace_of(operands)
    staged = [runnable for runnable in runnables(built[precision], operands) if runnable.stages]
    assert len(staged) == 4 * len(operands.products) + len(operands.levels) - 1
    for runnable in staged:
        names = list(runnable.stages)
        runnable.prepare(workspace)
        assert list(runnable.stages) == names, "they are known before"

        def all_stages(of=runnable):
            for stage in of.stages.values():
                stage()

        runnable.launch = all_stages
        if not isinstance(runnable, LevelSetUp):
            for _ in range(2):
                assert operands.check(runnable, workspace) <= 1
        else:
            for _ in range(2):
                runnable.before()
                runnable.launch()
        runnable.release()
    workspace.release()
    assert not live


def test_a_product_that_is_stopped_between_its_stages_is_given_back(built, workspace_of, live):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace = workspace_of(operands)
    for runnable in (WholeProduct(built["double"], "AP", "two"), LevelSetUp(built["double"], 0)):
        factors_on(workspace, "AP")
        kept = set(live)
        runnable.prepare(workspace)
        for after in (1, 2, 3):
            runnable.before()
            for stage in list(runnable.stages.values())[:after]:
                stage()
        runnable.release()
        assert set(live) == kept


@pytest.mark.parametrize("level", [0, 1])
def test_the_stages_of_a_level_make_the_next_one(built, workspace_of, level):
    operands = make_operands(as_problem(five_point(40)), "double", 1)
    assert len(operands.levels) == 3
    workspace = workspace_of(operands)
    with ExitStack() as held:
        work = RunnableContext(workspace, built["double"], held)
        a, near = upload(workspace, operands.levels[0].a), operands.near_null
        held.callback(a.release)
        near = NearNull(work.keep(work.device.upload(near.ravel())), 1)
        for _ in range(level + 1):
            steps = LevelSteps(work, a, 1, near, held.callback)
            for name in SETUP_STAGES:
                getattr(steps, name)()
            a, near = steps.coarse, steps.coarse_near
        coarse = a.download().to_csr()
    x = np.random.default_rng(1).normal(size=coarse.shape[0])
    expected = operands.levels[level + 1].a
    np.testing.assert_allclose(coarse @ x, expected @ x, rtol=1e-9, atol=1e-9 * abs(expected).max())


def test_what_a_row_says(built, workspace_of):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace = workspace_of(operands)
    said = {}
    for runnable in runnables(built["double"], operands):
        runnable.prepare(workspace)
        operands.check(runnable, workspace)
        said[runnable.name] = dict(runnable.columns)
        assert runnable.identity
        runnable.release()
    expected = operands.expected("AP")
    amount = {"product": "AP", "products": int(expected.products.sum()), "nonzeros": int(expected.sizes.sum())}
    assert said["AP/one"].items() >= {"what": "product", "mode": "one", "method": "default", **amount}.items()
    assert said["AP/two-tuned"].items() >= {"mode": "two", "method": "tuned", **amount}.items()
    assert said["AP/paper"].items() >= {"mode": "one", "method": "sort", **amount}.items()
    assert said["AP/coordinates"].items() >= {"mode": "coordinates", "method": "coordinates", **amount}.items()
    assert said["AP/refill"].items() >= {"what": "numeric", "mode": "refill", "method": "default", **amount}.items()
    levels = len(operands.levels)
    assert said["setup/sort"].items() >= {"what": "setup", "method": "sort", "levels": levels}.items()
    assert said["setup/sort"]["complexity"] > 1
    assert said["setup/level-0"].items() >= {"level": 0, "rows": 400, "nonzeros": operands.a.nnz}.items()
    assert 3 < said["solve/cg"]["iterations"] < 40


def test_a_solution_that_says_it_has_not_converged_is_not_taken_for_a_wrong_one(built, workspace_of, monkeypatch):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace = workspace_of(operands)
    monkeypatch.setattr(amg_setup, "MAX_STEPS", 2)
    solution = next(r for r in runnables(built["double"], operands) if isinstance(r, Solution))
    solution.prepare(workspace)
    with pytest.raises(Unsupported, match="it has not converged after 2 iterations"):
        operands.check(solution, workspace)
    monkeypatch.setattr(Solution, "shortfall", None)
    with pytest.raises(IncorrectError, match="the residual is"):
        operands.check(solution, workspace)
    solution.release()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_every_kernel_of_every_bin_at_the_edges_of_bins(built, workspace_of, precision):
    a, wanted = around_limits()
    operands = only_multiplied(a, precision)
    expected = operands.expected("AA")
    np.testing.assert_array_equal(expected.products[: len(wanted)], wanted)
    for bin, limit in enumerate(LIMITS):
        assert {limit - 1, limit} <= set(expected.products[expected.rows_of("one", bin)])
        assert limit + 1 in expected.products[expected.rows_of("one", bin + 1)]
    workspace = workspace_of(operands)
    kernels = [kernel for space in SPACES for kernel in kernels_of(built[precision], operands, CPU, space, 0.0)]
    for limit in LIMITS:
        assert {limit - 1, limit, limit + 1} <= set(expected.sizes)
    assert {(kernel.mode, kernel.bin) for kernel in kernels} == {(mode, bin) for mode in MODES for bin in range(BINS)}
    assert {kernel.id.method for kernel in kernels} == {"sort", "hash", "dense"}
    for kernel in kernels:
        kernel.prepare(workspace)
        for _ in range(2):
            assert operands.check(kernel, workspace) <= 1, kernel.name
        rows = expected.rows_of(kernel.mode, kernel.bin)
        assert kernel.columns["rows"] == rows.sum()
        assert kernel.columns["nonzeros"] == expected.sizes[rows].sum()
        kernel.release()
    workspace.guards.check()


@pytest.mark.parametrize("problem", ["blocks", "rows of all sizes"])
def test_every_kernel_of_every_bin_of_every_product(built, workspace_of, live, problem):
    operands = make_operands(PROBLEMS[problem], "double", 1)
    workspace = workspace_of(operands)
    for name in operands.products:
        factors_on(workspace, name)
    kept = set(live)
    kernels = [kernel for space in SPACES for kernel in kernels_of(built["double"], operands, CPU, space)]
    assert {kernel.product for kernel in kernels} == set(operands.products)
    for kernel in kernels:
        kernel.prepare(workspace)
        assert operands.check(kernel, workspace) <= 1, kernel.name
        kernel.release()
        assert set(live) == kept, kernel.name


def test_a_sum_a_column_is_not_tried_where_it_takes_too_long(built, monkeypatch):
    operands = only_multiplied(around_limits()[0], "double")
    columns = operands.a.shape[1]

    def bins_of_dense():
        kernels = [kernel for space in SPACES for kernel in kernels_of(built["double"], operands, CPU, space, 0.0)]
        return {kernel.bin for kernel in kernels if kernel.id.method == "dense"}

    tried = bins_of_dense()
    largest = max(int(np.count_nonzero(operands.expected("AA").rows_of(mode, bin))) for mode in MODES for bin in tried)
    monkeypatch.setattr(amg_bins, "MAX_SUMS", largest * columns)
    assert bins_of_dense() == tried
    monkeypatch.setattr(amg_bins, "MAX_SUMS", columns - 1)
    assert not bins_of_dense()


def _spoil(values):
    values[len(values) // 2] *= 1.001


def _launched_wrongly(runnable, device):
    """Make a runnable's launches leave one value a thousandth too large."""
    launch = runnable.launch

    def wrong():
        launch()
        c = runnable._c
        values = np.empty(c.report().pointer, c.dtype)
        device.download(c.values, values)
        _spoil(values)
        device.write(c.values, values)

    runnable.launch = wrong


@pytest.mark.parametrize("way", ["one", "two", "paper", "coordinates", "refill", "bin"])
def test_a_wrong_product_is_found(built, workspace_of, cpu_device, way):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace = workspace_of(operands)
    if way == "refill":
        runnable = Refill(built["double"], "AP")
    elif way == "bin":
        runnable = kernels_of(built["double"], operands, CPU, "paper")[0]
    else:
        runnable = WholeProduct(built["double"], "AP", way)
    runnable.prepare(workspace)
    assert operands.check(runnable, workspace) <= 1
    _launched_wrongly(runnable, cpu_device)
    with pytest.raises(IncorrectError, match=r"1 of .* (rows|values) are wrong"):
        operands.check(runnable, workspace)
    runnable.release()


def test_a_refill_that_does_nothing_is_found(built, workspace_of):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace = workspace_of(operands)
    for runnable in (Refill(built["double"], "AP"), _numeric_kernel(built["double"], operands)):
        runnable.prepare(workspace)
        assert operands.check(runnable, workspace) <= 1
        runnable.launch = lambda: None
        runnable.erase_result(workspace)
        with pytest.raises(IncorrectError, match="are wrong"):
            operands.check(runnable, workspace)
        runnable.release()


def test_equal_results_are_compared_once(built, workspace_of, monkeypatch):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace, compared = workspace_of(operands), []
    monkeypatch.setattr("repro.studies.spgemm_amg.operands.compare_product", lambda c, *_: compared.append(c) or 0.25)
    for runnable in (Refill(built["double"], "AP"), Refill(built["double"], "AP"), Refill(built["double"], "AA")):
        runnable.prepare(workspace)
        assert [operands.check(runnable, workspace) for _ in range(2)] == [0.25, 0.25]
        runnable.release()
    assert [c.shape for c in compared] == [operands.factor("AP").b.shape, operands.a.shape]


def _numeric_kernel(built, operands):
    kernels = kernels_of(built, operands, CPU, "extended")
    return next(kernel for kernel in kernels if kernel.mode == "numeric")


def test_a_wrong_hierarchy_and_a_wrong_solution_are_found(built, workspace_of, cpu_device):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace = workspace_of(operands)
    set_up = SetUp(built["double"], "default")
    set_up.prepare(workspace)
    launch = set_up.launch

    def wrong_values():
        launch()
        a = set_up._levels[1].a
        values = np.empty(a.report().pointer)
        cpu_device.download(a.values, values)
        _spoil(values)
        cpu_device.write(a.values, values)

    set_up.launch = wrong_values
    with pytest.raises(IncorrectError, match="the matrix of level 1 is wrong"):
        operands.check(set_up, workspace)

    def fewer_levels():
        launch()
        set_up._levels.pop().release()

    set_up.launch = fewer_levels
    with pytest.raises(IncorrectError, match="levels have"):
        operands.check(set_up, workspace)
    set_up.release()
    solution = Solution(built["double"])
    solution.prepare(workspace)
    solution.launch = lambda: None  # x stays 0
    with pytest.raises(IncorrectError, match="the residual is"):
        operands.check(solution, workspace)
    solution.release()


@pytest.mark.wording
def test_a_matrix_that_is_not_made_coarser_has_no_such_products_and_levels(built, workspace_of):
    workspace = workspace_of(make_operands(PROBLEMS["not made coarser"], "double", 1))
    for product in ("AP", "RAP"):
        with pytest.raises(Unsupported, match="not made coarser, so that there is no"):
            WholeProduct(built["double"], product).prepare(workspace)
    with pytest.raises(Unsupported, match="level 0 is the coarsest"):
        LevelSetUp(built["double"], 0).prepare(workspace)


def test_a_module_that_does_not_compile_is_said(built, workspace_of, tmp_path):
    workspace = workspace_of(make_operands(PROBLEMS["five points"], "double", 1))
    module = built["double"]["one-exact"].module
    broken = {**built["double"], "one-exact": ModuleFile(replace(module, binary=None, message="line 3"), tmp_path)}
    with pytest.raises(ModuleError, match="line 3"):
        WholeProduct(broken, "AA").prepare(workspace)


@pytest.mark.parametrize("kind", ["one", "two", "paper", "coordinates", "refill", "bin", "setup", "level", "solve"])
def test_memory_that_runs_out_leaves_nothing_behind(built, workspace_of, live, cpu_device, monkeypatch, kind):
    operands = make_operands(PROBLEMS["five points"], "double", 1)
    workspace = workspace_of(operands)
    factors_on(workspace, "AP")
    modules = built["double"]
    runnable = {
        "refill": lambda: Refill(modules, "AP"),
        "bin": lambda: _numeric_kernel(modules, operands),
        "setup": lambda: SetUp(modules, "coordinates"),
        "level": lambda: LevelSetUp(modules, 0),
        "solve": lambda: Solution(modules),
    }.get(kind, lambda: WholeProduct(modules, "AP", kind))()
    if isinstance(runnable, BinKernel):
        factors_on(workspace, runnable.product)
    runnable.prepare(workspace)
    runnable.release()
    kept, allocate = set(live), cpu_device._allocate
    failures, last = 0, 0
    for nth in (*range(1, 12), 15, 20, 30, 45, 70, 110):
        left = [nth]

        def fails_once(make, left=left):
            left[0] -= 1
            if left[0] == 0:
                raise OutOfDeviceMemory("no more")
            return allocate(make)

        monkeypatch.setattr(cpu_device, "_allocate", fails_once)
        try:
            runnable.prepare(workspace)
            runnable.before()
            runnable.launch()
        except OutOfDeviceMemory:
            failures, last = failures + 1, nth
        runnable.release()
        assert set(live) == kept, f"the {nth}th allocation fails"
    monkeypatch.setattr(cpu_device, "_allocate", allocate)
    assert failures > 5 and last >= 8
    runnable.prepare(workspace)
    operands.check(runnable, workspace)
    runnable.release()


def test_a_tuned_product_has_a_name_and_an_identity_of_its_own(built):
    usual = WholeProduct(built["double"], "AP", "one")
    chosen = ChosenKernels({("one", 0): None})
    tuned = WholeProduct(built["double"], "AP", "one", chosen)
    assert (usual.name, tuned.name) == ("AP/one", "AP/one-tuned")
    assert usual.identity != tuned.identity
    assert tuned.identity.endswith("one/0/None")


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_large_product_is_multiplied_with_a_vector_where_it_lies(built, workspace_of, monkeypatch, precision):
    monkeypatch.setattr(amg_expected, "MAX_COMPARED_ENTRIES", 10)
    operands = make_operands(PROBLEMS["five points"], precision, 1)
    workspace = workspace_of(operands)
    for runnable in runnables(built[precision], operands):
        if not isinstance(runnable, Product):
            continue
        monkeypatch.setattr(runnable, "result", lambda: pytest.fail("the product is brought to the host"))
        runnable.prepare(workspace)
        assert operands.check(runnable, workspace) <= 1, runnable.name
        runnable.release()
