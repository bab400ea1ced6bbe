"""A solve as a row: verified, timed, refused."""

import re
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.targets import CPU
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import Layout, Schedule, VariantId
from repro.sparse.expansions import real_expansion
from repro.sparse.library.scipy_products import SciPy
from repro.sparse.solvers.bicgstab import SolverRun, expect
from repro.sparse.solvers.kernels import LaunchedBicgstabState, render_solver
from repro.studies.compressed_coo import STUDY_NAME
from repro.studies.compressed_coo.ids import Blocking, CoordinateId
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.compressed_coo.study import variant_of
from support.matrices import convection, real_problem

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(4, 2, 5)
SCIPY = SciPy("csr", real_expansion("real"))


@pytest.fixture
def products(tmp_path, templates):
    """Make products of every kind that has one on the CPU."""

    def make(precision):
        schedule = Schedule("dynamic", 32, 2)
        layout, blocking = Layout.parse("Sl-16-SoA-AoS"), Blocking(32, 4, 2)
        source = render_module(templates, "real", precision, layout, [schedule], CPU, "tests")
        module = compile_module(source, CPU, tmp_path / "variant.json")
        variant = Variant(VariantId(layout, schedule), module, tmp_path)
        found = [SciPy("csr", real_expansion("real")), variant, variant.reordered("rcm")]
        for name in ("COO", "CCOO-aligned", "CSELL-16"):
            source = render_coo(templates, precision, name, [blocking], CPU)
            module = compile_module(source, CPU, tmp_path / f"{name}.json")
            found.append(variant_of(CoordinateId(name, blocking), module, tmp_path))
        return found

    return make


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_solve_with_any_product_is_verified_and_timed(make_bench, products, solver_modules, precision):
    folder, modules = solver_modules
    bench = make_bench(convection(40), precision, STUDY_NAME)
    for product in products(precision):
        row = bench.try_once(SolverRun(product, modules[precision], folder), "report", EFFORT)
        assert (row.status, row.kind) == ("ok", "solver"), row.message
        assert (row.name, row["routine"]) == (f"bicgstab-10/{product.name}", "bicgstab")
        assert row["layout"] == product.columns.get("layout")
        assert row["representation"] == product.columns.get("representation")
        assert row["ordering"] == product.columns.get("ordering", "natural")
        assert 0 < row.error <= 1
        assert row.event_median > 0
        assert row.graph_median > 0
        vectors = (160 + 4) * 1600 * bench.operands.dtype.itemsize
        assert row.bytes == 20 * product.bytes_moved + vectors
        assert row["matrix_bytes"] == product.matrix_bytes
    bench.release()


def test_a_solve_is_of_as_many_iterations_as_it_says(make_bench, solver_modules):
    folder, modules = solver_modules
    bench = make_bench(convection())
    run = SolverRun(SciPy("csr", real_expansion("real")), modules["double"], folder, iterations=3)
    bench.prepare(run)
    run.launch()
    standing = run._solver.state()
    assert standing.iterations == 3
    assert standing.residual == pytest.approx(expect(bench.workspace, 3).residual, rel=1e-11)
    assert run.name.startswith("bicgstab-3/")
    assert run.identity != SolverRun(SCIPY, Module("ok", "other", "", ()), folder).identity
    run.release()
    run.release()
    bench.release()


MEMBERS = "{% for c in members %}"
WRONG = {
    "a sign in the recurrence": ("-= alpha *", "+= alpha *"),
    "an x that the residual does not belong to": ("}} += alpha * p", "}} += 2 * alpha * p"),
    "a sum short of a member": (
        f"{MEMBERS}\n            proj",
        f"{MEMBERS.replace('members', 'members[1:]')}\n            proj",
    ),
    "a part of a sum left out": ("part = THREAD; part <", "part = THREAD + 1; part <"),
}


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_solver_is_incorrect_and_has_no_time(make_bench, templates, tmp_path, precision, mistake):
    kernels = tmp_path / "kernels"
    shutil.copytree(templates, kernels)
    template = kernels / "sparse/bicgstab.j2"
    right, wrong = WRONG[mistake]
    assert right in template.read_text()
    template.write_text(template.read_text().replace(right, wrong))
    module = compile_module(render_solver(kernels, "bicgstab", precision, CPU), CPU, tmp_path / "wrong.json")
    bench = make_bench(convection(), precision, STUDY_NAME)
    row = bench.try_once(SolverRun(SCIPY, module, tmp_path), "report", EFFORT)
    bench.release()
    assert row.status == "incorrect", row.error
    assert row.event_median is None
    assert not row.error <= 1
    assert "of what is tolerated" in row.message


def test_a_solver_that_writes_past_its_memory_is_incorrect(make_bench, templates, tmp_path):
    """Though its residual is right."""
    source = render_solver(templates, "bicgstab", "double", CPU)
    body = source.index("{", source.index("begin_state("))
    wrong = f"{source[: body + 1]} state[{len(LaunchedBicgstabState)}] = 1; {source[body + 1 :]}"
    module = compile_module(wrong, CPU, tmp_path / "wrong.json")
    bench = make_bench(convection(), "double", STUDY_NAME)
    row = bench.try_once(SolverRun(SCIPY, module, tmp_path), "report", EFFORT)
    bench.release()
    assert (row.status, row.event_median) == ("incorrect", None)
    assert row.message == "writes outside of the solver's state: 8 bytes past the end"


