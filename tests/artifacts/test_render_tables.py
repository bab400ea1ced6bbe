"""Tables as text: letters of notes, digits, and what LaTeX wants escaped."""

import pytest

from repro.artifacts.cells import digits
from repro.artifacts.document import Cell, Column, Table, letter
from repro.artifacts.render_tables import latex_escape


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
    assert latex_escape("3×3 – “é” 中") == "3$\\times$3 -- ``é'' ?"
