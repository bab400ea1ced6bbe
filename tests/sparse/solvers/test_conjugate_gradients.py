"""Conjugate gradients as rows: over any product and on the chip, solved, verified, timed, refused."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.errors import Unsupported
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import Layout, Schedule, VariantId
from repro.sparse.expansions import COMPLEX, COMPLEX2, real_expansion
from repro.sparse.library.scipy_products import SciPy
from repro.sparse.operands import expand
from repro.sparse.solvers import conjugate_gradients
from repro.sparse.solvers.conjugate_gradients import PersistentCgRun, ProductCg, ProductCgRun, refusal
from repro.sparse.solvers.kernels import render_solver_key, solver_key
from support.emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from support.persistent_solves import as_matrix, dominant, laplacian, uneven
from support.symmetric_problems import symmetric_problem

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(3, 2, 5)
#: By entry a representation of the library's beside the real one, and a layout of ours with each order of vectors.
PRODUCTS = {
    "real": ([], ["Sl-8-SoA-AoS"]),
    "complex": ([COMPLEX], ["ELL-SoA-SoA"]),
    "quaternion": ([COMPLEX2], ["Sl-16-SoA-SoA"]),
    "block3": ([], ["CSR-AoS-Padded", "Sl-8-AoSoA-SoA"]),
}


@pytest.fixture(scope="module")
def load(built_folder, templates):
    """Return the module of a key, compiled for the CPU, and the folder of its manifest."""

    def compiled(key, source=None, name=None):
        manifest = built_folder / "conjugate-gradients" / f"{name or key}.json"
        source = source or render_solver_key(templates, key, CPU)
        return compile_module(source, CPU, manifest), manifest.parent

    return compiled


@pytest.fixture
def chip(load):
    return lambda problem, precision: PersistentCgRun(*load(solver_key("cg", precision, problem.entry)))


@pytest.fixture
def over(load):
    return lambda product, precision="double": ProductCgRun(product, *load(solver_key("cg", precision)))


def definite(entry, n=200):
    return laplacian(15) if entry == "real" else dominant(entry, {"block3": "symmetric"}.get(entry, "hermitian"), n)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", PRODUCTS)
def test_all_solve_to_the_tolerance_in_as_many_iterations(make_bench, load, chip, over, templates, entry, precision):
    problem = definite(entry)
    bench = make_bench(problem, precision)
    representations, layouts = PRODUCTS[entry]
    products = [SciPy("csr", each) for each in (real_expansion(entry), *representations)]
    for text in layouts:
        layout, schedule = Layout.parse(text), Schedule("dynamic", 32, 2)
        source = render_module(templates, entry, precision, layout, [schedule], CPU, "tests")
        products.append(Variant(VariantId(layout, schedule), *load("", source, f"{entry}-{precision}-{text}")))
    runs = [chip(problem, precision), *(over(product, precision) for product in products)]
    rows = [bench.try_once(run, "report", EFFORT) for run in runs]
    assert [(row.status, row.kind) for row in rows] == [("ok", "solver")] * len(rows), [row.message for row in rows]
    assert [row.name for row in rows] == ["cg/persistent", *(f"cg/{product.name}" for product in products)]
    assert [row["routine"] for row in rows] == ["persistent cg"] + ["cg"] * len(products)
    needed = [row["to_tolerance"] for row in rows]
    assert max(needed) - min(needed) <= 1 and min(needed) > 3
    assert [row["iterations"] for row in rows] == needed
    assert all(0 < row.error <= 1 and row.event_median > 0 and row.graph_median > 0 for row in rows)
    assert all(row.bytes > row["iterations"] * row["matrix_bytes"] for row in rows[1:])
    assert (rows[0]["kept_bytes"], rows[0]["chip_bytes"]) == (0, 0)  # a CPU keeps nothing
    for product, row in zip(products, rows[1:], strict=True):
        assert row["layout"] == product.columns.get("layout")
        assert row["representation"] == product.columns.get("representation")
    bench.release()


def test_what_is_timed_are_the_first_iterations_of_many(make_bench, over, monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "TIMED_ITERATIONS", 7)
    bench, run = make_bench(laplacian(30)), over(SciPy("csr", real_expansion("real")))
    bench.prepare(run)
    assert (run.columns["iterations"], run.columns["to_tolerance"] > 30) == (7, True)
    residuals = []
    for _ in range(2):
        run._solver.reset()
        run.launch()
        done = run._solver.progress()
        assert done.iterations == 7
        residuals.append(done.residual)
    assert residuals[0] == residuals[1]
    operands = bench.operands
    matrix, b = expand(operands.problem, operands.values).tocsr(), operands.reference.ravel()
    course = []
    sp.linalg.cg(matrix, b, maxiter=7, rtol=0, M=sp.diags_array(1 / matrix.diagonal()), callback=course.append)
    assert residuals[0] == pytest.approx(np.linalg.norm(b - matrix @ course[-1]), rel=1e-9)
    run.release()
    bench.release()


def test_a_singular_matrix_has_a_solution_as_b_is_in_its_range(make_bench, chip, over):
    path = sp.diags_array([-np.ones(399), np.append(1, np.append(2 * np.ones(398), 1)), -np.ones(399)],
                          offsets=[-1, 0, 1])  # fmt: skip
    problem = as_matrix(path)
    bench = make_bench(problem)
    for run in (chip(problem, "double"), over(SciPy("csr", real_expansion("real")))):
        row = bench.try_once(run, "report", EFFORT)
        assert row.status == "ok", row.message
        assert row["iterations"] == 100
    bench.release()


INDEFINITE = as_matrix(sp.kron(sp.eye_array(50), np.array([[1.0, 2.0], [2.0, 1.0]])))


def test_a_breakdown_is_the_matrixs_fault_unless_it_is_known_to_be_semidefinite(make_bench, chip, over):
    scipy = SciPy("csr", real_expansion("real"))
    bench = make_bench(INDEFINITE)
    rows = [bench.try_once(run, "report", EFFORT) for run in (chip(INDEFINITE, "double"), over(scipy))]
    assert {row.status for row in rows} == {"unsupported"}
    assert all(row.message.startswith("not positive definite: a direction p") for row in rows)
    bench.release()
    bench = make_bench(replace(INDEFINITE, origin={"semidefinite": True}))
    row = bench.try_once(over(scipy), "report", EFFORT)
    assert row.status == "incorrect" and row.message.endswith("though the matrix is positive semidefinite")
    bench.release()


def test_a_solve_that_does_not_end_is_not_timed(make_bench, chip, over, monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "MAX_ITERATIONS", 10)
    problem = laplacian(30)
    bench = make_bench(problem)
    for run in (chip(problem, "double"), over(SciPy("csr", real_expansion("real")))):
        row = bench.try_once(run, "report", EFFORT)
        assert (row.status, row.event_median) == ("unsupported", None)
        assert row.message.startswith("it has not converged after 10 iterations, b - A x being 0.")
    monkeypatch.setattr(conjugate_gradients, "MAX_ITERATIONS", 20_000)
    monkeypatch.setattr(conjugate_gradients, "TOLERANCES", {"double": 1e-20})
    with pytest.raises(Unsupported, match="rounding leaves no less"):
        bench.prepare(over(SciPy("csr", real_expansion("real"))))
    bench.release()


#: In the template of the kernels, what is replaced by what.
WRONG = {
    "a residual that is not that of x": ("x_at.{{ c }} += alpha", "x_at.{{ c }} += 2 * alpha"),
    "a wrong direction": ("p_at.{{ c }} = u_at.{{ c }} + beta", "p_at.{{ c }} = u_at.{{ c }} - beta"),
    "no preconditioner in the sums": ('{{ dot("r_at", "u_at") }}', '{{ dot("r_at", "r_at") }}'),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_solver_has_no_time(make_bench, templates, tmp_path, mistake):
    right, wrong = WRONG[mistake]
    kernels = tmp_path / "kernels"
    shutil.copytree(templates, kernels)
    template = kernels / "sparse/cg.j2"
    assert template.read_text().count(right) == 1
    template.write_text(template.read_text().replace(right, wrong))
    module = compile_module(render_solver_key(kernels, "solvers/cg-double", CPU), CPU, tmp_path / "cg.json")
    bench = make_bench(replace(uneven(400), origin={"semidefinite": True}))
    row = bench.try_once(ProductCgRun(SciPy("csr", real_expansion("real")), module, tmp_path), "report", EFFORT)
    bench.release()
    assert row.status in ("incorrect", "unsupported"), row.status
    assert row.event_median is None


def test_a_solver_that_says_that_it_has_converged_is_not_believed(make_bench, over):
    class Off(SciPy):
        """Multiplies each product by 1.001, so that the solver's residual differs from the host's."""

        def product(self, x, y):
            right, device = super().product(x, y), self._device
            host = np.empty(self._matrix.shape[0])

            def launch():
                right()
                device.download(y, host)
                device.write(y, host * 1.001)

            return launch

    bench = make_bench(laplacian(15))
    row = bench.try_once(over(Off("csr", real_expansion("real"))), "report", EFFORT)
    bench.release()
    assert row.status == "incorrect" and row.error > 1
    assert "instead of 1e-08" in row.message


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (symmetric_problem("complex", "symmetric"), "symmetric, not Hermitian"),
        (symmetric_problem("complex", "Hermitian"), ""),
        (laplacian(5), ""),
        (as_matrix(np.array([[1.0, 2.0], [3.0, 4.0]])), "not symmetric: the values of row 0, column 1"),
    ],
    ids=["symmetric", "Hermitian", "real", "neither"],
)
def test_which_matrices_are_tried(make_bench, problem, why):
    bench = make_bench(problem)
    assert refusal(bench.workspace).startswith(why) and bool(refusal(bench.workspace)) == bool(why)
    bench.release()


@needs_compiler
def test_sums_of_warps_are_those_of_the_cpu(templates, built_folder):
    """On an emulated GPU, whose threads exchange values; more words than a block has threads."""
    device, problem = EmulatedCuda(), laplacian(40)
    matrix = expand(problem, problem.values).tocsr()
    source = render_solver_key(templates, "solvers/cg-double", device.target)

    def product_of(x, y):
        host = np.empty(problem.n)

        def launch():
            device.download(x, host)
            device.write(y, matrix @ host)

        return launch

    scale = 1 / matrix.diagonal()
    solver = ProductCg(device, compile_kernels(source, built_folder), product_of, scale, lambda x: 0.0)
    b = matrix @ np.random.default_rng(3).uniform(-1, 1, problem.n)
    device.write(solver.b, b)
    solver.reset()
    solver.begin()
    solver.iterate(6)
    done, x, course = solver.progress(), np.empty(problem.n), []
    device.download(solver.x, x)
    sp.linalg.cg(matrix, b, maxiter=6, rtol=0, M=sp.diags_array(scale), callback=course.append)
    np.testing.assert_allclose(x, course[-1], rtol=0, atol=1e-11)
    assert done.iterations == 6
    assert done.norm_of_b == pytest.approx(np.linalg.norm(b), rel=1e-12)
    assert done.residual == pytest.approx(np.linalg.norm(b - matrix @ x), rel=1e-9)
    solver.release()
