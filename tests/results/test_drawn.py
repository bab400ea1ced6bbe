"""Which problems a figure draws of a campaign that has more than a page has lines."""

from __future__ import annotations

import numpy as np
import pytest

from repro.results import registry
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import MAX_DRAWN, select_for_figure
from repro.results.tables import Figure
from support.campaigns import SmallCampaign

MANY = 150
NOTHING = Published({}, [])
#: A campaign of problems of the papers: one that it has, one that it has a stand-in for.
PAPERS = Published({"sizes": [{"problem": "nut", "entry": "block3"}, {"problem": "dragon", "entry": "real"}]}, [])


@pytest.fixture
def many(maker: SmallCampaign) -> Campaign:
    """Of two kinds, sizes and names in no order; two belong to papers, one could not be had."""
    for i in range(MANY):
        size = 7919 * i % MANY
        maker.record(f"p{i}", entry="complex" if size % 2 else "real", n=size, nnz=10 * size)
    maker.record("nut", entry="block3", n=1, nnz=1)
    maker.record("dithered", entry="real", n=1, nnz=1, origin={"stand_in": "dragon"})
    maker.record("gone", entry="real", status="unavailable", reason="no file")
    maker.environment()
    for problem in ("p0", "p149", "nut"):
        maker.case(problem, "double")
    return maker.load()


def test_few_problems_are_all_drawn(small: Campaign) -> None:
    assert select_for_figure(small, NOTHING) == (small, "")


def test_of_many_as_many_are_drawn_as_there_are_lines_evenly_by_kind_and_size(many: Campaign) -> None:
    few, said = select_for_figure(many, NOTHING)
    assert len(few.problems) == MAX_DRAWN
    assert said.startswith(f"{MAX_DRAWN} of {len(many.problems)} problems are drawn")
    assert "gone" not in few.problems
    for entry in ("real", "complex"):
        sizes = sorted(r.nnz or 0 for r in few.problems.values() if r.entry == entry)
        assert abs(len(sizes) - MAX_DRAWN / 2) <= 2
        # each kind has every other size, and each third of them has a line at the least
        assert max(np.diff([0, *sizes, 10 * MANY])) <= 60


def test_the_papers_own_and_what_stands_in_for_them_are_drawn_in_any_case(many: Campaign) -> None:
    few, _ = select_for_figure(many, PAPERS)
    assert {"nut", "dithered"} < set(few.problems)
    assert len(few.problems) == MAX_DRAWN


def test_rows_are_those_of_what_is_drawn(many: Campaign) -> None:
    few, _ = select_for_figure(many, PAPERS)
    for name in ("search", "report", "choices"):
        of_few, of_many = getattr(few, name), getattr(many, name)
        assert set(of_few["problem"]) == set(of_many["problem"]) & set(few.problems)
        assert "nut" in set(of_few["problem"])
    assert few.report_rows("nut", "double") == many.report_rows("nut", "double")


def test_a_figure_is_given_them_and_says_so(many: Campaign, small: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", {})

    @registry.figure("made_up", "figure-count", title="A count", numbering="ours")
    def count(campaign: Campaign, published: Published) -> Figure:
        return Figure(lambda: pytest.fail("not drawn here"), f"{len(campaign.problems)} problems.")

    artifact = registry.get_artifact("made_up", "figure-count")
    assert artifact.make(small, NOTHING).caption == f"{len(small.problems)} problems. Drawn from campaign {small.name}."
    assert artifact.make(many, NOTHING).caption.startswith(
        f"{MAX_DRAWN} problems. Drawn from campaign {many.name}. {MAX_DRAWN} of"
    )
    assert count(many, NOTHING).caption == f"{len(many.problems)} problems."
