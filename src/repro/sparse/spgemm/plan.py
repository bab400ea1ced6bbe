"""Which kernel the rows of each bin are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from repro.codegen.targets import Target
from repro.sparse.dynamic.layout import MOST_ENTRIES
from repro.sparse.spgemm.shapes import (
    BINS,
    EXPECTED,
    LIMITS,
    PAPERS_BINS,
    HashShape,
    SortShape,
    hash_shapes,
    smallest,
    sort_shapes,
    spread,
)

#: Where so many times the lanes that a bin's rows have are not all that the device has, rows have more.
IDLE = 8


@dataclass(frozen=True)
class Plan:
    """A kernel for each bin.

    Attributes
    ----------
    shapes
        What the rows of each bin are computed in, `(BINS,)`; None: with a sum for every column.
    """

    shapes: tuple[HashShape | SortShape | None, ...]


def plan_products(
    target: Target,
    scalar_bytes: int,
    expected: tuple[int, ...] = EXPECTED,
    largest: tuple[int, ...] = (*LIMITS, MOST_ENTRIES),
    mean_row: float = 0.0,
) -> Plan:
    """Return a plan for rows that are binned by their products.

    Parameters
    ----------
    expected
        How many products an entry is expected to be the sum of, `(BINS,)`.
    largest
        The most products of a row of each bin, `(BINS,)`.
    mean_row
        Entries of B's rows in the mean; 0: not known.
    """
    entries = [-(-products // fewer) for products, fewer in zip(largest, expected, strict=True)]
    return plan_entries(target, scalar_bytes, entries, largest, mean_row)


def plan_entries(
    target: Target,
    scalar_bytes: int,
    entries: Sequence[int],
    products: Sequence[int] | None = None,
    mean_row: float = 0.0,
) -> Plan:
    """Return a plan by which no row of so many entries has more than its table has slots.

    Parameters
    ----------
    entries
        Of the largest row of each bin, `(BINS,)`.
    products
        Of each bin's rows at the most; None: not known.
    mean_row
        Entries of B's rows in the mean; 0: not known.
    """
    given = zip(entries, products or [0] * BINS, strict=True)
    return Plan(tuple(smallest(target, scalar_bytes, count, of_products, mean_row) for count, of_products in given))


@dataclass(frozen=True)
class Demand:
    """How much there is to share out.

    Attributes
    ----------
    rows
        Of each bin, `(BINS,)`.
    lanes
        That the device has.
    of_a, of_b
        Entries of a row of A in the mean, and of a row of B.
    """

    rows: Sequence[int]
    lanes: int
    of_a: float
    of_b: float


def spread_out(plan: Plan, target: Target, scalar_bytes: int, demand: Demand) -> Plan:
    """Return a plan by which few rows have more lanes, where most of the device would have nothing to do.

    A warp has as many as a row of B has entries, about; several warps are for rows of A that have enough for all.
    """
    made: list[HashShape | SortShape | None] = []
    for shape, rows in zip(plan.shapes, demand.rows, strict=True):
        if isinstance(shape, HashShape) and 0 < rows * shape.width * IDLE < demand.lanes:
            in_warp, warps = min(2 * demand.of_b, target.warp), demand.of_a / target.warp
            most = in_warp if warps < 2 else target.warp * min(warps, demand.lanes / rows / target.warp)
            made.append(spread(shape, target, scalar_bytes, max(most, in_warp)))
        else:
            made.append(shape)
    return Plan(tuple(made))


@cache
def plan_for_any(target: Target, scalar_bytes: int) -> Plan:
    """Return a plan by which no row has more columns than a table has slots, binned by its entries or its products."""
    return plan_entries(target, scalar_bytes, (*LIMITS, MOST_ENTRIES))


@cache
def roomy_plan(target: Target, scalar_bytes: int) -> Plan:
    """Return a plan by which rows are given slots for all their products, or the largest table that there is."""
    shapes = hash_shapes(target, scalar_bytes)
    largest = max(shapes, key=lambda shape: (shape.table, shape.width))
    fitting = (smallest(target, scalar_bytes, limit) for limit in (*LIMITS, MOST_ENTRIES))
    return Plan(tuple(shape or largest for shape in fitting))


def papers_plan(target: Target, scalar_bytes: int, width: int = 32, rows: int = 1) -> Plan:
    """Return the plan of King 2017, section 6.1: rows of up to 2,048 products are sorted in shared memory.

    How the longer rows are done it does not say; here they are those of `plan_products`.

    Parameters
    ----------
    width, rows
        Threads of a row, and rows of a block, where a bin has such a kernel; else the nearest that it has.
    """
    shapes = sort_shapes(target, scalar_bytes)
    made: list[HashShape | SortShape | None] = list(plan_products(target, scalar_bytes).shapes)
    for bin in range(PAPERS_BINS):
        own = [shape for shape in shapes if shape.most == LIMITS[bin]]
        if own:
            made[bin] = min(own, key=lambda shape: (abs(shape.width - width), abs(shape.rows - rows)))
    return Plan(tuple(made))
