"""What dynamic CSR gains over CSR that is made again with every batch, by the products between two batches."""

from __future__ import annotations

from repro.artifacts.cells import count, digits, ratio
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, Line, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.update_times import Trade, about_geam, trades_of

#: Products after each batch.
PRODUCTS = (0, 1, 5, 20, 100)
MICRO = 1e6
#: What is compared, and by which formula; for the table and the figure.
EXPLANATION = (
    "What dynamic CSR gains over CSR that is made again with every batch: gain(n) = (R + n C) / (U + n F) with n "
    "products after each batch. U: inserting a batch; R: the rebuild with it; F: a product of the fragmented matrix; "
    "C: one with CSR. Both break even at n = (R − U) / (F − C): with more products dynamic CSR is the "
    "slower, unless it is defragmented. Of graphs all batches are inserted one after the other, by row, and U and R "
    "are their time over their number; R is the faster of counting, adding up and copying and of cuSPARSE’s "
    "csrgeam2. Of sweeps each batch is inserted alone, in any order, and R counts, adds up and copies. F and C are "
    "the fastest products of the matrix with all batches, C the library’s included."
)
#: What stands for the n at which both break even.
IN_WORDS = "Always, never: dynamic CSR is the faster, or the slower, for every n. From: it is the faster for more."


@table(STUDY, "table-crossover", title="Gain over a rebuild, by products per batch", numbering="ours")
def crossover(campaign: Campaign, published: Published) -> Table:
    """A line a graph, and one a batch of a sweep."""
    trades, missing = trades_of(campaign, published)
    columns = (
        PROBLEM,
        Column("batch", "entries of a batch"),
        Column("update_us", "update U", "µs"),
        Column("rebuild_us", "rebuild R", "µs"),
        Column("fragmented_us", "DCSR product F", "µs"),
        Column("csr_us", "CSR product C", "µs"),
        *(Column(f"gain_{products}", f"n = {products}", "gain over a rebuild") for products in PRODUCTS),
        Column("crossover", "break-even n"),
    )
    rows = [*(_row(trade) for trade in trades), *(_missing(line, why, len(columns)) for line, why in missing)]
    caption = [
        EXPLANATION,
        IN_WORDS,
        "Nothing of this is published.",
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, CLOCK),
        about_geam(campaign),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _row(trade: Trade) -> tuple[Cell, ...]:
    times = (trade.update, trade.rebuild, trade.fragmented, trade.csr)
    return (
        trade.line.cell,
        count(trade.entries),
        *(Cell(seconds * MICRO, digits(seconds * MICRO)) for seconds in times),
        *(ratio(trade.gain(products)) for products in PRODUCTS),
        Cell(trade.crossover, trade.in_words, keys=trade.keys),
    )


def _missing(line: Line, why: str, columns: int) -> tuple[Cell, ...]:
    name = line.cell
    there = line.record is not None and line.record.available
    return (Cell(name.value, name.text, (*name.notes, *((why,) if there else ()))), *(Cell(),) * (columns - 1))
