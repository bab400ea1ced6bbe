"""The report: what it says of any study, of one without a floor too; and files that are written whole."""

import csv
import json
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest

from repro.bench.records import UNCOMMITTED
from repro.campaign.artifacts import all_artifacts
from repro.errors import ReproError
from repro.results import figure_style
from repro.results.campaign_data import Campaign, Case
from repro.results.claims import CLAIMS, CLOSE
from repro.results.output import latex_escape, replace_artifact, write
from repro.results.problem_lines import measurement_note
from repro.results.published import Published
from repro.results.registry import Artifact
from repro.results.report import (
    WORDS_SHOWN,
    Caption,
    PageStudy,
    code_html,
    failures,
    join_tables,
    missing,
    read_legend,
    statuses,
    write_report,
)
from repro.results.tables import Cell, Column, Figure, Result, Sample, Table, move_lead_columns
from repro.studies import study_names
from support.campaigns import BROKEN, UNSUPPORTED, SmallCampaign
from support.html_page import Page

NOTHING = Published({}, [])
REPOSITORY = Path(__file__).parents[2]


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
    text = write_report([PageStudy(campaign, NOTHING, [TABLE])], tmp_path / "r.html").read_text()
    page = Page(text)
    assert page.stack == [] and max(page.ids.values()) == 1
    facts = pairs(text)
    assert facts["cases with a winner"] == "1 of 1 (problem and precision)"
    assert facts["empty kernel, host"] == "9.90 µs"  # 3.3 by events
    assert not {"empty kernel, event", "empty kernel, graph", "floor"} & set(facts)
    assert facts["report, full"].endswith("launches a row: 7 by the host")
    assert "<em>host</em>" in text and "<em>event</em>" not in text and "<em>graph</em>" not in text
    assert "In made_up" not in text and "and the floor" not in text
    assert "wall time from an idle device" in measurement_note(campaign, "host")


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
    text = write_report([PageStudy(small, NOTHING, [TABLE], library="a library")], tmp_path / "r.html").read_text()
    assert "<em>event</em>" in text and "<em>graph</em>" in text and "<em>host</em>" not in text
    assert "and the floor" in text
    facts = pairs(text)
    assert facts["baseline"] == "a library" and "floor" in facts
    # `gone` is not there, and `dithered` was not measured
    assert facts["cases with a winner"] == "4 of 8 (problem and precision)"


def test_leading_columns_follow_those_that_name_a_case_and_the_file_keeps_its_order(
    small: Campaign, tmp_path: Path
) -> None:
    """What can be held without a browser; `test_report_in_browser` has the rest."""

    def wide(campaign: Campaign, published: Published) -> Table:
        columns = (Column("problem", "problem", numeric=False), *(Column(f"c{at}", f"c{at}", "all") for at in range(3)))
        return Table(columns, [(Cell("a"), Cell(1), Cell(2), Cell(3))], "Wide.")

    table = replace(TABLE, make=wide, lead=("c2", "not there"))
    legend = {r"b(\d+)": r"\1 threads"}
    text = write_report([PageStudy(small, NOTHING, [table], legend=legend)], tmp_path / "r.html").read_text()
    section = text[text.index('<section id="made_up-table-1"') :].partition("</section>")[0]
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', section) == ["problem", "c2", "c0", "c1"]
    packed = re.search(r'href="data:text/csv;charset=utf-8;base64,([^"]+)" download', section)
    assert packed and b64decode(packed[1]).decode().startswith("problem,c0,c1,c2,")
    assert "<dt><code>bN</code></dt><dd>N threads</dd>" in text
    assert json.loads(re.findall(r'id="legends">(.*?)</script>', text)[0]) == {
        "made_up": [[*one] for one in legend.items()]
    }


def test_columns_without_a_value_come_last_and_others_lead_in_their_place() -> None:
    def table(ours: float | None) -> Table:
        heads = ("problem", "MB", "ours", "ours_us", "papers", "us")
        columns = (Column("problem", "problem"), *(Column(head, head, "all") for head in heads[1:]))
        return Table(columns, [(Cell("a"), Cell(1), Cell(ours), Cell(), Cell(2), Cell(3))], "", [(Cell(),) * 6])

    def order(ours: float | None) -> list[str]:
        return [column.key for column in move_lead_columns(table(ours), ("ours",), ("papers",)).columns]

    assert order(1.5) == ["problem", "ours", "MB", "papers", "us", "ours_us"]
    assert order(None) == ["problem", "papers", "MB", "us", "ours", "ours_us"]


