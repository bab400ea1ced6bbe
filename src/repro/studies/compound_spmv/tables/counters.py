"""What a profiler counted in some of the kernels: where a gain comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from repro.artifacts.cells import MICRO, digits
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, ours, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compound_spmv.paper import STUDY

MEGA = 1e-6


def _scaled(factor: float) -> Callable[[float], Cell]:
    return lambda value: Cell(value * factor, digits(value * factor))


def _percent(value: float) -> Cell:
    return Cell(value, f"{value:.0f} %")


def _whole(value: float) -> Cell:
    return Cell(round(value), f"{value:.0f}")


#: A recorded column, its column here, and how a value is printed.
COLUMNS: Mapping[str, tuple[Column, Callable[[float], Cell]]] = {
    "gpu_time": (Column("gpu_us", "µs"), _scaled(MICRO)),
    "dram_read_bytes": (Column("dram_read_MB", "from memory", "MB"), _scaled(MEGA)),
    "l2_to_l1_bytes": (Column("l2_to_l1_MB", "L2 to L1", "MB"), _scaled(MEGA)),
    "l1_hit_percent": (Column("l1_hit_percent", "hits", "L1"), _percent),
    "l1_throughput_percent": (Column("l1_percent_of_peak", "of peak", "L1"), _percent),
    "l2_hit_percent": (Column("l2_hit_percent", "hits", "L2"), _percent),
    "l2_throughput_percent": (Column("l2_percent_of_peak", "of peak", "L2"), _percent),
    "load_requests": (Column("load_requests_million", "requests, 10⁶", "loads"), _scaled(MEGA)),
    "sectors_per_request": (Column("sectors_per_request", "sectors each", "loads"), _scaled(1.0)),
    "long_scoreboard_per_issue": (Column("stall", "stall", "warps"), _scaled(1.0)),
    "occupancy_percent": (Column("occupancy_percent", "active", "warps"), _percent),
    "warps": (Column("warps", "launched", "warps"), _whole),
    "waves": (Column("waves", "waves", "warps"), _scaled(1.0)),
    "registers": (Column("registers", "registers", "warps"), _whole),
}


@table(STUDY, "table-counters", title="Counters of the profiler", numbering="ours")
def counters(campaign: Campaign, published: Published) -> Table:
    """A line for each kernel that `repro counters` was run on."""
    rows = []
    profilers: dict[str, None] = {}
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            for row in campaign.counter_rows(line.problem, precision):
                profilers[str(row["profiler"])] = None
                rows.append((line.cell, Cell(precision), Cell(row["name"]), *_cells(row)))
    columns = (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        Column("name", "what runs", numeric=False),
        *(column for column, _ in COLUMNS.values()),
    )
    caption = [
        "What the GPU’s counters say of some of the kernels, for whole launches with a warm cache, medians over some",
        "launches. Time by the profiler, which is longer than by our clocks. From memory: bytes read from DRAM; L2 to",
        "L1: bytes that L1 missed. Hits in sectors of 32 bytes. Of peak: the busiest part of the cache’s pipeline.",
        "Loads: requests of a warp to global memory, and sectors to each of them. Stall: for each instruction issued,",
        "how many warps wait for data of a load. Active: of the warps that a multiprocessor can hold. Of a routine of",
        "several kernels amounts are added, rates averaged by time, of waves and registers the most.",
        f"Read by {' and '.join(profilers)} on {campaign.device}." if rows else "",
        "" if rows else "No counters were recorded in this campaign; `repro counters` does, on a GPU.",
    ]
    return Table(columns, rows, sentences(caption))


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    return [Cell() if row[key] is None else printed(row[key]) for key, (_, printed) in COLUMNS.items()]
