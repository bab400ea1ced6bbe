"""Figures: their content, nothing is cut off, and equal data gives equal bytes."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.text import Text

from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.output import write_figure
from repro.results.published import Published
from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Figure
from repro.studies.compound_spmv.figures.performance import baseline_rows, over
from repro.studies.compound_spmv.figures.search import choose_problem, log_ticks, surface
from repro.studies.compound_spmv.results import LIBRARY, PAPERS, PAPERS_CHOICE, SCHEDULE
from support.figure_flaws import flaws, laid_out
from support.synthetic_campaign import PROBLEMS, STUDY, Maker

FIGURES = [artifact.name for artifact in artifacts(STUDY, "figure")]


def make(campaign: Campaign, published: Published, name: str) -> Figure:
    made = get_artifact(STUDY, name).make(campaign, published)
    assert isinstance(made, Figure)
    return made


@pytest.mark.medium
def test_files_are_equal_for_equal_data(gpu: Campaign, published: Published, tmp_path: Path) -> None:
    artifact = get_artifact(STUDY, "figure-5")
    mine = write_figure(artifact, make(gpu, published, "figure-5"), tmp_path / "a")
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": None, "figure.dpi": 50}):  # the user's own settings
        again = write_figure(artifact, make(gpu, published, "figure-5"), tmp_path / "b")
    assert [path.name for path in mine] == ["figure-5.pdf", "figure-5.svg", "figure-5.png", "figure-5.tex"]
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


def test_speedups(gpu: Campaign, published: Published) -> None:
    rows = {row.label: row for row in baseline_rows(gpu, published, "single")}
    bunny = rows["surfaces/bunny"]  # dynamic is a tenth faster there
    assert bunny.number(over(LIBRARY, PAPERS)) == pytest.approx(15 / 9)
    assert bunny.number(over(LIBRARY, SCHEDULE)) == pytest.approx(15 / (21 * 0.9))
    assert bunny.number(over(PAPERS_CHOICE, PAPERS)) == pytest.approx(25 / 9)
    motor = rows["fem/NX_MotorH67k"]
    assert motor.reason == "unavailable" and motor.number(over(LIBRARY, PAPERS)) is None


def texts(figure: Figure) -> list[str]:
    with mpl.rc_context(figure_style.RC):
        return [text.get_text() for text in figure.draw().findobj(Text)]


def test_published_maximum_stands_beside_gpus_only(gpu: Campaign, cpu: Campaign, published: Published) -> None:
    assert "published max. 4.7×" in texts(make(gpu, published, "figure-5"))
    assert "published max. 2.8×" in texts(make(gpu, published, "figure-6"))
    on_cpu = make(cpu, published, "figure-5")
    assert not any("published" in text for text in texts(on_cpu))
    assert "speedup over SciPy, single precision" in texts(on_cpu)
    assert "no CPU speedup is compared with" in on_cpu.caption
    assert "papers’ own choice was not timed" in on_cpu.caption


def test_unavailable_problems_have_their_row(gpu: Campaign, published: Published) -> None:
    for name in ("figure-3", "figure-4", "figure-5", "figure-6"):
        figure = make(gpu, published, name)
        shown = texts(figure)
        assert "fem/NX_MotorH67k" in shown and "unavailable" in shown, name
        assert "Unavailable (the report states the reasons): fem/NX_MotorH67k." in figure.caption


def test_surface(gpu: Campaign) -> None:
    one = surface(gpu, "generated/hubs", "ELL-SoA-AoS", "static")
    i, j = np.unravel_index(np.nanargmin(one.seconds), one.seconds.shape)
    assert (one.block_sizes[j], one.blocks_per_sm[i]) == (64, 2)
    assert np.nanmin(one.seconds) == pytest.approx(10e-6 * 1.5 * 1.5)
    assert one.failed[one.blocks_per_sm.index(2), one.block_sizes.index(1024)]
    assert np.isnan(one.seconds[one.blocks_per_sm.index(32), one.block_sizes.index(1024)])
    assert not one.failed[one.blocks_per_sm.index(32), one.block_sizes.index(1024)]  # outside the limits
    assert 0 < one.screened < np.isfinite(one.seconds).sum()


@pytest.mark.parametrize(("low", "high"), [(10.2, 63.0), (8.8, 9.1), (5.0, 2000.0), (3.0, 3.03)])
def test_ticks_hold_both_ends_and_do_not_overlap(low: float, high: float) -> None:
    ticks = np.array(log_ticks(low, high, 0.07))
    assert ticks[0] == pytest.approx(low, rel=1e-2) and ticks[-1] == pytest.approx(high, rel=1e-2)
    assert np.all(np.diff(np.log(ticks)) > 0.07 * np.log(high / low) * 0.99)
    assert 2 <= len(ticks) <= 14


def test_bars_near_an_empty_kernel_are_marked(gpu: Campaign, published: Published) -> None:
    assert {row.label for row in baseline_rows(gpu, published, "single") if row.has_star} == {"mhd1280b"}
    figure = make(gpu, published, "figure-5")
    assert "Marked *:" in figure.caption and sum(text.endswith("*") for text in texts(figure)) == 1


def test_problem_of_the_surfaces(gpu: Campaign, maker: Maker) -> None:
    assert choose_problem(gpu) == ("generated/hubs", "the largest 3×3 problem searched in double precision")
    motor = replace(PROBLEMS[-1], reason=None, n=10, nnz=20)
    assert choose_problem(maker.all((PROBLEMS[4], motor))) == ("fem/NX_MotorH67k", "the papers’ problem")


def test_a_rebuilt_problem_is_not_called_the_papers_own(maker: Maker, published: Published) -> None:
    campaign = maker.all((PROBLEMS[4], replace(PROBLEMS[-1], reason=None, n=10, nnz=20, origin={"rebuilt": True})))
    for name in ("figure-1", "figure-7"):
        figure = make(campaign, published, name)
        assert "ours is fem/NX_MotorH67k, the papers’ problem rebuilt." in figure.caption
        assert any("fem/NX_MotorH67k† " in text or "fem/NX_MotorH67k†," in text for text in texts(figure))


@pytest.mark.exhaustive
@pytest.mark.medium
def test_figures_of_an_unmeasured_campaign_say_so(maker: Maker, published: Published, tmp_path: Path) -> None:
    maker.problem(PROBLEMS[1])
    campaign = maker.load()
    for artifact in artifacts(STUDY, "figure"):
        figure = make(campaign, published, artifact.name)
        assert all(path.stat().st_size for path in write_figure(artifact, figure, tmp_path)[1:2])
    assert any("Nothing was searched" in text for text in texts(make(campaign, published, "figure-1")))
    assert "nothing was measured in this campaign" in texts(make(campaign, published, "figure-5"))


def test_surface_without_valid_times(maker: Maker, published: Published) -> None:
    given = PROBLEMS[4]
    maker.problem(given)
    rows = [replace(row, status="incorrect") for row in maker.search(given, "double")]
    maker.write(given.name, "double", "search", rows)
    figure = make(maker.load(), published, "figure-7")
    assert any("no valid time" in text for text in texts(figure))
    tried = sum(row["layout"] == "ELL-AoS-SoA" for row in rows)
    assert f"{tried} variants without a valid time" in figure.caption
