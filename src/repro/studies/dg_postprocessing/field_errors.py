"""What tables and figures of errors share: errors of a field before and after filters, and orders between meshes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log

from repro.bench.rows import TIMED
from repro.problems.fields import FUNCTIONS
from repro.studies.dg_postprocessing.accuracy import Errors
from repro.studies.dg_postprocessing.filter_times import OURS, Filtering, Row, failure
from repro.studies.dg_postprocessing.paper import LOCAL

#: By how much mean edges have to differ for an order: those of one size with other seeds say nothing.
COARSER = 1.2
UNKNOWN = "no exact function of it is known"
ErrorsOf = Callable[[Filtering], Errors | None]


def before(field: Filtering) -> Errors | None:
    """Return the errors of the field itself, None where they are not known."""
    return next(filter(None, (_errors(row, "dg_") for row in field.rows)), None)


def filtered(field: Filtering) -> Errors | None:
    """Return those of what filtering with one h makes of it; all ways differ by rounding alone."""
    row = filtered_row(field)
    return _errors(row) if row else None


def filtered_row(field: Filtering) -> Row | None:
    """Return the first row that has them."""
    return next((row for row in field.rows if row["what"] == "filter" and _errors(row)), None)


def locally(field: Filtering) -> Errors | None:
    """Return those of what filtering with an h of each point makes of it."""
    row = local_row(field)
    return _errors(row) if row else None


def local_row(field: Filtering) -> Row | None:
    """Return the row of filtering with an h of each point; None where it was not tried."""
    return next((row for row in field.rows if row["what"] == LOCAL), None)


def _errors(row: Row, prefix: str = "") -> Errors | None:
    l2, largest = row.get(f"{prefix}l2_error"), row.get(f"{prefix}max_error")
    return None if l2 is None or largest is None else Errors(float(l2), float(largest))


def function_of(field: Filtering) -> str | None:
    """Return the name of the function that the field is the projection of, None where it is not known."""
    name = (field.line.record.origin or {}).get("function") if field.line.record else None
    return name if name in FUNCTIONS else None


def why_not(field: Filtering) -> str:
    """Return why a field has no errors of what is filtered with one h."""
    if field.line.record and field.line.record.available and function_of(field) is None:
        return UNKNOWN
    if not field.case.measured:
        return field.case.why_not()
    return next(iter(field.why_not(OURS)), "its rows have no errors: measure it again")


def why_not_local(field: Filtering) -> str:
    """Return why a field has no errors of what is filtered with an h of each point."""
    row = local_row(field)
    if row is not None and row["status"] not in TIMED:
        return failure(row)
    return why_not(field) if row is not None or not field.case.measured else "local h was not measured"


def orders(fields: Sequence[Filtering], errors_of: ErrorsOf) -> dict[str, Errors]:
    """Return by a field's name the orders of both errors against the next coarser mesh.

    The logarithm of the errors' ratio over that of the mean edges', of meshes of the same family with fields of the
    same degree and function; nothing where there is no coarser one.
    """
    groups: dict[object, list[tuple[float, str, Errors]]] = {}
    for field in fields:
        errors, edge = errors_of(field), field.facts.get("mean_edge")
        if errors and edge and errors.l2 > 0 and errors.largest > 0:
            group = groups.setdefault((field.family, field.degree, function_of(field)), [])
            group.append((float(edge), field.line.problem, errors))
    made = {}
    for group in groups.values():
        group.sort(key=lambda item: -item[0])
        for (wide, _, coarse), (narrow, name, fine) in pairwise(group):
            if wide > COARSER * narrow:
                steps = log(wide / narrow)
                made[name] = Errors(log(coarse.l2 / fine.l2) / steps, log(coarse.largest / fine.largest) / steps)
    return made
