"""Each study's result in one number, which the report begins with, is in the recorded campaign's tables."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from repro.campaign.artifacts import all_artifacts
from repro.results.published import Published
from repro.results.report import make_card
from repro.results.tables import Cell, Column, Result, ResultLine, Sample, Table
from repro.studies import get_study, study_names

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "results" / "h200"


#: Studies that were recorded.
WITH_RESULT = [name for name in study_names() if get_study(name).result]


@pytest.mark.parametrize("study", WITH_RESULT)
def test_the_result_is_a_number_of_its_table_by_its_clock(study: str) -> None:
    contract = get_study(study)
    result = Result.of(contract.result)
    assert contract.title and result.description.format(library="x")
    with (RECORD / f"tables/{study}/{result.table}.csv").open(newline="", encoding="utf-8") as file:
        heads, *cases = csv.reader(file)
    # only the page has summary rows
    page = (RECORD / "report.html").read_text("utf-8")
    section = page.partition(f'<section id="{study}-{result.table}">')[2].partition("</section>")[0]
    found = [row for row in cases if row[0].startswith(result.row)] or cases
    assert f">{result.row}" in section
    assert any(float(row[heads.index(result.column)] or 0) > 0 for row in found)
    assert f"by the {result.clock} clock" in section


@pytest.mark.parametrize("study", WITH_RESULT)
def test_a_line_beside_the_result_is_one_target(study: str) -> None:
    contract = get_study(study)
    result = Result.of(contract.result)
    wanted = Published.load(study, contract.published, contract.targets, ROOT / "config").targets
    names = [item["what"].replace("'", "’") for item in wanted]
    for line in result.lines:
        assert result.table == "table-targets" and line.description.format(library="x")
        assert sum(name.startswith(line.row) for name in names) == 1 or line.row == result.row


def test_a_result_stands_beside_itself_by_other_clocks() -> None:
    result = Result("table-targets", "gain, graph clock: mean", "ours", "that", "graph")
    columns = (Column("target", "target", numeric=False), Column("ours", "ours"))
    clocks = {"graph clock": 2.1, "event clock": 1.8, "cold cache, event clock": None}
    rows = [(Cell(f"gain, {clock}: mean"), Cell(value)) for clock, value in clocks.items()]
    assert result.cell(Table(columns, rows, "")).value == 2.1
    assert result.numbers_of_other_clocks(Table(columns, rows, "")) == {"event clock": Cell(1.8)}
    by_events = replace(result, row="gain, of the device: mean", clock="event")
    assert by_events.numbers_of_other_clocks(Table(columns, rows, "")) == {}


def test_where_one_space_was_searched_alone_it_is_that_spaces() -> None:
    result = Result(
        "table-targets",
        "gain",
        "ours",
        "that",
        "graph",
        fallback_column="theirs",
        fallback_description="of theirs alone",
    )
    columns = (Column("target", "target", numeric=False), Column("theirs", "their space"), Column("ours", "ours"))
    both, alone, none = (
        Table(columns, [(Cell("gain"), *cells)], "")
        for cells in ((Cell(1.1), Cell(2.1)), (Cell(1.1), Cell()), (Cell(), Cell()))
    )
    assert [result.cell(table).value for table in (both, alone, none)] == [2.1, 1.1, None]
    assert [make_card(result, "", {"mine": table}).description for table in (both, alone, none)] == [
        "that",
        "that; of theirs alone",
        "that",
    ]


def test_what_the_number_leaves_out_stands_beside_it() -> None:
    lines = (ResultLine("over {library}", "loss", "ours"), ResultLine("to the letter", "gain", "theirs", True))
    result = Result("t", "gain", "ours", "that", "graph", "theirs", "of theirs alone", lines)
    columns = (Column("target", "target", numeric=False), Column("theirs", "their space"), Column("ours", "ours"))
    table = Table(columns, [(Cell("gain"), Cell(1.1), Cell(2.1)), (Cell("loss"), Cell(), Cell(0.5))], "")
    own = {"of theirs alone": Cell(1.1), "over X": Cell(0.5)}
    assert make_card(result, "X", {"mine": table}).left_out == own
    without = Table(columns, [(Cell("gain"), Cell(0.7), Cell())], "")
    assert make_card(result, "X", {"mine": table}, ("letter", without)).left_out == {**own, "to the letter": Cell(0.7)}
    assert make_card(result, "X", {"mine": without}).left_out == {}


def test_a_number_of_a_summary_line_has_its_cases_and_what_all_of_them_are() -> None:
    result = Result("t", "mean", "ours", "that", "graph")
    columns = (Column("problem", "problem", numeric=False), Column("ours", "ours"))
    notes = ("of few choices", "noisy"), ("of few choices",), ()
    rows = [
        (Cell(name), Cell(value, notes=said)) for name, value, said in zip("abc", (0.9, 3.0, None), notes, strict=True)
    ]
    found = result.cell(Table(columns, rows, "", [(Cell("mean"), Cell(1.64, "1.64"))]))
    assert (found.value, found.notes) == (1.64, ("of few choices",))
    assert found.sample is not None and found.sample.said == "2 of 3 cases, least 0.90×, slower in 1"


def test_the_number_is_of_the_campaign_to_the_letter_where_that_has_it() -> None:
    result = Result("t", "gain", "ours", "that", "graph", own_description="by its own rows")
    columns = (Column("target", "target", numeric=False), Column("ours", "ours"))
    own, fair, none = (Table(columns, [(Cell("gain"), Cell(value))], "") for value in (7.5, 5.1, None))
    card = make_card(result, "", {"mine": own}, ("letter", fair))
    assert card.numbers == {"mine": Cell(5.1)} and card.description == "that; campaign letter"
    assert card.left_out == {"mine, by its own rows": Cell(7.5)}
    for other in (None, ("letter", none)):
        card = make_card(result, "", {"mine": own}, other)
        assert (card.numbers, card.description, card.left_out) == ({"mine": Cell(7.5)}, "that", {})


def test_a_sample_says_the_least_and_how_often_ours_is_slower() -> None:
    assert Sample((1.5, 0.9, 2.0), 3).said == "3 cases, least 0.90×, slower in 1"
    assert Sample((1.5, 1.0), 4).said == "2 of 4 cases, least 1.00×, slower in none"
    assert Sample((1.5,), 1).said == Sample((), 4).said == ""


@pytest.mark.parametrize("study", study_names())
def test_there_is_a_figure_to_look_at_first(study: str) -> None:
    drawn = {artifact.name for artifact in all_artifacts(study, "figure")}
    assert drawn & set(get_study(study).highlights)
