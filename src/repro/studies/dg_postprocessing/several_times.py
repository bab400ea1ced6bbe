"""What is asked of a field that was filtered over several devices: times, and speed-ups over one of them."""

from __future__ import annotations

from collections.abc import Sequence

from repro.artifacts.case import Timed, fastest
from repro.artifacts.numbers import ratio_of
from repro.studies.dg_postprocessing.filter_times import ELEMENT, OURS, Filtering, Row, Way
from repro.studies.dg_postprocessing.paper import CLOCK, FILTER, GATHER, SEVERAL

#: The ways that are run over several devices.
SHARED = (OURS, ELEMENT)
#: Said where nothing was measured.
NOTHING = "This campaign ran on one device: there is no time over several."


def over(field: Filtering, way: Way, devices: int, what: str = FILTER) -> Timed | None:
    """Return the time over so many devices; over one that of the same variant, timed in the same rounds."""
    if devices == 1:
        chosen = field.case.winner(way.tuning, CLOCK)
        return chosen if what == FILTER else None
    rows = [row for row in _rows(field, way, what) if row["devices"] == devices]
    return fastest(rows, CLOCK)


def speedup(field: Filtering, way: Way, devices: int) -> float | None:
    """Return the time on one device over that over several; of ours values stay where they are computed."""
    return ratio_of(over(field, way, 1), over(field, way, devices))


def gathered(field: Filtering, devices: int) -> float | None:
    """Return the speed-up of ours with what it takes, afterwards, to bring all values to the first device."""
    one, several, copies = over(field, OURS, 1), over(field, OURS, devices), over(field, OURS, devices, GATHER)
    return one.seconds / (several.seconds + copies.seconds) if one and several and copies else None


def counts(fields: Sequence[Filtering]) -> list[int]:
    """Return over how many devices, more than one, anything was timed."""
    return sorted({int(row["devices"]) for field in fields for way in SHARED for row in _rows(field, way)})


def _rows(field: Filtering, way: Way, what: str = FILTER) -> list[Row]:
    return [row for row in field.rows if (row["kind"], row["way"], row["what"]) == (SEVERAL, way.way, what)]
