"""Tables and texts on terminals of any width."""

from __future__ import annotations

import pytest

from repro.cli.console import in_columns, leave_out_columns, terminal_width, wrapped

HEADS = ["name", "size", "what is said of it"]
ROWS = [("first", 10, "a few words"), ("the_longest_name", None, "so many words that they do not fit into a line")]


@pytest.mark.wording
def test_in_a_pipe_a_row_is_a_line() -> None:
    assert list(in_columns(HEADS, ROWS, None)) == [
        "name              size  what is said of it",
        "first             10    a few words",
        "the_longest_name  –     so many words that they do not fit into a line",
    ]


@pytest.mark.wording
def test_the_last_column_wraps_where_there_is_room() -> None:
    assert list(in_columns(HEADS, ROWS, 54))[2:] == [
        "the_longest_name  –     so many words that they do not",
        "                        fit into a line",
    ]


def test_what_has_no_room_stands_below_its_row() -> None:
    assert list(in_columns(HEADS, ROWS, 24)) == [
        "name              size",
        "first             10",
        "    what is said of it:",
        "    a few words",
        "the_longest_name  –",
        "    what is said of it:",
        "    so many words that",
        "    they do not fit into",
        "    a line",
    ]


@pytest.mark.parametrize("width", [18, 20, 21, 40, 79, 80, 200])
def test_no_line_is_wider_and_no_word_is_cut(width: int) -> None:
    lines = list(in_columns(HEADS, ROWS, width))
    assert max(map(len, lines)) <= width
    words = {word.removesuffix(";") for line in lines for word in line.split()}
    assert words >= {word for row in ROWS for cell in row if cell for word in str(cell).split()}


def test_a_word_that_needs_more_room_is_indented_less() -> None:
    assert wrapped("found at /a/very/long/path", 20, "ok  part  ", 10) == ["ok  part  found at", "   /a/very/long/path"]
    assert wrapped("/a/very/long/path", 20, "ok  part  ", 10) == ["ok  part", "   /a/very/long/path"]


@pytest.mark.parametrize("width", [None, 20])
def test_no_text_is_a_line_with_what_it_begins_with(width: int | None) -> None:
    assert wrapped("", width, "ok  part  ", 10) == ["ok  part  "]


def test_a_word_that_is_longer_than_a_line_stays_whole() -> None:
    assert wrapped(f"at {'x' * 30} there", 20, indent=4) == ["at", "x" * 30, "there"]


def test_the_width_is_that_of_the_terminal_or_what_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width() == 72
    for nothing in ("0", "wide", ""):
        monkeypatch.setenv("COLUMNS", nothing)
        assert terminal_width() is None


def test_a_narrow_terminal_leaves_out_columns_of_one_value_first(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = ["name", "error", "clock", "message"]
    rows = [["first", "0.1", "graph", "a" * 40], ["second", "0.2", "graph", None]]
    monkeypatch.setenv("COLUMNS", "30")
    assert leave_out_columns(heads, rows, ("error", "clock"), below="message")[2] == {}
    monkeypatch.setenv("COLUMNS", "15")
    kept_heads, kept_rows, left_out = leave_out_columns(heads, rows, ("error", "clock"), below="message")
    assert kept_heads == ["name", "error", "message"] and left_out == {"clock": "clock graph"}
    assert kept_rows[1] == ["second", "0.2", None]
    monkeypatch.setenv("COLUMNS", "10")
    assert leave_out_columns(heads, rows, ("error", "clock"), below="message")[2] == {
        "clock": "clock graph", "error": "error",
    }  # fmt: skip
