"""Vendor and SciPy baselines: cuSPARSE on a GPU, SciPy on the CPU.

Each library has one file; importing this package registers the baselines of all files, and those of extensions.
"""

from __future__ import annotations

from repro.extensions import BASELINES, load_extensions
from repro.plugins import import_all
from repro.sparse.library.registry import asked_for, baseline, check_names, for_problem

import_all(__name__, __path__)
load_extensions(BASELINES)

__all__ = ["asked_for", "baseline", "check_names", "for_problem"]
