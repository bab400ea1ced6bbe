"""Tables and figures of fields on tetrahedra, and targets there, on campaigns that were never measured."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Figure, Table
from repro.studies import get_study
from repro.studies.dg_postprocessing import STUDY_NAME
from repro.studies.dg_postprocessing.claims import IN_SPACE
from repro.studies.dg_postprocessing.ids import REGION_BLOCKS, WIDTHS, full_width, width_region_pairs
from repro.studies.dg_postprocessing.regions import region_features, region_formula, region_operations
from repro.studies.dg_postprocessing.results import width_times
from repro.studies.dg_postprocessing.tables import complete_recordings
from repro.tuning.recordings import Machine
from support.dg_campaign import NOTHING_PUBLISHED, NUMBERS, PEAK, drawn, lines, table, values
from support.figure_flaws import flaws, laid_out
from support.region_campaign import FASTEST, MICRO, REGIONS, RegionMaker, ids_of, micro, target_of

pytestmark = pytest.mark.medium

NAMES = ["figure-4-4", "figure-4-5", "figure-4-6", "figure-4-7", "table-4-1", "table-predicted"]
FIRST, SECOND = "siac/cubes_10_p1", "siac/cubes_10_p2"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The paper's mesh with both degrees, and a finer one with the first."""
    maker = RegionMaker(tmp_path_factory.mktemp("space"))
    maker.cubes(FIRST, 1)
    maker.cubes(SECOND, 2)
    maker.cubes("siac/cubes_16_p1", 1, cells=24_576, weight=1.5)
    return maker.load()


def panel(figure, problem):
    """Return the panel of a problem."""
    return next(axes for axes in figure.axes if axes.get_title().startswith(f"{problem},"))


def best(degree, width):
    """Return the least time of a width in microseconds, with the event clock."""
    return min(micro(id) for id in ids_of(degree, target_of("cuda")) if id.method == "vector" and id.width == width)


def test_all_of_space_are_registered():
    assert set(NAMES) <= {artifact.name for artifact in artifacts(STUDY_NAME)}
    assert "figure-4-6" in get_study(STUDY_NAME).highlights


def test_pairs_are_the_fastest_over_the_blocks_and_black_without_room(both):
    figure, texts, caption = drawn(both, "figure-4-4")
    shown = np.ma.filled(panel(figure, SECOND).collections[0].get_array(), np.nan)
    assert shown.shape == (10, 10) and np.isfinite(shown).sum() == len(width_region_pairs(2, target_of("cuda"))) == 63
    # two regions of a block, 16 threads each: 12 % from 8 regions
    assert shown[0, 0] == pytest.approx(1e3 * MICRO["vector"][2] * 1.12 / REGIONS)
    assert {"ns a region", "regions of a block", f"{FIRST}, degree 1"} <= set(texts)
    assert "(36, 20) of degree 1 do not fit into 48 kB either" in caption


def test_the_papers_mesh_is_no_addition_and_a_finer_one_is(both):
    _, texts, _ = drawn(both, "figure-4-4")
    assert f"{FIRST}, degree 1" in texts and "siac/cubes_16_p1‡, degree 1" in texts


def test_every_kernel_has_a_mark_whose_colour_is_its_regions(both):
    figure, texts, _ = drawn(both, "figure-4-5")
    for problem, degree, count in ((FIRST, 1, 100), (SECOND, 2, 63)):
        lines = panel(figure, problem).get_lines()
        places = np.concatenate([line.get_xydata() for line in lines])
        ranks = np.concatenate([[rank] * len(line.get_xydata()) for rank, line in enumerate(lines)])
        assert len(places) == len(REGION_BLOCKS) * count
        # places of a width lie within it, its ranks from left to right
        widths = np.round(places[:, 0]).astype(int)
        assert set(widths) == set(range(len(WIDTHS[degree])))
        assert (
            np.argsort(places[widths == 0, 0], kind="stable") == np.argsort(ranks[widths == 0], kind="stable")
        ).all()
        fastest = places[:, 1].argmin()
        assert places[fastest, 1] == pytest.approx(1e3 * MICRO["vector"][degree] / REGIONS)
        assert (WIDTHS[degree][widths[fastest]], ranks[fastest]) == (FASTEST[degree], 3)
    assert "regions of a block" in texts
    colours = np.array([to_rgb(line.get_color()) for line in figure.axes[0].get_lines()])
    luminance = colours @ np.array([0.2126, 0.7152, 0.0722])
    assert luminance.max() < 0.75, "pale on white"


