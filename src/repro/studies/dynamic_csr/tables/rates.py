"""Updates a second by the size of the batch, ours and the other formats'."""

from __future__ import annotations

from collections.abc import Sequence

from repro.artifacts.cells import count, digits, micro
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.update_times import (
    BY_HOST,
    CONTESTANTS,
    DCSR,
    GEAM,
    PROTOCOLS,
    ROOMY,
    Contestant,
    Protocol,
    Sweep,
    by_host,
    sweeps_of,
    unique_of,
)

MILLION = 1e6
#: Rates below have two digits: a batch of one entry has hundredths of it.
LEAST_PRINTED = 0.1
#: Groups of columns: of dynamic CSR all protocols, of the others those that they can do.
COLUMNS: tuple[tuple[Protocol, Contestant], ...] = tuple(
    (protocol, contestant)
    for protocol in PROTOCOLS
    for contestant in CONTESTANTS
    if contestant is DCSR or (contestant.routine is not None) == (protocol.mode == "unique")
    if contestant.routine is None or protocol.order == "sorted"
)


@table(STUDY, "table-rates", title="Updates a second by the size of the batch", numbering="ours")
def rates(campaign: Campaign, published: Published) -> Table:
    """A line a batch of a problem whose batches grow."""
    sweeps = sweeps_of(campaign, published)
    by_geam = any(sweep.has(GEAM) for sweep in sweeps)
    shown = [pair for pair in COLUMNS if pair[1] is not GEAM or by_geam]
    columns = (
        PROBLEM,
        Column("batch", "entries of the batch"),
        *(Column(_key(p, c), c.label, f"{p.title}: million updates a second") for p, c in shown),
        Column("any_add_us", "DCSR, any order, added, µs"),
    )
    rows = [row for sweep in sweeps for row in _rows(sweep, shown)]
    caption = [
        "Updates a second: entries of a batch over the time of inserting it alone into the matrix before the first",
        "batch.",
        ROOMY,
        "By row: the batch comes in the order of its rows; any order: what sorting there is counts. Added: entries of",
        "the same place come beside each other; unique: an entry whose place is taken is added to the value there.",
        unique_of(by_geam),
        "CSR rebuilt: rows counted, sizes added up, old rows copied, new entries behind them.",
        "CSR by csrgeam2: cuSPARSE’s sum of two matrices, the batch being a matrix already." if by_geam else "",
        "HYB and COO: appended, then sorted by row.",
        "Nothing of this is published.",
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _key(protocol: Protocol, contestant: Contestant) -> str:
    return f"{contestant.key}_{protocol.order}_{protocol.mode}"


def _rows(sweep: Sweep, shown: Sequence[tuple[Protocol, Contestant]]) -> list[tuple[Cell, ...]]:
    name = sweep.line.cell
    if not sweep.sizes:
        there = sweep.line.record is not None and sweep.line.record.available
        notes = (*name.notes, *((sweep.case.why_not(),) if there else ()))
        return [(Cell(name.value, name.text, notes), *(Cell(),) * (len(shown) + 2))]
    return [
        (
            name,
            count(size),
            *(_rate(sweep, protocol, contestant, size) for protocol, contestant in shown),
            micro(sweep.seconds(DCSR, PROTOCOLS[0], size)),
        )
        for size in sweep.sizes
    ]


def _rate(sweep: Sweep, protocol: Protocol, contestant: Contestant, size: int) -> Cell:
    timed = sweep.seconds(contestant, protocol, size)
    if timed is None:
        return Cell()
    rate = size / timed.seconds / MILLION
    text = digits(rate) if rate >= LEAST_PRINTED else f"{rate:.2g}"
    return Cell(rate, text, (*timed.notes, *((BY_HOST,) if by_host(timed) else ())), (timed.key,))
