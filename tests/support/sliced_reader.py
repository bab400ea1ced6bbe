"""Reads compressed sliced ELLPACK slot by slot, as kernels do, using only the arrays that `Sliced` documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from repro.studies.compressed_coo.sliced_format import Sliced, make_slices, slice_up
from support.balanced_matrices import Csr

WINDOW = 1024


class Slots(NamedTuple):
    """Row, column and value of each slot; and `written`, the rows that are stored to, repeated for each store."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    written: np.ndarray


def packed(csr: Csr, height: int) -> Sliced:
    """Pack a matrix."""
    return slice_up(make_slices(np.diff(csr.indptr), height), csr.indptr, csr.indices, csr.values)


def read(held: Sliced) -> Slots:
    """Read all slots."""
    height, size = held.height, held.dtype.itemsize
    rows, columns, values, written = [], [], [], []
    part_rows = np.full(held.parts, -1)
    for row, first, behind in zip(held.long_rows, held.first_parts, held.first_parts[1:], strict=False):
        part_rows[first:behind] = row
        written.append([row])
    for number, (base, word, value, counts) in enumerate(held.slices.view(np.uint32).tolist()):
        start, tabled, moved, whole = value >> 3, value & 1, value & 2, value & 4
        of_width = [counts >> 8 * i & 255 for i in range(4)]
        steps = sum(of_width)
        bases = held.bases[base : base + steps].astype(np.int64)
        behind = held.bases[base + steps :]
        if whole:
            row_of_place = np.full(height, behind[0] if behind[0] >= 0 else part_rows[-1 - behind[0]])
            written += [[behind[0]]] if behind[0] >= 0 else []
        else:
            row_of_place = (number - held.pieces) * height + np.arange(height)
            if moved:
                places = behind[: height // 2].copy().view(np.uint16).astype(np.int64)
                there = row_of_place[0] // WINDOW * WINDOW + places
                row_of_place = np.where(places == 0xFFFF, -1, there)
            written.append(row_of_place[row_of_place >= 0])
        codes, numbers, at, byte = [], [], word * height, start * height
        for bits, count in zip((0, 8, 16, 32), of_width, strict=True):
            if bits:
                of_word = 32 // bits
                taken = -(-count // of_word) * height
                words = held.words[at : at + taken].view(f"u{bits // 8}").reshape(-1, height, of_word)
                codes.append(words.swapaxes(1, 2).reshape(-1, height)[:count].astype(np.int64))
                at += taken
            else:
                codes.append(np.zeros((count, height), np.int64))
            if tabled:
                taken = -(-count // 4) * 4 * height
                indices = held.values[byte : byte + taken].reshape(-1, height, 4).swapaxes(1, 2).reshape(-1, height)
                numbers.append(held.table[indices[:count]])
            else:
                taken = count * height * size
                numbers.append(held.values[byte : byte + taken].copy().view(held.dtype).reshape(-1, height))
            byte += taken
        columns.append((bases[:, None] + np.arange(height) + np.concatenate(codes)).ravel())
        values.append(np.concatenate(numbers).ravel())
        rows.append(np.tile(row_of_place, steps))
    return Slots(*(np.concatenate(part) for part in (rows, columns, values, written)))
