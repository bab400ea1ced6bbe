"""The operands of one problem in one precision, on the host and on a device, shared by all that runs on them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.devices.base import Buffer, Device, Program
from repro.entries import Entry, get_entry
from repro.formats.layout import Layout
from repro.formats.ordering import cluster_rows, permutation, reorder
from repro.formats.outer import get_outer
from repro.formats.pack import Packed, pack, pack_vector, padded_size
from repro.problems.problem import Problem

T = TypeVar("T")
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
        return self.problem.values.astype(self.dtype, copy=False)


def expand(problem: Problem, values: NDArray[np.floating]) -> sp.bsr_array:
    """Return the real expansion of a matrix as a float64 BSR matrix of k×k blocks: `(nk, nk)`."""
    entry = get_entry(problem.entry)
    blocks = entry.expand(values.astype(np.float64, copy=False))
    size = problem.n * entry.size
    return sp.bsr_array((blocks, problem.indices, problem.indptr), shape=(size, size))


def make_operands(problem: Problem, precision: str, seed: int) -> Operands:
    """Draw x, round A and x to the working precision, and compute the reference once, in float64 by SciPy."""
    entry = get_entry(problem.entry)
    dtype = DTYPES[precision]
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, (problem.n, entry.size)).astype(dtype)
    exact = x.astype(np.float64).ravel()
    matrix = expand(problem, problem.values.astype(dtype, copy=False))
    reference = matrix @ exact
    matrix.data = np.abs(matrix.data)
    size = matrix @ np.abs(exact)
    terms = np.repeat((problem.row_lengths + 2) * entry.size, entry.size)
    bound = terms * float(np.finfo(dtype).eps) * size
    return Operands(problem, precision, x, reference.reshape(x.shape), bound.reshape(x.shape))


class Workspace:
    """Operands on a device, and what else runnables share: packed matrices, loaded programs, vectors.

    Parameters
    ----------
    device, operands
        What to run on.
    common, common_hash
        The loaded common module and the hash of its source, compiler and flags.
    resident
        How many packed matrices, and programs, stay on the device. A search comes layout by layout and needs one; the
        attribute of that name is set before more are needed.
    """

    def __init__(
        self, device: Device, operands: Operands, common: Program, common_hash: str, resident: int = 1
    ) -> None:
        self.device = device
        self.operands = operands
        self.common, self.common_hash = common, common_hash
        self.resident = resident
        self._held: OrderedDict[Hashable, tuple[Any, dict[str, Buffer]]] = OrderedDict()
        self._padding: dict[str, float] = {}
        self._orderings: dict[str, tuple[NDArray[np.int64], Problem]] = {}
        self._programs: OrderedDict[Path, Program] = OrderedDict()
        self._vectors: dict[tuple[str, str], Buffer] = {}

    def permutation(self, ordering: str) -> NDArray[np.int64]:
        """Return which row of the matrix as it came each row of the reordered one is, int64 `(n,)`."""
        return self._ordered(ordering)[0]

    def reordered(self, ordering: str) -> Problem:
        """Return the problem with its rows and columns in an order."""
        return self._ordered(ordering)[1]

    def _ordered(self, ordering: str) -> tuple[NDArray[np.int64], Problem]:
        if ordering not in self._orderings:
            problem = self.operands.problem
            rows = permutation(problem, ordering)
            self._orderings[ordering] = rows, problem if ordering == "natural" else reorder(problem, rows)
        return self._orderings[ordering]

    @cached_property
    def _clusters(self) -> NDArray[np.int64]:
        return cluster_rows(self.operands.problem)

    def padding(self, outer: str) -> float:
        """Return the slots that an outer format takes for each entry; counted once, since every variant asks."""
        if outer not in self._padding:
            problem = self.operands.problem
            slots, _ = get_outer(outer).count(problem.row_lengths, self.device.target.warp)
            self._padding[outer] = slots / problem.nnz
        return self._padding[outer]

    def matrix(self, layout: Layout) -> tuple[Packed, dict[str, Buffer]]:
        """Return the matrix packed in a layout, with its arrays on the device."""

        def packed() -> tuple[Packed, Mapping[str, NDArray[Any]]]:
            problem = self.reordered(layout.unknowns)
            rows = self._clusters if layout.ordering == "clustered" else None
            matrix = pack(problem, problem.values.astype(self.operands.dtype), layout, self.device.target.warp, rows)
            return matrix, matrix.arrays

        return self.hold(replace(layout, vector=""), packed)

    def hold(
        self, packing: Hashable, pack: Callable[[], tuple[T, Mapping[str, NDArray[Any]]]]
    ) -> tuple[T, dict[str, Buffer]]:
        """Return a packed matrix with its arrays on the device, packed now unless it is resident.

        Parameters
        ----------
        packing
            What it is packed as.
        pack
            Returns the matrix, and its arrays by name.
        """
        if packing not in self._held:
            while len(self._held) >= self.resident:
                _release(self._held.popitem(last=False)[1][1])
            matrix, arrays = pack()
            buffers: dict[str, Buffer] = {}
            try:
                for name, array in arrays.items():
                    buffers[name] = self.device.upload(array)
            except Exception:
                _release(buffers)
                raise
            self._held[packing] = matrix, buffers
        return self._held[packing]

    def program(self, binary: Path) -> Program:
        """Return a module, loaded."""
        if binary not in self._programs:
            while len(self._programs) >= self.resident:
                self._programs.popitem(last=False)
            self._programs[binary] = self.device.load(binary)
        return self._programs[binary]

    def x(self, order: str, ordering: str = "natural") -> Buffer:
        """Return x on the device: members in AoS, SoA or Padded order, entries in the order of the rows."""
        key = order, ordering
        if key not in self._vectors:
            self._vectors[key] = self.device.upload(pack_vector(self.operands.x[self.permutation(ordering)], order))
        return self._vectors[key]

    @property
    def y(self) -> Buffer:
        """Device memory for y, padded or not, in whole words of 16 bytes; runnables use it one after the other."""
        key = "y", ""
        if key not in self._vectors:
            n, size = self.operands.x.shape
            nbytes = n * padded_size(size) * self.operands.dtype.itemsize
            self._vectors[key] = self.device.allocate(-(-nbytes // 16) * 16)
        return self._vectors[key]

    @property
    def counter(self) -> Buffer:
        """Device memory for the integer that the blocks of a dynamic schedule draw rows from."""
        key = "counter", ""
        if key not in self._vectors:
            self._vectors[key] = self.device.allocate(4)
        return self._vectors[key]

    def streamed(self, nbytes: int) -> Buffer:
        """Return device memory full of random bytes, as many as the floor reads; all its configurations share it."""
        key = "streamed", ""
        if key not in self._vectors:
            self._vectors[key] = self.device.upload(random_bytes(nbytes))
        return self._vectors[key]

    def release(self) -> None:
        """Give all device memory back."""
        for _, buffers in self._held.values():
            _release(buffers)
        _release(self._vectors)
        self._held.clear()
        self._programs.clear()
        self._vectors.clear()


def random_bytes(count: int) -> NDArray[np.uint8]:
    """Return so many bytes, random but for a long period: zeros can be faster than data."""
    return np.resize(np.frombuffer(np.random.default_rng(0).bytes(1 << 20), np.uint8), count)


def _release(buffers: Mapping[Any, Buffer]) -> None:
    for buffer in buffers.values():
        buffer.release()
