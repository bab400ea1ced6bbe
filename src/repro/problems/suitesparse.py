"""Matrices of the SuiteSparse Matrix Collection: its index through ssgetpy, its files through `fetch`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from repro.config.models import Fetch, Limits
from repro.errors import ReproError
from repro.problems.collection import Indexed
from repro.problems.content import check_content
from repro.problems.fetch import Address, Found, Wanted, obtain
from repro.problems.matrixmarket import MatrixFile, read_matrix
from repro.problems.network import flaw_of_environment
from repro.problems.registry import Suitesparse
from repro.programs import run_program
from repro.reading import shown

SITE = "https://sparse.tamu.edu/MM"
SUFFIXES = ((".tar.gz",), (".mtx.gz",), (".mtx",))

# ssgetpy downloads the whole index, without a time-out, while it is imported: so in a process of its own
_LOOKUP = """
import json, sys
try:
    import ssgetpy
except Exception as error:
    while error.__context__ is not None:  # the innermost says it best
        error = error.__context__
    sys.exit(f"{type(error).__name__}: {error}")
names = sys.argv[1:]  # none: all of the index
matrices = ssgetpy.search(**({"name": names[0]} if names else {}), limit=100000)
matrices = [m for m in matrices if not names or m.name == names[0]]
fields = ("id", "group", "name", "rows", "cols", "nnz", "dtype", "kind")
print(json.dumps([{**{f: getattr(m, f) for f in fields}, "url": m.url("MM")} for m in matrices]))
"""


class _Entry(BaseModel):
    """What is relied on of an entry of the index."""

    model_config = ConfigDict(extra="allow")

    group: str
    name: str
    rows: int
    cols: int
    nnz: int
    dtype: str
    kind: str
    url: str


_ENTRIES = TypeAdapter(list[_Entry])


@dataclass(frozen=True)
class Checked:
    """A matrix, and the state of its checksum."""

    file: MatrixFile
    checksum: dict[str, str]


def read_suitesparse(item: Suitesparse, settings: Fetch, limits: Limits | None = None) -> Found[Checked]:
    """Find or download a matrix of the collection, and read it.

    Raises
    ------
    ReproError
        It is nowhere to be had, or what there is has another content.
    """
    cache = Path(settings.cache)

    def read(paths: tuple[Path, ...]) -> Checked:
        file = read_matrix(paths[0], limits, distinct=item.entry == "pattern", lower=item.stored == "lower")
        return Checked(file, check_content(item.name, file.checksum(), item.checksum, cache, paths[0]))

    return obtain(
        Wanted(
            name=item.name,
            stem=f"suitesparse/{item.group}/{item.matrix}",
            suffixes=SUFFIXES,
            addresses=lambda: _addresses(item, settings),
        ),
        settings,
        read,
    )


def _addresses(item: Suitesparse, settings: Fetch) -> Iterator[Address]:
    for url in item.urls:
        yield Address((url,))
    try:
        entry = look_up(item.group, item.matrix, settings)
        yield Address((entry["url"],), details={"index": entry})
    except ReproError as error:
        # the registry's group is a good guess where the index cannot be asked
        url = f"{SITE}/{item.group}/{item.matrix}.tar.gz"
        yield Address((url,), details={"index": None}, remark=f"{error.what}: {error.actual}")


def look_up(group: str, matrix: str, settings: Fetch) -> dict[str, Any]:
    """Return the entry of the collection's index for a matrix: id, group, name, size, kind and address.

    The index decides the group: `group` only chooses where several matrices share a name.

    Raises
    ------
    ReproError
        The index cannot be reached or read, or does not have the matrix.
    """
    entries = _ask_index(settings, matrix)
    for entry in entries:
        if entry["group"] == group:
            return entry
    if len(entries) != 1:
        groups = ", ".join(entry["group"] for entry in entries)
        raise ReproError(
            "the SuiteSparse index does not have the matrix", expected=f"{group}/{matrix}", actual=groups or "none"
        )
    return entries[0]


def read_index(settings: Fetch) -> list[Indexed]:
    """Return all of the collection's index.

    Raises
    ------
    ReproError
        It cannot be reached or read.
    """
    return [
        Indexed(
            entry["group"], entry["name"], entry["rows"], entry["cols"], entry["nnz"], entry["dtype"], entry["kind"]
        )
        for entry in _ask_index(settings)
    ]


def _ask_index(settings: Fetch, *names: str) -> list[dict[str, Any]]:
    """Return the entries of the index for matrices of a name, or all."""
    cache = Path(settings.cache).absolute()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # ssgetpy keeps its index in ~/.ssgetpy
        home = {**os.environ, "HOME": str(cache)}
        try:
            done = run_program([sys.executable, "-c", _LOOKUP, *names], settings.timeout, "the lookup", home)
        except ReproError:
            raise _unreachable(f"no answer in {settings.timeout:g} s") from None
        if done.code:
            said = (done.errors.strip() or "no reason given").splitlines()[-1]
            raise _unreachable(flaw_of_environment(SITE) or shown(said))
        return [entry.model_dump() for entry in _ENTRIES.validate_json(done.output)]
    except ValidationError as error:
        raise _unreachable(error.errors()[0]["msg"]) from None
    except (OSError, ValueError) as error:
        raise _unreachable(error) from None


def _unreachable(reason: object) -> ReproError:
    return ReproError("the SuiteSparse index could not be read", actual=reason)
