"""The columns of this study's rows, in addition to the columns of all rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class CooRow(RecordedRow):
    """A row of a variant, of a library routine, or of BiCGSTAB with one of them."""

    entry: str | None
    ordering: str | None
    layout: str | None
    n_t: int | None
    per_thread: int | None
    chunks: int | None
    load: str | None
    #: Number of chunks by encoding, for example `8/16/table`, as JSON.
    encodings: str | None
    routine: str | None
    representation: str | None
    format: str | None
    papers_choice: bool | None
    matrix_bytes: int | None
    #: For a solver, the name of its product.
    product: str | None
