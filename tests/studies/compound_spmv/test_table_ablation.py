"""The ablation, on a search of a few variants with made-up times: what each idea's loss is can be read off."""

from dataclasses import replace
from typing import Any

import pytest
from test_searches import make, values

from repro.bench.rows import Row
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.studies.compound_spmv.tables.search import ALL, IDEAS
from support.synthetic_campaign import EMPTY, PROBLEMS, Maker

SMALL, LARGE = replace(PROBLEMS[5], name="small"), replace(PROBLEMS[5], name="large")
BYTES = {"small": 2_000_000, "large": 200_000_000}
#: Microseconds beyond an empty kernel's, of the small matrix and the large one; None where the variant fails.
TIMES: dict[str, tuple[float | None, float | None]] = {
    "CSR-AoSoA-AoS/direct-256-8-w4": (20.0, 40.0),
    "Sl-8-AoSoA-Padded@clustered/direct-64-8-w16-u2": (10.0, 20.0),  # the best of the small one
    "Sl-8-AoSoA-Padded/direct-64-8-w16-u2": (11.0, 22.0),
    "Sl-8-AoSoA-AoS@clustered/direct-256-8-w4-u2": (10.1, 25.0),
    "Sl-8-AoSoA-AoS@clustered/direct-256-8-w4-u2-cs": (15.0, 16.0),  # the best of the large one
    "ELLPACK-AoSoA-AoS/direct-256-8-w4": (None, None),
}


def variant(maker: Maker, problem: str, name: str, micro: float | None, **columns: Any) -> Row:
    given = SMALL if problem == "small" else LARGE
    common = {"space": "extended", "least_bytes": BYTES[problem], **columns}
    failed = {"status": "unsupported"} if micro is None else {}
    seconds = None if micro is None else micro + EMPTY
    return maker.timed(given, "single", "variant", name, seconds, **common, **failed)


def recorded(maker: Maker, papers: tuple[float, ...] = (), card: str = "u", **columns: Any) -> Campaign:
    """A campaign of both matrices in single precision; `papers`: times in the papers' space, searched on a card."""
    maker.environment()
    for place, given in enumerate((SMALL, LARGE)):
        maker.problem(given)
        rows = [variant(maker, given.name, name, times[place], **columns) for name, times in TIMES.items()]
        # tried, but in other unknowns, hence not to be compared
        rows.append(variant(maker, given.name, "Sl-8-AoSoA-AoS@rcm/direct-64-8-w4", 1.0))
        for micro in papers[place : place + 1]:
            row = variant(maker, given.name, "CSR-AoS-AoS/static-64-2", micro, space="paper", device_uuid=card)
            rows.append(row)
        maker.write(given.name, "single", "search", rows)
        empty = maker.timed(given, "single", "empty", "empty", EMPTY, phase="report")
        maker.write(given.name, "single", "report", [empty])
    return maker.load()


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return recorded(Maker(tmp_path_factory.mktemp("ablation"), "cuda"))


@pytest.mark.parametrize(
    ("idea", "cached", "larger", "where", "lose"),
    [
        ("several entries in flight", 20 / 10, 40 / 16, "large, single", 2),
        ("more than 8 threads to a row", 10.1 / 10, 1.0, "small, single", 0),
        ("clustered rows", 11 / 10, 22 / 16, "large, single", 2),
        ("padded vectors", 10.1 / 10, 1.0, "small, single", 0),
        ("loads that leave nothing in L2 (cs)", 1.0, 20 / 16, "large, single", 1),
        ("any hint to the caches", 1.0, 20 / 16, "large, single", 1),
        ("blocks of fewer than 256 threads", 10.1 / 10, 1.0, "small, single", 0),
        ("ELLPACK", 1.0, 1.0, None, 0),  # tried, and it failed: nothing is lost without
        ("slices", 20 / 10, 40 / 16, "large, single", 2),
        ("CSR", 1.0, 1.0, None, 0),
    ],
)
def test_a_loss_is_that_of_the_best_without(
    campaign: Campaign, published: Published, idea: str, cached: float, larger: float, where: str | None, lose: int
) -> None:
    table = make(campaign, published, "table-ablation")
    (row,) = [row for key, row in values(table).items() if key[0] == idea]
    assert row["cached"] == pytest.approx(100 * (cached - 1), abs=1e-5)
    assert row["larger"] == pytest.approx(100 * (larger - 1), abs=1e-5)
    assert row["worst"] == pytest.approx(100 * (max(cached, larger) - 1), abs=1e-5)
    assert (row["where"], row["lose"]) == (where, lose)
    if where:  # neither is the papers' own file
        (cell,) = [cell for line in table.rows for cell in line if line[0].value == idea and cell.value == where]
        assert cell.notes == ("rebuilt: the papers’ own mesh is not public",)


def test_an_idea_that_was_not_tried_has_no_number(campaign: Campaign, published: Published) -> None:
    table = make(campaign, published, "table-ablation")
    assert [row[0].value for row in table.rows] == list(IDEAS)
    assert table.summary == []  # the papers' space was not searched
    for name in ("loads past L1 (cg)", "chunks of neighbouring rows"):
        (row,) = [row for row in table.rows if row[0].value == name]
        assert [cell.value for cell in row[1:]] == [None] * 5
    assert f"{EMPTY:.2f} µs (median), is subtracted" in table.caption


def test_the_papers_space_stands_against_the_best_of_both(maker: Maker, published: Published) -> None:
    table = make(recorded(maker, (5.0, 48.0), "another"), published, "table-ablation")
    row = next(row for key, row in values(table).items() if key[0] == ALL)
    assert row["cached"] == 0  # the papers' space is faster there
    assert row["larger"] == row["worst"] == pytest.approx(200)
    assert row["lose"] == 1
    assert "In 2 cases the spaces were searched on two cards" in table.caption
    of_ours = next(row for key, row in values(table).items() if key[0] == "clustered rows")
    assert of_ours["cached"] == pytest.approx(10)  # the papers' row is none of ours


@pytest.mark.wording
def test_what_was_only_screened_is_marked(maker: Maker, published: Published) -> None:
    table = make(recorded(maker, protocol="screen", event_launches=20), published, "table-ablation")
    assert table.rows[0][0].notes == ("in 2 of 2 cases the best without it was only screened",)
    assert "with at most 20 launches" in table.caption


def test_a_cache_of_unknown_size_divides_nothing(maker: Maker, published: Published) -> None:
    recorded(maker)
    (maker.raw / "environment" / "e0.json").write_text("{}")
    table = make(maker.load(), published, "table-ablation")
    row = next(row for key, row in values(table).items() if key[0] == "several entries in flight")
    assert row["mean"] == pytest.approx(100 * ((2 * 2.5) ** 0.5 - 1), abs=1e-5)


def test_a_campaign_without_our_space_says_so(maker: Maker, published: Published) -> None:
    maker.problem(SMALL)
    maker.write("small", "single", "search", [maker.variant(SMALL, "single", "CSR-AoS-AoS", "static", 64, 2)])
    table = make(maker.load(), published, "table-ablation")
    assert table.rows == [] and table.summary == []
    assert "No problem of this campaign was searched in full in our space." in table.caption
