"""The columns of the study's rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class CallRow(RecordedRow):
    #: Public function, library whose function is called, library of the arrays, and whether the result is a `new` array
    #: or is written to `out`.
    function: str | None
    library: str | None
    arrays: str | None
    result: str | None
    #: Rows and stored entries of the matrix.
    rows: int | None
    entries: int | None
    #: Median seconds of the kernel that the call launches, by the graph clock; None if it launches no fixed sequence.
    kernel_seconds: float | None
