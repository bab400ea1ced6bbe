"""The report: one page that needs nothing else and hides nothing; and the commands that write everything."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_campaign import PROBLEMS, REASON, STUDY, Maker

from repro.artifacts import artifacts
from repro.artifacts.data import Campaign
from repro.artifacts.published import Published
from repro.artifacts.report import failures, missing, statuses, write_report
from repro.artifacts.write import replacing
from repro.cli import artifacts as commands
from repro.errors import ReproError

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects ids, links and sources, and checks that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.targets: list[str] = []
        self.sources: list[str] = []
        self.stack: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.stack.append(tag)
        self.collect(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.collect(attrs)

    def collect(self, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id":
                self.ids[str(value)] += 1
            elif key in ("href", "xlink:href"):
                self.targets.append(str(value))
            elif key == "src":
                self.sources.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.fixture(scope="module")
def text(gpu: Campaign, published: Published, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report([(gpu, published, artifacts(STUDY))], path).read_text()


def test_page_is_sound_and_self_contained(text: str) -> None:
    page = Page(text)
    assert page.stack == []
    assert max(page.ids.values()) == 1
    assert page.sources == []
    inside = [target for target in page.targets if not target.startswith("data:image/png;base64,")]
    assert inside and all(target.startswith("#") and target[1:] in page.ids for target in inside)
    assert not re.search(r"@import|url\((?!#)|fetch\(|<link", text)
    assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', text)) == len(artifacts(STUDY, "figure"))


def test_page_shows_everything(text: str) -> None:
    for artifact in artifacts(STUDY):
        assert f'id="{STUDY}-{artifact.name}"' in text
    for words in ("NVIDIA H200", "abc", "-O3 --std=c++17", "needs_a_newer &amp; library", "too many resources"):
        assert words in text
    assert REASON.replace("&", "&amp;") in text


def test_page_is_the_same_again(text: str, gpu: Campaign, published: Published, tmp_path: Path) -> None:
    assert write_report([(gpu, published, artifacts(STUDY))], tmp_path / "r.html").read_text() == text


def test_every_row_is_accounted_for(gpu: Campaign) -> None:
    counted = {tuple(str(c.value) for c in row[:4]): row[4].value for row in statuses(gpu).rows}
    assert sum(int(str(n)) for n in counted.values()) == len(gpu.search) + len(gpu.report)
    failed = failures(gpu)
    of_variants = [row for row in failed.rows if row[4].value == "launch_error"]
    assert sum(int(str(row[6].value)) for row in of_variants) == counted["search", "warm", "variant", "launch_error"]
    assert all(row[4].value != "ok" for row in failed.rows)
    assert "and 148 more" in str(of_variants[0][7].value)


def test_warm_and_cold_are_told_apart(extended: Campaign, published: Published, tmp_path: Path) -> None:
    counted = {tuple(str(c.value) for c in row[:4]): row[4].value for row in statuses(extended).rows}
    assert counted["report", "warm", "variant", "ok"] == counted["report", "cold", "variant", "ok"]
    page = write_report([(extended, published, artifacts(STUDY))], tmp_path / "r.html").read_text()
    assert "L2 cache: warm, where a head does not say cold" in page
    assert page.count("At a glance") == 1
    Page(page)


def test_what_is_missing_has_a_reason(gpu: Campaign, maker: Maker) -> None:
    assert [row[0].value for row in missing(gpu).rows] == ["fem/NX_MotorH67k"]
    maker.problem(PROBLEMS[1])
    maker.case(PROBLEMS[4], "single")
    rows = [tuple(cell.value for cell in row) for row in missing(Campaign.load(maker.raw, STUDY)).rows]
    assert rows == [("generated/helmholtz", "single", "no winner", "not measured in this campaign")]


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Path:
    path = Path(__file__).parents[2]
    monkeypatch.chdir(path)
    return path


def test_commands(root: Path, cpu_raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, results = cpu_raw.parent.name, cpu_raw.parents[1]
    commands.table(["table-9"], campaign=name, results=results)
    commands.figure(["figure-3"], campaign=name, results=results, figures=tmp_path)
    commands.report(campaign=name, results=results)
    folder = results / name / "tables" / STUDY
    assert sorted(p.name for p in folder.iterdir()) == ["table-9.csv", "table-9.md", "table-9.tex"]
    drawn = tmp_path / name / STUDY
    assert sorted(p.name for p in drawn.iterdir()) == ["figure-3.pdf", "figure-3.png", "figure-3.svg"]
    assert (results / name / "report.html").exists()
    assert len(capsys.readouterr().out.splitlines()) == 3 + 3 + 1


def test_all_is_what_the_configuration_asks_for(root: Path, cpu_raw: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    name, results = cpu_raw.parent.name, cpu_raw.parents[1]
    config.write_text(f"campaign: {name}\nstudies: {{{STUDY}: {{artifacts: [table-1, figure-3]}}}}\n")
    folder = results / name / "tables" / STUDY
    commands.table(None, all_=True, results=results, config=config)
    assert "table-1.tex" in {p.name for p in folder.iterdir()} <= {f"table-{n}.{s}" for n in "19" for s in
                                                                    ("csv", "md", "tex")}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "all_", "campaign", "study", "what"),
    [
        (["table-99"], False, "synthetic-opencl", None, "unknown table"),
        (["table-1"], True, "synthetic-opencl", None, "both names and --all"),
        (None, False, "synthetic-opencl", None, "no table is named"),
        (["table-1"], False, "nothing-here", None, "no such campaign"),
        (["table-1"], False, "synthetic-opencl", "other", "unknown study"),
    ],
)
def test_bad_commands(
    root: Path, cpu_raw: Path, names: list[str] | None, all_: bool, campaign: str, study: str | None, what: str
) -> None:
    with pytest.raises(ReproError, match=what):
        commands.table(names, all_, campaign, study, results=cpu_raw.parents[1])


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
