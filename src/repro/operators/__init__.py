"""Tuned kernels for use from Python: operators for SciPy and for GPU arrays, and vector operations for solvers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# at once, since the import of the module would put it in the place of its function
from repro.operators.vectors import Vectors, vectors

if TYPE_CHECKING:
    from repro.errors import ReproError
    from repro.operators.arrays import DeviceArray
    from repro.operators.dynamic_csr import DynamicCSR, Reader
    from repro.operators.iterative_solver import ChipSolver
    from repro.operators.multigrid import MultilevelSolver, amg
    from repro.operators.siac_filter import SiacFilter, siac
    from repro.operators.solving import solve
    from repro.operators.sparse_products import ProductPlan, spgemm
    from repro.operators.spmv import SlowOnCpuWarning, SpmvOperator, operator
    from repro.sparse.dynamic.matrix import NoRoom

#: The public names of each module that is imported at the first access of one of them.
_NAMES = {
    "repro.errors": ("ReproError",),
    "repro.sparse.dynamic.matrix": ("NoRoom",),
    "repro.operators.arrays": ("DeviceArray",),
    "repro.operators.dynamic_csr": ("DynamicCSR", "Reader"),
    "repro.operators.multigrid": ("MultilevelSolver", "amg"),
    "repro.operators.iterative_solver": ("ChipSolver",),
    "repro.operators.siac_filter": ("SiacFilter", "siac"),
    "repro.operators.sparse_products": ("ProductPlan", "spgemm"),
    "repro.operators.solving": ("solve",),
    "repro.operators.spmv": ("SlowOnCpuWarning", "SpmvOperator", "operator"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "ChipSolver", "DeviceArray", "DynamicCSR", "MultilevelSolver", "NoRoom", "ProductPlan", "Reader", "ReproError",
    "SiacFilter", "SlowOnCpuWarning", "SpmvOperator", "Vectors", "amg", "operator", "siac", "solve", "spgemm",
    "vectors",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import the module of a public name at its first access."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return [*__all__]
