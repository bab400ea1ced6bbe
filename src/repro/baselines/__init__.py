"""What kernels are compared with: cuSPARSE on a GPU, SciPy on the CPU.

One file a library; every file of this folder is imported and registers what it has.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from repro.baselines.registry import baseline, for_problem

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["baseline", "for_problem"]
