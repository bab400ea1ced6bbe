"""Which method wins in which bin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from repro.artifacts.cells import count, micro, ratio
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.spgemm_amg.bin_times import METHODS, MODES, OF_THE_SEARCH, BinTimes, bins_of
from repro.studies.spgemm_amg.paper import PRODUCTS, STUDY
from repro.studies.spgemm_amg.shared_cells import named
from repro.studies.spgemm_amg.times import EVENT, all_times, precision_of

SEARCHED = "a time of the search: not chosen, and so not timed again"


@table(STUDY, "table-bins", title="The fastest kernel of each bin", numbering="ours")
def bins(campaign: Campaign, published: Published) -> Table:
    """A line a bin of a product."""
    rows: list[tuple[Cell, ...]] = []
    everything: list[BinTimes] = []
    for times in all_times(campaign, published):
        of_problem = bins_of(times)
        everything += of_problem
        rows += [_row(item) for item in of_problem]
        if not of_problem:
            why = times.case.why_not() if not times.case.measured else "no kernel of a bin was tried"
            rows.append((named(times.line, why), *(Cell(),) * (len(_columns()) - 1)))
    caption = [
        "The rows of one bin of a product alone, by the fastest kernel of each method: sorted in shared memory, as the",
        "paper does; by a hash table in shared memory; with a sum for every column of C in global memory. One phase:",
        "rows are binned by their products, and are stored in segments that are cut off; numeric phase: binned by",
        "their entries, into places that are there, which a sort is not tried for. Kernel: lanes of a row, slots or",
        "room, and rows of a block. Compression: products that an entry of C is the sum of. Won by: the fastest;",
        "lead: the time of the next best method over its own.",
        OF_THE_SEARCH,
        _wins(everything),
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, EVENT),
        unavailable(campaign),
    ]
    return Table(_columns(), rows, sentences(caption))


def _columns() -> tuple[Column, ...]:
    return (
        PROBLEM,
        Column("product", "product", numeric=False),
        Column("mode", "phase", numeric=False),
        Column("bin", "bin"),
        Column("rows", "rows"),
        Column("products", "products"),
        Column("compression", "compression"),
        *(
            column
            for key, title in METHODS.items()
            for column in (Column(f"{key}_kernel", "kernel", title, False), Column(f"{key}_us", "µs", title))
            if column.key != "dense_kernel"
        ),
        Column("winner", "won by", numeric=False),
        Column("lead", "lead"),
    )


def _row(item: BinTimes) -> tuple[Cell, ...]:
    cells = [
        named(item.line),
        Cell(item.product, PRODUCTS[item.product]),
        Cell(item.mode, MODES[item.mode]),
        Cell(item.bin, item.title),
        count(item.rows),
        count(item.products),
        ratio(item.compression),
    ]
    for method in METHODS:
        timed = item.by_method.get(method)
        if method != "dense":
            cells.append(Cell(timed.name, timed.name.rpartition(f"{method}-")[2]) if timed else Cell())
        cell = micro(timed)
        notes = [SEARCHED] if method in item.searched else []
        notes += [item.failures[method]] if method in item.failures else []
        cells.append(replace(cell, notes=(*cell.notes, *notes)))
    won = item.winner
    return (*cells, Cell(won, METHODS[won]) if won else Cell(), ratio(item.lead))


def _wins(items: Sequence[BinTimes]) -> str:
    """Return the sentence that counts wins; empty without any."""
    words = []
    for mode, title in MODES.items():
        won = Counter(item.winner for item in items if item.mode == mode and item.winner)
        if won:
            counts = ", ".join(f"{METHODS[method]} {won[method]}" for method in METHODS if won[method])
            words.append(f"in the {won.total()} bins of the {title}: {counts}")
    return f"Won {'; '.join(words)}." if words else ""
