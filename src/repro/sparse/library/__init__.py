"""Vendor and SciPy baselines: cuSPARSE on a GPU, SciPy on the CPU.

Each library has one file; importing this package registers the baselines of all files, and those of extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from repro.errors import ReproError
from repro.extensions import BASELINES, load_extensions
from repro.plugins import import_all
from repro.sparse.operands import ProductRunnable

Provider = Callable[[str, str], Iterable[ProductRunnable]]

_PROVIDERS: list[tuple[str, Provider]] = []


def baseline(backend: str) -> Callable[[Provider], Provider]:
    """Return a decorator that registers a provider of a library's baselines for a backend, `cuda` or `opencl`.

    The decorated function takes the names of an entry and an ordering, and returns all new baselines that suit the
    entry, for the matrix in that ordering. It must not import the library: if the library is missing, `prepare` of the
    baseline raises `Unsupported`.
    """

    def register(provider: Provider) -> Provider:
        _PROVIDERS.append((backend, provider))
        return provider

    return register


def for_problem(entry: str, backend: str, ordering: str = "natural") -> list[ProductRunnable]:
    """Return new baselines for an entry, a backend and an ordering; `ReproError` if two have the same name."""
    providers_by_name: dict[str, tuple[ProductRunnable, Provider]] = {}
    for provider in (provider for name, provider in _PROVIDERS if name == backend):
        for runnable in provider(entry, ordering):
            if runnable.name in providers_by_name:
                modules = [author.__module__ for author in (providers_by_name[runnable.name][1], provider)]
                raise ReproError(
                    "two baselines have the same name",
                    where=runnable.name,
                    actual=f"one of {modules[0]}, one of {modules[1]}",
                    todo="rename one of them, or remove the package that defines it",
                )
            providers_by_name[runnable.name] = runnable, provider
    return [runnable for runnable, _ in providers_by_name.values()]


def suffix(ordering: str) -> str:
    """Return the suffix of names of reordered matrices, such as `@rcm`; empty for the ordering `natural`."""
    return "" if ordering == "natural" else f"@{ordering}"


def check_names(
    study_name: str, requested: Literal["all"] | Sequence[str], entries: Iterable[str], backend: str
) -> None:
    """Raise `ReproError` for unknown names of baselines in a study's configuration, before anything is measured."""
    for entry in entries:
        available = [baseline.name for baseline in for_problem(entry, backend)]
        among(study_name, requested, available, f"for {entry} entries on this device")


def among(
    study_name: str, requested: Literal["all"] | Sequence[str], available: Sequence[str], where: str = "on this device"
) -> list[str]:
    """Return those baselines of `available` that a study's configuration names; unknown names raise `ReproError`."""
    if requested == "all":
        return list(available)
    if unknown_names := set(requested) - set(available):
        raise ReproError(
            "unknown baseline",
            where=f"studies.{study_name}.baselines",
            expected=f"{where} among {', '.join(available)}",
            actual=", ".join(sorted(unknown_names)),
            todo="`repro list baselines` prints all",
        )
    return [name for name in available if name in requested]


def asked_for(
    requested: Literal["all"] | Sequence[str], entry: str, backend: str, ordering: str = "natural"
) -> list[ProductRunnable]:
    """Return new baselines, all or those with the wanted names, for the matrix in an ordering.

    Unknown names raise `ReproError`.
    """
    baselines = for_problem(entry, backend, ordering)
    if requested == "all":
        return baselines
    natural = [baseline.name for baseline in for_problem(entry, backend)]
    unknown_names = set(requested) - set(natural)
    if unknown_names:
        expected, actual = f"among {', '.join(natural)}", ", ".join(sorted(unknown_names))
        raise ReproError("unknown baseline", expected=expected, actual=actual)
    return [baseline for name, baseline in zip(natural, baselines, strict=True) if name in requested]


import_all(__name__, __path__)
load_extensions(BASELINES)
