"""Reading what the pages state as measured, and the tables that comments behind it name.

Behind a paragraph, a list or a table of a page stands a comment that nobody sees:

    <!-- h200/tables/compound_spmv/table-targets
    2.10 = ours | speedup over the fastest routine, graph clock: geometric mean
    3.05 = max speedup | where precision == "single"
    -->

Its first line names a CSV file below `results`; each other line a number as it is printed, and where it stands there: a
column, or what pandas makes of columns, on the line of that name, or the only one that begins with it, or on those that
a query finds; of several their `min`, `max`, `median`, `mean`, `geomean` or `count`. Where several files are needed
there are several comments. What no table has is named with the reason: `<!-- no table: by hand`, its numbers, `-->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean

import pandas as pd

from repro.errors import ReproError

RESULTS = Path(__file__).parents[2] / "results"
NO_TABLE = "no table: "
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_LINE = re.compile(
    r"(?P<number>\S+) = (?:(?P<over>min|max|median|mean|geomean|count) )?(?P<what>[^|]+?)(?: \| (?P<line>.+))?"
)
# what sums up the lines above it
_SUMMARY = ("geometric mean", "mean", "median", "worst", "least")
_FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# code, targets of links, and what is numbered
_NO_NUMBERS = re.compile(
    r"`[^`]*`|\]\([^)]*\)|(?:[Tt]ables?|[Ff]igures?|[Ss]ections?|ch\.|chapters?|CUSP|Python) [\d.]+\d|10\.\d{4,}/\S+"
)
_NUMBER = r"(?<![\w.,^-])\d[\d,]*(?:\.\d+)?(?:e-\d+)?(?![\w^])"
_UNIT = r"(?:times|%|×(?! ?\d)|µs|ms|s\b|seconds|[GT]B/s|GFLOPS|[MG]B\b|billion a second)"
# a number with a unit, one of several that share a unit, or one with decimals
_STATED = re.compile(
    rf"(?P<number>{_NUMBER})(?=(?:(?:,| to| and| or) {_NUMBER})* ?{_UNIT})|(?P<decimal>\d+\.\d+(?:e-\d+)?)"
)


@dataclass(frozen=True)
class Reference:
    """A number of a page, and what it is by a table; without a value where no table has it."""

    number: str
    value: float | None


@dataclass(frozen=True)
class Passage:
    """A paragraph, list or table of a page with what the comments behind it name.

    Attributes
    ----------
    heading
        What it stands under.
    text
        Without comments.
    comments
        Inside `<!--` and `-->`.
    """

    heading: str
    text: str
    comments: tuple[str, ...] = ()

    @property
    def stated(self) -> set[str]:
        """The numbers that look measured."""
        prose = _NO_NUMBERS.sub(" ", self.text)
        return {found["number"] or found["decimal"] for found in _STATED.finditer(prose)}

    @property
    def references(self) -> Iterator[Reference]:
        """What the comments say of numbers."""
        for comment in self.comments:
            source, *lines = comment.splitlines()
            if source.startswith(NO_TABLE):
                yield from (Reference(number, None) for line in lines for number in line.split())
                continue
            table = pd.read_csv(RESULTS / f"{source}.csv")
            yield from (_reference(table, line) for line in lines)


def passages(page: Path) -> list[Passage]:
    """Return what a page is made of, without blocks of code."""
    found: list[Passage] = []
    heading = ""
    for block in re.split(r"\n\s*\n", _FENCES.sub("", page.read_text())):
        comments = tuple(_COMMENT.findall(block))
        text = _COMMENT.sub("", block).strip()
        if text.startswith("#"):
            heading = text.splitlines()[0].lstrip("# ")
        elif text:
            found.append(Passage(heading, text))
        if comments and found:
            found[-1] = replace(found[-1], comments=found[-1].comments + comments)
    return found


def _reference(table: pd.DataFrame, line: str) -> Reference:
    read = _LINE.fullmatch(line.strip())
    if read is None:
        raise ReproError("a comment's line cannot be read", actual=line, expected="NUMBER = [max] COLUMN [| LINE]")
    name = table.columns[0]
    which, names = read["line"], table[name].astype(str)
    if which and not which.startswith("where "):
        lines = table[names == which] if (names == which).any() else table[names.str.startswith(which)]
    else:
        lines = table[~names.str.startswith(_SUMMARY)]
        lines = lines.query(which.removeprefix("where ")) if which else lines
    values = lines.eval(read["what"]).dropna()
    over = read["over"]
    if over is None and len(values) != 1:
        raise ReproError("a comment names no single number", actual=f"{len(values)}: {line}")
    if over == "geomean":
        return Reference(read["number"], geometric_mean(values))
    return Reference(read["number"], float(values.agg(over) if over else values.iloc[0]))


def agrees(reference: Reference) -> bool:
    """Say whether a number is the table's, to the digits that are printed."""
    if reference.value is None:
        return True
    digits, _, exponent = reference.number.replace(",", "").partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(reference.value - float(f"{digits}e{exponent or 0}")) <= 0.5 * unit * (1 + 1e-9)


def stands_in(number: str, text: str) -> bool:
    """Say whether a text has a number, and not only as a part of another one."""
    return bool(re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d|[.,]\d)", text))