def test_leading_columns_are_columns_and_legends_are_patterns_that_match_recorded_names() -> None:
    for study in study_names():
        for artifact in all_artifacts(study, "table"):
            path = REPOSITORY / f"results/h200/tables/{study}/{artifact.name}.csv"
            if path.exists():
                with path.open() as file:
                    assert {*artifact.lead, *artifact.lead_instead} <= {*next(csv.reader(file))}, artifact.name
        legend = read_legend(REPOSITORY / f"src/repro/studies/{study}/legend.csv")
        for part, meaning in legend.items():
            groups = re.compile(part).groups
            assert all(int(number) <= groups for number in re.findall(r"\\(\d)", meaning)), part


def test_what_nothing_was_measured_for_is_left_out_and_named(small: Campaign, tmp_path: Path) -> None:
    def nothing(campaign: Campaign, published: Published) -> Table:
        return replace(one_table(campaign, published), is_empty=True)

    def undrawn(campaign: Campaign, published: Published) -> Figure:
        return Figure(lambda: pytest.fail("it is not drawn"), "Nothing.", is_empty=True)

    empty = replace(TABLE, name="table-2", title="Empty", make=nothing)
    blank = Artifact("made_up", "figure-1", "Blank", "ours", "figure", undrawn)
    highlights = {"table-1": "problems", "figure-1": "a blank"}
    part = PageStudy(small, NOTHING, [TABLE, empty, blank], highlights=highlights)
    text = write_report([part], tmp_path / "r.html").read_text()
    ids = Page(text).ids
    assert "made_up-table-1" in ids and not {"made_up-table-2", "made_up-figure-1"} & set(ids)
    assert "a blank" not in text and 'href="#made_up-figure-1"' not in text
    assert pairs(text)["left out, as not measured"] == "table-2, figure-1"
    text = write_report([PageStudy(small, NOTHING, [TABLE])], tmp_path / "r.html").read_text()
    assert "left out, as not measured" not in pairs(text)


def test_a_papers_table_without_a_number_of_ours_is_left_out_and_named(small: Campaign, tmp_path: Path) -> None:
    columns = (Column("problem", "problem"), Column("published_x", "x", "published"), Column("x", "x", "ours: CPU"))

    def artifact(name: str, ours: Cell) -> Artifact:
        table = Table(columns, [(Cell("grid"), Cell(1.0), ours)], "Both.")
        return Artifact("made_up", name, "Both", "Table 1 of the paper", "table", lambda campaign, published: table)

    parts = [PageStudy(small, NOTHING, [artifact("table-1", Cell()), artifact("table-2", Cell(2.0))])]
    page = write_report(parts, tmp_path / "report.html").read_text()
    assert 'id="made_up-table-2"' in page and 'id="made_up-table-1"' not in page
    assert pairs(page)["left out, as not measured"] == "table-1"


def test_the_words_of_a_study_are_its_own(small: Campaign, tmp_path: Path) -> None:
    words = tmp_path / "words.html.j2"
    words.write_text("<p>{{ 'round' }} numbers</p>\n")
    text = write_report([PageStudy(small, NOTHING, [], words=words)], tmp_path / "r.html").read_text()
    section = text[text.index('<section id="guide-made_up">') :].partition("</section>")[0]
    assert "In made_up" in section and "<p>round numbers</p>" in section


@pytest.mark.wording
def test_the_report_says_which_tie_it_was(tmp_path: Path, small: Campaign) -> None:
    maker = SmallCampaign(tmp_path)
    maker.all("grid")
    wide = Campaign.load(maker.folder, "made_up", tie=0.05)
    text = write_report([PageStudy(wide, NOTHING, [])], tmp_path / "r.html").read_text()
    assert pairs(text)["tie"].startswith("a difference of at most 5 %;")
    text = write_report([PageStudy(small, NOTHING, [])], tmp_path / "r.html").read_text()
    assert pairs(text)["tie"].startswith("a difference of at most 1 %;")


