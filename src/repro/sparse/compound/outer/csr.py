"""Compressed sparse rows: rows one after the other, without padding."""

from __future__ import annotations

from repro.sparse.compound.outer import grouped, register

CSR = register(grouped("CSR", "csr", 1, padded=False, rows_adjacent=False))
