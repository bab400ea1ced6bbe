"""The registry of baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from repro.bench.runnable import Runnable

Provider = Callable[[str], Iterable[Runnable]]

_PROVIDERS: list[tuple[str, Provider]] = []


def baseline(backend: str) -> Callable[[Provider], Provider]:
    """Register what names the baselines of a library; for use as a decorator.

    Parameters
    ----------
    backend
        The backend of the devices that they run on: `cuda` or `opencl`.

    The decorated function takes the name of an entry and returns new baselines, all that fit it. It must not need the
    library: a baseline that finds it missing says so when it is prepared, by `Unsupported`.
    """

    def register(provider: Provider) -> Provider:
        _PROVIDERS.append((backend, provider))
        return provider

    return register


def for_problem(entry: str, backend: str) -> list[Runnable]:
    """Return new baselines for problems with that entry on devices of that backend."""
    return [runnable for name, provider in _PROVIDERS if name == backend for runnable in provider(entry)]
