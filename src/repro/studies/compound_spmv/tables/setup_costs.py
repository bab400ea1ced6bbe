"""What comes before the products of compound entries."""

from __future__ import annotations

from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import table
from repro.results.setup_costs import PACKED, TITLE, SetupCosts, setup_costs_table
from repro.results.tables import Table
from repro.sparse.baseline_times import library_of
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.results import LIBRARY, LIBRARY_CSR, OURS, PAPERS, Times, all_times


@table(STUDY_NAME, "table-setup-costs", title=TITLE, numbering="ours")
def setup_costs(campaign: Campaign, published: Published) -> Table:
    """One line for each problem and precision."""
    costs = [_costs(times) for times in all_times(campaign, published)]
    return setup_costs_table(campaign, costs, library=library_of(campaign), clock="graph", setup=PACKED)


def _costs(times: Times) -> SetupCosts:
    return SetupCosts.packed(
        times.line.cell,
        times.case.precision,
        library=times[LIBRARY],
        csr=times[LIBRARY_CSR],
        ours=times[OURS] or times[PAPERS],
    )
