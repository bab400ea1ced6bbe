"""Times, errors, orders and targets for each field, shared by the study's tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from itertools import pairwise
from math import floor, log
from typing import Any

from repro.bench.rows import ClockName
from repro.problems.field import FUNCTIONS
from repro.results.campaign_data import Campaign, Case, Method, ReportedTime, Selection, failure
from repro.results.comparisons import JudgedBy
from repro.results.problem_lines import MethodTimes, ProblemLine, recorded_lines
from repro.results.published import Published
from repro.results.significance import ratio_of
from repro.studies.dg_postprocessing import FILTER, FILTER_CLOCK, GATHER, HOST_CLOCK, LOCAL, PRODUCT_CLOCK, SEVERAL
from repro.studies.dg_postprocessing.ids import WIDTHS, full_width
from repro.studies.dg_postprocessing.operands import Errors, peak_gflops
from repro.studies.dg_postprocessing.study import DgRow
from repro.words import PAPER, PAPER_TUNED

#: The only precision in the dissertation.
PRECISION = "double"
FAMILIES = ("low", "high")
DEGREES = (1, 2, 3)
Time = ReportedTime[DgRow]

POINT = Method("point", "per point", f"{PAPER}/point", {"way": "point", "space": PAPER})
ELEMENT = Method("element", "per element", f"{PAPER}/element", {"way": "element", "space": PAPER})
POINT_TUNED = Method("point_tuned", "per point, tuned", f"{PAPER_TUNED}/point", {"way": "point", "space": PAPER_TUNED})
_TUNED = {"way": "element", "space": PAPER_TUNED}
ELEMENT_TUNED = Method("element_tuned", "per element, tuned", f"{PAPER_TUNED}/element", _TUNED)
#: Both published methods (per point, per element): exactly as published, and tuned over equal parameters.
PUBLISHED_PAIRS = ((POINT, ELEMENT), (POINT_TUNED, ELEMENT_TUNED))
#: Reason for a missing time of a tuned published method that was not tried.
NOT_TUNED = "no tuned kernel was measured"
ATOMIC = Method("atomic", "per element, atomics", "atomic", {"way": "atomic"})
OURS = Method("ours", "ours", "edges", {"way": "edges"})
METHODS = (POINT, ELEMENT, POINT_TUNED, ELEMENT_TUNED, ATOMIC, OURS)
LOCAL_H = Method("local", "local h", columns={"what": LOCAL})
MAKE = Method("make", "making the matrix", columns={"what": "make"}, clock=HOST_CLOCK)
#: A kernel that streams as many bytes as a product with one field.
FLOOR = Method("floor", "floor", columns={"what": "stream"}, clock=PRODUCT_CLOCK)
#: The methods that run over several devices.
DISTRIBUTED_METHODS = (OURS, ELEMENT)
#: Message if nothing was measured over several devices.
NO_DEVICES = "This campaign ran on one device, so there are no times on several."


def product(fields: int, clock: ClockName = PRODUCT_CLOCK) -> Method:
    """Return our product of the filter's matrix with this number of fields at once."""
    return Method(f"apply_{fields}", f"{fields}", columns={"what": "apply", "fields": fields}, clock=clock)


def library_product(fields: int, clock: ClockName = PRODUCT_CLOCK) -> Method:
    """Return the library's fastest product with this number of fields at once."""
    return Method(f"library_{fields}", f"{fields}", columns={"what": "library", "fields": fields}, clock=clock)


def over_devices(method: Method, devices: int, task: str = FILTER) -> Method:
    """Return the method for rows over several devices; for one device, rows of the same variant in the same rounds."""
    if devices == 1:
        return method
    columns = {"kind": SEVERAL, "way": method.columns["way"], "what": task, "devices": devices}
    return Method(f"{method.key}_{devices}", method.title, columns=columns)


