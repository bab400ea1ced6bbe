"""The numbers that look measured in the sources of pages (docs/sources) and are filled in of no table."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_FILLED = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_REASON = re.compile(r"\{#\s*by hand: (.+?)\s*#\}", re.DOTALL)
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
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
class Passage:
    """A paragraph, list or table of a source."""

    heading: str
    #: Without comments, and with a word in place of each number that is filled in.
    text: str
    #: Why its numbers need not occur in a table.
    reason: str | None = None

    @property
    def stated(self) -> set[str]:
        """The numbers that look measured and are not filled in."""
        prose = _NO_NUMBERS.sub(" ", self.text)
        return {found["number"] or found["decimal"] for found in _STATED.finditer(prose)}


def passages(source: str) -> list[Passage]:
    """Return the passages of a source page, without blocks of code."""
    found: list[Passage] = []
    heading = ""
    for block in re.split(r"\n\s*\n", _FILLED.sub("filled", _FENCES.sub("", source))):
        reason = _REASON.search(block)
        text = _COMMENT.sub("", block).strip()
        if text.startswith("#"):
            heading = text.splitlines()[0].lstrip("# ")
        elif text:
            found.append(Passage(heading, text))
        if reason and found:
            found[-1] = replace(found[-1], reason=reason[1])
    return found
