"""Conversions between formats on the device, of entries that are sorted by row (the paper's Table 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from repro.bench.runnable import in_turn
from repro.devices.base import Buffer
from repro.sparse.built import Built
from repro.sparse.kernels import in_order
from repro.sparse.scan import Scan
from repro.sparse.work import Work
from repro.studies.dynamic_csr.coordinates import Entries, Resident
from repro.studies.dynamic_csr.csr_memory import CsrMemory, bind_copy
from repro.studies.dynamic_csr.hybrid import Hybrid, overflow
from repro.studies.dynamic_csr.memory import width_of
from repro.studies.dynamic_csr.operands import GraphOperands
from repro.studies.dynamic_csr.rival import Rival

Format = Literal["coo", "csr", "dcsr", "hyb"]
#: Conversions of formats that are not dynamic; that of CSR to CSR is the copy which the others are held against.
PAIRS: tuple[tuple[Format, Format], ...] = (("csr", "csr"), ("coo", "csr"), ("coo", "hyb"), ("csr", "hyb"))


class FormatConversion(Rival):
    """The grown matrix from one format into another, whose memory is there already.

    Coordinates come sorted by row, those of a row in the order of the matrix, as in the paper's tests.

    Parameters
    ----------
    built
        The modules of a precision by name.
    source, target
        The formats.
    """

    def __init__(self, built: Mapping[str, Built], source: Format, target: Format) -> None:
        super().__init__(built)
        self._source, self._target = source, target
        self.name = f"convert/{source}-{target}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is converted into what."""
        return {"what": "convert", "format": self._source, "to_format": self._target}

    def bind_offsets(self, work: Work, matrix: sp.csr_array) -> tuple[Buffer, Buffer, Callable[[], None]]:
        """Bring the rows of coordinates to the device; return them, the offsets of CSR, and what queues these."""
        rows = matrix.shape[0]
        entry_rows = work.upload(Entries.of(matrix).rows)
        offsets = work.allocate(4 * (rows + 1), "the offsets of CSR")
        launch = work.bind("rebuild", "offsets_of_rows", rows + 1, rows, int(matrix.nnz), entry_rows, offsets)
        return entry_rows, offsets, launch


class Conversion(FormatConversion):
    """A conversion of formats that are not dynamic, one of `PAIRS`."""

    modules = ("hybrid", "rebuild", "sort")

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bring the matrix to the device in the source's format, and bind the kernels."""
        matrix = operands.grown
        rows, nnz, number = matrix.shape[0], int(matrix.nnz), matrix.dtype.itemsize
        given = CsrMemory.upload(work, matrix)
        index = {"csr": 4 * (rows + 1), "coo": 4 * nnz}
        self.moved = index[self._source] + 2 * nnz * (4 + number) + index["csr"]
        entry_rows, offsets, launches = None, given.offsets, []
        if self._source == "coo":
            entry_rows, offsets, launch = self.bind_offsets(work, matrix)
            launches.append(launch)
        if self._target == "csr":
            to = CsrMemory.allocate(work, rows, nnz, number)._replace(offsets=offsets)
            copied = 0
            if entry_rows is None:
                to, copied = CsrMemory.allocate(work, rows, nnz, number), rows + 1
            launches.append(bind_copy(work, (copied, nnz, nnz * number // 4), given, to))
            self._read = lambda: to.read(work, matrix.shape, matrix.dtype)
            self.launch = in_order(launches)
            return
        width = width_of(rows, nnz)
        over = overflow(np.diff(matrix.indptr), width)
        hybrid = Hybrid(work, sp.csr_array(matrix.shape, dtype=matrix.dtype), width, over)
        starts = work.allocate(4 * (rows + 1), "the sums of coordinates")
        scan = work.keep(Scan(work.device, work.program("sort"), rows, work.guards))
        coordinates: Resident = hybrid.coordinates.sides[0]
        shape = nnz, rows, width, hybrid.pitch
        fill = work.bind(
            "hybrid", "hybrid_fill_from_offsets" if entry_rows is None else "hybrid_fill_from_rows", nnz,
            *shape, offsets, starts, *given[1:], hybrid.columns, hybrid.values, *coordinates,
            *(() if entry_rows is None else (entry_rows,)),
        )  # fmt: skip
        launches += [
            work.bind("hybrid", "hybrid_count", rows, rows, width, offsets, hybrid.counts, starts),
            in_turn(scan.bind(starts, starts, rows), fill),
        ]
        self._read = lambda: hybrid.read(0, over)
        self.launch = in_order(launches)
