"""Targets of filtering and what was reached in the plane, on campaigns that were never measured."""

from __future__ import annotations

import pytest

from repro.results.tables import Cell
from repro.studies.dg_postprocessing.claims import IN_PLANE, IN_SPACE, TARGET_QUANTITIES
from support.campaigns import READS
from support.dg_campaign import NOTHING_PUBLISHED, NUMBERS, OPERATIONS, PEAK, Maker, table

TRIANGLES = {"4k": 4_096, "16k": 16_384, "64k": 65_536, "256k": 262_144, "1024k": 1_048_576}
SLOW = "siac/high_16k_p2"


def reached(campaign, published=NUMBERS) -> dict[str, dict[str, Cell]]:
    """Return the line of each quantity."""
    made = table(campaign, "table-targets", published)
    keys = [column.key for column in made.columns]
    names = [item["quantity"] for item in published.targets]
    return {name: dict(zip(keys, row, strict=True)) for name, row in zip(names, made.rows, strict=True)}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    maker = Maker(tmp_path_factory.mktemp("complete"))
    for item in NUMBERS["sizes"]:
        if not item["variance"]:  # in space
            continue
        name, size = item["problem"], TRIANGLES[item["printed"]]
        maker.case(name, item["variance"], int(item["degree"]), size, 2.0 if name == SLOW else 1.0)
    maker.case("tiny", "low", 3, 300, 100.0)  # no field of the paper
    return maker.load()


def test_every_target_is_measured_and_nothing_else():
    assert [item["quantity"] for item in NUMBERS.targets] == list(TARGET_QUANTITIES)


def test_every_quantity_of_a_complete_campaign(complete):
    # over several devices nothing was measured: test_times_on_several.py
    by_name = {name: line for name, line in reached(complete).items() if not name.startswith("several_")}
    least = OPERATIONS * 12 * TRIANGLES["4k"] / 3.2e-3 * 1e-9 / PEAK
    expected = {
        "tests_apart": 320 * 6 * TRIANGLES["16k"] / 26_492_809 - 1,
        "tests_ratio_least": 320 / 170,
        "tests_ratio_most": 320 / 170,
        "over_element_p1": 4.0,
        "over_element_p2": 4.0,
        "over_element_p3": 4.0,
        "peak_share": least,
        "large_p1_ms": 3.2,
        "large_p2_ms": 3.2,
        "large_p3_ms": 3.2,
        "apply_share": 0.8,
        "apply_over_library": 1.2,
        "event_apply_over_library": 1.2,
        "sixteen_over_one": 1.8,
        "make_over_direct": 12 / 3.2,
    }
    assert {name: by_name[name]["measured"].value for name in IN_PLANE if name in by_name} == pytest.approx(expected)
    cases = {name: line["cases"].value for name, line in by_name.items()}
    assert [cases[name] for name in ("tests_apart", "over_element_p2", "peak_share", "large_p2_ms", "apply_share")] == [
        5, 10, 20, 1, 30
    ]  # fmt: skip
    verdicts = {name: by_name[name]["reached"].value for name in expected}
    assert {name for name, verdict in verdicts.items() if verdict == "no"} == {
        "tests_apart", "peak_share", "apply_share", "apply_over_library", "make_over_direct"
    }  # fmt: skip
    assert by_name["peak_share"]["worst_case"].value == "siac/low_4k_p2"
    assert by_name["large_p1_ms"]["wanted"].shown == "≤ 35"
    assert not any(line["cases"].notes for line in by_name.values())
    assert {by_name[name]["worst_case"].value for name in IN_SPACE} == {
        f"siac/cubes_10_p{degree}: not in this campaign" for degree in (1, 2)
    }


def test_some_of_the_fields_are_told_and_the_others_named(dg_campaign_of_some):
    by_name = reached(dg_campaign_of_some)
    line = by_name["make_over_direct"]
    assert line["cases"].shown == "3 of 30"
    assert "siac/low_4k_p3: matrix/make: unsupported (the matrix has 90 GB" in line["cases"].notes[0]
    assert by_name["large_p1_ms"]["worst_case"].value == "siac/low_1024k_p1: not in this campaign"
    assert by_name["large_p1_ms"]["reached"].value is None


def test_a_peak_that_is_not_known_is_the_reason(tmp_path):
    maker = Maker(tmp_path, "opencl")
    maker.case("siac/low_4k_p2", "low", 2, 4000)
    campaign = maker.load()
    assert "siac/low_4k_p2: the device’s peak is not known" in str(reached(campaign)["peak_share"]["worst_case"].value)
    assert "a dry run" in table(campaign, "table-targets").caption


def test_a_median_is_of_all_meshes_and_the_worst_is_named(tmp_path):
    maker = Maker(tmp_path)
    for name, element in (("siac/low_4k_p1", 8_000.0), ("siac/low_16k_p1", 12_000.0), ("siac/high_4k_p1", 60_000.0)):
        maker.field(name, "low", 1, 4000)
        rows = [row for row in maker.rows(name, 1, 4000) if row.name != "element-t128-c0.5-b4"]
        own = {"way": "element", "threads": 128, "cell": 0.5, "blocks": 4, "points": 24_000}
        slow = maker.row(name, "double", "variant", "element-t128-c0.5-b4", READS["graph"] * element, ("event",),
                         phase="report", space="paper_tuned", what="filter", **own)  # fmt: skip
        maker.measured(name, [*rows, slow])
    line = reached(maker.load())["over_element_p1"]
    assert (line["measured"].value, line["worst"].value) == pytest.approx((3.0, 2.0))
    assert (line["reached"].value, line["worst_case"].value) == ("no", "siac/low_4k_p1")


def test_without_published_numbers_there_is_no_target(dg_campaign_of_some):
    assert table(dg_campaign_of_some, "table-targets", NOTHING_PUBLISHED).rows == []
