"""Tables and figures of fields on tetrahedra, and targets there, on campaigns that were never measured."""

from __future__ import annotations

import numpy as np
import pytest

from repro.results.registry import get_artifact
from repro.results.tables import Table
from repro.studies.dg_postprocessing import STUDY_NAME
from repro.studies.dg_postprocessing.claims import IN_SPACE
from repro.studies.dg_postprocessing.ids import WIDTHS, full_width
from repro.studies.dg_postprocessing.regions import region_features, region_operations
from repro.studies.dg_postprocessing.results import width_times
from repro.studies.dg_postprocessing.tables import complete_recordings
from repro.tuning.recordings import Machine
from support.dg_campaign import NOTHING_PUBLISHED, NUMBERS, PEAK, lines, table, values
from support.region_campaign import RegionMaker, ids_of, micro, target_of

pytestmark = pytest.mark.medium

NAMES = ["table-4-1", "table-predicted"]
FIRST, SECOND = "siac/cubes_10_p1", "siac/cubes_10_p2"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The paper's mesh with both degrees, and a finer one with the first."""
    maker = RegionMaker(tmp_path_factory.mktemp("space"))
    maker.cubes(FIRST, 1)
    maker.cubes(SECOND, 2)
    maker.cubes("siac/cubes_16_p1", 1, cells=24_576, weight=1.5)
    return maker.load()


def best(degree, width):
    """Return the least time of a width in microseconds, with the event clock."""
    return min(micro(id) for id in ids_of(degree, target_of("cuda")) if id.method == "vector" and id.width == width)


def test_operations_are_counted_in_the_sources():
    assert [region_operations("vector", degree) for degree in (1, 2)] == [36 * 122 + 54, 150 * 210 + 54]
    assert [region_operations("lane", degree) for degree in (1, 2)] == [11 * 35 + 4 * 28 + 66, 44 * 53 + 10 * 52 + 66]


def test_the_machine_says_its_clock_and_its_peak(both):
    by_name = lines(table(both, "table-4-1"), "quantity")
    assert values(by_name["clock"], "cpu", "gpu", "ours") == [2.5, 0.71, 1.98]
    assert by_name["peak, double precision"]["ours"].value == pytest.approx(PEAK / 1e3)
    assert by_name["cores"]["ours"].notes == ("the device does not say",)
    assert "CUDA 5.0 in one place and nvcc 5.5 in another" in table(both, "table-4-1").caption


def test_targets_in_space(both):
    by_what = {row[0].value: row for row in table(both, "table-targets").rows}
    what = {item["quantity"]: item["what"].replace("'", "’") for item in NUMBERS.targets}
    rows = {name: by_what[what[name]] for name in IN_SPACE}
    assert {name: row[2].value for name, row in rows.items()} == pytest.approx({
        "gain_p1": 0.5, "gain_p2": best(2, 150) / best(2, 16) - 1, "lane_over_paper_p1": 4, "lane_over_paper_p2": 5,
        "matrix_over_paper_p1": 40, "matrix_over_paper_p2": 150,
    })  # fmt: skip
    assert {name: (row[1].shown, row[3].value) for name, row in rows.items() if row[3].value} == {
        "lane_over_paper_p2": ("≥ 3", "yes")
    }
    assert rows["gain_p1"][1].shown == "reported"
    assert (rows["gain_p1"][6].value, rows["gain_p1"][6].notes) == (FIRST, ("width 18 of 36",))
    assert "0.50 with 18 of 36" in what["gain_p1"] and "0.25 with 16 of 150" in what["gain_p2"]


def test_a_width_that_only_loses_is_reported_as_such(tmp_path):
    maker = RegionMaker(tmp_path)
    maker.cubes(FIRST, 1, slow=lambda id: 2.0 if id.width < full_width(1) else 1.0)
    (times,) = width_times(maker.load(), NUMBERS)
    assert times.best_gain == (18, pytest.approx(1.5 / 2 - 1))


def test_a_search_of_few_learns_from_fields_of_its_degree_alone(both):
    by_name = lines(table(both, "table-predicted"))
    assert values(by_name[FIRST], "degree", "paper_variants", "paper_tried") == [1, 800, 16]
    assert by_name[FIRST]["paper_problem_unknown"].value == by_name[FIRST]["extended_problem_unknown"].value == 0
    assert by_name[FIRST]["paper_random"].value > 0
    alone = by_name[SECOND]["paper_problem_unknown"]
    assert alone.value is None and "no other field of this degree" in alone.notes[0]


def test_a_search_in_part_is_no_truth(tmp_path):
    maker = RegionMaker(tmp_path)
    maker.cubes(FIRST, 1)
    maker.cubes("siac/cubes_16_p1", 1, share=0.1)
    assert [one.problem for one in complete_recordings(maker.load(), "paper")] == [FIRST]


def test_features_are_free_of_units():
    record = {"dimension": 3, "degree": 1, "cells": 6000}
    large = region_features(record, "double", Machine(132, 2048, 60 << 20))
    assert large == pytest.approx([3, 1, np.log2(2**20 / (132 * 2048)), np.log2(8 * 4 * 6000 / (60 << 20))])
    twice = region_features({**record, "degree": 2}, "double", Machine(132, 2048, 150 << 20))
    assert twice[2:] == pytest.approx(large[2:]), "2.5 times the modes in 2.5 times the cache"


@pytest.mark.parametrize("name", NAMES)
def test_every_artifact_of_a_campaign_without_tetrahedra(dg_campaign_of_some, name):
    for published in (NUMBERS, NOTHING_PUBLISHED):
        made = get_artifact(STUDY_NAME, name).make(dg_campaign_of_some, published)
        assert made.caption
        assert isinstance(made, Table)
        assert name == "table-4-1" or not made.rows


@pytest.mark.parametrize("name", NAMES)
def test_every_artifact_of_the_cpu(tmp_path, name):
    maker = RegionMaker(tmp_path, "opencl")
    maker.cubes("small", 1, cells=162)
    assert isinstance(get_artifact(STUDY_NAME, name).make(maker.load(), NUMBERS), Table)


def test_widths_near_the_half_are_claimed_together(both):
    by_id = lines(table(both, "table-claims"), "id")
    half, others = (64, 80), [width for width in WIDTHS[2] if width not in (64, 80)]
    expected = min(best(2, width) for width in others) / min(best(2, width) for width in half)
    assert by_id["width_p2_half"]["measured"].value == pytest.approx(expected)
    assert by_id["width_p2_8"]["measured"].value is None  # no width of the paper's own list
