"""That the words of figures have room at widths and in fonts that the figures were not drawn for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repro.campaign.artifacts import CampaignSelection
from repro.errors import ReproError
from repro.results.campaign_data import Campaign
from repro.results.figure_style import COLUMN_WIDTH, TEXT_WIDTH, Shape, canvas, write_footnote
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.tables import Figure
from repro.studies import get_study, load_artifacts
from support.figure_flaws import laid_out, misplaced

REPOSITORY = Path(__file__).parents[2]
#: Figures of a recorded campaign: panels side by side, with legends of their own, below a common label; rows of
#: numbers beside panels.
FIGURES = (
    "compound_spmv/figure-speedup",
    "dynamic_csr/figure-5-3",
    *(
        pytest.param(name, marks=pytest.mark.exhaustive)
        for name in (
            "compressed_coo/figure-4",
            "dg_postprocessing/figure-3-11",
        )
    ),
)


def two_panels() -> Any:
    """Return a figure with all that is fitted, which has room for it at its own width alone."""
    drawn = canvas(TEXT_WIDTH, 2.2)
    panels = drawn.subplots(1, 2)
    for number, axes in enumerate(panels):
        axes.plot([0, 1], [0, 1], label="a long name of a series of this panel")
        axes.set_title(f"panel {number}: what is measured in it", pad=14)
        axes.set_xlabel("speedup over the fastest routine $n_t$")
        axes.set_xticks([0, 0.5, 0.6, 1], ["zero", "half of it", "a bit more", "one"])
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1))
    panels[0].annotate("ours", (1, 1), xycoords="axes fraction", xytext=(3, 14), textcoords="offset points")
    drawn.legend(handles=[panels[0].lines[0]] * 5, loc="outside upper left", ncols=5)
    drawn.supxlabel("what both axes have in common, × least")
    write_footnote(drawn, "† rebuilt, or a stand-in of another that is not public")
    return drawn


@pytest.mark.sampled(1)
@pytest.mark.medium
@pytest.mark.parametrize(("width", "font"), [(3.3, "STIXGeneral"), (COLUMN_WIDTH, None), (5, "DejaVu Serif")])
def test_words_neither_meet_nor_leave_the_figure(width: float, font: str | None) -> None:
    drawn = laid_out(Figure(two_panels, ""), Shape(width, font))
    assert misplaced(drawn) == []
    assert drawn.get_figwidth() == width
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("repro.results.figure_fitting.fit_texts", lambda drawn, width: drawn.set_figwidth(width))
        try:
            assert misplaced(laid_out(Figure(two_panels, ""), Shape(width, font))), "it has room without being fitted"
        except ReproError as error:
            assert error.what.startswith("the figure has no room")


def test_a_width_without_room_for_panels_is_refused_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(ReproError, match=r"no room for its panels[\s\S]*1 inches[\s\S]*greater width"):
        laid_out(Figure(two_panels, ""), Shape(1.0))
    assert [str(warning.message) for warning in recwarn] == []


def test_panels_keep_their_heights() -> None:
    own, narrow = (laid_out(Figure(two_panels, ""), Shape(width)) for width in (None, 3.3))
    heights = [[axes.bbox.height for axes in drawn.axes] for drawn in (own, narrow)]
    assert heights[1] == pytest.approx(heights[0], rel=0.03)


def test_a_name_is_broken_where_it_has_no_blank_and_a_formula_is_not() -> None:
    def draw() -> Any:
        drawn = canvas(TEXT_WIDTH, 1.5)
        for axes in drawn.subplots(1, 3):
            axes.set_title("folder/a_long_name_of_a_matrix†")
            axes.set_xlabel("threads per block of the schedule $n_t$")
        return drawn

    drawn = laid_out(Figure(draw, ""), Shape(3.3))
    assert misplaced(drawn) == []
    title, label = drawn.axes[0].get_title(), drawn.axes[0].get_xlabel()
    assert title.replace("\n", "") == "folder/a_long_name_of_a_matrix†" and "\n" in title
    assert label.split() == ["threads", "per", "block", "of", "the", "schedule", "$n_t$"]


@pytest.fixture(scope="module")
def read() -> dict[str, Campaign]:
    """Studies of the recorded campaign as they are read."""
    return {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("figure", FIGURES)
def test_a_recorded_figure_fits_a_column(
    read: dict[str, Campaign], monkeypatch: pytest.MonkeyPatch, figure: str
) -> None:
    study, name = figure.split("/")
    monkeypatch.chdir(REPOSITORY)
    load_artifacts(study)
    if study not in read:
        read[study] = CampaignSelection.of("h200", Path("results"), Path("config/h200.yaml")).read(study)
    contract = get_study(study)
    published = Published.load(study, contract.published, contract.targets)
    made = get_artifact(study, name).make(read[study], published)
    for shape in (Shape(3.3), Shape(5.0), Shape(3.3, "STIXGeneral")):
        assert misplaced(laid_out(made, shape)) == [], shape
