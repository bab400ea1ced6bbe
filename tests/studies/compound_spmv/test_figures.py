"""Figures: their content, nothing is cut off, and equal data gives equal bytes."""

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.output import write_figure
from repro.results.published import Published
from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Figure
from support.figure_flaws import flaws, laid_out
from support.synthetic_campaign import PROBLEMS, STUDY, Maker

FIGURES = [artifact.name for artifact in artifacts(STUDY, "figure")]


def make(campaign: Campaign, published: Published, name: str) -> Figure:
    made = get_artifact(STUDY, name).make(campaign, published)
    assert isinstance(made, Figure)
    return made


@pytest.mark.medium
def test_files_are_equal_for_equal_data(gpu: Campaign, published: Published, tmp_path: Path) -> None:
    artifact = get_artifact(STUDY, "figure-speedup")
    mine = write_figure(artifact, make(gpu, published, "figure-speedup"), tmp_path / "a")
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": None, "figure.dpi": 50}):  # the user's own settings
        again = write_figure(artifact, make(gpu, published, "figure-speedup"), tmp_path / "b")
    assert [path.name for path in mine] == [
        "figure-speedup.pdf",
        "figure-speedup.svg",
        "figure-speedup.png",
        "figure-speedup.tex",
    ]
    for one, other in zip(mine, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert b"/Type3" not in mine[0].read_bytes() and b"CreationDate" not in mine[0].read_bytes()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == sorted(p.name for p in mine)


@pytest.mark.sampled(5)
@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("device", ["gpu", "cpu", "extended"])
def test_a_picture_has_no_flaw(request: pytest.FixtureRequest, published: Published, name: str, device: str) -> None:
    assert flaws(laid_out(make(request.getfixturevalue(device), published, name))) == []


def texts(figure: Figure) -> list[str]:
    with mpl.rc_context(figure_style.RC):
        return [text.get_text() for text in figure.draw().findobj(Text)]


def test_unavailable_problems_have_their_row(gpu: Campaign, published: Published) -> None:
    for name in ("figure-3", "figure-4", "figure-speedup"):
        figure = make(gpu, published, name)
        shown = texts(figure)
        assert "fem/NX_MotorH67k" in shown and "unavailable" in shown, name
        assert "Unavailable (the report states the reasons): fem/NX_MotorH67k." in figure.caption


@pytest.mark.exhaustive
@pytest.mark.medium
def test_figures_of_an_unmeasured_campaign_say_so(maker: Maker, published: Published, tmp_path: Path) -> None:
    maker.problem(PROBLEMS[1])
    campaign = maker.load()
    for artifact in artifacts(STUDY, "figure"):
        figure = make(campaign, published, artifact.name)
        assert all(path.stat().st_size for path in write_figure(artifact, figure, tmp_path)[1:2])
    assert "nothing was measured in this campaign" in texts(make(campaign, published, "figure-speedup"))
