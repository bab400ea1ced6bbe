"""ELLPACK: all rows are padded to the longest; with the length of each row (ELLPACK-R), or without.

Without row lengths, the first column index needs no row data, which saves a dependent load; kernels process the
padding.

Bell, Garland: Implementing sparse matrix-vector multiplication on throughput-oriented processors, 2009 (ELLPACK).
Vázquez, Fernández, Garzón: A new approach for sparse matrix vector product on NVIDIA GPUs, 2011 (ELLPACK-R).
"""

from __future__ import annotations

from repro.sparse.compound.outer import grouped, register

ELL = register(grouped("ELL", "ell", 0, padded=False))
ELLPACK = register(grouped("ELLPACK", "ellpack", 0, space="extended"))
