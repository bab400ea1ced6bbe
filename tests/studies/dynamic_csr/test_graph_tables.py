"""Tables 5.1 and 5.2 on a made-up campaign."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from repro.problems.matrix import Updates
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Cell, Table
from repro.studies import load_artifacts
from repro.studies.dynamic_csr import PUBLISHED, STUDY_NAME, TARGETS
from repro.studies.dynamic_csr.facts import facts
from support.campaigns import Recorder

load_artifacts(STUDY_NAME)
PUBLISHED_NUMBERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[3] / "config")
NONE = np.empty(0)


def updates(name: str, lengths: list[int]) -> Updates:
    """Rows of so many entries, in the first columns."""
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    none = NONE.astype(np.int32)
    return Updates(
        name, len(lengths), indptr, indices, np.ones((len(indices), 1)), np.zeros(1, np.int64), none, none, NONE, 20_000
    )


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    maker = Recorder(tmp_path_factory.mktemp("king"), "cuda", STUDY_NAME)
    maker.environment()
    for name, lengths, origin in (
        ("like_cnr-2000", [12_345, 3, 0, 7], {"stand_in": "cnr-2000"}),
        ("mine", [1, 2, 3, 3, 1, 5], {}),
    ):
        problem = updates(name, lengths)
        maker.record(name, kind="updates", **problem.summary(), origin=origin, facts={STUDY_NAME: facts(problem)})
    maker.record("enron", kind="updates", status="unavailable", reason="no network", entry=None)
    maker.write("mine", "double", "report", [maker.row("mine", "double", "variant", "any", 1.0)])
    return maker.load()


def made(campaign: Campaign, name: str) -> Table:
    table = get_artifact(STUDY_NAME, name).make(campaign, PUBLISHED_NUMBERS)
    assert isinstance(table, Table)
    return table


def lines(table: Table) -> dict[str, dict[str, Cell]]:
    keys = [column.key for column in table.columns]
    assert len(set(keys)) == len(keys)
    return {row[0].shown: dict(zip(keys, row, strict=True)) for row in table.rows}


def test_both_are_found_in_the_papers_order() -> None:
    assert [a.name for a in artifacts(STUDY_NAME) if a.name in ("table-5-1", "table-5-2")] == ["table-5-1", "table-5-2"]


def test_table_5_1(campaign: Campaign) -> None:
    table = made(campaign, "table-5-1")
    by_name = lines(table)
    assert len(by_name) == 17
    web = by_name["like_cnr-2000"]
    assert web["problem"].notes == ("stand-in for cnr-2000",)
    theirs = [web[f"published_{key}"].shown for key in ("nonzeros", "rows", "columns", "mean", "deviation", "longest")]
    assert theirs == ["3M", "325K", "325K", "9", "21", "2716"]
    assert web["published_rows"].value == 325_000
    ours = [web[key].shown for key in ("nonzeros", "rows", "columns", "mean", "deviation", "longest")]
    assert ours == ["12K", "4", "20K", "3088", "5344", "12K"]
    assert (web["nonzeros"].value, web["mean"].value) == (12_355, 3088.75)
    mine = by_name["mine"]
    assert [mine[key].shown for key in ("published_rows", "nonzeros", "mean", "longest")] == ["–", "15", "2", "5"]
    assert by_name["amazon-2008"]["rows"].shown == "–"
    assert by_name["amazon-2008"]["problem"].notes == ("not in this campaign",)
    assert by_name["enron"]["problem"].notes == ("unavailable: no network",)
    assert by_name["enron"]["published_longest"].shown == "1392"
    assert "enron" in table.caption


def test_table_5_2(campaign: Campaign) -> None:
    table = made(campaign, "table-5-2")
    by_name = lines(table)
    web = by_name["like_cnr-2000"]
    assert [web[f"published_{key}"].shown for key in ("HYB", "DCSR-4", "CSR")] == ["47M", "0.732", "0.547"]
    # width 3088: 4 rows of 3088 slots, and 12345 - 3088 coordinates
    hybrid = 8 * 4 * 3088 + 12 * (12_345 - 3088)
    assert web["counted_as_paper_HYB"].value == hybrid
    assert web["counted_as_paper_CSR"].value == (8 * 12_355 + 4 * 5) / hybrid
    assert web["counted_as_paper_DCSR-4"].value == (8 * 12_355 + 8 * 4 * 4) / hybrid
    assert web["single_DCSR-4"].value == (8 * 12_355 + 4 * 4 * 32 + 4 * (4 + 16)) / hybrid
    assert web["double_CSR"].value == (12 * 12_355 + 4 * 5) / (12 * 4 * 3088 + 16 * (12_345 - 3088))
    assert web["counted_as_paper_CSR"].shown == f"{(8 * 12_355 + 4 * 5) / hybrid:.3f}"
    assert by_name["mine"]["published_HYB"].shown == "–"
    assert web["counted_as_paper_HYB"].shown == "204K"
    assert by_name["enron"]["single_HYB"].shown == "–"
    (means,) = table.summary
    shown = dict(zip((column.key for column in table.columns), means, strict=True))
    assert shown["published_DCSR-4"].shown == "0.807"
    assert shown["published_HYB"].shown == "–"


def test_a_campaign_without_any_of_it(tmp_path: Path) -> None:
    maker = Recorder(tmp_path, "opencl", STUDY_NAME)
    maker.environment()
    maker.record("bare", kind="updates")
    maker.write("bare", "double", "report", [maker.row("bare", "double", "variant", "any", 1.0)])
    bare = maker.load()
    for name in ("table-5-1", "table-5-2"):
        assert len(made(bare, name).rows) == 17
