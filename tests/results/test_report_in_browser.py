"""The report in a browser without a network: it sorts, filters, hides columns, and fits a phone."""

import json
import re
import shutil
import subprocess
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from repro.campaign.winners import HEADS, PAGE_LEAD
from repro.results.campaign_data import Campaign
from repro.results.figure_style import TEXT_WIDTH, canvas
from repro.results.published import Published
from repro.results.registry import Artifact
from repro.results.report import PageStudy, PageWinners, write_report
from repro.results.tables import Cell, Column, Figure, Result, Table, move_lead_columns
from support.campaigns import SmallCampaign

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is on PATH (Debian's package chromium): tests/results/test_report.py holds"
    " what can be held without one"
)  # fmt: skip

ROWS, GROUPS = 40, 21
# what is done with the page, and what is then seen
PROBE = """
const table = document.getElementById("made_up-table-1-table");
const box = table.closest(".scroll");
const names = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].innerText);
const heads = [...table.tHead.rows[1].cells].map((head) => head.querySelector("button"));
const seen = { resources: performance.getEntriesByType("resource").length };
const rowsOf = box.closest("details");
seen.folded = [rowsOf.open, rowsOf.querySelector("summary").innerText];
// an address that is gone to while the page loads would be gone to once more when it is there
document.querySelector("nav").addEventListener("click", (event) => event.preventDefault());
document.querySelector('nav a[href="#made_up-table-1"]').click();
seen.unfolded = [rowsOf.open, rowsOf.getBoundingClientRect().top < innerHeight];
seen.width = [document.documentElement.scrollWidth, innerWidth];
seen.first = names();
heads[1].click();
seen.ascending = names();
heads[1].click();
seen.descending = names();
heads[1].click();
seen.back = names();
const hiddenColumns = () => [...table.tHead.rows[1].cells].filter((head) => head.offsetWidth === 0).length;
const groupsShown = () =>
  [...table.tHead.rows[0].cells].reduce((sum, head) => sum + (head.hidden ? 0 : head.colSpan), 0);
seen.atFirst = [hiddenColumns(), groupsShown()];
const inHand = document.getElementById("winners-table");
seen.fits = [table, inHand].map((one) => [one.offsetWidth, one.closest(".scroll").clientWidth]);
seen.inHand = [...inHand.tHead.rows[0].cells].filter((head) => !head.hidden).map((head) => head.innerText);
seen.lines = inHand.tBodies[0].rows[0].cells[3].offsetWidth;
const button = document.querySelector("#made_up-table-1 .controls button");
seen.switch = button.innerText;
button.click();
seen.all = [hiddenColumns(), groupsShown()];
const field = document.querySelector("#made_up-table-1 input[type=search]");
field.value = "P7";
field.dispatchEvent(new Event("input"));
seen.filtered = names();
seen.count = document.querySelector("#made_up-table-1 output").value;
field.value = "p1";
field.dispatchEvent(new Event("input"));
seen.shown = names();
seen.summary = [...table.tFoot.rows].map((row) => [...row.cells].slice(0, 3).map((cell) => cell.innerText));
field.value = "";
field.dispatchEvent(new Event("input"));
seen.unfiltered = table.tFoot.rows.length;
const search = document.querySelector("nav input[type=search]");
search.value = "P7";
search.dispatchEvent(new Event("input"));
const results = [...document.querySelectorAll("nav .found a")];
seen.results = results.map((link) => [link.hash, link.innerText]);
results.find((link) => link.hash === "#made_up-table-1").click();
seen.found = names();
rowsOf.open = false;
results.find((link) => link.hash === "#made_up-table-1").click();
seen.foundOpen = rowsOf.open;
search.value = field.value = "";
for (const one of [search, field]) one.dispatchEvent(new Event("input"));
table.tBodies[0].rows[1].cells[0].dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
seen.spelt = table.tBodies[0].rows[1].cells[0].title;
dispatchEvent(new Event("beforeprint"));
const long = document.querySelector("#made_up-table-2 .part");
seen.long = [long.innerText, long.nextElementSibling.classList.contains("unprinted")];
const parts = [...document.querySelectorAll("#made_up-table-1 .part table")];
seen.parts = parts.map((one) => [
  [...one.tHead.rows[1].cells].map((head) => head.innerText.trim().split(" ").slice(0, 2).join(" ")),
  one.offsetWidth,
  [...one.tHead.rows[0].cells].reduce((sum, head) => sum + head.colSpan, 0),
]);
seen.closed = document.querySelectorAll("main details:not([open])").length;
dispatchEvent(new Event("afterprint"));
const [unfoldAll] = document.querySelectorAll("nav .search button");
unfoldAll.click();
seen.allOpen = document.querySelectorAll("main details.fold:not([open])").length;
unfoldAll.click();
seen.allFolded = document.querySelectorAll("main details.fold[open]").length;
rowsOf.open = rowsOf.parentElement.closest("details").open = true;
document.getElementById("made_up-table-2").closest("details").open = true;
seen.after = [document.querySelectorAll(".part").length, document.querySelectorAll("main details:not([open])").length];
const csv = document.querySelector("#made_up-table-1 a[download]");
seen.csv = [csv.download, decodeURIComponent(escape(atob(csv.href.split(",")[1])))];
const marks = document.querySelectorAll("#made_up-figure-1 svg g title");
seen.marks = [...marks].map((one) => one.textContent);
const placed = [...marks].map((one) => one.parentElement);
const below = () => document.querySelector("#made_up-figure-1 .told").textContent;
const press = (key) => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  document.activeElement.dispatchEvent(event);
  return [placed.indexOf(document.activeElement), below(), event.defaultPrevented];
};
seen.roles = placed.map((one) => [one.getAttribute("role"), one.getAttribute("tabindex")]);
seen.before = below();
placed[0].focus();
seen.keys = ["ArrowRight", "ArrowUp", "ArrowLeft", "Tab"].map(press);
seen.stops = placed.map((one) => one.tabIndex);
rowsOf.open = false;
const [number] = document.querySelectorAll(".card a:has(.number)");
const [leads] = document.querySelectorAll(number.hash);
seen.number = [number.innerText, leads.cells[0].textContent];
number.addEventListener("click", (event) => event.preventDefault());
number.click();
seen.numbered = rowsOf.open;
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
        (Cell(f"b64/p{at}"), Cell(1000 * n, f"{n} 000"), *[Cell(at + 0.5, notes=("Why.",))] * GROUPS)
        for at, n in enumerate(at * 7 % ROWS for at in range(ROWS - 1))
    ]
    mean = (Cell("geometric mean"), Cell(), Cell(9.5), *[Cell(9.5)] * (GROUPS - 1))
    return Table(columns, [(Cell("none"), Cell(), *[Cell()] * GROUPS), *rows], "Many columns.", [mean])


def long(campaign: Campaign, published: Published) -> Table:
    return Table((Column("n", "n"),), [(Cell(at),) for at in range(61)], "Many rows.")


def drawing(campaign: Campaign, published: Published) -> Figure:
    def draw() -> Any:
        drawn = canvas(TEXT_WIDTH, 2)
        axes = drawn.add_subplot()
        axes.barh([0, 1], [1.5, 2.25], label="ours")
        axes.set_yticks([0, 1], ["web", "mesh"])
        axes.plot([1, 2, float("nan")], [0, 1, 0], "o")
        axes.set_xlabel("speedup")
        return drawn

    return Figure(draw, "A line.")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    campaign = SmallCampaign(folder).all("grid")
    artifacts = [
        Artifact("made_up", "table-1", "A wide table", "ours", "table", wide, lead=("c5", "gone")),
        Artifact("made_up", "table-2", "A long table", "ours", "table", long),
        Artifact("made_up", "figure-1", "A wide figure", "ours", "figure", drawing),
    ]
    result = Result("table-1", "b64/p3", "c0", "nothing", "event")
    part = PageStudy(
        campaign,
        Published({}, []),
        artifacts,
        highlights={"figure-1": "the line"},
        legend={"b(\\d+)": "\\1 threads per block", "w": "none"},
        result=result,
    )
    variant = "CSR-AoSoA-AoS@clustered/chunk-64-1-w2-u2-cs"
    heads = ("problem", *HEADS)
    known_cells = {
        "problem": "a_problem_with_a_long_name",
        "precision": "double",
        "fastest": variant,
        "speedup": "1.25",
    }
    cells = [known_cells.get(head, "cusparse/spmv-csr-alg1/real") for head in heads]
    own = Table(
        tuple(Column(head, head, numeric=head == "speedup") for head in heads), [tuple(map(Cell, cells))],
        "Own.",
    )  # fmt: skip
    line = f"repro export --variant {'CSR-AoS-AoS/' * 12} --to part"  # has to wrap
    winners = PageWinners(
        move_lead_columns(own, PAGE_LEAD), [f"part: {'refused ' * 40}"], {"part": [line], "other": [line]}
    )
    path = write_report([part], folder / "report.html", winners=winners)
    path.write_text(path.read_text().replace("<details><summary>Take", "<details open><summary>Take"))
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
    return look(page, 390)


def test_the_report_asks_for_nothing_else(screen: dict[str, Any]) -> None:
    assert screen["resources"] == 0


def test_a_long_table_is_folded_until_a_link_or_the_search_leads_there(screen: dict[str, Any]) -> None:
    assert screen["folded"] == [False, f"{ROWS} rows, {2 + GROUPS} columns"]
    assert screen["unfolded"] == [True, True] and screen["foundOpen"]
    assert screen["allOpen"] == 0 and screen["allFolded"] == 0


def test_a_click_sorts_by_value_and_leaves_what_has_none_at_the_end(screen: dict[str, Any]) -> None:
    order = [f"b64/p{at}" for at in sorted(range(ROWS - 1), key=lambda at: at * 7 % ROWS)]
    assert screen["first"][:3] == ["none", "b64/p0", "b64/p1"]
    assert screen["ascending"] == [*order, "none"]
    assert screen["descending"] == [*order[::-1], "none"]
    assert screen["back"] == screen["first"]


def test_the_field_keeps_rows_with_its_words(screen: dict[str, Any]) -> None:
    assert screen["filtered"] == ["b64/p7"]
    assert screen["count"] == f"1 of {ROWS} rows"


def test_rows_that_are_left_have_a_summary_of_their_own(screen: dict[str, Any]) -> None:
    left = [int(name.partition("p")[2]) for name in screen["shown"]]
    assert len(left) == 11
    mean = exp(sum(log(at + 0.5) for at in left) / len(left))
    (title, n, value), own = screen["summary"]
    assert (title, n) == ("geometric mean of 11 shown", "") and float(value) == pytest.approx(mean, rel=5e-3)
    assert own[0] == "geometric mean" and screen["unfiltered"] == 1


def test_a_wide_table_shows_twelve_columns_first_and_a_switch_the_others(screen: dict[str, Any]) -> None:
    assert screen["atFirst"] == [GROUPS - 10, 12] and screen["all"] == [0, 2 + GROUPS]
    assert screen["switch"] == f"all {2 + GROUPS} columns"


def test_a_phone_shows_variant_and_speedup_uncut_and_a_switch_the_others(phone: dict[str, Any]) -> None:
    assert phone["inHand"][:4] == ["problem", "precision", "speedup", "fastest"] and len(phone["inHand"]) < 8
    assert all(needed <= there <= 390 for needed, there in phone["fits"])
    assert phone["lines"] >= 90  # pixels: a variant wraps, but not letter by letter
    assert 2 <= phone["atFirst"][1] < 12 and phone["all"] == [0, 2 + GROUPS]


def test_the_search_names_places_and_filters_the_table_that_is_chosen(screen: dict[str, Any]) -> None:
    assert ["#made_up-table-1", "made_up: A wide table (1 row)"] in screen["results"]
    assert screen["found"] == ["b64/p7"]


def test_a_variants_words_are_spelt_out_on_hover(screen: dict[str, Any]) -> None:
    assert screen["spelt"] == "b64: 64 threads per block"


def test_in_print_a_wide_table_comes_in_parts_a_long_one_is_left_out_and_all_is_open(screen: dict[str, Any]) -> None:
    named = [name for names, _, _ in screen["parts"] for name in names if name != "problem"]
    assert len(screen["parts"]) > 1 and all(names[0] == "problem" for names, _, _ in screen["parts"])
    assert named == ["n", "column 5", *(f"column {at}" for at in range(GROUPS) if at != 5)]
    assert all(width <= 1260 and len(names) == spans for names, width, spans in screen["parts"])
    name = screen["csv"][0].replace("table-1", "table-2")
    assert screen["long"] == [f"61 rows: in the page, and in its file {name}.", True]
    assert screen["closed"] == 0 and screen["after"][0] == 0 and screen["after"][1] > 0


def test_the_csv_file_is_in_the_page(screen: dict[str, Any]) -> None:
    name, text = screen["csv"]
    assert name.endswith("made_up-table-1.csv")
    assert text.splitlines()[0].startswith("problem,n,c0,c1") and len(text.splitlines()) == 1 + ROWS


def test_bars_and_points_have_their_values_on_hover(screen: dict[str, Any]) -> None:
    assert screen["marks"] == [
        "ours\nweb\nspeedup: 1.5", "ours\nmesh\nspeedup: 2.25", "speedup: 1\nweb", "speedup: 2\nmesh",
    ]  # fmt: skip


def test_marks_are_reached_by_keys_and_named_below_the_figure(phone: dict[str, Any]) -> None:
    assert phone["roles"] == [["img", "0"], *[["img", "-1"]] * 3]
    assert phone["before"] == "A touch or the arrow keys name the marks."
    assert phone["keys"] == [
        [1, "ours, mesh, speedup: 2.25", True],
        [0, "ours, web, speedup: 1.5", True],
        [3, "speedup: 2, mesh", True],
        [3, "speedup: 2, mesh", False],
    ]
    assert phone["stops"] == [-1, -1, -1, 0]


def test_a_number_at_the_top_leads_to_its_row(screen: dict[str, Any]) -> None:
    assert screen["number"] == ["3.5×", "b64/p3"]
    assert screen["numbered"]


@pytest.mark.parametrize("which", ["screen", "phone"])
def test_heads_and_the_first_column_stay_where_they_are(which: str, request: pytest.FixtureRequest) -> None:
    seen = request.getfixturevalue(which)
    assert seen["scrolled"][1] > 100 and (which == "screen" or seen["scrolled"][0] == 300)
    left, top, heads = seen["corner"]
    assert abs(left) <= 1 and 0 <= top < heads and abs(seen["head"]) <= 1


def test_a_box_hides_the_columns_of_its_group(screen: dict[str, Any]) -> None:
    assert screen["boxes"] == GROUPS / 3 + 1  # the leading column parts its group
    assert screen["hidden"] == [at == 2 for at in range(2 + GROUPS)]  # the leading column is a group alone


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
    assert there == {"screen": 1400, "phone": 390}[which] and needed <= there


def test_figures_can_be_read_on_a_phone(phone: dict[str, Any]) -> None:
    high, width = phone["figure"]
    assert high and width >= 600
    assert phone["again"]
