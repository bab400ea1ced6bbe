"""The report: what it says of any study, of one without a floor too; and files that are written whole."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from html_page import Page
from repro.artifacts.case import Case
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on
from repro.artifacts.published import Published
from repro.artifacts.registry import Artifact
from repro.artifacts.report.page import Part, failures, missing, statuses, write_report
from repro.artifacts.write import replacing, write
from repro.errors import ReproError
from small_campaign import BROKEN, UNSUPPORTED, SmallCampaign

NOTHING = Published({}, [])


def one_table(campaign: Campaign, published: Published) -> Table:
    return Table((Column("problem", "problem"),), [(Cell(name),) for name in campaign.problems], "All problems.")


TABLE = Artifact("made_up", "table-1", "Problems", "ours", "table", one_table)


def pairs(text: str) -> dict[str, str]:
    """Every fact of the page."""
    return dict(re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", text))


def test_rows_that_failed_are_named_with_their_cause(small: Campaign) -> None:
    rows = [[cell.value for cell in row] for row in failures(small).rows]
    assert rows[0] == ["grid", "single", "search", "variant", "launch_error", "too many resources", 1, BROKEN]
    assert ["grid", "single", "report", "baseline", "unsupported", "needs_a_newer & library", 1, UNSUPPORTED] in rows
    assert len(rows) == 2 * 2 * 2  # problems, precisions, causes
    counted = {tuple(cell.value for cell in row[:4]): row[4].value for row in statuses(small).rows}
    assert counted["search", "warm", "variant", "launch_error"] == 4
    assert sum(counted.values()) == len(small.search) + len(small.report)


def test_a_study_of_the_hosts_clock_without_floor_and_words(maker: SmallCampaign, tmp_path: Path) -> None:
    maker.record("grid")
    rows = [row for row in maker.report("grid", "single", ("host",)) if row.kind not in ("floor", "copy")]
    for row in rows:
        row.host_launches = 7
    maker.write("grid", "single", "report", rows)
    maker.choose("grid", "single", {("joint", "host"): ("fast/1", [])})
    campaign = maker.load()
    assert missing(campaign, "joint").rows == []  # no floor was tried, so none is missing
    text = write_report([Part(campaign, NOTHING, [TABLE])], tmp_path / "r.html").read_text()
    page = Page(text)
    assert page.stack == [] and max(page.ids.values()) == 1
    facts = pairs(text)
    assert facts["cases with a winner"] == "1 of 1 (problem and precision)"
    assert facts["empty kernel, host"] == "9.90 µs"  # 3.3 by events
    assert not {"empty kernel, event", "empty kernel, graph", "floor"} & set(facts)
    assert facts["report, full"].endswith("launches a row: 7 by the host")
    assert "<em>host</em>" in text and "<em>event</em>" not in text and "<em>graph</em>" not in text
    assert "In made_up" not in text and "and the floor" not in text
    assert "the host’s, from an idle device" in measured_on(campaign, "host")


def test_a_floor_that_is_timed_by_the_host_alone_is_there(maker: SmallCampaign) -> None:
    maker.record("grid")
    maker.write("grid", "single", "report", maker.report("grid", "single", ("host",)))
    maker.choose("grid", "single", {("joint", "host"): ("fast/1", [])})
    assert missing(maker.load(), "joint").rows == []


def test_a_floor_that_is_not_there_is_missed(maker: SmallCampaign) -> None:
    for problem in ("grid", "ring"):
        maker.record(problem)
        maker.case(problem, "single")
    rows = [row for row in maker.report("ring", "single") if row.kind != "floor"]
    maker.write("ring", "single", "report", rows)
    rows = [tuple(cell.value for cell in row) for row in missing(maker.load(), "joint").rows]
    assert rows == [("ring", "single", "no floor", "no floor was timed")]


def test_both_clocks_of_the_device_are_named_with_the_floor(small: Campaign, tmp_path: Path) -> None:
    text = write_report([Part(small, NOTHING, [TABLE], library="a library")], tmp_path / "r.html").read_text()
    assert "<em>event</em>" in text and "<em>graph</em>" in text and "<em>host</em>" not in text
    assert "and the floor" in text
    facts = pairs(text)
    assert facts["baseline"] == "a library" and "floor" in facts
    # `gone` is not there, and `dithered` was not measured
    assert facts["cases with a winner"] == "4 of 8 (problem and precision)"


def test_the_words_of_a_study_are_its_own(small: Campaign, tmp_path: Path) -> None:
    words = tmp_path / "words.html.j2"
    words.write_text("<p>{{ 'round' }} numbers</p>\n")
    text = write_report([Part(small, NOTHING, [], words=words)], tmp_path / "r.html").read_text()
    assert "<h3>In made_up</h3>\n<p>round numbers</p>" in text


def test_the_report_says_which_tie_it_was(tmp_path: Path, small: Campaign) -> None:
    maker = SmallCampaign(tmp_path)
    maker.all("grid")
    wide = Campaign.load(maker.raw, "made_up", tie=0.05)
    text = write_report([Part(wide, NOTHING, [])], tmp_path / "r.html").read_text()
    assert pairs(text)["tie"].startswith("a difference of at most 5 %;")
    text = write_report([Part(small, NOTHING, [])], tmp_path / "r.html").read_text()
    assert pairs(text)["tie"].startswith("a difference of at most 1 %;")


def test_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as partial:
        partial.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_unwritable_folder_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReproError, match="cannot write an artifact"), replacing(tmp_path / "file" / "t.csv"):
        pass


def test_a_campaign_whose_yardsticks_were_disturbed_says_so_on_top(maker: SmallCampaign, tmp_path: Path) -> None:
    calm = maker.all("grid", "other")
    folders = [tmp_path / name for name in ("calm", "disturbed")]
    assert calm.disturbance is None
    write(TABLE, calm, NOTHING, folders[0])
    rows = maker.report("grid", "double")
    for row in rows:
        if row.kind in ("copy", "empty"):
            row.status, row.message = "disturbed", "copy median 6,500 µs, 189.0 µs before"
    maker.write("grid", "double", "report", rows)
    campaign = maker.load()
    sentence = campaign.disturbance
    assert sentence is not None
    assert sentence.endswith("on grid (double).")
    write(TABLE, campaign, NOTHING, folders[1])
    for suffix, says in (("md", True), ("tex", True), ("csv", False)):
        before, after = ((folder / f"table-1.{suffix}").read_text() for folder in folders)
        assert ("Something else used the device" in after) == says
        assert ("Something else" in before, before == after) == (False, not says)
    assert (folders[1] / "table-1.md").read_text().startswith(sentence)
    pages = [write_report([Part(each, NOTHING, [TABLE])], tmp_path / "r.html").read_text() for each in (calm, campaign)]
    assert [page.count(f"made_up: {sentence}") for page in pages] == [0, 1]
    assert ["<dt>disturbed</dt>" in page for page in pages] == [False, True]
    assert pages[1].index(sentence) < pages[1].index("<section")


def test_what_is_disturbed_gives_no_table_a_time(maker: SmallCampaign) -> None:
    before = maker.all("grid")
    rows = maker.report("grid", "single")
    for row in rows:
        row.status = "disturbed"
    maker.write("grid", "single", "report", rows)
    campaign = maker.load()
    case = Case(campaign, "grid", "single")
    for kind in ("floor", "copy", "empty"):
        assert case.bound(kind, "graph") is None
    assert case.winner("joint", "event") is None
    assert not case.measured
    assert case.why_not() == "failed: disturbed"
    readings = [each.empty_readings("event") for each in (before, campaign)]
    assert readings == [pytest.approx((3.3e-6, 4.95e-6)), pytest.approx((4.95e-6, 4.95e-6))]


def test_rows_from_before_samples_were_counted_are_read(maker: SmallCampaign) -> None:
    maker.all("grid")
    for path in maker.raw.rglob("report.parquet"):
        kept = pq.read_table(path)
        pq.write_table(kept.drop_columns(["discarded"]), path)
    rows = maker.load().report_rows("grid", "single")
    assert {row["discarded"] for row in rows} == {None}
    assert Case(maker.load(), "grid", "single").measured


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("table-5-2", "Table 5.2"),
        ("table-1", "Table 1"),
        ("figure-4", "Figure 4"),
        ("table-memory-weight", "Table memory weight"),
    ],
)
def test_artifacts_are_listed_by_number_or_in_words(name: str, short: str) -> None:
    assert Artifact("any", name, "", "", "table", lambda *_: None).short == short