@dataclass(frozen=True)
class Filtering(MethodTimes[DgRow]):
    """A field in the plane, and its times: `field[method]` is None if there is no time."""

    clock: ClockName = attribute(default=FILTER_CLOCK, kw_only=True)
    #: The kernels by which claims are judged.
    variants: JudgedBy = attribute(default="none", kw_only=True)

    def over(self, base: Method, method: Method) -> float | None:
        """Return the time of the method `base` over the time of `method`."""
        return ratio_of(self[base], self[method])

    @property
    def origin(self) -> Mapping[str, Any]:
        return (self.line.record.origin if self.line.record else None) or {}

    @property
    def family(self) -> str:
        """`low` or `high`, the variance of the mesh; empty if the record does not say."""
        return str((self.origin.get("parameters") or {}).get("variance", ""))

    @property
    def function(self) -> str | None:
        """Name of the function whose projection the field is; None if it is not known."""
        name = self.origin.get("function")
        return name if name in FUNCTIONS else None

    @property
    def triangles(self) -> int | None:
        return self.line.record.cells if self.line.record else None

    @property
    def degree(self) -> int | None:
        """P, the degree of both the field and the kernel."""
        return self.line.record.degree if self.line.record else None

    def number(self, column: Callable[[DgRow], int | None]) -> int | None:
        """Return the first value that any row has in a column; None if no row has one."""
        return next((number for row in self.case.rows if (number := column(row)) is not None), None)

    @property
    def points(self) -> int | None:
        """Number of points at which the field is filtered."""
        return self.number(lambda row: row.points)

    def at_point(self, column: Callable[[DgRow], int | None]) -> float | None:
        """Return the value of a column (a total over all points) per point."""
        number, points = self.number(column), self.points
        return None if number is None or not points else number / points

    def _tried(self, method: Method) -> Selection[DgRow]:
        return Selection([*self.case.rows, *self.case.searched]).select(kind="variant", **method.columns)

    def why_not(self, method: Method) -> str | None:
        """Return why a filtering method has no time: its failure, or that it was not tuned; None if not tried."""
        tried_rows = self._tried(method)
        if not tried_rows and self.case.is_measured and method.columns.get("space") == PAPER_TUNED:
            return NOT_TUNED
        return failure(tried_rows.rows[0]) if tried_rows else None

    def timed_settings(self, method: Method) -> list[str]:
        """Return the settings of a published method that have a time: `t64`, or `t64-c1-b4` if it was tuned."""
        rows = [row for row in self._tried(method) if row.timed]
        if method.columns["space"] == PAPER:
            return [f"t{threads}" for threads in sorted({row.threads for row in rows if row.threads})]
        return sorted({f"t{row.threads}-c{row.cell:g}-b{row.blocks}" for row in rows})

    def unequal_settings(self, first: Method, second: Method) -> tuple[str, ...]:
        """Return a note if two published methods were not timed with the same settings."""
        settings, other_settings = self.timed_settings(first), self.timed_settings(second)
        if settings == other_settings:
            return ()
        titles = (
            f"{method.columns['way']} {', '.join(names)}"
            for method, names in ((first, settings), (second, other_settings))
        )
        return (f"not of equal choices: {'; '.join(titles)}",)

    def tuned_settings(self, method: Method) -> set[tuple[int, float, int]]:
        """Return (threads, cell size, blocks or patches per multiprocessor) of each timed row of a tuned method."""
        rows = [row for row in self._tried(method) if row.timed]
        return {(row.threads, row.cell, row.blocks) for row in rows if row.threads and row.cell and row.blocks}

    def overhead(self, patches: int) -> float | None:
        """Return the memory of the patches' copies relative to one solution; None if it was not counted."""
        value = self.facts.get("overhead", {}).get(str(patches))
        return None if value is None else float(value)

    def gflops(self, time: Time | None) -> float | None:
        """Return the rate in GFLOPS; for all methods, operations are those of the contour method."""
        operations = self.number(lambda row: row.operations)
        return 1e-9 * operations / time.seconds if time and operations else None

    @property
    def peak(self) -> float | None:
        return peak_of(self.case)

    def peak_share(self, time: Time | None) -> float | None:
        """Return the rate relative to the device's peak rate; None if the peak is not known."""
        rate, peak = self.gflops(time), self.peak
        return rate / peak if rate and peak else None

    @property
    def tests(self) -> tuple[int, int] | None:
        """Intersection tests of the per-point and of the per-element method; None if the record has none."""
        per_point, per_element = self.facts.get("tests_per_point"), self.facts.get("tests_per_element")
        return (int(per_point), int(per_element)) if per_point and per_element else None

    @property
    def tests_ratio(self) -> float | None:
        return self.tests[0] / self.tests[1] if self.tests else None

    @property
    def field_counts(self) -> list[int]:
        """Numbers of simultaneous fields for which a product was timed."""
        timed_rows = self.case.select(lambda row: row.seconds(PRODUCT_CLOCK) is not None, what="apply")
        return sorted({row.fields for row in timed_rows if row.fields})

    def direct_over_product(self, fields: int) -> float | None:
        """Return the time of filtering `fields` fields directly over the time of a product with all of them at once."""
        direct, product_time = self[OURS], self[product(fields)]
        return fields * direct.seconds / product_time.seconds if direct and product_time else None

    @property
    def pays_from(self) -> int | None:
        """Least number of fields for which the matrix, made once and applied to one field at a time, beats direct
        filtering.

        None if it never does.
        """
        make, apply, direct = self[MAKE], self[product(1)], self[OURS]
        if not (make and apply and direct) or apply.seconds >= direct.seconds:
            return None
        return floor(make.seconds / (direct.seconds - apply.seconds)) + 1

    def why_no_matrix(self, task: str = "make") -> str:
        """Return the reason why making the matrix, or a product with the matrix, has no time."""
        return (self.case.select(what=task).failure or "not timed") if self.case.is_measured else self.case.why_not()

    def device_speedup(self, method: Method, devices: int) -> float | None:
        """Return the time on one device over the time on several; our method's values stay distributed."""
        return self.over(method, over_devices(method, devices))

    def gathered_speedup(self, devices: int) -> float | None:
        """Return our method's speed-up, including the time for copying all values to the first device."""
        single_time, device_time, copy_time = (
            self[OURS],
            self[over_devices(OURS, devices)],
            self[over_devices(OURS, devices, GATHER)],
        )
        return (
            single_time.seconds / (device_time.seconds + copy_time.seconds)
            if single_time and device_time and copy_time
            else None
        )