def test_gains_stand_beside_the_papers(both):
    figure, texts, caption = drawn(both, "figure-4-6")
    for problem, degree in ((FIRST, 1), (SECOND, 2)):
        axes = panel(figure, problem)
        widths = [int(label.get_text()) for label in axes.get_xticklabels()]
        heights = {widths[round(bar.get_x() + bar.get_width() / 2)]: bar.get_height() for bar in axes.patches}
        full = best(degree, full_width(degree))
        assert heights == pytest.approx({width: 100 * (full / best(degree, width) - 1) for width in WIDTHS[degree]})
    marks = {x: y for line in panel(figure, SECOND).lines if line.get_marker() == "D" for x, y in line.get_xydata()}
    # 8 is no width of degree 2: its place is there, without a bar
    assert marks == {0: 20, 1: 25, 2: 20, 5: 12}
    assert "degree 1: width 8 +19 %, width 12 +20 %, width 16 -20 %, width 18 +50 %" in caption
    assert "width 8 has a gain for degree 2 but is not among the listed widths" in caption
    assert {"papers’ kernel, measured here", "published, K20c"} <= set(texts)


def test_rates_are_of_what_each_kernel_does(both):
    figure, texts, caption = drawn(both, "figure-4-7")
    for problem, degree in ((FIRST, 1), (SECOND, 2)):
        bars = [bar.get_height() for bar in panel(figure, problem).patches]
        assert len(bars) == len(WIDTHS[degree]) + 1
        seconds = 1e-6 * MICRO["vector"][degree]
        assert max(bars[:-1]) == pytest.approx(1e-9 * REGIONS * region_operations("vector", degree) / seconds)
        seconds = 1e-6 * MICRO["lane"][degree]
        assert bars[-1] == pytest.approx(1e-9 * REGIONS * region_operations("lane", degree) / seconds)
    assert region_formula() in caption and f"peak is {PEAK:.0f} GFLOPS" in caption
    assert {"GFLOPS", "papers’ kernel", "ours"} <= set(texts)


def test_the_formula_says_what_is_counted():
    assert [region_operations("vector", degree) for degree in (1, 2)] == [36 * 122 + 54, 150 * 210 + 54]
    assert [region_operations("lane", degree) for degree in (1, 2)] == [11 * 35 + 4 * 28 + 66, 44 * 53 + 10 * 52 + 66]
    for numbers in ("(122, 210)", "(36, 150)", "54 more", "(35, 53)", "(11, 44)", "(28, 52)", "(4, 10)", "66 more"):
        assert numbers in region_formula()


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
        if isinstance(made, Table):
            assert name == "table-4-1" or not made.rows
        else:
            assert any("in this campaign" in text for text in drawn(dg_campaign_of_some, name, published)[1])


@pytest.mark.parametrize("name", NAMES)
def test_every_artifact_of_the_cpu(tmp_path, name):
    maker = RegionMaker(tmp_path, "opencl")
    maker.cubes("small", 1, cells=162)
    campaign = maker.load()
    made = get_artifact(STUDY_NAME, name).make(campaign, NUMBERS)
    if isinstance(made, Figure):
        figure, texts, caption = drawn(campaign, name)
        assert not any("K20c" in text for text in texts)
        assert name != "figure-4-6" or "not drawn beside a CPU’s" in caption
        assert panel(figure, "small").get_xlabel() == "threads of a region"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("figure")])
def test_a_picture_has_no_flaw(both, name):
    assert flaws(laid_out(get_artifact(STUDY_NAME, name).make(both, NUMBERS))) == []


def test_widths_near_the_half_are_claimed_together(both):
    by_id = lines(table(both, "table-claims"), "id")
    half, others = (64, 80), [width for width in WIDTHS[2] if width not in (64, 80)]
    expected = min(best(2, width) for width in others) / min(best(2, width) for width in half)
    assert by_id["width_p2_half"]["measured"].value == pytest.approx(expected)
    assert by_id["width_p2_8"]["measured"].value is None  # no width of the paper's own list
