"""Plugin packages: folders whose modules are all imported and then register their contents.

Only the `__init__` of a plugin package may import this module: `repro.campaign.receipts` treats every package that
does so as a plugin package, and counts its whole folder as code.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module and package directly in a package, which is given by its `__name__` and `__path__`."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")