def choice_text(fields: Sequence[Filtering], method: Method) -> str:
    """Return text on the tried settings of a tuned published method on some fields; empty if it was tried on none.

    Example: `per element: 2 choices (128 threads, cells of 0.5, 4 or 8 patches)`.
    """
    settings = set().union(*(field.tuned_settings(method) for field in fields))
    if not settings:
        return ""
    part_name = "patches" if method.columns["way"] == "element" else "blocks"
    threads, cells, blocks = (_alternatives(column) for column in zip(*settings, strict=True))
    settings_text = f"{threads} threads, cells of {cells}, {blocks} {part_name}"
    return f"{method.title.partition(',')[0]}: {len(settings)} choice{'s' * (len(settings) > 1)} ({settings_text})"


def tuned_sentence(fields: Sequence[Filtering]) -> str:
    """Return the sentence on the tried settings of the paper's tuned methods in the campaign."""
    choices = [text for method in (POINT_TUNED, ELEMENT_TUNED) if (text := choice_text(fields, method))]
    if not choices:
        return "Neither was tuned further."
    same = all(field.tuned_settings(POINT_TUNED) == field.tuned_settings(ELEMENT_TUNED) for field in fields)
    return f"Tuned, in addition to the letter: {'; '.join(choices)}; {'the same' if same else 'not the same'} for both."


def _alternatives(numbers: Iterable[float]) -> str:
    texts = [f"{number:g}" for number in sorted(set(numbers))]
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def peak_of(case: Case[DgRow]) -> float | None:
    """Return the peak rate of a case's device in double precision, GFLOPS; None if it is not known."""
    environment = next((row.environment for row in case.rows if row.environment), None)
    return peak_gflops(case.campaign.environments.get(str(environment), {}))


def all_filterings(campaign: Campaign, published: Published) -> list[Filtering]:
    """Return all of a campaign's fields in the plane: by family, degree and size; others after the paper's families."""
    lines = [line for line in recorded_lines(campaign, published) if line.record and line.record.dimension in (2, None)]
    fields = [Filtering(line, Case(campaign, line.problem, PRECISION)) for line in lines]

    def order(field: Filtering) -> tuple[int, int, int]:
        family = FAMILIES.index(field.family) if field.family in FAMILIES else len(FAMILIES)
        return family, field.degree or 0, field.triangles or 0

    return sorted(fields, key=order)


def absent_filtering(campaign: Campaign, problem_name: str) -> Filtering:
    """Return a published field that is not in the campaign."""
    return Filtering(ProblemLine(problem_name, "field", problem_name, None), Case(campaign, problem_name, PRECISION))


def device_counts(fields: Sequence[Filtering]) -> list[int]:
    """Return the numbers of devices, greater than one, for which anything was timed."""
    ways = tuple(method.columns["way"] for method in DISTRIBUTED_METHODS)
    rows = [row for field in fields for row in field.case.select(kind=SEVERAL, what=FILTER, way=ways)]
    return sorted({row.devices for row in rows if row.devices})


#: Minimum ratio of mean edge lengths for an order of convergence: equal meshes with other seeds give no order.
COARSER = 1.2
UNKNOWN = "no exact function of it is known"
ErrorsOf = Callable[[Filtering], Errors | None]


def unfiltered_errors(field: Filtering) -> Errors | None:
    """Return the errors of the unfiltered field; None if they are not known."""
    errors = (Errors.known(row.dg_l2_error, row.dg_max_error) for row in field.case.rows)
    return next(filter(None, errors), None)


def filtered_row(field: Filtering) -> DgRow | None:
    """Return the first row with errors for a single h; the methods' errors differ by rounding only."""
    return next((row for row in field.case.select(what="filter") if Errors.known(row.l2_error, row.max_error)), None)


