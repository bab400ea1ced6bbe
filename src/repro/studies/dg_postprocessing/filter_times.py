"""What the tables and figures of fields in the plane share: the times of a problem's ways and of its matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.data import Campaign, one_line
from repro.artifacts.lineup import Line, ours
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published
from repro.bench.rows import TIMED
from repro.bench.runnable import Clock
from repro.studies.dg_postprocessing.paper import CLOCK, HOST, PRODUCT_CLOCK, STUDY
from repro.studies.dg_postprocessing.peak import peak_of

#: The only precision of the text.
PRECISION = "double"
FAMILIES = ("low", "high")
DEGREES = (1, 2, 3)
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Way:
    """A way to filter directly.

    Attributes
    ----------
    key, title
        In the columns of a table, and as it is printed.
    tuning
        By whose choice it is found.
    way, paper
        What its rows have in their columns, and whether of the paper's space only.
    """

    key: str
    title: str
    tuning: str
    way: str
    paper: bool = False


POINT = Way("point", "per point", "paper/point", "point", paper=True)
ELEMENT = Way("element", "per element", "paper/element", "element", paper=True)
POINT_TUNED = Way("point_tuned", "per point, tuned", "point", "point")
ELEMENT_TUNED = Way("element_tuned", "per element, tuned", "element", "element")
ATOMIC = Way("atomic", "per element, atomics", "atomic", "atomic")
OURS = Way("ours", "ours", "edges", "edges")
WAYS = (POINT, ELEMENT, POINT_TUNED, ELEMENT_TUNED, ATOMIC, OURS)


@dataclass(frozen=True)
class Filtering:
    """The times of one field.

    Attributes
    ----------
    line, case
        Which.
    rows
        All rows of the report phase.
    """

    line: Line
    case: Case
    rows: Sequence[Row]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the record holds for this study; empty where it has nothing."""
        return self.line.record.facts.get(STUDY, {}) if self.line.record else {}

    @property
    def family(self) -> str:
        """`low` or `high`, the variance of the mesh; empty where the record does not say."""
        parameters = ((self.line.record.origin if self.line.record else None) or {}).get("parameters") or {}
        return str(parameters.get("variance", ""))

    @property
    def triangles(self) -> int | None:
        """Triangles of the mesh."""
        return self.line.record.cells if self.line.record else None

    @property
    def degree(self) -> int | None:
        """P, of the field and of the kernel."""
        return self.line.record.degree if self.line.record else None

    def number(self, column: str) -> int | None:
        """Return a number that rows have in common, None where none has it."""
        return next((int(row[column]) for row in self.rows if row.get(column) is not None), None)

    @property
    def points(self) -> int | None:
        """Points that the field is filtered at."""
        return self.number("points")

    def time(self, way: Way) -> Timed | None:
        """Return the time of what was chosen of a way, None if it has none."""
        return self.case.winner(way.tuning, CLOCK)

    def over_ours(self, way: Way) -> float | None:
        """Return the time of a way over ours."""
        return ratio_of(self.time(way), self.time(OURS))

    def why_not(self, way: Way) -> tuple[str, ...]:
        """Say why a way has no time; nothing where it was not tried."""
        campaign, name, precision = self.case.campaign, self.case.problem, self.case.precision
        tried = [*self.rows, *campaign.search_rows(name, precision)]
        variants = [row for row in tried if row["kind"] == "variant" and row["way"] == way.way]
        rows = [row for row in variants if not way.paper or row["space"] == "paper"]
        return tuple(failure(row) for row in rows[:1])

    def gflops(self, timed: Timed | None) -> float | None:
        """Return the operations of contours over a time, in units of 10^9 a second, whatever the way does itself."""
        operations = self.number("operations")
        return 1e-9 * operations / timed.seconds if timed and operations else None

    def million_points(self, timed: Timed | None) -> float | None:
        """Return points over a time, in millions a second."""
        return 1e-6 * self.points / timed.seconds if timed and self.points else None

    @property
    def peak(self) -> float | None:
        """What the device does at most in double precision, GFLOPS: see `peak_of`."""
        environment = next((row["environment"] for row in self.rows if row.get("environment")), None)
        return peak_of(self.case.campaign.environments.get(str(environment), {}))

    def peak_share(self, timed: Timed | None) -> float | None:
        """Return the rate of a time over the device's largest, None where that is not known."""
        rate, peak = self.gflops(timed), self.peak
        return rate / peak if rate and peak else None

    @property
    def make(self) -> Timed | None:
        """The time of making the matrix."""
        return fastest(self._of_matrix("make"), HOST)

    def apply(self, fields: int, clock: Clock = PRODUCT_CLOCK) -> Timed | None:
        """Return the time of a product of the matrix with so many fields at once."""
        return fastest([row for row in self._of_matrix("apply") if row["fields"] == fields], clock)

    @property
    def fields(self) -> list[int]:
        """Numbers of fields at once that products have a time of."""
        return sorted({int(row["fields"]) for row in self._of_matrix("apply") if fastest([row], PRODUCT_CLOCK)})

    @property
    def floor(self) -> Timed | None:
        """The time of streaming the bytes of a product with one field."""
        return fastest(self._of_matrix("stream"), PRODUCT_CLOCK)

    @property
    def floor_share(self) -> float | None:
        """The time of streaming a product's bytes over that of the product with one field, None without either."""
        return ratio_of(self.floor, self.apply(1))

    def library(self, fields: int, clock: Clock = PRODUCT_CLOCK) -> Timed | None:
        """Return the time of the fastest product by a library with so many fields at once."""
        return fastest([row for row in self._of_matrix("library") if row["fields"] == fields], clock)

    def over_library(self, fields: int, clock: Clock = PRODUCT_CLOCK) -> float | None:
        """Return the time of the library's product over that of ours, None without either."""
        return ratio_of(self.library(fields, clock), self.apply(fields, clock))

    @property
    def pays_from(self) -> int | None:
        """The first field that the matrix, applied to one at a time, is faster from; None where it never is."""
        make, apply, direct = self.make, self.apply(1), self.time(OURS)
        if not (make and apply and direct) or apply.seconds >= direct.seconds:
            return None
        return floor(make.seconds / (direct.seconds - apply.seconds)) + 1

    def why_no_matrix(self, what: str = "make") -> str:
        """Return why making the matrix, or a product with it, has no time."""
        if not self.case.measured:
            return self.case.why_not()
        return next((failure(row) for row in self._of_matrix(what) if row["status"] not in TIMED), "not timed")

    def _of_matrix(self, what: str) -> list[Row]:
        return [row for row in self.rows if row["what"] == what]


def failure(row: Row) -> str:
    """Say what became of a row without a time: its name, its status, and the first line of its message."""
    message = str(row["message"] or "").partition("\n")[0]
    status = "has no time" if row["status"] in TIMED else str(row["status"]).replace("_", " ")
    return one_line(f"{row['name']}: {status}{f' ({message})' if message else ''}", 160)


def all_fields(campaign: Campaign, published: Published) -> list[Filtering]:
    """Return all fields in the plane of a campaign: by family, degree and size, others after the paper's families."""
    fields = []
    for line in ours(campaign, published):
        if line.record and line.record.dimension in (2, None):
            case = Case(campaign, line.problem, PRECISION)
            fields.append(Filtering(line, case, case.rows))
    return sorted(fields, key=_place)


def _place(field: Filtering) -> tuple[int, int, int]:
    family = FAMILIES.index(field.family) if field.family in FAMILIES else len(FAMILIES)
    return family, field.degree or 0, field.triangles or 0
