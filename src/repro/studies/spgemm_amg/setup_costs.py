"""What comes before the numeric phases of products of sparse matrices."""

from __future__ import annotations

from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.setup_costs import SetupCosts, setup_costs_table
from repro.results.tables import Table
from repro.sparse.baseline_times import library_of
from repro.studies.spgemm_amg.results import EVENT, HOST, LIBRARY, OURS, REFILL, REUSE, ProductTimes, all_times


def setup_costs(campaign: Campaign, published: Published) -> Table:
    """Return the table: one line for each product, its numeric phase and the whole product that comes before."""
    costs = [_costs(times) for precision in campaign.precisions for case in all_times(campaign, published, precision)
             for times in case.products]  # fmt: skip
    return setup_costs_table(
        campaign,
        costs,
        library=library_of(campaign),
        clock=EVENT,
        setup="Set-up: a whole product of ours, which makes the pattern, by the host’s clock. Products here are numeric"
        " phases, the numbers alone into a pattern that is there. Whole products take and leave CSR, without a set-up.",
        analysis="Analysis: the whole product that comes before by SpGEMMreuse, by the host’s clock.",
    )


def _costs(times: ProductTimes) -> SetupCosts:
    ours, before, theirs = times[REFILL], times[OURS], times.of(LIBRARY).select(routine="reuse").fastest(HOST)
    return SetupCosts(
        times.name,
        times.case.precision,
        library=times[REUSE],
        csr=times[REUSE],
        ours=ours,
        ours_seconds=before.seconds if ours and before else None,
        library_seconds=theirs.seconds if theirs else None,
        product=times.title,
    )
