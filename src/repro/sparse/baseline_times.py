"""Times of library routines (baselines) in one measured case of y = A x, for tables and figures."""

from __future__ import annotations

from repro.bench.rows import ClockName
from repro.results.campaign_data import Campaign, Case, ReportedTime
from repro.sparse.tuning_features import LIBRARIES


def library_of(campaign: Campaign) -> str:
    return LIBRARIES["opencl" if campaign.on_cpu else "cuda"]


def fastest_baseline(
    case: Case, clock: ClockName, *, papers_choice: bool = False, ordering: str = "natural", form: str | None = None
) -> ReportedTime | None:
    """Return the fastest library routine with any representation of the entries, or None.

    `papers_choice`: consider only the routines that the papers chose. `form`: consider only one matrix format.
    """
    columns = {**({"papers_choice": True} if papers_choice else {}), **({"format": form} if form else {})}
    return case.select(kind="baseline", ordering=ordering, **columns).fastest(clock)


def routine_text(routine: ReportedTime) -> str:
    """Return the name of a routine for tables, such as `bsrmv/real3`; `@ordering` is added unless it is natural."""
    row = routine.row
    marked = "" if row["ordering"] == "natural" else f"@{row['ordering']}"
    return f"{row['routine']}/{row['representation']}{marked}"
