"""Tables, figures and the report, from recorded rows and the papers' own numbers.

Every module named `table_*` or `figure_*` of this folder is imported and registers its own artifacts.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from repro.artifacts.registry import Artifact, artifacts, get_artifact, studies

for _module in iter_modules(__path__):
    if _module.name.startswith(("table_", "figure_")):
        import_module(f"{__name__}.{_module.name}")

__all__ = ["Artifact", "artifacts", "get_artifact", "studies"]
