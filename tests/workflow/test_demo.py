"""`make demo`: a first look at one study on one small problem, in a minute, that opens nothing."""

from __future__ import annotations

import re

import pytest

from support.checkouts import REPOSITORY, Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


@pytest.mark.exhaustive
def test_the_demo_says_where_its_page_is(checkout: Checkout) -> None:
    assert "--configfile config/demo.yaml" in (REPOSITORY / "Makefile").read_text()
    said = checkout.snakemake("all", "--configfile", "config/demo.yaml")
    assert said.code == 0, said.text
    assert "report   results/demo/report.html" in said.text
    ending = said.text.partition("The fastest kernels")[2]
    assert said.text.rstrip().endswith("says how to take them away")  # below Snakemake's own last lines
    assert "dirac_torus" in ending and "dry run on a CPU" in ending and "repro export" not in ending
    again = checkout.snakemake("all", "--configfile", "config/demo.yaml")
    assert again.nothing_to_do and "report   results/demo/report.html" in again.text
    assert "winners  repro best demo" in again.text
    page = (checkout.folder / "results/demo/report.html").read_text()
    text = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)  # a figure's line says what it stands for
    assert '<strong class="number">dry run</strong>' in text and "as fast as" not in text
