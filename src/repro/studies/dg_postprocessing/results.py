"""What tables and figures of this study are made from: times, errors, speed-ups and targets of each field.

Times are of a field's methods and of its matrix in the plane, over several devices, and of kernels by vector
width in space. Errors are of a field before and after the filter, with orders between meshes. A quantity of
`config/targets/dg_postprocessing.csv` is measured field by field; where there is no number, the reason is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from repro.bench.rows import TIMED
from repro.bench.runnable import ClockName
from repro.problems.field import FUNCTIONS
from repro.results.campaign_data import Campaign, Case, ReportedTime, fastest_time, median, one_line
from repro.results.problem_rows import PROBLEM, ProblemRow, ours
from repro.results.published import Published, Record
from repro.results.significance import geometric_mean, interval_of, ratio_of, scaled
from repro.results.tables import CaseNumber, Cell, Column, Measured, MissingCase, count, digits
from repro.studies.dg_postprocessing import (
    COUNTED_DEGREE,
    CUBES,
    FILTER,
    FILTER_CLOCK,
    GATHER,
    HOST_CLOCK,
    LOCAL,
    MACHINE,
    PRODUCT_CLOCK,
    SEVERAL,
    STUDY,
)
from repro.studies.dg_postprocessing.ids import WIDTHS, full_width
from repro.studies.dg_postprocessing.metrics import Errors, peak_gflops

#: The only precision of the text.
PRECISION = "double"
FAMILIES = ("low", "high")
DEGREES = (1, 2, 3)
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
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


POINT = Method("point", "per point", "paper/point", "point", paper=True)
ELEMENT = Method("element", "per element", "paper/element", "element", paper=True)
POINT_TUNED = Method("point_tuned", "per point, tuned", "point", "point")
ELEMENT_TUNED = Method("element_tuned", "per element, tuned", "element", "element")
ATOMIC = Method("atomic", "per element, atomics", "atomic", "atomic")
OURS = Method("ours", "ours", "edges", "edges")
METHODS = (POINT, ELEMENT, POINT_TUNED, ELEMENT_TUNED, ATOMIC, OURS)


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

    line: ProblemRow
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

    def time(self, way: Method) -> ReportedTime | None:
        """Return the time of what was chosen of a way, None if it has none."""
        return self.case.winner(way.tuning, FILTER_CLOCK)

    def over_ours(self, way: Method) -> float | None:
        """Return the time of a way over ours."""
        return ratio_of(self.time(way), self.time(OURS))

    def why_not(self, way: Method) -> tuple[str, ...]:
        """Say why a way has no time; nothing where it was not tried."""
        campaign, name, precision = self.case.campaign, self.case.problem, self.case.precision
        tried = [*self.rows, *campaign.search_rows(name, precision)]
        variants = [row for row in tried if row["kind"] == "variant" and row["way"] == way.way]
        rows = [row for row in variants if not way.paper or row["space"] == "paper"]
        return tuple(failure(row) for row in rows[:1])

    def gflops(self, timed: ReportedTime | None) -> float | None:
        """Return the operations of contours over a time, in units of 10^9 a second, whatever the way does itself."""
        operations = self.number("operations")
        return 1e-9 * operations / timed.seconds if timed and operations else None

    def million_points(self, timed: ReportedTime | None) -> float | None:
        """Return points over a time, in millions a second."""
        return 1e-6 * self.points / timed.seconds if timed and self.points else None

    @property
    def peak(self) -> float | None:
        """What the device does at most in double precision, GFLOPS: see `peak_of`."""
        environment = next((row["environment"] for row in self.rows if row.get("environment")), None)
        return peak_gflops(self.case.campaign.environments.get(str(environment), {}))

    def peak_share(self, timed: ReportedTime | None) -> float | None:
        """Return the rate of a time over the device's largest, None where that is not known."""
        rate, peak = self.gflops(timed), self.peak
        return rate / peak if rate and peak else None

    @property
    def make(self) -> ReportedTime | None:
        """The time of making the matrix."""
        return fastest_time(self._of_matrix("make"), HOST_CLOCK)

    def apply(self, fields: int, clock: ClockName = PRODUCT_CLOCK) -> ReportedTime | None:
        """Return the time of a product of the matrix with so many fields at once."""
        return fastest_time([row for row in self._of_matrix("apply") if row["fields"] == fields], clock)

    @property
    def fields(self) -> list[int]:
        """Numbers of fields at once that products have a time of."""
        return sorted({int(row["fields"]) for row in self._of_matrix("apply") if fastest_time([row], PRODUCT_CLOCK)})

    @property
    def floor(self) -> ReportedTime | None:
        """The time of streaming the bytes of a product with one field."""
        return fastest_time(self._of_matrix("stream"), PRODUCT_CLOCK)

    @property
    def floor_share(self) -> float | None:
        """The time of streaming a product's bytes over that of the product with one field, None without either."""
        return ratio_of(self.floor, self.apply(1))

    def library(self, fields: int, clock: ClockName = PRODUCT_CLOCK) -> ReportedTime | None:
        """Return the time of the fastest product by a library with so many fields at once."""
        return fastest_time([row for row in self._of_matrix("library") if row["fields"] == fields], clock)

    def over_library(self, fields: int, clock: ClockName = PRODUCT_CLOCK) -> float | None:
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


