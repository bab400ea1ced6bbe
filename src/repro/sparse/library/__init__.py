"""What kernels are compared with: cuSPARSE on a GPU, SciPy on the CPU.

One file a library; every file of this folder is imported and registers what it has.
"""

from __future__ import annotations

from repro.plugins import import_all
from repro.sparse.library.registry import asked_for, baseline, check_names, for_problem

import_all(__name__, __path__)

__all__ = ["asked_for", "baseline", "check_names", "for_problem"]