def test_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError), replace_artifact(path) as partial:
        partial.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.wording
def test_unwritable_folder_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReproError, match="cannot write an artifact"), replace_artifact(tmp_path / "file" / "t.csv"):
        pass


def test_a_campaign_whose_yardsticks_were_disturbed_says_so_on_top(maker: SmallCampaign, tmp_path: Path) -> None:
    calm = maker.all("grid", "other")
    folders = [tmp_path / name for name in ("calm", "disturbed")]
    assert calm.disturbance is None
    write(TABLE, TABLE.make(calm, NOTHING), calm, folders[0])
    rows = maker.report("grid", "double")
    for row in rows:
        if row.kind in ("copy", "empty"):
            row.status, row.message = "disturbed", "copy median 6,500 µs, 189.0 µs before"
    maker.write("grid", "double", "report", rows)
    campaign = maker.load()
    sentence = campaign.disturbance
    assert sentence is not None
    assert sentence.endswith("on grid (double).")
    write(TABLE, TABLE.make(campaign, NOTHING), campaign, folders[1])
    for suffix, says in (("tex", True), ("csv", False)):
        before, after = ((folder / f"table-1.{suffix}").read_text() for folder in folders)
        assert ("Other programs used the device" in after) == says
        assert ("Other programs" in before, before == after) == (False, not says)
    assert latex_escape(sentence) in (folders[1] / "table-1.tex").read_text()
    pages = [
        write_report([PageStudy(each, NOTHING, [TABLE])], tmp_path / "r.html").read_text() for each in (calm, campaign)
    ]
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
    assert not case.is_measured
    assert case.why_not() == "failed: disturbed"
    readings = [each.empty_readings("event") for each in (before, campaign)]
    assert readings == [pytest.approx((3.3e-6, 4.95e-6)), pytest.approx((4.95e-6, 4.95e-6))]


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


FASTER = Result("table-1", "gr", "ours", "{library}’s best", "graph")


def of_both(campaign: Campaign, published: Published) -> Table:
    columns = (Column("problem", "problem"), Column("wanted", "wanted"), Column("ours", "ours", campaign.column))
    sample = Sample((0.5, 8.0), 3)
    rows = [
        (Cell(name), Cell(2), Cell(len(name), f"{len(name)}.0", ("A note.",), sample=sample))
        for name in campaign.problems
    ]
    return Table(columns, rows, f"Of {campaign.name}. More.")


SPEEDUPS = Artifact("made_up", "table-1", "Speedups", "ours", "table", of_both)


def test_the_page_begins_with_what_was_measured_and_what_came_out(maker: SmallCampaign, tmp_path: Path) -> None:
    campaign = maker.all("grid", "ring")
    part = PageStudy(campaign, NOTHING, [SPEEDUPS], library="SomeSparse", title="A title", result=FASTER)
    text = write_report([part], tmp_path / "r.html").read_text()
    top = text[text.index('<header id="top">') : text.index("</header>")]
    assert str(campaign.device) in top and campaign.name in top and "<dt>problems</dt><dd>2 of 2</dd>" in top
    assert '<strong class="number">4.0×</strong>' in top and ">as fast as SomeSparse’s best" in top
    assert '<a href="#made_up-table-1">graph clock</a>: replayed batches of launches' in top
    assert "2 of 3 cases, least 0.50×, slower in 1; A note." in top
    assert "measured later" not in top
    again = replace(part, campaign=replace(campaign, later=replace(campaign, name="newer")))
    top = write_report([again], tmp_path / "r.html").read_text().partition("</header>")[0]
    later = top.index('<strong class="number">4.0×</strong> <a href="../newer/report.html">newer</a>, measured later')
    assert later < top.index("<summary>more</summary>") < top.index(f"{campaign.name}: <strong>4.0×</strong>")
    nothing = PageStudy(campaign, NOTHING, [TABLE], result=Result("table-9", "", "ours", "x", "event"))
    assert '<strong class="number">' not in write_report([nothing], tmp_path / "r.html").read_text()