def all_filterings(campaign: Campaign, published: Published) -> list[Filtering]:
    """Return all fields in the plane of a campaign: by family, degree and size, others after the paper's families."""
    fields = []
    for line in ours(campaign, published):
        if line.record and line.record.dimension in (2, None):
            case = Case(campaign, line.problem, PRECISION)
            fields.append(Filtering(line, case, case.rows))
    return sorted(fields, key=_order_key)


def _order_key(field: Filtering) -> tuple[int, int, int]:
    family = FAMILIES.index(field.family) if field.family in FAMILIES else len(FAMILIES)
    return family, field.degree or 0, field.triangles or 0


#: The ways that are run over several devices.
DISTRIBUTED_METHODS = (OURS, ELEMENT)
#: Said where nothing was measured.
NO_DEVICES = "This campaign ran on one device: there is no time over several."


def device_time(field: Filtering, way: Method, devices: int, what: str = FILTER) -> ReportedTime | None:
    """Return the time over so many devices; over one that of the same variant, timed in the same rounds."""
    if devices == 1:
        chosen = field.case.winner(way.tuning, FILTER_CLOCK)
        return chosen if what == FILTER else None
    rows = [row for row in _device_rows(field, way, what) if row["devices"] == devices]
    return fastest_time(rows, FILTER_CLOCK)


def device_speedup(field: Filtering, way: Method, devices: int) -> float | None:
    """Return the time on one device over that over several; of ours values stay where they are computed."""
    return ratio_of(device_time(field, way, 1), device_time(field, way, devices))


def gathered_speedup(field: Filtering, devices: int) -> float | None:
    """Return the speed-up of ours with what it takes, afterwards, to bring all values to the first device."""
    one, several, copies = (
        device_time(field, OURS, 1),
        device_time(field, OURS, devices),
        device_time(field, OURS, devices, GATHER),
    )
    return one.seconds / (several.seconds + copies.seconds) if one and several and copies else None


def device_counts(fields: Sequence[Filtering]) -> list[int]:
    """Return over how many devices, more than one, anything was timed."""
    return sorted(
        {int(row["devices"]) for field in fields for way in DISTRIBUTED_METHODS for row in _device_rows(field, way)}
    )


def _device_rows(field: Filtering, way: Method, what: str = FILTER) -> list[Row]:
    return [row for row in field.rows if (row["kind"], row["way"], row["what"]) == (SEVERAL, way.way, what)]


