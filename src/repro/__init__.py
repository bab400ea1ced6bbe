"""Find the fastest GPU kernel for a sparse matrix, run it from Python, export it as C++, and reproduce five studies."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro.errors import ReproError
    from repro.operators import DynamicCSR, NoRoom, SlowOnCpuWarning, amg, operator, siac, solve, spgemm
    from repro.operators.vectors import vectors

__version__ = version("sparse-repro")
__all__ = [
    "DynamicCSR", "NoRoom", "ReproError", "SlowOnCpuWarning", "__version__", "amg", "operator", "siac", "solve",
    "spgemm", "vectors",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import rarely needed public names at first access."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from repro import operators

    return getattr(operators, name)


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return [*__all__]
