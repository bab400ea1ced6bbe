"""Tables as text: letters of notes, digits, and what LaTeX wants escaped."""

import csv
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from repro.results.output import WHOLE_COLUMNS, as_csv, as_latex, as_markdown, latex_escape, write_table_artifact
from repro.results.registry import Artifact
from repro.results.tables import Cell, Column, Table, digits, letter


def test_cells_of_a_long_table_are_looked_through_once_for_its_notes() -> None:
    looks = 0

    class Watched(Cell):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "notes"
            return super().__getattribute__(name)

    columns = [Column("a", "A")]
    table = Table(columns, [(Watched(i, notes=(f"of {i % 7}",)),) for i in range(1000)], "")
    as_markdown(table)
    assert looks <= 3 * 1000


def test_shared_notes_have_one_letter() -> None:
    columns = (Column("a", "a"), Column("b", "b"))
    table = Table(columns, [(Cell(1, notes=("x", "y")), Cell(2, notes=("y",)))], "")
    assert [table.letters(cell) for cell in table.rows[0]] == ["a,b", "b"]
    assert [letter(i) for i in (0, 25, 26, 51, 52, 701, 702)] == ["a", "z", "aa", "az", "ba", "zz", "aaa"]
    with pytest.raises(ValueError, match="a row of 1 cells"):
        Table(columns, [(Cell(),)], "")


@pytest.mark.parametrize(
    ("value", "text"), [(0.123, "0.12"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100"), (1234.5, "1234")]
)
def test_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_latex_escape() -> None:
    assert latex_escape(r"a_b & 100% {x} \ #1 ~ ^ $") == (
        r"a\_b \& 100\% \{x\} \textbackslash{} \#1 \textasciitilde{} \textasciicircum{} \$"
    )
    assert latex_escape("λ² of † and ⌊x⌋") == "$\\lambda$$^2$ of \\textdagger{} and $\\lfloor$x$\\rfloor$"
    assert latex_escape("3×3 – “é” 中") == "3$\\times$3 -- ``é'' ?"


HOSTILE = '<img src=x onerror="alert(1)"> &lt;b> ![i](http://a/b.png) a|b\nc\n\n# d'


def test_what_users_name_is_text_in_markdown_wherever_it_stands() -> None:
    columns = (Column("a", HOSTILE, group=HOSTILE), Column("b", "b"))
    table = Table(columns, [(Cell(HOSTILE, notes=(HOSTILE,)), Cell(1))], HOSTILE, summary=[(Cell(HOSTILE), Cell(2))])
    text = as_markdown(table).replace("<sup>a</sup>", "")
    assert "<" not in text
    assert ">" not in text
    assert "](" not in text
    assert "&amp;lt;b&gt;" in text
    lines = text.splitlines()
    assert len(lines) == 8, "caption, empty, head, rule, row, summary, empty, note"
    assert [line.replace("\\|", "").count("|") for line in lines[2:6]] == [3, 3, 3, 3]


def test_a_wide_table_has_its_leading_columns_in_latex_and_all_in_csv(tmp_path: Path) -> None:
    def written(number: int) -> tuple[list[str], list[str]]:
        columns = (Column("problem", "problem"), *(Column(f"c{at}", f"c{at}", "all") for at in range(1, number)))
        table = Table(columns, [(Cell("a"), *(Cell(at) for at in range(1, number)))], "One thing. Two things.")
        artifact = Artifact("made_up", "table-1", "A", "1", "table", lambda *_: table, lead=("c11",))
        csv, latex = (path.read_text().splitlines() for path in write_table_artifact(artifact, table, tmp_path))
        return csv, latex

    csv, latex = written(WHOLE_COLUMNS)
    assert csv[0].count(",c") == WHOLE_COLUMNS - 1
    assert r"\caption[{A}]{One thing.}" in latex and r"Two things.\par" in latex
    csv, latex = written(WHOLE_COLUMNS + 1)
    assert csv[0].count(",c") == WHOLE_COLUMNS
    assert r"a & 11 & 1 & 2 & 3 & 4 & 5 & 6 & 7 & 8 \\" in latex
    assert r"Two things. 10 of 13 columns; table-1.csv has all.\par" in latex


def test_what_users_name_is_text_in_latex_wherever_it_stands() -> None:
    columns = (Column("a", "a"), Column("b", "b"))
    table = Table(columns, [(Cell("[1pt]"), Cell(1)), (Cell("*"), Cell(2))], HOSTILE)
    lines = as_latex(table, "x", "[a] title").splitlines()
    assert not any(line.startswith(("[", "*")) for line in lines), "the row break above would take it"
    caption = next(line for line in lines if line.startswith(r"\caption"))
    assert r"\textless{}img" in caption and caption.startswith(r"\caption[{[a] title}]{")
    assert caption.endswith(r"\# d}"), "no end of a paragraph inside"


def test_control_characters_are_none_in_latex_and_end_no_row_in_markdown() -> None:
    assert latex_escape("a\tb\x00c\x0bd") == "a b?c?d"
    table = Table((Column("a", "a"),), [(Cell("x\x0b\x0c\x1c\x85\u2028\u2029y"),)], "")
    assert as_markdown(table).splitlines()[-1] == "| x      y |"


FORMULAS = [
    "=1+1",
    '=HYPERLINK("http://a/"&A1)',
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    "-",
    "--x",
    "=",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_of_a_csv_file_is_a_formula(text: str) -> None:
    columns = (Column("name", "name", numeric=False), Column(text, "b"))
    table = Table(columns, [(Cell(text, notes=(text,)), Cell(-1.5)), (Cell("plain"), Cell(2.0))], "")
    written = as_csv(table)
    heads, first, second = csv.reader(io.StringIO(written, newline=""), strict=True)
    assert heads[1] == f"'{text}"
    assert (first[0], first[2]) == (f"'{text}", f"'{text}")
    assert second[:2] == ["plain", "2.0"]
    read = pd.read_csv(io.StringIO(written, newline=""))
    assert read["name"].tolist() == [f"'{text}", "plain"]
    assert read[f"'{text}"].tolist() == [-1.5, 2.0]


def test_the_mean_of_a_column_of_a_csv_file_is_that_of_its_rows() -> None:
    table = Table((Column("a", "a"),), [(Cell(1),), (Cell(3),)], "", summary=[(Cell(9),)])
    assert pd.read_csv(io.StringIO(as_csv(table)))["a"].mean() == 2


@pytest.mark.parametrize("value", [-1, -0.0, -1.5e-300, float("-inf"), "-1.5", "+3", "-1e-5", "-inf"])
def test_negative_numbers_stay_numbers(value: float | str) -> None:
    written = as_csv(Table((Column("a", "a"),), [(Cell(value),)], ""))
    assert written.splitlines()[1] == f"{value},,"
    assert pd.read_csv(io.StringIO(written))["a"].tolist() == [float(value)]


@pytest.mark.parametrize("text", ["a\rb", "a\r\nb", "a\nb", 'a"b', "a,b", "a;b", "a\tb", "ä×–", " a ", "'a"])
def test_text_is_read_back_as_it_was(text: str) -> None:
    written = as_csv(Table((Column("a", "a"), Column("b", "b")), [(Cell(text), Cell(1))] * 2, ""))
    assert [row[0] for row in csv.reader(io.StringIO(written, newline=""), strict=True)] == ["a", text, text]
    assert pd.read_csv(io.StringIO(written, newline=""))["a"].tolist() == [text, text]