#: By how much mean edges have to differ for an order: those of one size with other seeds say nothing.
COARSER = 1.2
UNKNOWN = "no exact function of it is known"
ErrorsOf = Callable[[Filtering], Errors | None]


def unfiltered_errors(field: Filtering) -> Errors | None:
    """Return the errors of the field itself, None where they are not known."""
    return next(filter(None, (_errors(row, "dg_") for row in field.rows)), None)


def filtered_errors(field: Filtering) -> Errors | None:
    """Return those of what filtering with one h makes of it; all ways differ by rounding alone."""
    row = filtered_row(field)
    return _errors(row) if row else None


def filtered_row(field: Filtering) -> Row | None:
    """Return the first row that has them."""
    return next((row for row in field.rows if row["what"] == "filter" and _errors(row)), None)


def local_errors(field: Filtering) -> Errors | None:
    """Return those of what filtering with an h of each point makes of it."""
    row = local_row(field)
    return _errors(row) if row else None


def local_row(field: Filtering) -> Row | None:
    """Return the row of filtering with an h of each point; None where it was not tried."""
    return next((row for row in field.rows if row["what"] == LOCAL), None)


def _errors(row: Row, prefix: str = "") -> Errors | None:
    l2, largest = row.get(f"{prefix}l2_error"), row.get(f"{prefix}max_error")
    return None if l2 is None or largest is None else Errors(float(l2), float(largest))


def field_function(field: Filtering) -> str | None:
    """Return the name of the function that the field is the projection of, None where it is not known."""
    name = (field.line.record.origin or {}).get("function") if field.line.record else None
    return name if name in FUNCTIONS else None


def missing_errors(field: Filtering) -> str:
    """Return why a field has no errors of what is filtered with one h."""
    if field.line.record and field.line.record.available and field_function(field) is None:
        return UNKNOWN
    if not field.case.measured:
        return field.case.why_not()
    return next(iter(field.why_not(OURS)), "its rows have no errors: measure it again")


def missing_local_errors(field: Filtering) -> str:
    """Return why a field has no errors of what is filtered with an h of each point."""
    row = local_row(field)
    if row is not None and row["status"] not in TIMED:
        return failure(row)
    return missing_errors(field) if row is not None or not field.case.measured else "local h was not measured"


def convergence_orders(fields: Sequence[Filtering], errors_of: ErrorsOf) -> dict[str, Errors]:
    """Return by a field's name the orders of both errors against the next coarser mesh.

    The logarithm of the errors' ratio over that of the mean edges', of meshes of the same family with fields of the
    same degree and function; nothing where there is no coarser one.
    """
    groups: dict[object, list[tuple[float, str, Errors]]] = {}
    for field in fields:
        errors, edge = errors_of(field), field.facts.get("mean_edge")
        if errors and edge and errors.l2 > 0 and errors.largest > 0:
            group = groups.setdefault((field.family, field.degree, field_function(field)), [])
            group.append((float(edge), field.line.problem, errors))
    made = {}
    for group in groups.values():
        group.sort(key=lambda item: -item[0])
        for (wide, _, coarse), (narrow, name, fine) in pairwise(group):
            if wide > COARSER * narrow:
                steps = log(wide / narrow)
                made[name] = Errors(log(coarse.l2 / fine.l2) / steps, log(coarse.largest / fine.largest) / steps)
    return made


REGION_CLOCK: ClockName = "event"
VECTOR_METHOD, LANE_METHOD, MATRIX_METHOD = "vector", "lane", "matrix"
#: Nanoseconds of a second: times are printed of a region, so that lists of several lengths can be read alike.
NANO = 1e9


class SearchedKernel(NamedTuple):
    """A kernel of the paper's, as searched: threads of a region, regions of a block, and nanoseconds of a region."""

    width: int
    regions: int
    nano: float


