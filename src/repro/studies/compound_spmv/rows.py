"""The columns of this study's rows, in addition to the columns of all rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class CompoundRow(RecordedRow):
    """A row of a variant, of a library routine, or of conjugate gradients with one of them or on the chip."""

    entry: str | None
    ordering: str | None
    layout: str | None
    outer: str | None
    inner: str | None
    vector: str | None
    clustered: bool | None
    schedule: str | None
    n_t: int | None
    n_b: int | None
    width: int | None
    unroll: int | None
    load: str | None
    ahead: str | None
    rolled: bool | None
    routine: str | None
    representation: str | None
    format: str | None
    papers_choice: bool | None
    matrix_bytes: int | None
    #: For a solver, the name of its product.
    product: str | None
    #: Number of iterations of a launch, and of a solve to the tolerance.
    iterations: int | None
    to_tolerance: int | None
    #: Bytes of the matrix that stay in shared memory, and bytes that all multiprocessors have for it.
    kept_bytes: int | None
    chip_bytes: int | None

    LATER = ("ahead", "rolled", "product", "iterations", "to_tolerance", "kept_bytes", "chip_bytes")
