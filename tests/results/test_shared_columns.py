"""Cells and columns that tables of several studies share."""

from __future__ import annotations

import pytest

from repro.bench.rows import RecordedRow
from repro.results.campaign_data import Method, ReportedTime
from repro.results.columns import (
    MEAN_AND_LEAST,
    MICRO,
    microseconds,
    number_cell,
    printed_cell,
    ratio,
    speedup_column,
    statistics,
    time_column,
)
from repro.results.tables import Cell, Column, table_of

OURS, LIBRARY = Method("ours", "ours"), Method("library", "the library")
REASON = "out of memory"


def time(seconds: float, key: str) -> ReportedTime:
    return ReportedTime(key, seconds, False, (), RecordedRow({"key": key}))


CASES = [
    {OURS: time(2e-6, "a"), LIBRARY: time(4e-6, "b")},
    {OURS: time(3e-6, "c"), LIBRARY: time(3e-6, "d")},
    {OURS: None, LIBRARY: None},
]


@pytest.mark.parametrize(
    ("cell", "value", "text"),
    [
        (number_cell(None), None, ""),
        (number_cell(1.5e-6, MICRO), 1.5, "1.50"),
        (number_cell(1234.5), 1234.5, "1234"),
        (number_cell(-0.25, spec=".1e"), -0.25, "-2.5e-01"),
        (printed_cell("1.10"), 1.1, "1.10"),
        (printed_cell(None), None, ""),
        (printed_cell(""), None, ""),
    ],
)
def test_a_number_has_its_value_and_its_text(cell: Cell, value: float | None, text: str) -> None:
    assert (cell.value, cell.text) == (pytest.approx(value) if value else value, text)


def test_a_time_has_its_row_and_a_missing_one_its_reason() -> None:
    cell = microseconds(CASES[0][OURS], reason=REASON)
    assert (cell.value, cell.text, cell.notes, cell.keys) == (pytest.approx(2), "2.00", (), ("a",))
    assert microseconds(None, reason=REASON) == Cell(notes=(REASON,))
    assert microseconds(None) == Cell()


def test_a_column_takes_a_method_or_a_function() -> None:
    by_method = time_column("us", "µs", "", OURS, lambda case: REASON)
    by_function = time_column("us", "µs", "", lambda case: case[OURS], lambda case: REASON)
    cells = [[column.cell(case) for case in CASES] for column in (by_method, by_function)]
    assert cells[0] == cells[1]
    assert [cell.notes for cell in cells[0]] == [(), (), (REASON,)]


def test_named_summary_lines_are_over_all_cases_with_a_number() -> None:
    table = table_of([Column("case", ""), speedup_column("x", "×", "", LIBRARY, OURS)], CASES, "", MEAN_AND_LEAST)
    assert [row[1].shown for row in table.rows] == ["2.00", "1.00", "–"]
    assert [(name.shown, number.shown) for name, number in table.summary] == [
        ("geometric mean", "1.41"),
        ("least", "1.00"),
    ]
    assert table.rows[0][1].keys == ("b", "a")


def test_statistics_make_cells_of_numbers() -> None:
    made = statistics(ratio, {"least": min, "most": max})
    assert {name: statistic([1.25, 3.0]).text for name, statistic in made.items()} == {"least": "1.25", "most": "3.00"}