@dataclass(frozen=True)
class WidthTimes:
    """The times of one problem on tetrahedra.

    Attributes
    ----------
    line, case
        The problem in the campaign's order, and what was measured of it.
    degree
        Of field and kernel.
    """

    line: ProblemRow
    case: Case
    degree: int

    @property
    def searched(self) -> list[SearchedKernel]:
        """The paper's kernels that the search has timed, one for each width, number of regions and of blocks."""
        rows = self.case.campaign.search_rows(self.case.problem, self.case.precision)
        return [
            SearchedKernel(int(row["vector_width"]), int(row["regions_per_block"]), NANO * seconds / row["regions"])
            for row in rows
            if row["method"] == VECTOR_METHOD and row["regions"] and (seconds := median(row, REGION_CLOCK)) is not None
        ]

    @property
    def pairs(self) -> dict[tuple[int, int], float]:
        """Nanoseconds of a region, the least over the numbers of blocks, by width and regions of a block."""
        best: dict[tuple[int, int], float] = {}
        for one in self.searched:
            pair = one.width, one.regions
            best[pair] = min(one.nano, best.get(pair, one.nano))
        return best

    def of_width(self, width: int) -> ReportedTime | None:
        """Return the fastest kernel of a width, as reported."""
        return fastest_time(
            [row for row in self._reported(VECTOR_METHOD) if row["vector_width"] == width], REGION_CLOCK
        )

    def of_method(self, method: str) -> ReportedTime | None:
        """Return the fastest kernel of a method, as reported."""
        return fastest_time(self._reported(method), REGION_CLOCK)

    def gain(self, width: int) -> float | None:
        """Return by what share a width is faster than the full one, -0.2 where it takes 1.25 times as long."""
        full, timed = self.of_width(full_width(self.degree)), self.of_width(width)
        return full.seconds / timed.seconds - 1 if full and timed else None

    @property
    def best_gain(self) -> tuple[int, float] | None:
        """The width that gains most over the full one, and its gain; None where none has one."""
        gains = {width: self.gain(width) for width in WIDTHS[self.degree] if width != full_width(self.degree)}
        return max(
            ((width, gain) for width, gain in gains.items() if gain is not None),
            key=lambda item: item[1],
            default=None,
        )

    @property
    def peak(self) -> float | None:
        """What the device does at most in double precision, GFLOPS; None where that is not known."""
        name = next((row["environment"] for row in self.case.rows if row.get("environment")), None)
        return peak_gflops(self.case.campaign.environments.get(str(name), {}))

    def _reported(self, method: str) -> list[dict[str, Any]]:
        return [row for row in self.case.rows if (row["method"], row["what"]) == (method, "regions")]


def region_gflops(timed: ReportedTime | None) -> float | None:
    """Return the operations of a kernel's regions over its time, in units of 10^9 a second."""
    if timed is None or not timed.row["regions"]:
        return None
    return 1e-9 * float(timed.row["regions"] * timed.row["region_operations"]) / timed.seconds


def width_times(campaign: Campaign, published: Published) -> list[WidthTimes]:
    """Return the problems on tetrahedra of a campaign that anything was searched of, by degree."""
    items = []
    for line in ours(campaign, published):
        case = Case(campaign, line.problem, "double")
        degrees = {row["kernel_degree"] for row in campaign.search_rows(line.problem, "double")} - {None}
        items += [WidthTimes(line, case, int(degree)) for degree in degrees]
    return sorted(items, key=lambda times: (times.degree, times.line.problem))


def published_gains(published: Published, degree: int) -> dict[int, float]:
    """Return what Figure 4.6 states of a degree on the paper's machine, by width."""
    records = published.tables.get("width", [])
    return {
        int(item["vector_width"]): float(item["gain"])
        for item in records
        if (item["gpu"], int(item["degree"])) == (MACHINE, degree)
    }


MILLI, MEGA, GIGA = 1e3, 1e6, 1e9
#: The first columns of a table with a line a field.
FIELD_COLUMNS = (
    PROBLEM,
    Column("variance", "variance", numeric=False),
    Column("degree", "P"),
    Column("triangles", "triangles"),
)


