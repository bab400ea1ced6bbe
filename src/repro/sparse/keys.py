"""The keys of modules, PRECISION/MODULE."""

from __future__ import annotations

from collections.abc import Collection

from repro.codegen.precisions import DTYPES
from repro.errors import ReproError


def split_key(key: str, modules: Collection[str], owner: str) -> tuple[str, str]:
    """Return the precision and the module that a key names.

    Parameters
    ----------
    modules
        Those that there are.
    owner
        Whose they are, for the message.

    Raises
    ------
    ReproError
        There is none of that key.
    """
    precision, _, module = key.partition("/")
    if precision not in DTYPES or module not in modules:
        raise ReproError(
            "unknown module",
            where=owner,
            expected=f"PRECISION/MODULE with a precision of {', '.join(DTYPES)} and a module of {', '.join(modules)}",
            actual=key,
        )
    return precision, module
