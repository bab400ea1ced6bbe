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
    found: dict[str, tuple[ProductRunnable, Provider]] = {}
    for provider in (provider for name, provider in _PROVIDERS if name == backend):
        for runnable in provider(entry, ordering):
            if runnable.name in found:
                modules = [author.__module__ for author in (found[runnable.name][1], provider)]
                raise ReproError(
                    "two baselines of one name",
                    where=runnable.name,
                    actual=f"one of {modules[0]}, one of {modules[1]}",
                    todo="rename one of them, or remove the package that has it",
                )
            found[runnable.name] = runnable, provider
    return [runnable for runnable, _ in found.values()]


def suffix(ordering: str) -> str:
    """Return the suffix of names of reordered matrices, such as `@rcm`; empty for the ordering `natural`."""
    return "" if ordering == "natural" else f"@{ordering}"


def check_names(study_name: str, wanted: Literal["all"] | Sequence[str], entries: Iterable[str], backend: str) -> None:
    """Raise `ReproError` for unknown names of baselines in a study's configuration, before anything is measured."""
    for entry in entries:
        there = [baseline.name for baseline in for_problem(entry, backend)]
        among(study_name, wanted, there, f"for {entry} entries on this device")


def among(
    study_name: str, wanted: Literal["all"] | Sequence[str], there: Sequence[str], where: str = "on this device"
) -> list[str]:
    """Return those baselines of `there` that a study's configuration names; unknown names raise `ReproError`."""
    if wanted == "all":
        return list(there)
    if unknown := set(wanted) - set(there):
        raise ReproError(
            "unknown baseline",
            where=f"studies.{study_name}.baselines",
            expected=f"{where} among {', '.join(there)}",
            actual=", ".join(sorted(unknown)),
            todo="`repro list baselines` prints all",
        )
    return [name for name in there if name in wanted]


def asked_for(
    wanted: Literal["all"] | Sequence[str], entry: str, backend: str, ordering: str = "natural"
) -> list[ProductRunnable]:
    """Return new baselines, all or those with the wanted names, for the matrix in an ordering.

    Unknown names raise `ReproError`.
    """
    everything = for_problem(entry, backend, ordering)
    if wanted == "all":
        return everything
    natural = [baseline.name for baseline in for_problem(entry, backend)]
    unknown = set(wanted) - set(natural)
    if unknown:
        expected, actual = f"among {', '.join(natural)}", ", ".join(sorted(unknown))
        raise ReproError("unknown baseline", expected=expected, actual=actual)
    return [baseline for name, baseline in zip(natural, everything, strict=True) if name in wanted]


import_all(__name__, __path__)
load_extensions(BASELINES)
