"""What tables of graphs share: cells of numbers as the paper prints them, and what a problem's record holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.artifacts.document import Cell
from repro.artifacts.lineup import Line
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.printed import OUT_OF_MEMORY, UNITS, number_of


def printed(text: str | None) -> Cell:
    """Return the cell of a number as printed."""
    if text is None:
        return Cell()
    return Cell(number_of(text), "out of memory" if text == OUT_OF_MEMORY else text)


def shortened(number: int | None, units: str, limit: int = 1000) -> Cell:
    """Return the cell of a count, cut off to the largest of some units; in full below a limit."""
    if number is None:
        return Cell()
    fitting = [unit for unit in units if number >= max(limit, UNITS[unit])]
    return Cell(number, f"{number // UNITS[fitting[-1]]}{fitting[-1]}" if fitting else str(number))


def facts_of(line: Line) -> Mapping[str, Any]:
    """Return what the record of a problem holds for this study; empty where there is none."""
    return line.record.facts.get(STUDY, {}) if line.record else {}
