"""The report in a browser without a network: it sorts, filters, hides columns, and fits a phone."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from repro.results.campaign_data import Campaign
from repro.results.figure_style import TEXT, canvas
from repro.results.published import Published
from repro.results.registry import Artifact
from repro.results.report import PageStudy, write_report
from repro.results.tables import Cell, Column, Figure, Result, Table
from support.campaigns import SmallCampaign

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is on PATH (Debian's package chromium): tests/results/test_report.py holds"
    " what can be held without one"
)  # fmt: skip

ROWS, GROUPS = 40, 12
# what is done with the page, and what is then seen
PROBE = """
const table = document.getElementById("made_up-table-1-table");
const box = table.closest(".scroll");
const names = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].innerText);
const heads = [...table.tHead.rows[1].cells].map((head) => head.querySelector("button"));
const seen = { resources: performance.getEntriesByType("resource").length };
seen.width = [document.documentElement.scrollWidth, innerWidth];
seen.first = names();
heads[1].click();
seen.ascending = names();
heads[1].click();
seen.descending = names();
const field = document.querySelector("#made_up-table-1 input[type=search]");
field.value = "P7";
field.dispatchEvent(new Event("input"));
seen.filtered = names();
seen.count = document.querySelector("#made_up-table-1 output").value;
field.value = "";
field.dispatchEvent(new Event("input"));
box.scrollTo(300, 300);
const [outside, corner] = [box, table.tHead.rows[1].cells[0]].map((one) => one.getBoundingClientRect());
const [row] = [...table.tBodies[0].rows].slice(-1);
seen.scrolled = [box.scrollLeft, box.scrollTop];
seen.corner = [corner.left - outside.left, corner.top - outside.top, table.tHead.offsetHeight];
seen.head = row.cells[0].getBoundingClientRect().left - outside.left;
const boxes = document.querySelectorAll("#made_up-table-1 input[type=checkbox]");
seen.boxes = boxes.length;
boxes[0].click();
seen.hidden = [...row.cells].map((cell) => cell.offsetWidth === 0);
seen.note = table.querySelector("sup").title;
seen.contents = document.getElementById("contents").open;
document.getElementById("made_up-figure-1").scrollIntoView();
const svg = document.querySelector("#made_up-figure-1 svg");
seen.figure = [svg.getBoundingClientRect().height > 50, svg.parentElement.scrollWidth];
seen.again = document.querySelector("#top svg use").getBoundingClientRect().width > 200;
setTimeout(() => {
  seen.current = [...document.querySelectorAll("nav [aria-current]")].map((link) => link.innerText);
  parent.postMessage(JSON.stringify(seen), "*");
}, 1000);
"""
OUTSIDE = """<body style="margin:0"><pre id="seen"></pre>
<iframe src="{page}" style="border:0;width:{width}px;height:900px"></iframe>
<script>
addEventListener("message", (event) => {{ document.getElementById("seen").textContent = event.data; }});
</script>
"""


def wide(campaign: Campaign, published: Published) -> Table:
    groups = [Column(f"c{at}", f"column {at}", f"group {at // 3}") for at in range(GROUPS)]
    columns = (Column("problem", "problem", numeric=False), Column("n", "n"), *groups)
    rows = [
        (Cell(f"p{at}"), Cell(1000 * n, f"{n} 000"), *[Cell(at + 0.5, notes=("Why.",))] * GROUPS)
        for at, n in enumerate(at * 7 % ROWS for at in range(ROWS - 1))
    ]
    return Table(columns, [(Cell("none"), Cell(), *[Cell()] * GROUPS), *rows], "Many columns.")


def drawing(campaign: Campaign, published: Published) -> Figure:
    def draw() -> Any:
        drawn = canvas(TEXT, 2)
        drawn.add_subplot().plot([1, 2])
        return drawn

    return Figure(draw, "A line.")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    campaign = SmallCampaign(folder).all("grid")
    artifacts = [
        Artifact("made_up", "table-1", "A wide table", "ours", "table", wide),
        Artifact("made_up", "figure-1", "A wide figure", "ours", "figure", drawing),
    ]
    result = Result("table-1", "p3", "c0", "nothing", "event")
    part = PageStudy(campaign, Published({}, []), artifacts, highlights={"figure-1": "the line"}, result=result)
    path = write_report([part], folder / "report.html")
    path.write_text(path.read_text().replace("</body>", f"<script>{{{PROBE}}}</script></body>"))
    return path


def look(page: Path, width: int) -> dict[str, Any]:
    outside = page.with_name(f"outside-{width}.html")
    outside.write_text(OUTSIDE.format(page=page.as_uri(), width=width))
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,1000",
        f"--user-data-dir={page.parent / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000", "--dump-dom", outside.as_uri(),
    ]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="seen">(.+?)</pre>', said)
    assert found, said[-2000:]
    seen: dict[str, Any] = json.loads(found[1])
    return seen


@pytest.fixture(scope="module")
def screen(page: Path) -> dict[str, Any]:
    return look(page, 1400)


@pytest.fixture(scope="module")
def phone(page: Path) -> dict[str, Any]:
    return look(page, 420)


def test_it_asks_for_nothing_else(screen: dict[str, Any]) -> None:
    assert screen["resources"] == 0


def test_a_click_sorts_by_value_and_leaves_what_has_none_at_the_end(screen: dict[str, Any]) -> None:
    order = [f"p{at}" for at in sorted(range(ROWS - 1), key=lambda at: at * 7 % ROWS)]
    assert screen["first"][:3] == ["none", "p0", "p1"]
    assert screen["ascending"] == [*order, "none"]
    assert screen["descending"] == [*order[::-1], "none"]


def test_the_field_keeps_rows_with_its_words(screen: dict[str, Any]) -> None:
    assert screen["filtered"] == ["p7"]
    assert screen["count"] == f"1 of {ROWS} rows"


@pytest.mark.parametrize("which", ["screen", "phone"])
def test_heads_and_the_first_column_stay_where_they_are(which: str, request: pytest.FixtureRequest) -> None:
    seen = request.getfixturevalue(which)
    assert seen["scrolled"][1] > 100 and (which == "screen" or seen["scrolled"][0] == 300)
    left, top, heads = seen["corner"]
    assert abs(left) <= 1 and 0 <= top < heads and abs(seen["head"]) <= 1


def test_a_box_hides_the_columns_of_its_group(screen: dict[str, Any]) -> None:
    assert screen["boxes"] == GROUPS / 3
    assert screen["hidden"] == [2 <= at < 5 for at in range(2 + GROUPS)]


def test_a_letter_says_its_note_where_it_stands(screen: dict[str, Any]) -> None:
    assert screen["note"] == "Why."


@pytest.mark.parametrize("which", ["screen", "phone"])
def test_the_contents_mark_where_the_reader_is(which: str, request: pytest.FixtureRequest) -> None:
    seen = request.getfixturevalue(which)
    assert seen["contents"] == (which == "screen")
    assert len(seen["current"]) == 1
    assert which == "phone" or seen["current"] == ["A wide figure"]


@pytest.mark.parametrize("which", ["screen", "phone"])
def test_the_page_is_no_wider_than_the_screen(which: str, request: pytest.FixtureRequest) -> None:
    seen = request.getfixturevalue(which)
    needed, there = seen["width"]
    assert there == {"screen": 1400, "phone": 420}[which] and needed <= there


def test_figures_can_be_read_on_a_phone(phone: dict[str, Any]) -> None:
    high, width = phone["figure"]
    assert high and width >= 600
    assert phone["again"]
