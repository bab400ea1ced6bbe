"""The library's times of a case of y = A x, and which library it is, for tables and figures."""

from __future__ import annotations

from repro.bench.runnable import ClockName
from repro.results.campaign_data import Campaign, Case, ReportedTime, fastest_time
from repro.sparse.study_kit import LIBRARIES


def library_of(campaign: Campaign) -> str:
    """Return the library that the baselines are from."""
    return LIBRARIES["opencl" if campaign.on_cpu else "cuda"]


def fastest_baseline(
    case: Case, clock: ClockName, *, papers_choice: bool = False, ordering: str = "natural", form: str | None = None
) -> ReportedTime | None:
    """Return the library's fastest routine of any representation, or the fastest that the papers used.

    Routines run on the problem in its own ordering unless another is asked for, and on any format unless one is named.
    """
    rows = [
        row
        for row in case.rows
        if row["kind"] == "baseline" and (row["papers_choice"] or not papers_choice) and row["ordering"] == ordering
        and form in (None, row["format"])
    ]  # fmt: skip
    return fastest_time(rows, clock)


def routine_text(routine: ReportedTime) -> str:
    """Return a routine and what it works on, without the library's name: `bsrmv/real3`, after an order's `@` that."""
    row = routine.row
    marked = "" if row["ordering"] == "natural" else f"@{row['ordering']}"
    return f"{row['routine']}/{row['representation']}{marked}"
