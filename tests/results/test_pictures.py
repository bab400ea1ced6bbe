"""That a flaw of a figure is found, and that the recorded campaigns' figures have none."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from repro.campaign.artifacts import CampaignSelection
from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Figure
from repro.studies import get_study, load_artifacts, study_names
from support.campaigns import recorded_campaigns, studies_of
from support.figure_flaws import contrast, flaws, laid_out

ROOT = Path(__file__).parents[2]
#: Figures that take long to make of so many rows: those of small campaigns are looked at.
SLOW = {"figure-predicted"}
for study in study_names():
    load_artifacts(study)


def plain(axes):
    axes.plot([1, 2], [1, 2], color=figure_style.OURS.colour, marker="o", label="double")


def cut_off(axes):
    axes.annotate("beyond the page", (1, 0.5), xycoords="axes fraction", xytext=(200, 0), textcoords="offset points",
                  annotation_clip=False).set_in_layout(False)  # fmt: skip


def overlapping(axes):
    axes.text(1.2, 1.2, "one")
    axes.text(1.2, 1.2, "other")


def struck_through(axes):
    axes.legend(
        handles=[Line2D([], [], color=figure_style.OURS.colour, label="a word of some length")], loc="lower right"
    )
    axes.axhline(1.12)


def pale(axes):
    axes.text(1.2, 1.2, "pale", color=figure_style.LIBRARY.colour)


def pale_line(axes):
    axes.legend(handles=[Line2D([], [], color=figure_style.PAPERS.fill, label="a line")], loc="upper left")


def dark_on_dark(axes):
    axes.add_patch(Rectangle((1, 1), 1, 1, color=figure_style.OURS.colour))
    axes.text(1.5, 1.5, "12 %", ha="center", va="center")


def broken_count(axes):
    axes.set_xlabel("devices")
    axes.set_xticks([1, 1.5, 2], ["1", "1.5", "2"])


def unexplained(axes):
    axes.set_title("a stand-in†")


def by_colour_alone(axes):
    pairs = (("single", figure_style.LIBRARY.colour), ("double", figure_style.OURS.colour))
    axes.legend(handles=[Line2D([], [], color=colour, label=label) for label, colour in pairs], loc="upper left")


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (cut_off, "cut off: 'beyond the page'"),
        (overlapping, "overlapping: 'one' and 'other'"),
        (struck_through, "struck through by a line: 'a word of some length'"),
        (pale, "contrast of 3.9: 'pale'"),
        (pale_line, "contrast of 1.8: the line or mark of 'a line'"),
        (dark_on_dark, "contrast of 2.4: '12 %'"),
        (broken_count, "a count of 1.5"),
        (unexplained, "a mark that nothing explains: 'a stand-in†'"),
        (by_colour_alone, "told apart by colour alone: 'single' and 'double'"),
    ],
)
def test_a_flaw_is_found(spoil, found):
    def draw():
        drawn = figure_style.canvas(figure_style.COLUMN_WIDTH, 1.5)
        axes = drawn.add_subplot()
        plain(axes)
        spoil(axes)
        return drawn

    assert flaws(laid_out(Figure(draw, ""))) == [found]


def test_contrast_is_that_of_the_guidelines():
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast("white", "#767676") == pytest.approx(4.54, abs=0.01)


@pytest.fixture(scope="module")
def recorded() -> dict[tuple[str, str], Campaign]:
    """Campaigns as they are read, by name and study."""
    return {}


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("campaign", "study", "name"),
    [
        (campaign, study, artifact.name)
        for campaign in recorded_campaigns(configured=True)
        for study in studies_of(campaign)
        for artifact in artifacts(study, "figure")
        if artifact.name not in SLOW
    ],
)
def test_a_recorded_campaigns_picture_has_no_flaw(recorded, monkeypatch, campaign, study, name):
    monkeypatch.chdir(ROOT)
    if (campaign, study) not in recorded:
        asked = CampaignSelection.of(campaign, ROOT / "results", ROOT / f"config/{campaign}.yaml")
        recorded[campaign, study] = asked.read(study)
    contract = get_study(study)
    published = Published.load(study, contract.published, contract.targets)
    assert flaws(laid_out(get_artifact(study, name).make(recorded[campaign, study], published))) == []
