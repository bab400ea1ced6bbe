"""Campaigns of this study that were never measured."""

from __future__ import annotations

import pytest
from amg_campaign import Maker

from repro.artifacts.data import Campaign


@pytest.fixture(scope="session")
def amg_campaign_of_some(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Two problems of the paper, one of ours that is four times as slow, one that failed, one that could not be had."""
    maker = Maker(tmp_path_factory.mktemp("amg"))
    maker.case("poisson/5pt_512")
    maker.case("poisson/7pt_64", 2.0)
    maker.case("elastic", 4.0)
    maker.record("large", entry="real", n=10, nnz=50)
    failed = [
        maker.row("large", "double", "variant", "AA/coordinates", None, status="out_of_memory", message="2 GiB more",
                  phase="report", what="product", product="AA", mode="coordinates", method="coordinates"),
        *maker.product("large", "AA")[1:],
        maker.row("large", "double", "variant", "setup/default", None, status="out_of_memory", message="1 GiB more",
                  phase="report", what="setup", method="default"),
    ]  # fmt: skip
    maker.write("large", "double", "report", failed)
    maker.gone("gone")
    return maker.load()
