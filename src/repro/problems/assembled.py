"""What assembling a matrix gives, and the sparsity pattern that the sums go into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.errors import ReproError

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Assembled:
    """A sparse matrix with compound entries, before it has a name and an origin.

    Attributes
    ----------
    n
        Rows, counted in entries.
    indptr, indices
        int32 `(n + 1,)` and `(nnz,)`, columns sorted within each row.
    values
        float64 `(nnz, members)`, members in the entry's storage order.
    notes
        What a reader of the results should know about how the matrix came about, one sentence each.
    columns
        Columns, counted in entries; None: as many as rows.
    """

    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: Floats
    notes: tuple[str, ...] = ()
    columns: int | None = None


@dataclass(frozen=True)
class Pattern:
    """The vertex graph of a mesh with its diagonal: every pair of vertices that share an element.

    Entries stay in the pattern whether or not their values cancel to zero, so that the non-zero count is a
    property of the mesh alone.

    Attributes
    ----------
    n
        Vertices.
    indptr, indices
        int32 CSR arrays, columns sorted within each row.
    gather
        `(nnz, m k k)` matrix of ones that adds the k×k local matrices of m elements up. Contributions to an entry
        are added in the order of the elements, the same for (i, j) as for (j, i): local matrices that are exactly
        symmetric or Hermitian give a matrix that is.
    """

    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    gather: sp.csr_array

    @classmethod
    def of(cls, elements: Integers, n: int) -> Pattern:
        """Build the pattern of a mesh.

        Parameters
        ----------
        elements
            `(m, k)` vertex numbers, each from 0 to n - 1.
        n
            Vertices.

        Raises
        ------
        ReproError
            More entries than 32-bit indices can count.
        """
        k = elements.shape[1]
        if elements.size * k >= 2**31:
            raise ReproError(
                "the mesh is too large for 32-bit indices",
                expected=f"fewer than {2**31 // k**2} elements",
                actual=len(elements),
            )
        columns = elements.astype(np.int64)
        keys = (columns[:, :, None] * n + columns[:, None, :]).ravel()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        starts = np.append(first, len(keys)).astype(np.int32)
        rows, indices = np.divmod(keys[first], n)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
        gather = sp.csr_array((np.ones(len(keys)), order.astype(np.int32), starts), shape=(len(first), len(keys)))
        return cls(n, indptr.astype(np.int32), indices.astype(np.int32), gather)

    def sum(self, local: Floats) -> Floats:
        """Add local matrices up: `(m, k, k)` to `(nnz,)`, or `(m, k, k, members)` to `(nnz, members)`."""
        columns = self.gather.shape[1]
        total: Floats = self.gather @ local.reshape(columns, *local.shape[3:])
        return total
