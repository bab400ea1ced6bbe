"""Versions of what lies between Python and the GPU."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def dotted(number: int) -> str:
    """Write a version as CUDA counts it: 12080 is 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"


def package_version(name: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def runtime_version() -> str | None:
    """Return the version of CUDA's runtime."""
    from cuda.bindings import runtime

    _, number = runtime.cudaRuntimeGetVersion()
    return None if number is None else dotted(number)


def cusparse_version() -> str | None:
    """Return the version of the library that nvmath-python finds; None without it."""
    with suppress(Exception):  # not installed, or a library that does not load: the baselines say which
        from nvmath.bindings import cusparse

        return ".".join(str(cusparse.get_property(part)) for part in range(3))
    return None
