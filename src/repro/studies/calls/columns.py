"""The columns of the study’s rows."""

from __future__ import annotations

from repro.bench.rows import RecordedRow


class CallRow(RecordedRow):
    #: What is computed, whose function and whose arrays these are, and `new` or `out`: see `repro.bench.user_calls`.
    function: str | None
    library: str | None
    arrays: str | None
    result: str | None
    #: Rows and stored numbers of the matrix; of a field, its cells and modes.
    rows: int | None
    entries: int | None
    #: Seconds of a call among queued ones: median, least and largest of the rounds.
    queued_median: float | None
    queued_least: float | None
    queued_largest: float | None
