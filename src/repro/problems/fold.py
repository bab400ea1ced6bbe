"""Giving a scalar matrix compound entries (complex numbers as they are, real blocks folded), and taking them away."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from repro.casts import cast
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.assembled import Assembled


def fold(matrix: sp.csr_array, entry: str, where: object, tolerance: float = 0.0) -> Assembled:
    """Turn a scalar matrix into one with the given entry.

    A real kn×km matrix becomes n×m entries of size k where every k×k block is the expansion of one: a 3n×3m matrix
    n×m blocks, and a 4n×4m matrix n×m quaternions where every 4×4 block has the form of eq. 1 of Mueller-Roemer et al.
    2020. Real and complex matrices stay what they are. A matrix of ones has the entry `pattern`.

    Parameters
    ----------
    matrix
        float64 or complex128, columns sorted.
    entry
        Name of the entry.
    where
        What to name in errors.
    tolerance
        How far a block may be from the expansion of its entry, relative to the block's largest value.

    Raises
    ------
    ReproError
        The values are of another kind, the size is no multiple of the block's, or a block is no such entry.
    """
    is_complex = bool(np.iscomplexobj(matrix.data))
    if is_complex != (entry == "complex"):
        raise ReproError(
            "the matrix does not fit the entry",
            where=where,
            expected="complex values" if entry == "complex" else f"real values for the entry {entry}",
            actual="complex values" if is_complex else "real values",
            todo="give the problem another `entry:`",
        )
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    notes: tuple[str, ...] = ()
    n, columns = matrix.shape
    if entry == "complex":
        values = np.stack([data.real, data.imag], axis=1)
    elif entry == "real":
        values = data.reshape(-1, 1)
    elif entry == "pattern":
        values = _no_values(data, where)
    else:
        k = get_entry(entry).size
        blocks = _blocks(matrix, k, entry, where)
        n, columns = n // k, columns // k
        indptr, indices = blocks.indptr, blocks.indices
        values = _members(blocks, entry, where, tolerance)
        filled = matrix.nnz / max(blocks.data.size, 1)
        size = "{} x {}".format(*matrix.shape)
        notes = (f"folded from a real {size} matrix; {filled:.1%} of the blocks' values are non-zeros",)
    offsets, places = (cast(array, np.int32, str(where)) for array in (indptr, indices))
    values = np.ascontiguousarray(values, np.float64)
    return Assembled(n, offsets, places, values, notes, None if columns == n else columns)


def unfold(assembled: Assembled, entry: str) -> Assembled:
    """Turn a matrix with compound entries into a real one of k×k as many, its entries written out as k×k blocks.

    Zeros within the blocks are left out, as the SuiteSparse collection does.
    """
    k = get_entry(entry).size
    shape = (k * assembled.n, k * (assembled.n if assembled.columns is None else assembled.columns))
    if len(assembled.indices) * k**2 >= 2**31:
        raise ReproError(
            "the matrix written out is too large for 32-bit indices",
            expected=f"fewer than {2**31 // k**2} entries of {entry}",
            actual=len(assembled.indices),
        )
    blocks = get_entry(entry).expand(assembled.values)
    matrix = sp.csr_array(sp.bsr_array((blocks, assembled.indices, assembled.indptr), shape=shape))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    indptr, indices = (cast(array, np.int32, "the matrix written out") for array in (matrix.indptr, matrix.indices))
    columns = None if assembled.columns is None else shape[1]
    return Assembled(shape[0], indptr, indices, matrix.data[:, None], assembled.notes, columns)


def _no_values(
    data: np.ndarray[tuple[int], np.dtype[np.float64]], where: object
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    others = np.flatnonzero(data != 1)
    if others.size:
        raise ReproError(
            "the matrix is no pattern",
            where=where,
            expected="ones alone for the entry pattern",
            actual=f"{others.size} of {len(data)} values are others, the first {data[others[0]]:g}",
            todo="give the problem `entry: real`",
        )
    return np.empty((len(data), 0))


def _blocks(matrix: sp.csr_array, k: int, entry: str, where: object) -> sp.bsr_array:
    for count, what in zip(matrix.shape, ("rows", "columns"), strict=True):
        if count % k:
            raise ReproError(
                f"the matrix cannot be folded into {k} x {k} blocks",
                where=where,
                expected=f"a multiple of {k} {what} for the entry {entry}",
                actual=f"{count} {what}",
                todo="give the problem `entry: real`",
            )
    blocks = sp.bsr_array(matrix, blocksize=(k, k))
    blocks.sort_indices()
    return blocks


def _members(
    blocks: sp.bsr_array, name: str, where: object, tolerance: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the entries that the blocks are expansions of, `(nnz, members)`, after checking that they are."""
    entry = get_entry(name)
    data = np.asarray(blocks.data, dtype=np.float64)
    # which member stands where in a block, and with which factor: (members, k, k)
    form = entry.expand(np.eye(len(entry.members)))
    bare = (form == 1) & (np.count_nonzero(form, axis=0) == 1)
    # for each member the first place, down the columns, where it stands alone
    place = bare.transpose(0, 2, 1).reshape(len(form), -1).argmax(axis=1)
    members = np.ascontiguousarray(data.transpose(0, 2, 1).reshape(len(data), entry.size**2)[:, place])
    excess = np.abs(data - entry.expand(members)).max(axis=(1, 2))
    bad = np.flatnonzero(excess > tolerance * np.abs(data).max(axis=(1, 2)))
    if bad.size:
        row = int(np.searchsorted(blocks.indptr, bad[0], side="right")) - 1
        raise ReproError(
            f"the matrix is no {name} matrix",
            where=f"{where}, first at block row {row}, block column {blocks.indices[bad[0]]} (counted from 0)",
            expected=f"{entry.size} x {entry.size} blocks {_spell(form, entry.members)}",
            actual=f"{bad.size} of {len(data)} blocks of another form, the first {data[bad[0]].tolist()}",
            todo="give the problem `entry: real`",
        )
    return members


def _spell(form: np.ndarray[tuple[int, ...], np.dtype[np.float64]], members: tuple[str, ...]) -> str:
    """Write a block's form as text, rows parted by strokes: w -x -y -z / x w -z y / y z w -x / z -y x w."""
    signs = {1.0: "", -1.0: "-"}

    def place(factors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
        terms = [f"{signs.get(f, f'{f:g}')}{member}" for f, member in zip(factors, members, strict=True) if f]
        return "+".join(terms) or "0"

    return " / ".join(" ".join(map(place, row)) for row in form.transpose(1, 2, 0))
