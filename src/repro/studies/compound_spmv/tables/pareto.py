"""Time against bytes: the variants that none beats in both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, ours, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.bench.rows import TIMED
from repro.sparse.pareto import front
from repro.studies.compound_spmv.paper import PAPER, STUDY

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Weighed:
    """Time and bytes of the fastest variant of each layout, for one problem and precision.

    Attributes
    ----------
    rows
        A row of the search for each layout that has a valid time.
    seconds, matrix_bytes
        `(layouts,)`.
    front
        Indices of the Pareto front, ascending in bytes.
    """

    rows: tuple[Mapping[str, Any], ...]
    seconds: Array
    matrix_bytes: Array
    front: NDArray[np.intp]


def weigh(campaign: Campaign, problem: str, precision: str) -> Weighed | None:
    """Return the fastest variant of each layout in natural ordering; None where nothing was timed."""
    fastest: dict[str, Mapping[str, Any]] = {}
    for row in campaign.search_rows(problem, precision):
        timed = row["status"] in TIMED and row["event_median"] and row["matrix_bytes"]
        if row["kind"] != "variant" or not timed or row["ordering"] != "natural":
            continue
        best = fastest.get(row["layout"])
        # a few launches are not enough to choose by where there are more
        if best is None or _rank(row) < _rank(best):
            fastest[row["layout"]] = row
    if not fastest:
        return None
    rows = tuple(fastest.values())
    seconds = np.array([row["event_median"] for row in rows], dtype=np.float64)
    sizes = np.array([row["matrix_bytes"] for row in rows], dtype=np.float64)
    return Weighed(rows, seconds, sizes, front(seconds, sizes))


def _rank(row: Mapping[str, Any]) -> tuple[bool, float]:
    return row["protocol"] != "full", row["event_median"]


@table(STUDY, "table-pareto", title="Time against memory", numbering=f"open in {PAPER}")
def fronts(campaign: Campaign, published: Published) -> Table:
    """The Pareto front of each problem and precision, from the smallest matrix to the fastest product."""
    rows: list[tuple[Cell, ...]] = []
    alone = cases = 0
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            weighed = weigh(campaign, line.problem, precision)
            if weighed is None:
                continue
            cases, alone = cases + 1, alone + (len(weighed.front) == 1)
            rows += [_row(weighed, int(index), (line.cell, Cell(precision))) for index in weighed.front]
    columns = (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        Column("variant", "variant", numeric=False),
        Column("bytes", "MiB"),
        Column("bytes_over_least", "× least"),
        Column("seconds", "µs"),
        Column("seconds_over_best", "× best"),
    )
    caption = [
        "Variants that no other beats both in time and in bytes of the matrix, from the smallest matrix to the fastest",
        "product; of each layout the fastest variant in natural ordering takes part.",
        f"In {alone} of {cases} cases one variant is the smallest and the fastest. How to weigh one against the other",
        f"is left open by {PAPER}; the key `memory_weight` does it.",
        measured_on(campaign, "event", "the search"),
    ]
    return Table(columns, rows, sentences(caption))


def _row(weighed: Weighed, index: int, head: tuple[Cell, ...]) -> tuple[Cell, ...]:
    size, time = float(weighed.matrix_bytes[index]), float(weighed.seconds[index])
    more, slower = size / weighed.matrix_bytes.min(), time / weighed.seconds.min()
    return (
        *head,
        Cell(str(weighed.rows[index]["name"]), keys=(str(weighed.rows[index]["key"]),)),
        Cell(int(size), f"{size / 2**20:.3g}"),
        Cell(float(more), f"{more:.3f}"),
        Cell(time, f"{time * 1e6:.2f}"),
        Cell(float(slower), f"{slower:.3f}"),
    )
