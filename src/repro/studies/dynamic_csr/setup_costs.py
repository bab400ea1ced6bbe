"""What comes before the products of dynamic CSR."""

from __future__ import annotations

from dataclasses import replace

from repro.results.campaign_data import Campaign
from repro.results.common_tables import SetupCosts, setup_costs_table
from repro.results.published import Published
from repro.results.tables import Table
from repro.sparse.baseline_times import library_of
from repro.studies.dynamic_csr.results import (
    LIBRARY,
    LIBRARY_CSR,
    OPERATION_CLOCK,
    OURS,
    PRODUCT_CLOCK,
    ProductTimes,
    product_times,
)

ON_DEVICE = "the conversion from CSR on the device, by the event clock"


def setup_costs(campaign: Campaign, published: Published) -> Table:
    """Return the table: one line for each problem and precision."""
    costs = [_costs(times) for times in product_times(campaign, published, *campaign.precisions)]
    setup = (
        "Set-up: laying out the grown matrix from CSR, one segment a row, on one core of the host; where a note says "
        "so, on the device. Bins of rows are not in it."
    )
    return setup_costs_table(campaign, costs, library=library_of(campaign), clock=PRODUCT_CLOCK, setup=setup)


def _costs(times: ProductTimes) -> SetupCosts:
    ours = times[OURS]
    costs = SetupCosts.packed(
        times.line.cell, times.case.precision, library=times[LIBRARY], csr=times[LIBRARY_CSR], ours=ours
    )
    converted = times.case.select(what="convert", format="csr", to_format="dcsr").fastest(OPERATION_CLOCK)
    # a conversion leaves the rows in the matrix's order
    if ours and ours.row.state == "defragmented" and converted:
        return replace(costs, ours_seconds=converted.seconds, notes=(ON_DEVICE,))
    return costs
