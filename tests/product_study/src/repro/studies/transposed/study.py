"""y = Aᵀx: `scatter` adds the rows of A to y atomically, `gather` multiplies with Aᵀ, which is stored before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from repro.codegen.targets import SCALARS, Target
from repro.codegen.templates import render_template
from repro.config.models import StudySettings
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, Problem
from repro.sparse.device_primitives import read_module
from repro.sparse.expansions import Bsr, real_expansion
from repro.sparse.library import asked_for
from repro.sparse.library.scipy_products import SciPy
from repro.sparse.operands import KernelProduct, ProductOperands, ProductRow, make_operands
from repro.sparse.symmetry import transposed
from repro.studies import StepResult, Study
from repro.tuning.session import Session

NAME, ENTRY = "transposed", "real"
BLOCK_SIZE = 128


class CsrProduct(KernelProduct):
    """One of the two ways, with A or Aᵀ in compressed rows."""

    def arrays(self, operands: ProductOperands) -> Mapping[str, NDArray[Any]]:
        # the operands' matrix is Aᵀ, whose transpose is A
        matrix = transposed(operands.problem) if self.adds else operands.problem
        values = matrix.values.ravel().astype(operands.dtype)
        return {"starts": matrix.indptr, "columns": matrix.indices, "values": values}


class Csc(SciPy):
    """SciPy's product with Aᵀ in compressed columns, which are the rows of A: a baseline on the CPU."""

    def __init__(self) -> None:
        super().__init__("csc", real_expansion(ENTRY))

    def build(self, bsr: Bsr, columns: int) -> Any:
        return super().build(bsr, columns).tocsc()


class Transposed(Study):
    """Both ways beside the library's products with Aᵀ."""

    name = NAME
    reference = "none: it shows a study of a product."
    entries = (ENTRY,)
    columns = ProductRow.own_columns()

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        return [f"products/{precision}"]

    def render(self, templates: Path, key: str, target: Target) -> str:
        scalar, _ = SCALARS[key.rpartition("/")[2]]
        names = {"dialect": target.dialect, "title": f"{NAME}: {key}", "scalar": scalar, "block_size": BLOCK_SIZE}
        return render_template(templates, f"{NAME}/module.j2", **names)

    def operands(self, problem: Problem, precision: str, seed: int) -> ProductOperands:
        assert isinstance(problem, Matrix)
        return make_operands(transposed(problem.require_product()), precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        built = read_module(session.target, NAME, f"products/{session.precision}")
        ways = [CsrProduct("gather", built, BLOCK_SIZE), CsrProduct("scatter", built, BLOCK_SIZE, adds=True)]
        backend = session.bench.device.backend
        own = [Csc()] if backend == "opencl" else []
        return session.time_all(ways, [*own, *asked_for(session.settings.baselines, ENTRY, backend)])


STUDY = Transposed()
