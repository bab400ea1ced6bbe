"""Tuned kernels for use from Python: operators for SciPy and for GPU arrays, and vector operations for solvers."""

from repro.operators.arrays import DeviceArray
from repro.operators.dynamic_csr import DynamicCSR, Reader
from repro.operators.multigrid import MultilevelSolver, amg
from repro.operators.persistent_solver import ChipSolver
from repro.operators.siac_filter import SiacFilter, siac
from repro.operators.sparse_products import ProductPlan, spgemm
from repro.operators.spmv import SlowOnCpuWarning, SpmvOperator, operator, solve
from repro.operators.vectors import Vectors, vectors

__all__ = [
    "ChipSolver",
    "DeviceArray",
    "DynamicCSR",
    "MultilevelSolver",
    "ProductPlan",
    "Reader",
    "SiacFilter",
    "SlowOnCpuWarning",
    "SpmvOperator",
    "Vectors",
    "amg",
    "operator",
    "siac",
    "solve",
    "spgemm",
    "vectors",
]