def test_the_first_figure_of_the_highlights_is_at_the_top(small: Campaign, tmp_path: Path) -> None:
    def drawn(campaign: Campaign, published: Published) -> Figure:
        return Figure(lambda: figure_style.empty_canvas("nothing"), "A caption.")

    one, two = (Artifact("made_up", f"figure-{name}", name, "ours", "figure", drawn) for name in ("one", "two"))
    part = PageStudy(small, NOTHING, [one, two], highlights={"figure-gone": "", "figure-two": "", "figure-one": ""})
    top = write_report([part], tmp_path / "r.html").read_text().partition("</header>")[0]
    assert '<use href="#made_up-figure-two-svg"' in top and '<use href="#made_up-figure-one-svg"' not in top


def test_reversed_claims_are_named_by_their_sentences(small: Campaign, tmp_path: Path) -> None:
    def judged(campaign: Campaign, published: Published) -> Table:
        columns = tuple(Column(key, key, numeric=False) for key in ("id", "place", "claim", "verdict"))
        rows = [
            (Cell("best_k"), Cell("Table 2"), Cell("K of 2 is the best"), Cell("reversed")),
            (Cell("other"), Cell("Table 3"), Cell("Another one"), Cell("holds", f"holds{CLOSE}")),
        ]
        return Table(columns, rows, "Claims.")

    part = PageStudy(small, NOTHING, [Artifact("made_up", CLAIMS, "Claims", "ours", "table", judged)])
    page = write_report([part], tmp_path / "r.html").read_text()
    top = page.partition("</header>")[0]
    row = f"made_up-{CLAIMS}-row-1"
    assert re.search(rf': *\s*<a href="#{row}">K of 2 is the best</a></li>', top) and "best_k" not in top
    assert re.search(rf'<tr id="{row}"><th scope=row>best_k', page)
    assert top.index('<ul class="cards">') < top.index('id="claims"')
    assert '<td class="number">1 (1 close)</td>' in top and top.count("close)") == 1


@pytest.mark.wording
def test_code_of_no_commit_leads_to_what_that_means(small: Campaign, tmp_path: Path) -> None:
    def page(codes: dict[str, list[str]]) -> Page:
        campaign = replace(small, codes=codes)
        return Page(write_report([PageStudy(campaign, NOTHING, [TABLE])], tmp_path / "r.html").read_text())

    unknown = page({UNCOMMITTED: ["e"]})
    assert "#uncommitted" in unknown.targets and unknown.ids["uncommitted"] == 1
    assert "uncommitted" not in page({"commit a": ["e"]}).ids
    page({"commit a": ["e"], UNCOMMITTED: ["f"]})
    head = (tmp_path / "r.html").read_text().partition("</header>")[0]
    assert "<details><summary>1 commit, 1 environment without one</summary>commit a; " in head


def test_a_number_that_is_not_there_is_said(maker: SmallCampaign, tmp_path: Path) -> None:
    part = PageStudy(maker.all("ring"), NOTHING, [SPEEDUPS], result=FASTER)
    text = write_report([part], tmp_path / "r.html").read_text()
    assert '<strong class="number">–</strong>' in text and "no number of this campaign:" in text


def test_sections_are_found_by_title_and_every_heading_has_an_address(small: Campaign, tmp_path: Path) -> None:
    text = write_report([PageStudy(small, NOTHING, [TABLE], title="A title")], tmp_path / "r.html").read_text()
    page = Page(text)
    assert '<a href="#made_up-table-1">Problems</a>' in text and "<summary>A title</summary>" in text
    headings = re.findall(r'<h[23] id="(.*?)-head">.*<a class="anchor" href="#(.*?)"', text)
    assert len(headings) == len(re.findall(r"<h[23] id=", text)) > 6
    assert all(own == target and target in page.ids for own, target in headings)


@pytest.mark.wording
def test_names_of_statuses_are_code_and_no_mark_is_left(small: Campaign, tmp_path: Path) -> None:
    text = write_report([PageStudy(small, NOTHING, [TABLE])], tmp_path / "r.html").read_text()
    assert "Only <code>ok</code> and <code>noisy</code> rows have a time" in text and "`ok`" not in text


