"""BiCGSTAB on the GPU, over cuSPARSE's products and ours."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.errors import Unsupported
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import VariantId
from repro.sparse.library import for_problem
from repro.sparse.library.cusparse import lacks_spmvop
from repro.sparse.library.cusparse_bindings import load, version
from repro.sparse.operands import expand
from repro.sparse.solvers.bicgstab import BiCGSTAB, SolverRun, bicgstab
from repro.sparse.solvers.kernels import Breakdown, render_solver
from repro.studies.compressed_coo.ids import Blocking, CoordinateId
from repro.studies.compressed_coo.kernels import render_coo
from repro.studies.compressed_coo.study import variant_of
from support.matrices import convection, real_problem

pytestmark = pytest.mark.gpu

PRECISIONS = ("single", "double")
EFFORT = SamplingPlan(20, 5, 5)


@pytest.fixture(scope="module")
def solver_modules(gpu, templates, tmp_path_factory):
    """The module of each precision, and the folder of the manifests."""
    folder = tmp_path_factory.mktemp("solvers")

    def build(precision):
        source = render_solver(templates, "bicgstab", precision, gpu.target)
        return compile_module(source, gpu.target, folder / f"{precision}.json")

    return folder, {precision: build(precision) for precision in PRECISIONS}


@pytest.fixture
def our_product(gpu, templates, tmp_path):
    """Make a variant that multiplies, with a counter to reset."""

    def make(precision):
        id = VariantId.parse("Sl-32-SoA-AoS/dynamic-128-8")
        source = render_module(templates, "real", precision, id.layout, [id.schedule], gpu.target, "tests")
        return Variant(id, compile_module(source, gpu.target, tmp_path / "variant.json"), tmp_path)

    return make


@pytest.fixture
def make_solver(gpu, make_gpu_bench, our_product, solver_modules):
    """Make a solver for a problem, with a variant of ours."""
    folder, modules = solver_modules
    made = []

    def make(problem, precision="double"):
        bench = make_gpu_bench(problem, precision)
        product = our_product(precision)
        bench.prepare(product)
        program = gpu.load(folder / modules[precision].binary)
        made.append(BiCGSTAB(gpu, program, product.product, problem.n, bench.operands.dtype))
        return made[-1]

    yield make
    for solver in made:
        solver.release()


def run(solver, b, iterations):
    """Run a number of iterations from x = 0; return the state and x."""
    solver.load(b)
    solver.begin()
    solver.iterate(iterations)
    return solver.state(), solver.x()


def check(row):
    print(f"{row.name} {row.precision}: error {row.error} event {row.event_median} graph {row.graph_median}")
    assert row.status == "ok", row.message
    assert 0 < row.error <= 1
    assert row.event_median > 0
    assert row.graph_median is not None, row.message
    assert row["routine"] == "bicgstab"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_solve_over_cusparse_is_verified_and_captured(make_gpu_bench, solver_modules, precision):
    try:
        load()
    except Unsupported as error:
        pytest.skip(str(error))
    folder, modules = solver_modules
    bench = make_gpu_bench(convection(301), precision, "compressed_coo")
    products = [p for p in for_problem("real", "cuda") if any(word in p.name for word in ("csr", "coo"))]
    if lacks_spmvop(version()):
        products = [product for product in products if "spmvop" not in product.name]
    assert len(products) >= 4
    for product in products:
        check(bench.try_once(SolverRun(product, modules[precision], folder), "report", EFFORT))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_solve_over_ours_is_verified_and_captured(
    gpu, make_gpu_bench, our_product, solver_modules, templates, tmp_path, precision
):
    folder, modules = solver_modules
    bench = make_gpu_bench(convection(301), precision, "compressed_coo")
    variant = our_product(precision)
    products = [variant, variant.reordered("rcm")]
    blocking = Blocking(256, 4, 2)
    for name in ("COO", "CCOO", "CCOO-aligned", "CSELL-32"):
        source = render_coo(templates, precision, name, [blocking], gpu.target)
        module = compile_module(source, gpu.target, tmp_path / f"{name}.json")
        products.append(variant_of(CoordinateId(name, blocking), module, tmp_path))
    for product in products:
        row = bench.try_once(SolverRun(product, modules[precision], folder), "report", EFFORT)
        check(row)
        assert row["layout"] == product.columns["layout"]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("points", [3, 301, 1001])  # less than a block's words, and more than all threads take at once
def test_every_residual_is_that_of_the_host(make_solver, precision, points):
    problem = convection(points)
    solver = make_solver(problem, precision)
    dtype = {"single": np.float32, "double": np.float64}[precision]
    b = np.random.default_rng(3).uniform(-1, 1, problem.n).astype(dtype)
    matrix = expand(problem, problem.values.astype(dtype))
    count = 3 if points == 3 else 12
    course = bicgstab(lambda x: matrix @ x, b.astype(float), count)
    solver.load(b)
    solver.begin()
    residuals = [solver.state().residual]
    for _ in range(count):
        solver.iterate()
        residuals.append(solver.state().residual)
    tolerance = {"single": 1e-3, "double": 1e-10}[precision]
    np.testing.assert_allclose(residuals, course.residuals, rtol=tolerance)
    np.testing.assert_allclose(residuals[-1], np.linalg.norm(b - matrix @ solver.x()), rtol=tolerance)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_same_solve_gives_the_same_bits(make_solver, precision):
    problem = convection(301)
    solver, b = make_solver(problem, precision), np.ones(problem.n)
    solutions = [run(solver, b, 20) for _ in range(4)]
    assert len({(state.residual, x.tobytes()) for state, x in solutions}) == 1


ROTATION = sp.kron(sp.eye_array(20_000), np.array([[0, 1], [-1, 0]]))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_breakdown_is_reported(make_solver, precision):
    state, x = run(make_solver(real_problem(ROTATION), precision), np.ones(40_000), 3)
    assert (state.reason, state.iterations) == (Breakdown.PROJECTION, 0)
    assert not x.any()
