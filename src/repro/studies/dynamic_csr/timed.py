"""What a case of this study times beside the products, in groups that are timed side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import get_args

import numpy as np

from repro.bench.runnable import Runnable
from repro.problems.updates import Updates
from repro.sparse.built import Built
from repro.studies.dynamic_csr.conversions import PAIRS, Conversion, Format
from repro.studies.dynamic_csr.coo import CoordinateUpdate
from repro.studies.dynamic_csr.geam import Geam
from repro.studies.dynamic_csr.growth import Defragmentation, DynamicConversion, DynamicUpdate, Mode
from repro.studies.dynamic_csr.hybrid_runs import HybridSort, HybridUpdate
from repro.studies.dynamic_csr.primitives import SortOfRows, Sums
from repro.studies.dynamic_csr.rebuild import Rebuild
from repro.studies.dynamic_csr.rival import Alone, Order
from repro.studies.dynamic_csr.yardstick import CubSort, CubSums

ORDERS: tuple[Order, ...] = get_args(Order)
MODES: tuple[Mode, ...] = get_args(Mode)
#: Conversions into dynamic CSR and out of it, beside `PAIRS`.
DYNAMIC_PAIRS: tuple[tuple[Format, Format], ...] = (("coo", "dcsr"), ("csr", "dcsr"), ("dcsr", "csr"))


#: What is timed in one precision alone.
OPERATIONS = ("updates", "conversions", "primitives")


def all_timed(
    built: Mapping[str, Built], problem: Updates, parts: Collection[str] = OPERATIONS
) -> Iterator[list[Runnable]]:
    """Yield groups of runnables, each held on the device together: all of them would not find room.

    Parameters
    ----------
    built
        The modules of a precision by name.
    problem
        The matrix and its batches.
    parts
        `updates`: with the whole matrix; with all batches one after the other, also with products between them, or with
        each batch alone where these differ in size. `conversions`: these, and bringing together. `primitives`: sums and
        sorts.
    """
    if "updates" in parts:
        yield from _updates(built, problem)
    if "conversions" in parts:
        yield [
            *(Conversion(built, source, target) for source, target in PAIRS),
            *(DynamicConversion(built, source, target) for source, target in DYNAMIC_PAIRS),
            Defragmentation(built),
            HybridSort(built),
        ]
    if "primitives" in parts:
        yield [Sums(built), SortOfRows(built), CubSums({}), CubSort({})]


def _updates(built: Mapping[str, Built], problem: Updates) -> Iterator[list[Runnable]]:
    for order in ORDERS:
        yield [
            *(DynamicUpdate(built, "stream", order, mode=mode) for mode in MODES),
            HybridUpdate(built, "stream", order),
            CoordinateUpdate(built, "stream", order),
        ]
    if len(set(np.diff(problem.batch_pointers).tolist())) > 1:
        for which in range(problem.batches):
            yield from _batches(built, "batch", which)
    elif problem.batches:
        yield from _batches(built, "insert")
        yield [
            DynamicUpdate(built, "iterate", "sorted"),
            HybridUpdate(built, "iterate", "sorted"),
            Rebuild(built, "iterate", "sorted"),
            Geam(built, "iterate"),
        ]


def _batches(built: Mapping[str, Built], what: Alone, which: int | None = None) -> Iterator[list[Runnable]]:
    """Yield what is updated with batches, order by order."""
    for order in ORDERS:
        yield [
            *(DynamicUpdate(built, what, order, which, mode) for mode in MODES),
            HybridUpdate(built, what, order, which),
            CoordinateUpdate(built, what, order, which),
            Rebuild(built, what, order, which),
            *([Geam(built, what, which)] if order == "sorted" else []),
        ]
