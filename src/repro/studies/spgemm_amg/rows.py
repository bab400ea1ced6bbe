"""The columns of this study's rows, in addition to the columns of all rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class AmgRow(RecordedRow):
    """A row of a bin's kernel, of a product, of a numeric phase, of a set-up or of its level, or of a solution."""

    LATER = ("plan_bytes", "stage_whole")

    #: Kind of task: `bin`, `product`, `numeric`, `setup`, `level` or `solve`.
    what: str | None
    product: str | None
    mode: str | None
    bin: int | None
    method: str | None
    width: int | None
    slots: int | None
    rows_of_block: int | None
    routine: str | None
    format: str | None
    products: int | None
    nonzeros: int | None
    rows: int | None
    peak_bytes: int | None
    plan_bytes: int | None
    level: int | None
    levels: int | None
    complexity: float | None
    iterations: int | None
    stage_whole: float | None
    stage_count: float | None
    stage_compute: float | None
    stage_settle: float | None
    stage_symbolic: float | None
    stage_place: float | None
    stage_numeric: float | None
    stage_diagonal: float | None
    stage_aggregates: float | None
    stage_tentative: float | None
    stage_radius: float | None
    stage_prolongator: float | None
    stage_transpose: float | None
    stage_galerkin: float | None
