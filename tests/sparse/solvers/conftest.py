"""Small linear systems, and solvers on the CPU for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repro.bench.trial import Bench
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.targets import CPU
from repro.devices.opencl import OpenClDevice
from repro.problems.matrix import Matrix
from repro.sparse.expansions import real_expansion
from repro.sparse.library.scipy_products import SciPy
from repro.sparse.solvers.bicgstab import BiCGSTAB
from repro.sparse.solvers.kernels import render_solver


@pytest.fixture(scope="session")
def solver_modules(built_folder: Path, templates: Path) -> tuple[Path, dict[str, Module]]:
    """The module of each precision, compiled for the CPU once, and the folder of the manifests."""
    folder = built_folder / "solvers"

    def build(precision: str) -> Module:
        return compile_module(render_solver(templates, "bicgstab", precision, CPU), CPU, folder / f"{precision}.json")

    return folder, {precision: build(precision) for precision in ("single", "double")}


@pytest.fixture
def make_solver(
    make_bench: Callable[..., Bench], solver_modules: tuple[Path, dict[str, Module]], cpu_device: OpenClDevice
) -> Callable[..., BiCGSTAB]:
    """Make a solver for a problem, SciPy multiplying."""
    folder, modules = solver_modules
    made = []

    def make(problem: Matrix, precision: str = "double") -> BiCGSTAB:
        bench = make_bench(problem, precision)
        product = SciPy("csr", real_expansion("real"))
        bench.prepare(product)
        program = cpu_device.load(folder / str(modules[precision].binary))
        solver = BiCGSTAB(cpu_device, program, product.product, problem.n, bench.operands.dtype)
        made.extend([solver, product, bench])
        return solver

    yield make
    for each in made:
        each.release()
