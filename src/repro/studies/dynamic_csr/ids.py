"""The identity of a product (format, state and schedule), the space of all products, and the choice among them.

The text of an identity is made and read only here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any, Literal, get_args

from repro.bench.rows import TIMED, ColumnType, Row
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.sparse.dynamic.schedules import Schedule, schedules
from repro.studies.dynamic_csr.operands import STATES, State
from repro.tuning.search import Choice, pick
from repro.tuning.variant_space import Point

ProductFormat = Literal["dcsr", "csr"]
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
MAX_ENTRIES_PER_THREAD = 32


@dataclass(frozen=True)
class ProductId:
    """A format in a state under a schedule, spelt `dcsr-fragmented/vector-w8-u2`, `csr/vector-w8`.

    CSR has no states, so that a schedule of it has no need to be exact.
    """

    format: ProductFormat
    state: State | None
    schedule: Schedule

    def __str__(self) -> str:
        return f"{self.format}-{self.state}/{self.schedule}" if self.state else f"{self.format}/{self.schedule}"

    @classmethod
    def parse(cls, text: str) -> ProductId:
        """Read a variant's text; the inverse of `str`.

        Raises
        ------
        ReproError
            It is no variant's.
        """
        stored, _, schedule = text.partition("/")
        if stored == "csr":
            id = cls("csr", None, _csr_schedule(schedule))
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
    return ProductId.parse(text).point


def product_ids(target: Target, space: str, mean: float) -> list[ProductId]:
    """Return the variants of a space to try on a matrix; those of one format and state follow each other.

    Parameters
    ----------
    space
        `paper` or `extended`.
    mean
        Mean row size. Ours are tried with the numbers of threads that may make sense for it.
    """
    ids: list[ProductId] = []
    for format in get_args(ProductFormat):
        for state in STATES if format == "dcsr" else (None,):
            offered = schedules(target)
            if format == "csr":
                offered = [*dict.fromkeys(replace(schedule, exact=False) for schedule in offered)]
            made = (ProductId(format, state, schedule) for schedule in offered)
            ids += [id for id in made if id.possible and id.space == space and _sensible(id, mean)]
    return ids


def _sensible(id: ProductId, mean: float) -> bool:
    width = id.schedule.width
    return id.space == SPACES[0] or not width or mean / MAX_ENTRIES_PER_THREAD <= width <= max(2.0, 2 * mean)


def _csr_schedule(text: str) -> Schedule:
    """Return a schedule of CSR by its text, where none says that it is exact."""
    if text.startswith("chunks") and not text.endswith("exact"):
        return replace(Schedule.parse(f"{text}-exact"), exact=False)
    return Schedule.parse(text)


def choose_products(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return the best products of searched rows.

    Of the paper's variants own CSR (`csr`), the segments by vectors (`fragmented`, `defragmented`), rows in bins
    (`adaptive`), and HYB (`hyb`); and where ours were tried, the best of all variants of CSR, of the fragmented matrix,
    and of the one in one segment a row: `ours-csr`, `ours-fragmented`, `ours-defragmented`.
    """

    def asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        products = [row for row in timed if row["what"] == "product"]
        papers = [row for row in products if row.space == "paper"]
        dcsr = [row for row in papers if row["format"] == "dcsr"]
        vector = [row for row in dcsr if row["schedule"] == "vector"]
        choices = {
            "csr": [row for row in papers if row["format"] == "csr"],
            "fragmented": [row for row in vector if row["state"] == "fragmented"],
            "defragmented": [row for row in vector if row["state"] == "defragmented"],
            "adaptive": [row for row in dcsr if row["schedule"] == "streams"],
            "hyb": [row for row in products if row["format"] == "hyb"],
        }
        if not any(row.space == "extended" for row in products):
            return choices
        segments = [row for row in products if row["format"] == "dcsr"]
        return {
            **choices,
            "ours-csr": [row for row in products if row["format"] == "csr"],
            "ours-fragmented": [row for row in segments if row["state"] == "fragmented"],
            "ours-defragmented": [row for row in segments if row["state"] != "fragmented"],
        }

    return pick(rows, tie, asked)


def twins(name: str) -> list[str]:
    """Return the variants that have a variant's schedule in the other states and in CSR, as far as there are any.

    A ratio of states, or of formats, is one of times under one schedule. What relies on exact segments stands beside
    what does not in states that have no such segments.
    """
    id = ProductId.parse(name)
    plain, exact = replace(id.schedule, exact=False), replace(id.schedule, exact=True)
    places: Sequence[tuple[State | None, Schedule]] = [
        (None, plain),
        ("fragmented", plain),
        ("defragmented", plain),
        ("defragmented", exact),
        ("sorted", plain),
        ("sorted", exact),
    ]
    made = (ProductId("csr" if state is None else "dcsr", state, schedule) for state, schedule in places)
    return [str(twin) for twin in made if twin.possible and twin != id]


def reported_names(rows: Sequence[Row], choices: Sequence[Choice]) -> list[str]:
    """Return the names of the chosen products, and of their twins that were timed."""
    timed: Mapping[str, Row] = {row.name: row for row in rows if row.status in TIMED}
    names = dict.fromkeys(choice.name for choice in choices)
    for name in list(names):
        try:
            names |= dict.fromkeys(twin for twin in twins(name) if twin in timed)
        except ReproError:  # HYB's is none of these variants
            continue
    return list(names)