def test_a_solve_that_breaks_down_on_the_host_does_so_on_the_device(make_bench, solver_modules):
    folder, modules = solver_modules
    bench = make_bench(real_problem(sp.csr_array((np.zeros(9), np.arange(9), np.arange(10)))), study=STUDY_NAME)
    run = SolverRun(SciPy("csr", real_expansion("real")), modules["double"], folder)
    row = bench.try_once(run, "report", EFFORT)
    bench.release()
    assert row.status == "ok"
    assert row.error < 0.1
    assert expect(bench.workspace, 10).residual == pytest.approx(np.linalg.norm(bench.operands.x))


def test_what_a_solver_cannot_do_is_unsupported(make_bench, small_problem, solver_modules):
    folder, modules = solver_modules
    bench = make_bench(small_problem("block3"), study=STUDY_NAME)
    row = bench.try_once(SolverRun(SciPy("csr", real_expansion("block3")), modules["double"], folder), "report", EFFORT)
    assert (row.status, row.message) == ("unsupported", "the solver works on numbers, not on block3 entries")
    broken = Module("compile_error", "", "", (), message="no")
    row = make_bench(small_problem("real"), study=STUDY_NAME).try_once(
        SolverRun(SCIPY, broken, folder), "report", EFFORT
    )
    assert (row.status, row.message) == ("compile_error", "no")


def test_what_is_expected_is_computed_once(make_bench, monkeypatch):
    bench = make_bench(convection())
    first = expect(bench.workspace, 5)
    monkeypatch.setattr("repro.sparse.solvers.bicgstab.expected_residual", None)
    assert expect(bench.workspace, 5) is first
    bench.release()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_where_rounding_takes_over_only_what_comes_before_is_compared(make_bench, solver_modules, precision):
    """Random numbers off the diagonal: after a few iterations two right solves have nothing in common."""
    folder, modules = solver_modules
    for seed in range(8):
        random = np.random.default_rng(seed)
        bench = make_bench(real_problem(sp.random_array((500, 500), density=0.02, rng=random)), precision, STUDY_NAME)
        row = bench.try_once(SolverRun(SCIPY, modules[precision], folder, iterations=40), "report", EFFORT)
        expected = expect(bench.workspace, 40)
        bench.release()
        assert row.status == "ok", row.message
        assert 1 <= expected.iterations < 40
        assert row.name.startswith("bicgstab-40/")


def test_a_well_behaved_solve_is_compared_at_its_end_and_closely(make_bench):
    for precision, iterations, closely in (("single", 8, 0.2), ("double", 10, 1e-8)):
        bench = make_bench(convection(40), precision, STUDY_NAME)
        expected = expect(bench.workspace, iterations)
        bench.release()
        assert expected.iterations == iterations
        assert 0 < expected.tolerance < closely * expected.residual


class LastBits(SciPy):
    """A right product whose last bits are drawn: as much as another order of its sums makes of them."""

    def __init__(self, seed):
        super().__init__("csr", real_expansion("real"))
        self._random = np.random.default_rng(seed)

    def product(self, x, y):
        right, device, matrix = super().product(x, y), self._device, self._matrix
        rounding = np.finfo(float).eps / 2 * np.sqrt(np.diff(matrix.indptr))
        host, sizes = np.empty(matrix.shape[0]), abs(matrix)

        def launch():
            device.download(x, host)
            noise = self._random.uniform(-rounding, rounding) * (sizes @ np.abs(host))
            right()
            device.download(y, host)
            device.write(y, host + noise)

        return launch


def test_where_right_products_move_the_residual_as_far_the_solve_is_unstable(make_bench, solver_modules):
    """Nearly skew: the first step divides by next to nothing, and a tenth of all right solves are thousands off."""
    folder, modules = solver_modules
    random = np.random.default_rng(10)
    half = sp.random_array((400, 400), density=0.01, rng=random, data_sampler=lambda size: random.normal(size=size))
    matrix = (half - half.T) + sp.diags_array(random.normal(size=400) * 1e-3)
    bench = make_bench(real_problem(matrix), study=STUDY_NAME)
    rows = [
        bench.try_once(SolverRun(LastBits(seed), modules["double"], folder), "report", SamplingPlan(3))
        for seed in range(40)
    ]
    bench.release()
    assert {row.status for row in rows} == {"ok", "unstable"}
    row = next(row for row in rows if row.status == "unstable")
    assert row.error > 1
    assert row.event_median is None
    assert f"the difference is {row.error:.3g} of what is tolerated; right products" in row.message
    assert re.search(r"last bits move it by [\d.e+]+ of that$", row.message)


def test_a_wrong_product_is_incorrect_where_right_ones_agree(make_bench, solver_modules):
    class Off(SciPy):
        """One row in a thousand is a millionth too large."""

        def product(self, x, y):
            right, device = super().product(x, y), self._device
            host = np.empty(self._matrix.shape[0])

            def launch():
                right()
                device.download(y, host)
                host[::1000] *= 1 + 1e-6
                device.write(y, host)

            return launch

    folder, modules = solver_modules
    bench = make_bench(convection(40), study=STUDY_NAME)
    row = bench.try_once(SolverRun(Off("csr", real_expansion("real")), modules["double"], folder), "report", EFFORT)
    bench.release()
    assert row.status == "incorrect"
    assert row.error > 1
    assert row.message.endswith("of what is tolerated")
