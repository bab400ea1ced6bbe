"""The outer formats of this project.

Bell, Garland: Implementing sparse matrix-vector multiplication on throughput-oriented processors, 2009 (ELLPACK).
Vázquez, Fernández, Garzón: A new approach for sparse matrix vector product on NVIDIA GPUs, 2011 (ELLPACK-R).
Monakov, Lokhmotov, Avetisyan: Automatically tuning sparse matrix-vector multiplication for GPU architectures, 2010
(slices).
"""

from __future__ import annotations

from repro.sparse.compound.outer import grouped, register

#: Compressed sparse rows: rows one after the other, without padding.
CSR = register(grouped("CSR", "csr", 1, padded=False, rows_adjacent=False))
#: ELLPACK with the length of each row (ELLPACK-R): all rows are padded to the longest.
ELL = register(grouped("ELL", "ell", 0, padded=False))
#: ELLPACK without row lengths: the first column index needs no row data, which saves a dependent load; kernels process
#: the padding.
ELLPACK = register(grouped("ELLPACK", "ellpack", 0, space="extended"))
#: Spaces of sliced ELLPACK without row lengths, by the number of rows per slice: each slice is padded to its longest
#: row, and small slices have several threads per row.
SLICES = {16: "paper", 32: "paper", 4: "extended", 8: "extended"}

for _k, _space in SLICES.items():
    register(grouped(f"Sl-{_k}", "sliced", _k, {"slice_rows": _k}, space=_space))