def test_rows_of_a_record_are_linked_by_file(maker: SmallCampaign) -> None:
    campaign = maker.all("grid")
    path = maker.raw.parent / "report.html"
    assert 'href="raw/made_up"' in write_report([PageStudy(campaign, NOTHING, [TABLE])], path).read_text()
    (maker.raw / "made_up" / "report.parquet").write_bytes(b"")
    text = write_report([PageStudy(campaign, NOTHING, [TABLE])], path).read_text()
    assert '<a href="raw/made_up/report.parquet">report.parquet</a>' in text


def test_captions_are_parted_at_a_sentence_and_lose_nothing_but_what_stands_elsewhere() -> None:
    first, second = "It has ten words of which this is the last. ", "Ours: by the graph clock and so on. "
    marks = "Not the papers’ own († in figures): a/b1.5 (rebuilt). Of no paper, added here (‡ in figures): c. "
    caption = Caption.of((5 * first + marks + 3 * second).strip())
    assert caption.shown == (5 * first + second).strip() and caption.more == (2 * second).strip()
    assert caption.clocks == ("graph",) and caption.marked
    assert Caption.of("Short.") == Caption("Short.")
    long = Caption.of(" ".join(["word"] * 70))
    assert long.shown == " ".join(["word"] * WORDS_SHOWN) + " …" and len(long.more.split()) == 10
    paused = Caption.of(f"{'word ' * 39}grow. 132 {'word ' * 39}end.")
    assert paused.shown.endswith("word grow.") and paused.more.startswith("132 word")


@pytest.mark.wording
def test_words_in_backticks_are_code_and_all_else_is_text() -> None:
    assert code_html("space `a<b` & more") == "space <code>a&lt;b</code> &amp; more"


def test_tables_of_campaigns_stand_beside_each_other_line_by_line() -> None:
    def of(number: int, *lines: str) -> Table:
        columns = (Column("what", "what"), Column("wanted", "wanted"), Column("ours", "ours", "GPU"))
        return Table(columns, [(Cell(line), Cell(9), Cell(number, notes=("Why.",))) for line in lines], "What is. So.")

    both = join_tables({"one": of(1, "a", "b"), "two": of(2, "b", "c")})
    assert [(column.title, column.group) for column in both.columns] == [
        ("what", ""), ("wanted", ""), ("ours", "one, GPU"), ("ours", "two, GPU"),
    ]  # fmt: skip
    rows = [[cell.value for cell in row] for row in both.rows]
    assert rows == [["a", 9, 1, None], ["b", 9, 1, 2], ["c", None, None, 2]]
    assert both.notes == ["Why."] and both.caption == "What is: one beside two."


def test_another_campaign_stands_beside(maker: SmallCampaign, tmp_path: Path) -> None:
    campaign = maker.all("grid")
    campaign = replace(campaign, beside=(replace(campaign, name="another"),))
    text = write_report([PageStudy(campaign, NOTHING, [SPEEDUPS], result=FASTER)], tmp_path / "r.html")
    page = text.read_text()
    assert page.count('<strong class="number">4.0×</strong>') == 2
    assert 'id="made_up-beside-table"' in page
    assert f"tell changes from noise: <code>repro compare {campaign.name} another</code>" in page
    assert Page(page).stack == []


def test_campaigns_on_several_devices_are_compared_without_verdicts(maker: SmallCampaign, tmp_path: Path) -> None:
    """`repro compare` refuses them else."""
    campaign = maker.all("grid")
    rows = {step: getattr(campaign, step).assign(device="NVIDIA H100") for step in ("search", "report")}
    others = (replace(campaign, name="elsewhere", **rows), replace(campaign, name="again"))
    part = PageStudy(replace(campaign, beside=others), NOTHING, [SPEEDUPS], result=FASTER)
    page = write_report([part], tmp_path / "r.html").read_text()
    assert f"by ratios only: <code>repro compare {campaign.name} elsewhere --across-devices</code>" in page
    assert f"tell changes from noise: <code>repro compare {campaign.name} again</code>" in page
    assert page.count("tell changes from noise") == 1
