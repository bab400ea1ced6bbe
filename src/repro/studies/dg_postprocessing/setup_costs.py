"""Set-up costs of the filter's matrix, before its products."""

from __future__ import annotations

from repro.results.campaign_data import Campaign
from repro.results.common_tables import SetupCosts, setup_costs_table
from repro.results.published import Published
from repro.results.tables import Table
from repro.sparse.tuning_features import library_of
from repro.studies.dg_postprocessing import HOST_CLOCK, PRODUCT_CLOCK
from repro.studies.dg_postprocessing.results import (
    MAKE,
    PRECISION,
    Filtering,
    all_filterings,
    library_product,
    product,
)


def setup_costs(campaign: Campaign, published: Published) -> Table:
    """Return the table: one line for each field."""
    return setup_costs_table(
        campaign,
        [_costs(field) for field in all_filterings(campaign, published)],
        library=library_of(campaign),
        clock=PRODUCT_CLOCK,
        setup=f"Set-up: making the filter’s matrix on the device, by the {HOST_CLOCK} clock, as if the library’s were "
        "there already; a product is one with a field. When the matrix pays against filtering without one is in "
        "table-matrix.",
    )


def _costs(field: Filtering) -> SetupCosts:
    ours, library, made = field[product(1)], field[library_product(1)], field[MAKE]
    # the library's rows include the time of making and expanding the matrix
    return SetupCosts(
        field.line.cell,
        PRECISION,
        library=library,
        csr=library,
        ours=ours,
        ours_seconds=made.seconds if made else None,
        library_seconds=None,
    )
