"""The columns of this study's rows, in addition to the columns of all rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class DynamicRow(RecordedRow):
    """A row of a product, an update, a conversion, a primitive, or a step over several devices."""

    what: str | None
    format: str | None
    state: str | None
    schedule: str | None
    width: int | None
    per_thread: int | None
    unroll: int | None
    load: str | None
    exact: bool | None
    routine: str | None
    representation: str | None
    papers_choice: bool | None
    matrix_bytes: int | None
    ordering: str | None
    segments: int | None
    slack: int | None
    #: Of an update as published: the reading of what the text leaves open, one of `READINGS`.
    reading: str | None
    #: Defragmentations on the way.
    defragmentations: int | None
    mode: str | None
    order: str | None
    #: Entries per batch; the mean if a launch inserts several batches.
    batch: int | None
    to_format: str | None
    devices: int | None
    exchange: str | None
    steps: int | None
    #: Seconds of each stage of a launch.
    stage_update: float | None
    stage_sort: float | None
