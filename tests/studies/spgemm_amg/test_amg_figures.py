"""The figures, on a campaign that was never measured; and that every artifact is made of any campaign."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from repro.campaign.artifacts import all_artifacts
from repro.results import figure_style
from repro.results.registry import get_artifact
from repro.results.tables import Figure, Table
from repro.studies import get_study
from repro.studies.spgemm_amg import STUDY_NAME
from support.amg_campaign import NOTHING_PUBLISHED, NUMBERS, Maker
from support.figure_flaws import flaws, laid_out

NAMES = [artifact.name for artifact in all_artifacts(STUDY_NAME)]


def drawn(campaign, name, published=NUMBERS):
    """Return a figure with its texts and caption."""
    made = get_artifact(STUDY_NAME, name).make(campaign, published)
    assert isinstance(made, Figure)
    with mpl.rc_context(figure_style.RC):
        figure = made.draw()
        figure.draw_without_rendering()
    return figure, [text.get_text() for text in figure.findobj(Text)], made.caption


def lengths(axes):
    """Return the lengths of the bars."""
    return [patch.get_width() for patch in axes.patches if patch.get_height() < 1]


def ends(axes):
    """Return where the bars end that begin at 1."""
    return [patch.get_x() + patch.get_width() for patch in axes.patches if patch.get_height() < 1]


def points(axes, marker):
    """Return the x of marks."""
    return [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == marker]


def test_what_there_is():
    assert NAMES == [
        "table-6-1", "table-baselines", "table-bins", "table-claims", "table-edges", "table-energy",
        "table-levels", "table-memory", "table-phases",
        "table-products", "table-rivals", "table-setup", "table-setup-costs", "table-solve", "table-targets",
        "table-uncertainty", "figure-6-1", "figure-energy", "figure-rivals", "figure-setup",
    ]  # fmt: skip
    assert set(get_study(STUDY_NAME).highlights) <= set(NAMES)


def test_figure_6_1_has_bars_marks_and_what_is_published(amg_campaign_of_some):
    figure, texts, caption = drawn(amg_campaign_of_some, "figure-6-1")
    left, right = figure.axes
    library = ends(left)[2]
    assert ends(left) == pytest.approx([8.4, 840 / 300, library] * 3)
    assert ends(right) == pytest.approx([2.1, 1.5] * 3)
    assert points(left, "o") == points(left, "s") == pytest.approx([8.4, 840 / 300, library] * 3)
    assert left.get_xscale() == right.get_xscale() == "log" and "cuSPARSE, fastest" in texts
    assert (points(left, "D"), points(right, "D")) == ([3.0], [1.4])
    assert sum(text == "unavailable" for text in texts) == 2
    assert {"products were not timed", "set-ups were not timed"} <= set(texts)
    assert "A·P and R·(A·P), ours: 8.40×" in caption
    assert "3× for the products of poisson/7pt_64, 1.4× for the set-up" in caption


def test_figure_6_1_leaves_out_what_was_only_squared(tmp_path):
    maker = Maker(tmp_path)
    maker.case("poisson/7pt_64")
    maker.record("squared", entry="real", n=5, nnz=13)
    maker.write("squared", "double", "report", maker.product("squared", "AA"))
    figure, texts, caption = drawn(maker.load(), "figure-6-1")
    assert "squared" not in " ".join(texts) and "not timed" not in " ".join(texts)
    assert "Not drawn, because neither was tried: squared." in caption
    assert figure.axes[0].get_title() == "the first level’s A·P and R·(A·P)"


def test_figure_6_1_of_a_cpu_has_no_published_marks(tmp_path):
    maker = Maker(tmp_path, "opencl")
    maker.case("poisson/7pt_64")
    figure, _, caption = drawn(maker.load(), "figure-6-1")
    assert not any(points(axes, "D") for axes in figure.axes)
    assert "not drawn beside a CPU’s" in caption


def test_products_need_both_factors_of_the_set_up(tmp_path):
    maker = Maker(tmp_path)
    maker.record("odd", entry="real", n=5, nnz=13)
    maker.write("odd", "double", "report", [*maker.product("odd", "AP"), *maker.setup("odd")])
    figure, texts, _ = drawn(maker.load(), "figure-6-1")
    assert lengths(figure.axes[0]) == []
    assert "products were not timed" in texts
    assert points(figure.axes[0], "o")[:2] == pytest.approx([8.4, 840 / 300])


def test_phases_level_by_level_and_their_shares(amg_campaign_of_some):
    figure, texts, caption = drawn(amg_campaign_of_some, "figure-setup")
    times, shares = figure.axes
    assert sum(lengths(times)) == pytest.approx(1.5 * (1 + 2 + 4))
    assert lengths(times)[0] == pytest.approx(5 * 0.1 + 0.4)
    assert len(lengths(times)) == 3 * 2
    assert lengths(shares)[:2] == pytest.approx([100 * 5 / 15, 100 * 2 / 15])
    assert {"33 %", "Galerkin product", "level 2", "unavailable", "not timed"} <= set(texts)
    assert "30 to 50 % of the set-up: between the dashed lines" in caption


def test_what_is_only_squared_has_no_row_of_phases(tmp_path):
    maker = Maker(tmp_path)
    maker.case("poisson/5pt_512")
    maker.record("graph", entry="real", n=10, nnz=50)
    maker.write("graph", "double", "report", maker.product("graph", "AA"))
    _, texts, caption = drawn(maker.load(), "figure-setup")
    assert "graph" not in texts and "not timed" not in texts
    assert "Left out because they are only squared: graph." in caption


@pytest.mark.parametrize("name", NAMES)
def test_every_artifact_of_a_campaign_without_any_time(tmp_path, name):
    maker = Maker(tmp_path)
    maker.gone("gone")
    maker.record("later", entry="real", n=5, nnz=13)
    campaign = maker.load()
    for published in (NUMBERS, NOTHING_PUBLISHED):
        made = get_artifact(STUDY_NAME, name).make(campaign, published)
        assert made.caption
        if isinstance(made, Table):
            assert made.summary == []
        else:
            _, texts, _ = drawn(campaign, name, published)
            assert any("in this campaign" in text or "no bin has times" in text for text in texts)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("figure")])
def test_a_picture_has_no_flaw(amg_campaign_of_some, name):
    assert flaws(laid_out(get_artifact(STUDY_NAME, name).make(amg_campaign_of_some, NUMBERS))) == []


def test_a_matrix_that_updates_begin_with_has_its_own_numbers_in_the_table_of_matrices(tmp_path):
    maker = Maker(tmp_path)
    maker.record("grows", kind="updates", entry=None, n=5, nnz=13)
    made = get_artifact(STUDY_NAME, "table-6-1").make(maker.load(), NOTHING_PUBLISHED)
    assert [cell.value for cell in made.rows[0]][-2:] == [5, 13]