def local_row(field: Filtering) -> DgRow | None:
    """Return the row of filtering with a separate kernel width h for each point; None if it was not tried."""
    return next(iter(field.case.select(what=LOCAL)), None)


def mean_scale(field: Filtering) -> float | None:
    """Return the mean kernel width h over the points, in units of the mesh."""
    row = local_row(field)
    return row.mean_scale if row else None


def filtered_errors(field: Filtering) -> Errors | None:
    row = filtered_row(field)
    return Errors.known(row.l2_error, row.max_error) if row else None


def local_errors(field: Filtering) -> Errors | None:
    row = local_row(field)
    return Errors.known(row.l2_error, row.max_error) if row else None


def missing_errors(field: Filtering) -> str:
    """Return the reason why a field has no errors for filtering with a single h."""
    if field.line.is_available and field.function is None:
        return UNKNOWN
    if not field.case.is_measured:
        return field.case.why_not()
    return field.why_not(OURS) or "its rows have no errors: measure it again"


def missing_local_errors(field: Filtering) -> str:
    """Return the reason why a field has no errors for filtering with a separate h for each point."""
    row = local_row(field)
    if row is not None and not row.timed:
        return failure(row)
    return missing_errors(field) if row is not None or not field.case.is_measured else "local h was not measured"


def convergence_orders(fields: Sequence[Filtering], errors_of: ErrorsOf) -> dict[str, Errors]:
    """Return both errors' orders by field name: log of the ratio of errors over that of mean edges, to a coarser mesh.

    Compared meshes have one family, their fields one degree and function; a field without a coarser mesh is left out.
    """
    groups: dict[object, list[tuple[float, str, Errors]]] = {}
    for field in fields:
        errors, edge = errors_of(field), field.facts.get("mean_edge")
        if errors and edge and errors.l2 > 0 and errors.largest > 0:
            group = groups.setdefault((field.family, field.degree, field.function), [])
            group.append((float(edge), field.line.problem, errors))
    orders = {}
    for group in groups.values():
        group.sort(key=lambda item: -item[0])
        for (coarse_width, _, coarse), (fine_width, name, fine) in pairwise(group):
            if coarse_width > COARSER * fine_width:
                steps = log(coarse_width / fine_width)
                orders[name] = Errors(log(coarse.l2 / fine.l2) / steps, log(coarse.largest / fine.largest) / steps)
    return orders


REGION_CLOCK: ClockName = "event"
VECTOR, LANE, ROWS = (
    Method(name, title, columns={"method": name, "what": "regions"})
    for name, title in (("vector", "the paper’s"), ("lane", "a thread a region"), ("matrix", "rows made before"))
)


@dataclass(frozen=True)
class WidthTimes(MethodTimes[DgRow]):
    """A field on tetrahedra, and its times: `times[method]` is None if there is no time."""

    clock: ClockName = attribute(default=REGION_CLOCK, kw_only=True)
    #: Degree of the field and of the kernel.
    degree: int = attribute(kw_only=True)

    def of_width(self, width: int) -> Time | None:
        """Return the fastest kernel of a vector width, with its reported time."""
        return self.case.select(**VECTOR.columns, vector_width=width).fastest(REGION_CLOCK)

    def gain(self, width: int) -> float | None:
        """Return the gain of a width over the full width, full time / time - 1: -0.2 for 1.25 times the time."""
        full_time, time = self.of_width(full_width(self.degree)), self.of_width(width)
        return full_time.seconds / time.seconds - 1 if full_time and time else None

    @property
    def best_gain(self) -> tuple[int, float] | None:
        """The width with the largest gain over the full width, and its gain; None if no width has a gain."""
        widths = [width for width in WIDTHS[self.degree] if width != full_width(self.degree)]
        gains = [(width, gain) for width in widths if (gain := self.gain(width)) is not None]
        return max(gains, key=lambda item: item[1], default=None)


def width_times(campaign: Campaign, published: Published) -> list[WidthTimes]:
    """Return the campaign's problems on tetrahedra that have search results, sorted by degree."""
    items = []
    for line in recorded_lines(campaign, published):
        case = Case[DgRow](campaign, line.problem, PRECISION)
        degrees = {row.kernel_degree for row in case.searched if row.kernel_degree is not None}
        items += [WidthTimes(line, case, degree=degree) for degree in degrees]
    return sorted(items, key=lambda times: (times.degree, times.line.problem))


MILLI = 1e3


def published_tests(published: Published) -> dict[str, tuple[int, int]]:
    """Return the per-point and per-element tests published in Table 3.1, by problem."""
    return {
        item["problem"]: (int(item["per_point"]), int(item["per_element"]))
        for item in published.tables.get("tests", [])
    }
