"""Plugin packages: every module of their folder is imported, and registers itself; no list names them.

The code behind such a package is its whole folder. `repro.campaign.dependencies` recognises such a package by its
import of this module, so only the `__init__` of a plugin package imports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module and package right below a package.

    Parameters
    ----------
    package, path
        The package's `__name__` and `__path__`.
    """
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")
