"""Sliced ELLPACK without row lengths: slices of k rows, each padded to its longest row.

Monakov, Lokhmotov, Avetisyan: Automatically tuning sparse matrix-vector multiplication for GPU architectures, 2010.
"""

from __future__ import annotations

from repro.sparse.compound.outer import grouped, register

#: Search space of variants, by the number of rows per slice; small slices have several threads per row.
SLICES = {16: "paper", 32: "paper", 4: "extended", 8: "extended"}

for _k, _space in SLICES.items():
    register(grouped(f"Sl-{_k}", "sliced", _k, {"slice_rows": _k}, space=_space))
