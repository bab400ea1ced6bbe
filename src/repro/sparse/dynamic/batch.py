"""Batches of entries on a device, and the order in which they are inserted or deleted."""

from __future__ import annotations

from dataclasses import dataclass

from repro.devices.base import Buffer


@dataclass(frozen=True)
class Batch:
    """Entries on a device.

    Attributes
    ----------
    count
        How many: m.
    rows, columns, values
        int32, int32 and floating `(m,)`; no values where entries are deleted.
    grouped
        Whether entries of equal rows follow each other, as in a batch that is sorted by row.
    """

    count: int
    rows: Buffer
    columns: Buffer
    values: Buffer | None = None
    grouped: bool = False


@dataclass(frozen=True)
class Arranged:
    """The entries of a batch in an order in which equal rows follow each other.

    Attributes
    ----------
    count
        How many.
    rows
        Of each, in that order: int32 `(count,)`.
    order
        Which of the batch each is; None: the order of the batch.
    columns
        Of each in that order, by a hash of the column within a row; None where they come in any order.
    """

    count: int
    rows: Buffer
    order: Buffer | None = None
    columns: Buffer | None = None
