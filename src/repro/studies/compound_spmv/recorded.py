"""What the tables of this study read of a campaign beside its cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.artifacts.case import Case, Timed
from repro.artifacts.data import Campaign, ProblemRecord
from repro.studies.compound_spmv.paper import STUDY


def memory_of(record: ProblemRecord | None) -> Mapping[str, Mapping[str, int]]:
    """Return a matrix's bytes by precision and outer format; empty where they are not recorded."""
    memory: Mapping[str, Mapping[str, int]] = record.facts.get(STUDY, {}).get("memory", {}) if record else {}
    return memory


def paper_rows(campaign: Campaign, problem: str, precision: str) -> list[dict[str, Any]]:
    """Return the rows of the search of the papers' space in the problem's own ordering, in the tables' cache state."""
    return [
        row
        for row in campaign.search_rows(problem, precision)
        if (row["space"], row["ordering"], row["cache"]) == ("paper", "natural", campaign.cache)
    ]


def tied_layouts(case: Case, best: Timed | None) -> tuple[str, ...]:
    """Return the other layouts that have a variant within a tie of a winner."""
    if best is None or not best.ties:
        return ()
    searched = case.campaign.search_rows(case.problem, case.precision)
    layouts = {str(row["layout"]) for row in searched if row["name"] in best.ties}
    return tuple(sorted(layouts - {str(best.row["layout"])}))