def milli_cell(timed: ReportedTime | None, why: tuple[str, ...] = ()) -> Cell:
    """Return a time in milliseconds; without one why there is none, if that is to be said."""
    if timed is None:
        return Cell(notes=why)
    value = MILLI * timed.seconds
    # a microsecond has three digits still
    text = digits(value) if value >= 1 else f"{value:.3f}"
    return Cell(value, text, timed.notes, (timed.key,), scaled(interval_of(timed), MILLI))


def method_milli_cell(field: Filtering, way: Method) -> Cell:
    """Return the time of a way in milliseconds, or why it has none."""
    timed = field.time(way)
    return milli_cell(timed, () if timed else field.why_not(way))


def digits_cell(value: float | None) -> Cell:
    """Return a positive number with three significant digits."""
    return Cell() if value is None else Cell(value, digits(value))


def scientific_cell(value: float | None) -> Cell:
    """Return a number of any size, with three significant digits and an exponent."""
    return Cell() if value is None else Cell(value, f"{value:.2e}")


def gain_cell(value: float | None) -> Cell:
    """Return an order, or the ratio of two errors, which may be far from 1 or below."""
    return Cell() if value is None else Cell(value, f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}")


def field_cells(field: Filtering, why: str = "") -> tuple[Cell, ...]:
    """Return the cells of `FIELD`; of one that could be had also why it has no numbers."""
    cell = field.line.cell
    available = field.line.record is not None and field.line.record.available
    named = Cell(cell.value, cell.text, (*cell.notes, why)) if why and available else cell
    return named, Cell(field.family or None), Cell(field.degree), count(field.triangles)


def ratio_summary(
    columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]], keys: Sequence[str]
) -> list[tuple[Cell, ...]]:
    """Return two lines with the geometric mean and the least of some columns; none where nothing is in them.

    Parameters
    ----------
    columns, rows
        Of the table.
    keys
        Of the columns; others stay empty.
    """
    numbers = [
        [float(value) for row in rows if (value := row[place].value) is not None] if column.key in keys else []
        for place, column in enumerate(columns)
    ]
    if not any(numbers):
        return []
    return [
        (Cell("geometric mean"), *(digits_cell(geometric_mean(values)) for values in numbers[1:])),
        (Cell("least"), *(digits_cell(min(values, default=None)) for values in numbers[1:])),
    ]


#: The mesh whose times are aimed at, as the text calls its size, and the family of the times on one device.
LARGEST_SIZE, LOW_VARIANCE = "1024k", "low"
#: Fields of the product that is held against the product of one.
MANY_FIELDS = 16
#: Devices over which speed-ups are aimed at.
TARGET_DEVICES = (2, 4)
#: Times of a field, in the plane or in space.
F = TypeVar("F", Filtering, WidthTimes)
RecordFilter = Callable[[Record], bool]


@dataclass(frozen=True)
class Quantity(Generic[F]):
    """How a quantity is measured.

    Attributes
    ----------
    number
        Returns it of a field, None where it has none.
    wanted
        Which of the paper's fields it is of, by their lines in `config/published`.
    statistic
        What is wanted of the numbers.
    at_most
        Whether less is better.
    why_not
        Returns why a field that was measured has none.
    notes
        Returns what is to be said of a field's number.
    """

    number: Callable[[F, Published], float | None]
    wanted: RecordFilter
    statistic: Literal["median", "worst"] = "worst"
    at_most: bool = False
    why_not: Callable[[F], str] = lambda field: "not timed"
    notes: Callable[[F], tuple[str, ...]] = lambda field: ()


