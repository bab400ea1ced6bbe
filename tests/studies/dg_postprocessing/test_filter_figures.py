"""The figures of fields in the plane; and that every artifact is made of any campaign."""

from __future__ import annotations

from dataclasses import replace

import pytest

from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Table
from repro.studies import get_study
from repro.studies.dg_postprocessing import STUDY_NAME
from repro.studies.dg_postprocessing.figures import mesh_ticks, triangle_count_text
from support.dg_campaign import NOTHING_PUBLISHED, NUMBERS, Maker, drawn
from support.figure_flaws import flaws, laid_out

#: Those of the plane.
NAMES = [
    "table-3-1", "table-baselines", "table-devices", "table-errors", "table-filters", "table-local", "table-matrix",
    "table-targets", "figure-3-11", "figure-3-12",
    "figure-errors",
]  # fmt: skip


def marks(axes, marker, is_hollow=False):
    """Return the numbers of the marks of a kind by where they are along the axis."""
    lines = [line for line in axes.lines if (line.get_markerfacecolor() == "white") == is_hollow]
    points = [line.get_xydata() for line in lines if line.get_marker() == marker]
    return {x: y for line in points for x, y in line}


def test_all_of_the_plane_are_registered():
    assert set(NAMES) <= {artifact.name for artifact in artifacts(STUDY_NAME)}
    assert {"table-filters", "figure-3-11"} <= set(get_study(STUDY_NAME).highlights)


def test_speedups_over_triangles_with_what_is_published(dg_campaign_of_some):
    figure, texts, caption = drawn(dg_campaign_of_some, "figure-3-11")
    low, high, ours_low, ours_high = figure.axes
    assert marks(low, "o") == pytest.approx({300: 1.5, 4000: 1.5, 16_000: 1.5})
    assert marks(low, "D") == pytest.approx({4000: 1.5})
    assert marks(low, "o", is_hollow=True) == pytest.approx(dict.fromkeys((300, 4000, 16_000), 25 / 16))
    # of cubic fields and of quadratic ones of low variance, meshes of other degrees are missing
    assert set(marks(low, "x")) == {300, 4000, 16_000} and "not timed (above a panel)" in texts
    crosses = [line.get_ydata()[0] for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    assert min(crosses) > 1, "a cross within the panel has a value"
    assert marks(ours_high, "s", is_hollow=True) == pytest.approx({4000: 4.0})
    assert marks(ours_low, "s", is_hollow=True) == {}
    marked = [line for line in low.lines if line.get_marker() in ("o", "D")]
    assert len({line.get_transform().transform((4000, 1.5))[0] for line in marked}) == 2, "one covers the other"
    assert {line.get_linestyle() for line in marked} == {"None"}
    dashed = [line.get_ydata()[0] for axes in (low, high) for line in axes.lines if line.get_linestyle() == "--"]
    assert dashed == [2, 3]
    assert "over 2× for low variance and over 3× for high variance" in caption
    assert "contradicts itself" in caption
    assert {"low variance", "high variance"} <= set(texts)


def test_the_papers_methods_and_ours_are_drawn_of_the_campaign_that_judges_them(tmp_path, dg_campaign_of_some):
    maker = Maker(tmp_path)
    maker.case("siac/low_64k_p1", "low", 1, 64_000)
    judging = replace(maker.load(), name="to-the-letter")
    figure, _, caption = drawn(replace(dg_campaign_of_some, as_published=judging), "figure-3-11")
    low, ours_low = figure.axes
    assert marks(low, "o") == pytest.approx({64_000: 1.5})
    assert marks(low, "o", is_hollow=True) == pytest.approx({64_000: 25 / 16})
    assert marks(ours_low, "o", is_hollow=True) == pytest.approx({64_000: 4.0})
    assert "All is drawn from campaign to-the-letter" in caption
    assert "to-the-letter" not in drawn(dg_campaign_of_some, "figure-3-11")[2]


def test_ours_are_drawn_of_this_campaign_where_the_judging_one_has_none(tmp_path, dg_campaign_of_some):
    maker = Maker(tmp_path)
    maker.field("siac/low_64k_p1", "low", 1, 64_000)
    rows = maker.rows("siac/low_64k_p1", 1, 64_000)
    maker.measured("siac/low_64k_p1", [row for row in rows if not row.name.startswith("edges")])
    judging = replace(maker.load(), name="to-the-letter")
    figure, _, caption = drawn(replace(dg_campaign_of_some, as_published=judging), "figure-3-11")
    low, high, _, ours_high = figure.axes
    assert marks(low, "o") == pytest.approx({64_000: 1.5}) and not marks(high, "s")
    assert marks(ours_high, "s", is_hollow=True) == pytest.approx({4000: 4.0})
    assert f"ours over per element is from {dg_campaign_of_some.name}" in caption
    assert "per element: 1 choice (128 threads, cells of 0.5, 4 patches)" in caption


def test_meshes_of_about_one_size_share_a_tick():
    assert mesh_ticks([4138, 1_026_742, 4_100, 16_374, 4138]) == [4100, 16_374, 1_026_742]
    assert [triangle_count_text(size) for size in (299, 4138, 262_144, 1_026_742)] == ["299", "4.14k", "262k", "1.03M"]
    assert mesh_ticks([]) == []


def test_a_cpu_has_no_published_marks(tmp_path):
    maker = Maker(tmp_path, "opencl")
    maker.case("siac/low_4k_p1", "low", 1, 4000)
    figure, texts, caption = drawn(maker.load(), "figure-3-11")
    assert not any(axes.patches or marks(axes, "D", is_hollow=True) for axes in figure.axes)
    assert not any("M2090" in text for text in texts)
    assert "not drawn beside a CPU’s" in caption


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("figure")])
def test_a_picture_has_no_flaw(dg_campaign_of_some, name):
    assert flaws(laid_out(get_artifact(STUDY_NAME, name).make(dg_campaign_of_some, NUMBERS))) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_artifact_of_a_campaign_without_any_time(tmp_path, name):
    maker = Maker(tmp_path)
    maker.gone("gone")
    maker.record("later", kind="field", dimension=2, cells=100, degree=1)
    campaign = maker.load()
    for published in (NUMBERS, NOTHING_PUBLISHED):
        made = get_artifact(STUDY_NAME, name).make(campaign, published)
        assert made.caption
        if isinstance(made, Table):
            assert made.summary == []
        else:
            _, texts, _ = drawn(campaign, name, published)
            assert any("in this campaign" in text or "of this campaign" in text for text in texts)
