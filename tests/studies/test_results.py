"""Each study's result in one number, which the report begins with, is in the recorded campaign's tables."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from repro.campaign.artifacts import all_artifacts
from repro.results.report import make_card
from repro.results.tables import Cell, Column, Result, Sample, Table
from repro.studies import get_study, study_names

TABLES = Path(__file__).parents[2] / "results" / "h200" / "tables"


@pytest.mark.parametrize("study", study_names())
def test_the_result_is_a_number_of_its_table_by_its_clock(study: str) -> None:
    contract = get_study(study)
    result = Result(**contract.result)
    assert contract.title and result.says.format(library="x")
    with (TABLES / study / f"{result.table}.csv").open(newline="", encoding="utf-8") as file:
        heads, *rows = csv.reader(file)
    row = next(row for row in rows if row[0].startswith(result.row))
    assert bool(result.less_row) == bool(result.less_says.format(library="x"))
    assert sum(row[0].startswith(result.less_row) for row in rows) == (1 if result.less_row else len(rows))
    assert float(row[heads.index(result.column)]) > 0
    assert f"by the {result.clock} clock" in (TABLES / study / f"{result.table}.md").read_text("utf-8").splitlines()[0]


def test_a_result_stands_beside_itself_by_other_clocks() -> None:
    result = Result("table-targets", "gain, graph clock: mean", "ours", "that", "graph")
    columns = (Column("target", "target", numeric=False), Column("ours", "ours"))
    clocks = {"graph clock": 2.1, "event clock": 1.8, "cold cache, event clock": None}
    rows = [(Cell(f"gain, {clock}: mean"), Cell(value)) for clock, value in clocks.items()]
    assert result.cell(Table(columns, rows, "")).value == 2.1
    assert result.by_other_clocks(Table(columns, rows, "")) == {"event clock": Cell(1.8)}
    by_events = replace(result, row="gain, of the device: mean", clock="event")
    assert by_events.by_other_clocks(Table(columns, rows, "")) == {}


def test_where_one_space_was_searched_alone_it_is_that_spaces() -> None:
    result = Result("table-targets", "gain", "ours", "that", "graph", instead="theirs", alone="of theirs alone")
    columns = (Column("target", "target", numeric=False), Column("theirs", "their space"), Column("ours", "ours"))
    both, alone, none = (
        Table(columns, [(Cell("gain"), *cells)], "")
        for cells in ((Cell(1.1), Cell(2.1)), (Cell(1.1), Cell()), (Cell(), Cell()))
    )
    assert [result.cell(table).value for table in (both, alone, none)] == [2.1, 1.1, None]
    assert [make_card(result, "", {"mine": table}).says for table in (both, alone, none)] == [
        "that",
        "that; of theirs alone",
        "that",
    ]


def test_what_the_number_leaves_out_stands_beside_it() -> None:
    result = Result("t", "gain", "ours", "that", "graph", "theirs", "of theirs alone", "loss", "over {library}")
    columns = (Column("target", "target", numeric=False), Column("theirs", "their space"), Column("ours", "ours"))
    table = Table(columns, [(Cell("gain"), Cell(1.1), Cell(2.1)), (Cell("loss"), Cell(), Cell(0.5))], "")
    assert make_card(result, "X", {"mine": table}).left_out == {"of theirs alone": Cell(1.1), "over X": Cell(0.5)}
    without = Table(columns, [(Cell("gain"), Cell(1.1), Cell())], "")
    assert make_card(result, "X", {"mine": without}).left_out == {}


def test_a_sample_says_the_least_and_how_often_ours_is_slower() -> None:
    assert Sample((1.5, 0.9, 2.0), 3).said == "3 cases, least 0.90×, ours slower in 1"
    assert Sample((1.5, 1.0), 4).said == "2 of 4 cases, least 1.00×, ours slower in none"
    assert Sample((1.5,), 1).said == Sample((), 4).said == ""


@pytest.mark.parametrize("study", study_names())
def test_there_is_a_figure_to_look_at_first(study: str) -> None:
    drawn = {artifact.name for artifact in all_artifacts(study, "figure")}
    assert drawn & set(get_study(study).highlights)
