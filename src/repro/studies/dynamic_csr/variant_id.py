"""The identity of a product: format, state and schedule; its text is made and read only here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log2
from typing import Any, Literal, get_args

from repro.bench.rows import ColumnType
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.sparse.dynamic.schedules import Schedule, schedules
from repro.studies.dynamic_csr.states import STATES, State
from repro.tuning.space import Point

Format = Literal["dcsr", "csr"]
SPACES = ("paper", "extended")
#: The columns of a product's row that its name says.
PRODUCT_COLUMNS: dict[str, ColumnType] = {
    "what": str,
    "format": str,
    "state": str,
    "schedule": str,
    "width": int,
    "per_thread": int,
    "unroll": int,
    "load": str,
    "exact": bool,
}
#: More threads a row than twice the mean row size, and fewer than one for so many entries, are not tried by us.
MOST_PER_THREAD = 32


@dataclass(frozen=True)
class VariantId:
    """A format in a state under a schedule, spelt `dcsr-fragmented/vector-w8-u2`, `csr/vector-w8`.

    CSR has no states, so that a schedule of it has no need to be exact.
    """

    format: Format
    state: State | None
    schedule: Schedule

    def __str__(self) -> str:
        return f"{self.format}-{self.state}/{self.schedule}" if self.state else f"{self.format}/{self.schedule}"

    @classmethod
    def parse(cls, text: str) -> VariantId:
        """Read a variant's text; the inverse of `str`.

        Raises
        ------
        ReproError
            It is no variant's.
        """
        stored, _, schedule = text.partition("/")
        if stored == "csr":
            id = cls("csr", None, _plain(schedule))
        elif stored in (names := {f"dcsr-{state}": state for state in STATES}):
            id = cls("dcsr", names[stored], Schedule.parse(schedule))
        else:
            raise ReproError(
                "unknown format or state of a product",
                expected=f"one of csr, {', '.join(f'dcsr-{state}' for state in STATES)}",
                actual=stored,
            )
        if not id.possible:
            raise ReproError("there is no such product", expected="a schedule that fits the state", actual=text)
        return id

    @property
    def possible(self) -> bool:
        """Whether the schedule fits: what relies on exact segments, or on rows one after the other, has them."""
        kind, exact = self.schedule.kind, self.schedule.exact
        if self.format == "csr":
            return kind in ("vector", "mixed", "chunks") and not exact
        if kind == "chunks":
            return exact and self.state == "defragmented"
        if kind in ("vector", "mixed"):
            return self.state != "sorted" and not (exact and self.state == "fragmented")
        return not exact or (kind == "adaptive" and self.state != "fragmented")

    @property
    def space(self) -> str:
        """`paper` or `extended`."""
        return SPACES[0] if self.schedule.papers else SPACES[1]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row: everything that the text says."""
        schedule = self.schedule
        return {
            "what": "product",
            "format": self.format,
            "state": self.state,
            "schedule": schedule.kind,
            "width": schedule.width or None,
            "per_thread": schedule.per_thread or None,
            "unroll": schedule.unroll,
            "load": schedule.load,
            "exact": schedule.exact,
        }

    @property
    def point(self) -> Point:
        """The variant's place in its space, for searches that learn: its words, and its sizes as binary logarithms."""
        schedule = self.schedule
        sizes = (max(schedule.width, 1), max(schedule.per_thread, 1), schedule.unroll)
        words = (schedule.kind, schedule.load, str(schedule.exact))
        return Point(f"{self.format}-{self.state}", words, tuple(log2(size) for size in sizes))


def point_of(text: str) -> Point:
    """Return the place of a variant that is given by its text.

    Raises
    ------
    ReproError
        It is no variant's.
    """
    return VariantId.parse(text).point


def variant_ids(target: Target, space: str, mean: float) -> list[VariantId]:
    """Return the variants of a space to try on a matrix; those of one format and state follow each other.

    Parameters
    ----------
    space
        `paper` or `extended`.
    mean
        Mean row size. Ours are tried with the numbers of threads that may make sense for it.
    """
    ids: list[VariantId] = []
    for format in get_args(Format):
        for state in STATES if format == "dcsr" else (None,):
            offered = schedules(target)
            if format == "csr":
                offered = [*dict.fromkeys(replace(schedule, exact=False) for schedule in offered)]
            made = (VariantId(format, state, schedule) for schedule in offered)
            ids += [id for id in made if id.possible and id.space == space and _sensible(id, mean)]
    return ids


def _sensible(id: VariantId, mean: float) -> bool:
    width = id.schedule.width
    return id.space == SPACES[0] or not width or mean / MOST_PER_THREAD <= width <= max(2.0, 2 * mean)


def _plain(text: str) -> Schedule:
    """Return a schedule of CSR by its text, where none says that it is exact."""
    if text.startswith("chunks") and not text.endswith("exact"):
        return replace(Schedule.parse(f"{text}-exact"), exact=False)
    return Schedule.parse(text)