def target_values(campaign: Campaign, published: Published) -> dict[str, Measured]:
    """Return what was measured of each quantity, of the paper's fields alone."""
    plane = {field.line.problem: field for field in all_filterings(campaign, published)}
    space = {times.line.problem: times for times in width_times(campaign, published)}
    papers = published.tables.get("sizes", [])
    triangles = [item for item in papers if item["problem"] not in CUBES.values()]
    tetrahedra = [item for item in papers if item["problem"] in CUBES.values()]
    return {
        **{name: _measure(quantity, triangles, plane, published) for name, quantity in IN_PLANE.items()},
        **{name: _measure(quantity, tetrahedra, space, published) for name, quantity in IN_SPACE.items()},
    }


def _measure(
    quantity: Quantity[F], papers: Sequence[Record], fields: Mapping[str, F], published: Published
) -> Measured:
    numbers: list[CaseNumber] = []
    missing: list[MissingCase] = []
    for name in (item["problem"] for item in papers if quantity.wanted(item)):
        field = fields.get(name)
        value = quantity.number(field, published) if field else None
        if field is None:
            missing.append(MissingCase(name, "not in this campaign"))
        elif value is None:
            missing.append(MissingCase(name, quantity.why_not(field)))
        else:
            numbers.append(CaseNumber(value, name, quantity.notes(field)))
    return Measured(numbers, missing)


def test_counts(field: Filtering | None) -> tuple[int, int] | None:
    """Return the tests per point and per element of a field's record; None where it has none."""
    facts = field.facts if field else {}
    per_point, per_element = facts.get("tests_per_point"), facts.get("tests_per_element")
    return (int(per_point), int(per_element)) if per_point and per_element else None


def _test_deviation(field: Filtering, published: Published) -> float | None:
    ours = test_counts(field)
    theirs = next((i for i in published.tables.get("tests", []) if i["problem"] == field.line.problem), None)
    if ours is None or theirs is None:
        return None
    printed = int(theirs["per_point"]), int(theirs["per_element"])
    return max(abs(own / other - 1) for own, other in zip(ours, printed, strict=True))


def _tests_ratio(field: Filtering, published: Published) -> float | None:
    ours = test_counts(field)
    return ours[0] / ours[1] if ours else None


def _ours_milli(field: Filtering, published: Published) -> float | None:
    timed = field.time(OURS)
    return MILLI * timed.seconds if timed else None


def _speedup(devices: int) -> Callable[[Filtering, Published], float | None]:
    return lambda field, _: device_speedup(field, OURS, devices)


def _why_no_devices(devices: int) -> Callable[[Filtering], str]:
    return lambda field: f"no time over {devices} devices" if device_time(field, OURS, 1) else _why_not_filtered(field)


def _of_degree(*degrees: int) -> RecordFilter:
    return lambda item: int(item["degree"]) in degrees


def _counted(item: Record) -> bool:
    return item["variance"] == LOW_VARIANCE and int(item["degree"]) == COUNTED_DEGREE


def _largest(*degrees: int, variance: str = LOW_VARIANCE) -> RecordFilter:
    return lambda item: (
        (item["variance"], item["printed"]) == (variance, LARGEST_SIZE) and int(item["degree"]) in degrees
    )


def _why_not_filtered(field: Filtering) -> str:
    """Return why a field has no time of ours, or of what that is held against."""
    if not field.case.measured:
        return field.case.why_not()
    untimed = [why for way in (OURS, ELEMENT) if field.time(way) is None for why in field.why_not(way)]
    return untimed[0] if untimed else "not timed"


def _why_no_peak(field: Filtering) -> str:
    return "the device’s peak is not known" if field.time(OURS) and field.peak is None else _why_not_filtered(field)


def _why_not_made(field: Filtering) -> str:
    return field.why_no_matrix() if field.time(OURS) else _why_not_filtered(field)


def _why_no_tests(field: Filtering) -> str:
    return "no counts on its record"


def _why_not_applied(field: Filtering) -> str:
    return field.why_no_matrix("apply")


def _over_papers(method: str) -> Callable[[WidthTimes, Published], float | None]:
    """Return what gives the time of the paper's fastest kernel over that of our fastest of a method."""
    return lambda times, _: ratio_of(times.of_method(VECTOR_METHOD), times.of_method(method))


