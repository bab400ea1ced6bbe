"""Names of a library and of its routines (baselines) in tables and figures."""

from __future__ import annotations

from repro.results.campaign_data import Campaign, ReportedTime
from repro.sparse.tuning_features import LIBRARIES


def library_of(campaign: Campaign) -> str:
    return LIBRARIES["opencl" if campaign.on_cpu else "cuda"]


def routine_text(routine: ReportedTime) -> str:
    """Return the name of a routine for tables, such as `bsrmv/real3`; `@ordering` is added unless it is natural."""
    row = routine.row
    marked = "" if row["ordering"] == "natural" else f"@{row['ordering']}"
    return f"{row['routine']}/{row['representation']}{marked}"
