"""The report with all tables and figures of this study: one page that needs nothing else and hides nothing."""

import base64
import re
from pathlib import Path

import pytest

from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import Artifact, Kind, artifacts
from repro.results.report import NAMES_SHOWN, PageStudy, failures, missing, statuses, write_report
from repro.studies import get_study
from support.html_page import Page
from support.synthetic_campaign import PROBLEMS, REASON, STUDY, Maker

pytestmark = pytest.mark.medium


def written(campaign: Campaign, published: Published, folder: Path, kind: Kind | None = None) -> str:
    part = PageStudy(campaign, published, artifacts(STUDY, kind), highlights=get_study(STUDY).highlights)
    return write_report([part], folder / "report.html").read_text()


@pytest.fixture(scope="module")
def text(gpu: Campaign, published: Published, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(gpu, published, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def shown(gpu: Campaign, published: Published) -> list[Artifact]:
    """Return the artifacts that have something to show of the campaign."""
    return [artifact for artifact in artifacts(STUDY) if not artifact.make(gpu, published).is_empty]


def test_page_is_sound_and_self_contained(text: str, shown: list[Artifact]) -> None:
    page = Page(text)
    assert page.stack == []
    assert max(page.ids.values()) == 1
    assert page.sources == []
    embedded = ("data:image/png;base64,", "data:text/csv;charset=utf-8;base64,")
    inside = [target for target in page.targets if not target.startswith(embedded)]
    files = [target for target in inside if not target.startswith("#")]
    assert all(target[1:] in page.ids for target in inside if target not in files)
    # beside the page, where it can be had without it; tables are in the page, which may be mailed
    assert set(files) == {f"raw/{STUDY}"}
    tables = [base64.b64decode(target[len(embedded[1]) :]) for target in page.targets if target.startswith(embedded[1])]
    of_tables = [artifact.name for artifact in shown if artifact.kind == "table"]
    assert len(tables) == len(of_tables)
    named = re.findall(rf'download="[^"]*-{STUDY}-([^"]+)\.csv"', text)
    assert sorted(named) == sorted(of_tables)
    assert all(table.splitlines()[0].endswith(b",notes,keys") for table in tables)
    assert not re.search(r"@import|url\((?!#)|fetch\(|<link", text)
    assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', text)) == len(shown) - len(of_tables)


def test_letters_of_figures_are_text(text: str) -> None:
    figures = re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL)
    assert figures and all("</text>" in figure for figure in figures)
    assert "mhd1280b</text>" in text


def test_what_repeats_under_tables_and_figures_stands_once(text: str) -> None:
    assert text.count("Not the papers’ own († in figures):") == 1
    assert text.count(f'href="#{STUDY}-remarks"') == 5


def test_what_is_missing_of_the_papers_is_named_and_no_more_is_promised_than_holds(text: str) -> None:
    [missing] = re.findall(r"Of the papers’ problems missing: (.*?)\.</p>", text)
    assert "RFdevice" in missing.split(", ") and "mhd1280b" not in missing
    assert "(sizes, memory, row statistics) must be equal on the papers’ own problems" in text


def test_the_first_figure_to_look_at_stands_on_top_and_is_drawn_once(text: str) -> None:
    top = text[text.index('<header id="top">') : text.index("</header>")]
    assert f'<use href="#{STUDY}-figure-speedup-svg"' in top
    assert text.count(f'id="{STUDY}-figure-speedup-svg"') == 1


def test_page_shows_everything(text: str, shown: list[Artifact]) -> None:
    assert len(shown) == 24
    for artifact in shown:
        assert f'id="{STUDY}-{artifact.name}"' in text
    for words in ("NVIDIA H200", "abc", "-O3 --std=c++17", "needs_a_newer &amp; library", "too many resources"):
        assert words in text
    assert REASON.replace("&", "&amp;") in text


def test_where_ours_was_not_searched_the_papers_lead_and_the_caption_says_so_first(text: str) -> None:
    section = text[text.index(f'<section id="{STUDY}-table-problems"') :].partition("</section>")[0]
    assert re.findall(r'<p class="caption">(.*?)\.', section) == [
        "Ours is absent: the space <code>extended</code> was not searched"
    ]
    first = re.findall(r"<tr>(<th scope=row.*?)</tr>", section)[0]
    assert ">–<" not in "".join(re.findall(r"<t[hd].*?</t[hd]>", first)[:12])


@pytest.mark.exhaustive
def test_page_is_the_same_again(text: str, gpu: Campaign, published: Published, tmp_path: Path) -> None:
    assert written(gpu, published, tmp_path) == text


def test_every_row_is_accounted_for(gpu: Campaign) -> None:
    counted = {tuple(str(c.value) for c in row[:4]): row[4].value for row in statuses(gpu).rows}
    assert sum(int(str(n)) for n in counted.values()) == len(gpu.search) + len(gpu.report)
    failed = failures(gpu)
    of_variants = [row for row in failed.rows if row[4].value == "launch_error"]
    assert sum(int(str(row[6].value)) for row in of_variants) == counted["search", "warm", "variant", "launch_error"]
    assert all(row[4].value != "ok" for row in failed.rows)
    assert f"and {int(str(of_variants[0][6].value)) - NAMES_SHOWN} more" in str(of_variants[0][7].value)


@pytest.mark.exhaustive
def test_warm_and_cold_are_told_apart(extended: Campaign, published: Published, tmp_path: Path) -> None:
    counted = {tuple(str(c.value) for c in row[:4]): row[4].value for row in statuses(extended).rows}
    assert counted["report", "warm", "variant", "ok"] == counted["report", "cold", "variant", "ok"]
    page = written(extended, published, tmp_path, "table")
    assert "L2 cache: warm, unless a heading names cold" in page
    assert page.count("At a glance") == 1
    Page(page)


def test_what_is_missing_has_a_reason(gpu: Campaign, maker: Maker) -> None:
    assert [row[0].value for row in missing(gpu, "joint").rows] == ["fem/NX_MotorH67k"]
    maker.problem(PROBLEMS[1])
    maker.problem(PROBLEMS[4])
    maker.case(PROBLEMS[4], "single")
    rows = [tuple(cell.value for cell in row) for row in missing(maker.load(), "joint").rows]
    assert rows == [("generated/helmholtz", "single", "no winner", "not measured in this campaign")]
