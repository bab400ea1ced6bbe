"""The operands of one problem in one precision, on the host and on a device, shared by all that runs on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.devices.base import Buffer, Device
from repro.entries import Entry, get_entry
from repro.formats.layout import Layout
from repro.formats.pack import Packed, pack, pack_vector
from repro.problems.problem import Problem

DTYPES: dict[str, type[np.floating]] = {"single": np.float32, "double": np.float64}


@dataclass(frozen=True)
class Operands:
    """A and x in the working precision, and what the product must be.

    Attributes
    ----------
    problem
        The pattern and, in `values`, the entries rounded to the working precision.
    x
        `(n, k)` in the working precision.
    reference, bound
        float64 `(n, k)`: the product of the rounded operands, and by how much a result may differ from it:
        (m_i + 2) k ε (|A||x|)_i for a row of m_i entries of size k.
    """

    problem: Problem
    precision: str
    x: NDArray[np.floating]
    reference: NDArray[np.float64]
    bound: NDArray[np.float64]

    @property
    def entry(self) -> Entry:
        """What the non-zeros are."""
        return get_entry(self.problem.entry)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision."""
        return self.x.dtype

    @cached_property
    def values(self) -> NDArray[np.floating]:
        """`(nnz, members)` in the working precision."""
        return self.problem.values.astype(self.dtype)

    @cached_property
    def expanded(self) -> sp.bsr_array:
        """The real k×k blocks of A in the working precision."""
        return expand(self.problem, self.values).astype(self.dtype)


def expand(problem: Problem, values: NDArray[np.floating]) -> sp.bsr_array:
    """Return the real expansion of a matrix as a float64 BSR matrix of k×k blocks."""
    entry = get_entry(problem.entry)
    blocks = entry.expand(values.astype(np.float64))
    size = problem.n * entry.size
    return sp.bsr_array((blocks, problem.indices, problem.indptr), shape=(size, size))


def make_operands(problem: Problem, precision: str, seed: int) -> Operands:
    """Draw x, round A and x to the working precision, and compute the reference once, in float64 by SciPy."""
    entry = get_entry(problem.entry)
    dtype = DTYPES[precision]
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, (problem.n, entry.size)).astype(dtype)
    exact = x.astype(np.float64).ravel()
    matrix = expand(problem, problem.values.astype(dtype))
    reference = matrix @ exact
    matrix.data = np.abs(matrix.data)
    size = matrix @ np.abs(exact)
    terms = np.repeat((problem.row_lengths + 2) * entry.size, entry.size)
    bound = terms * float(np.finfo(dtype).eps) * size
    return Operands(problem, precision, x, reference.reshape(x.shape), bound.reshape(x.shape))


class Workspace:
    """Uploaded operands; the packed matrix of one layout at a time, since variants come layout by layout."""

    def __init__(self, device: Device, operands: Operands) -> None:
        self.device = device
        self.operands = operands
        self._matrix: tuple[tuple[str, str], Packed, dict[str, Buffer]] | None = None
        self._vectors: dict[str, Buffer] = {}
        self._output: Buffer | None = None

    def matrix(self, layout: Layout) -> tuple[Packed, dict[str, Buffer]]:
        """Return the matrix packed in a layout, with its arrays on the device."""
        key = (layout.outer, layout.inner)
        if self._matrix is None or self._matrix[0] != key:
            self._drop_matrix()
            packed = pack(self.operands.problem, self.operands.values, layout, self.device.target.warp)
            self._matrix = key, packed, {}
            for name, array in packed.arrays.items():
                self._matrix[2][name] = self.device.upload(array)
        return self._matrix[1], self._matrix[2]

    def x(self, order: str) -> Buffer:
        """Return x on the device in AoS or SoA order."""
        if order not in self._vectors:
            self._vectors[order] = self.device.upload(pack_vector(self.operands.x, order))
        return self._vectors[order]

    @property
    def y(self) -> Buffer:
        """Device memory for y, n·k numbers in the working precision, shared by all that need no more."""
        if self._output is None:
            self._output = self.device.allocate(self.operands.x.nbytes)
        return self._output

    def _drop_matrix(self) -> None:
        if self._matrix is not None:
            for buffer in self._matrix[2].values():
                buffer.release()
        self._matrix = None

    def release(self) -> None:
        """Give all device memory back."""
        self._drop_matrix()
        for buffer in [*self._vectors.values(), *([self._output] if self._output else [])]:
            buffer.release()
        self._vectors.clear()
        self._output = None