def _gain(times: WidthTimes, published: Published) -> float | None:
    return times.best_gain[1] if times.best_gain else None


def _gain_notes(times: WidthTimes) -> tuple[str, ...]:
    return (f"width {times.best_gain[0]} of {full_width(times.degree)}",) if times.best_gain else ()


def _why_not_integrated(times: WidthTimes) -> str:
    return "not timed" if times.case.measured else times.case.why_not()


def _why_not_streamed(field: Filtering) -> str:
    return field.why_no_matrix("stream") if field.apply(1) else _why_not_applied(field)


def _over_library(clock: ClockName) -> Callable[[Filtering, Published], float | None]:
    def least(field: Filtering, published: Published) -> float | None:
        overs = [over for fields in field.fields if (over := field.over_library(fields, clock)) is not None]
        return min(overs, default=None)

    return least


def _why_not_multiplied(field: Filtering) -> str:
    return field.why_no_matrix("library") if field.apply(1) else _why_not_applied(field)


_RATIO = Quantity(_tests_ratio, _counted, why_not=_why_no_tests)
#: By their names in `config/targets/dg_postprocessing.csv`: those of triangles, and those of tetrahedra.
IN_PLANE: Mapping[str, Quantity[Filtering]] = {
    "tests_apart": Quantity(_test_deviation, _counted, at_most=True, why_not=_why_no_tests),
    "tests_ratio_least": _RATIO,
    "tests_ratio_most": Quantity(_tests_ratio, _counted, at_most=True, why_not=_why_no_tests),
    **{
        f"over_element_p{degree}": Quantity(
            lambda field, _: field.over_ours(ELEMENT), _of_degree(degree), "median", why_not=_why_not_filtered
        )
        for degree in DEGREES
    },
    "peak_share": Quantity(lambda field, _: field.peak_share(field.time(OURS)), _of_degree(2, 3), why_not=_why_no_peak),
    **{
        f"large_p{degree}_ms": Quantity(_ours_milli, _largest(degree), at_most=True, why_not=_why_not_filtered)
        for degree in DEGREES
    },
    "apply_share": Quantity(lambda field, _: field.floor_share, _of_degree(*DEGREES), why_not=_why_not_streamed),
    "apply_over_library": Quantity(_over_library(PRODUCT_CLOCK), _of_degree(*DEGREES), why_not=_why_not_multiplied),
    "event_apply_over_library": Quantity(_over_library("event"), _of_degree(*DEGREES), why_not=_why_not_multiplied),
    "sixteen_over_one": Quantity(
        lambda field, _: ratio_of(field.apply(MANY_FIELDS), field.apply(1)),
        _of_degree(*DEGREES),
        at_most=True,
        why_not=_why_not_applied,
    ),
    "make_over_direct": Quantity(
        lambda field, _: ratio_of(field.make, field.time(OURS)),
        _of_degree(*DEGREES),
        at_most=True,
        why_not=_why_not_made,
    ),
    **{
        f"several_{variance}_{devices}": Quantity(
            _speedup(devices), _largest(*DEGREES, variance=variance), why_not=_why_no_devices(devices)
        )
        for variance in FAMILIES
        for devices in TARGET_DEVICES
    },
}
IN_SPACE: Mapping[str, Quantity[WidthTimes]] = {
    **{
        f"gain_p{degree}": Quantity(_gain, _of_degree(degree), why_not=_why_not_integrated, notes=_gain_notes)
        for degree in CUBES
    },
    **{
        f"{method}_over_paper_p{degree}": Quantity(
            _over_papers(method), _of_degree(degree), why_not=_why_not_integrated
        )
        for method in (LANE_METHOD, MATRIX_METHOD)
        for degree in CUBES
    },
}
QUANTITIES: Mapping[str, Quantity[Filtering] | Quantity[WidthTimes]] = {**IN_PLANE, **IN_SPACE}
