"""16-bit columns: each tile of 32 slots has one base, its smallest column, and each slot an unsigned offset from it.

The columns of a tile lie close together where the matrix has a band, however wide the matrix is. A single-precision
complex entry then takes 10 bytes and an eighth instead of 12.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.formats.tiles import TILE, tiled_slots

#: The offset of a slot without an entry, where entries have no members and so no zero that could stand there …
ABSENT = 0xFFFF
#: … and as a column of 32 bits.
NO_COLUMN = -1


class TooFarApartError(ReproError):
    """The columns of some tile lie further apart than 16 bits reach."""


def shorten(columns: NDArray[np.int32], widest: int, where: object) -> NDArray[np.int32]:
    """Return the 16-bit offsets of all slots, in whole tiles, and behind them the base of each tile; as int32.

    Parameters
    ----------
    columns
        `(slots,)`, -1 where a slot has no entry.
    widest
        The largest offset that an entry may have.
    where
        What to name in errors.

    Raises
    ------
    TooFarApartError
    """
    whole = np.full(tiled_slots(len(columns)), NO_COLUMN, np.int32)
    whole[: len(columns)] = columns
    tiles = whole.reshape(-1, TILE)
    empty = tiles == NO_COLUMN
    # as unsigned numbers those without an entry are larger than any column
    bases = tiles.view(np.uint32).min(axis=1).view(np.int32)
    offsets = tiles - bases[:, None]
    offsets[empty] = 0
    span = int(offsets.max())
    if span > widest:
        raise TooFarApartError(
            "the columns of a tile are too far apart for 16 bits",
            where=where,
            expected=f"at most {widest} between the columns of {TILE} slots that follow each other",
            actual=span,
        )
    offsets[empty] = ABSENT
    return np.concatenate([offsets.astype(np.uint16).view(np.int32).ravel(), np.maximum(bases, 0)])


def lengthen(stored: NDArray[np.int32], slots: int) -> NDArray[np.int32]:
    """Return the columns `(slots,)` of what `shorten` returned, where every slot has an entry."""
    tiles = tiled_slots(slots) // TILE
    offsets, bases = np.split(stored, [TILE * tiles // 2])
    columns = offsets.view(np.uint16).reshape(tiles, TILE) + bases[:, None]
    return columns.ravel()[:slots]
