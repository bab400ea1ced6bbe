"""The columns of this study's rows, in addition to the columns of all rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class CompoundRow(RecordedRow):
    """A row of a variant, or of a library routine."""

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

    LATER = ("ahead", "rolled")
