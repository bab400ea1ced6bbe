"""Makes the pages that state measured numbers: docs/sources/*.md with the numbers of the tables of `results` filled in.

A source is a Jinja template. A table is named once, at its top, and asked for a number where that stands:

    {% set targets = table("h200/tables/compound_spmv/table-targets") %}
    Ours are {{ targets("ours", "speedup over the fastest routine, graph clock: worst") }} times as fast at least.
    With a cold cache it is up to {{ problems("max cold_speedup", 'where precision == "single"') }} times.
    The mean without any one matrix is {{ problems("spread geomean speedup") }}.

Several names make one table of all their lines.

The first argument is a column, or an expression of columns as `pandas.DataFrame.eval` takes it, with `min`, `max`,
`median`, `mean`, `geomean` or `count` before it where several lines are meant, and `spread` before these for the least
and the greatest when any one problem is left out. The second names a line by its first column, or by how that begins,
or finds lines by a query after `where`. The third is a format; `.2f` if left out.

The claims of a study, with the verdicts of several recorded campaigns beside each other, are `claims(study, campaign,
…)`, how many have which verdict `tally(study, campaign)`, and of several studies
together, as a sentence, `verdict("campaign/study", …)`. Winners on an edge of their space are a table `edges(…)` and a
sentence `edge_tally()`, and the headline numbers of all records a table `history(study)`.

The minutes of a command on two idle cores, as `make minutes` measured them last, are `minutes("make all")`, in words
and with their noun. A number of no table needs the reason behind its paragraph: `{# by hand: trials on a CPU #}`. The
command

    python docs/make_pages.py

writes the pages, README.md among them, and `tests/docs/test_measured_numbers.py` holds them to their sources.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import geometric_mean

import pandas as pd
from edges import edges
from edges import tally as edge_tally
from history import history
from jinja2 import Environment, StrictUndefined

from repro.results.claims import (
    CLOSE,
    RANGE,
    REACHES,
    Claim,
    Verdict,
    load_claims,
    verdict_count,
)
from repro.results.registry import OURS

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "docs/sources"
WIDTH = 120
SPREAD = "spread "
#: Units that a claim's words name already.
UNNAMED = ("ratio", "share", "gain", "count")
_AGGREGATE = re.compile(r"(?:(min|max|median|mean|geomean|count) )?(.+)", re.DOTALL)
_FENCES = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
#: In place of a space that no line ends at.
_NO_BREAK = "\x00"
_ITEM = re.compile(r"^(?=(?:-|\d+\.) )", re.MULTILINE)


@dataclass(frozen=True)
class Table:
    """A table of the results, asked for single numbers."""

    name: str
    frame: pd.DataFrame

    def __call__(self, what: str, line: str | None = None, form: str = ".2f") -> str:
        """Return a number as it is printed, or two of a spread."""
        if what.startswith(SPREAD):
            return " to ".join(format(number, form) for number in self.spread(what.removeprefix(SPREAD), line))
        return format(self.value(what, line), form)

    def value(self, what: str, line: str | None = None) -> float:
        """Return a number: of one line, or an aggregate of several."""
        return self._value(self._lines(line), what, line)

    def spread(self, what: str, line: str | None = None) -> tuple[float, float]:
        """Return the least and the greatest of an aggregate over all problems but one, whichever that is."""
        lines = self._lines(line)
        problems = lines.iloc[:, 0]
        without = [self._value(lines[problems != problem], what, line) for problem in problems.unique()]
        return min(without), max(without)

    def _value(self, lines: pd.DataFrame, what: str, line: str | None) -> float:
        aggregate, expression = _AGGREGATE.fullmatch(what).groups()
        values = lines.eval(expression).dropna()
        if aggregate is None and len(values) != 1:
            raise ValueError(f"{self.name}: {len(values)} numbers, not one, are {what!r} on {line!r}")
        if aggregate == "geomean":
            return geometric_mean(values)
        return float(values.agg(aggregate) if aggregate else values.iloc[0])

    def _lines(self, line: str | None) -> pd.DataFrame:
        names = self.frame.iloc[:, 0].astype(str)
        if line and not line.startswith("where "):
            return self.frame[names == line if (names == line).any() else names.str.startswith(line)]
        return self.frame.query(line.removeprefix("where ")) if line else self.frame


@cache
def table(*names: str) -> Table:
    """Return the table of a CSV file below `results`, or of several below each other."""
    return Table(", ".join(names), pd.concat([pd.read_csv(ROOT / f"results/{name}.csv") for name in names]))


def claims(study: str, *campaigns: str) -> str:
    """Return the claims of a study as Markdown: what is published, and what each campaign measured.

    Claims of which no campaign has a value are counted below the table, with a link to their reasons.
    """
    recorded = {name: table(f"{name}/tables/{study}/table-claims").frame.set_index("id") for name in campaigns}
    first = recorded[campaigns[0]]
    places = [str(place) for place in first["place"]]
    work = places[0].partition(", ")[0] + ", "
    common = work if all(place.startswith(work) for place in places) else ""
    gpu = str(first["gpu"].mode()[0])
    unit_of = {claim.id: claim.unit for claim in load_claims(study)}
    lines = [["claim", f"published{f' in {common}' if common else ' '}on {gpu}".replace(", on", " on"), *campaigns]]
    lines.append(["---"] * len(lines[0]))
    left_out = 0
    for id, place in zip(first.index, places, strict=True):
        one = first.loc[id]
        measured = [_measured(frame.loc[id]) for frame in recorded.values()]
        if set(measured) == {"–"}:
            left_out += 1
            continue
        unit = "" if unit_of[id] in UNNAMED else f" {unit_of[id]}".removesuffix("s" if one["published"] == "1" else "")
        on = "" if pd.isna(one["gpu"]) or one["gpu"] == gpu else f" on {one['gpu']}"
        where = re.sub(r"\bsections? ", "§", place.removeprefix(common))
        published = f"{_range(str(one['published']))}{unit}{on}, {where}"
        lines.append([cell.replace("|", "\\|") for cell in (str(one["claim"]), published, *measured)])
    reasons = f"../results/{campaigns[0]}/tables/{study}/table-claims.csv"
    further = f"{left_out} further claim{'s' if left_out > 1 else ''}"
    rest = f"{further} cannot be tested here ([which, and why]({reasons}))."
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + f"\n\n{rest}"


def _range(text: str) -> str:
    """Return a range such as `1 to 2` with a dash, `1–2`; a range with a minus sign stays as it is."""
    return text if "-" in text else text.replace(" to ", "–")


def _measured(claim: pd.Series[object]) -> str:
    """Return verdict and value, its interval in brackets if it has a width, and the number of several cases.

    The least and the largest of cases that are too few for an interval follow their number.
    """
    verdict = judged(claim)
    if verdict == "–":
        return verdict
    ends = str(claim["interval"]).removeprefix(RANGE)
    low, _, high = ends.partition(" to ")
    shown = _range(ends) if high and low != high else ""
    is_range = str(claim["interval"]).startswith(RANGE)
    interval = f" [{shown}]" if shown and not is_range else ""
    cases = f", n={claim['cases']:.0f}" if claim["cases"] > 1 else ""
    return verdict + interval + cases + (f" ({shown})" if shown and is_range else "")


def judged(claim: pd.Series[object]) -> str:
    """Return verdict and value of a claim: a dash where it cannot be tested, marked by whose kernels judged it."""
    measured = float(claim["measured"])
    value = "" if pd.isna(measured) else f"{measured:,.3g}" if abs(measured) < 1000 else f"{measured:,.0f}"
    mark = {"the paper’s, tuned further": "*", "ours": "†"}.get(str(claim["kernels"]), "") if value else ""
    if claim["verdict"] == "not testable here":
        return f"– ({value}{mark})" if value else "–"
    close = CLOSE if REACHES in str(claim["notes"]) else ""
    return f"{claim['verdict']}{close} {value}{mark}"


def tally(study: str, campaign: str) -> str:
    """Return how many statements have which verdict, `6 hold, 2 reversed`."""
    return ", ".join(_counted(_counts(f"{campaign}/{study}")))


def _counted(counts: Mapping[str, int]) -> list[str]:
    depend = f"depend{'s' * (counts.get(BY_READING) == 1)} on the reading"
    return [f"{n} {depend}" if key == BY_READING else verdict_count(key, n) for key, n in counts.items()]


def verdict(*judged: str) -> str:
    """Count the verdicts of all `campaign/study`: `Of 9 statements, 6 hold, 2 are weaker and 1 reversed`."""
    counts = {"holds": 0, **_counts(*judged)}
    apart = counts.pop(str(Verdict.BY_CONSTRUCTION), 0)
    hold, *others = _counted(counts)
    if others:
        others[0] = others[0].replace(" ", " is " if others[0].startswith("1 ") else " are ", 1)
        others[-1] = f" and {others[-1]}"
    text = f"Of {sum(counts.values())} statements, {', '.join([hold, *others[:-1]])}{''.join(others[-1:])}"
    return f"{text}; {apart} more follow from definitions" if apart else text


#: Counted in place of a verdict for a statement whose readings have different ones.
BY_READING = "by reading"


def verdicts_of_statements(verdicts: Mapping[str, str], claims: Sequence[Claim]) -> Counter[str]:
    """Return how many statements of a study have which verdict; `verdicts` are those of the claims by id.

    The readings of a statement that can be tested decide; if they differ, the verdict is `BY_READING`.
    """
    of_statement: dict[str, set[str]] = {}
    for claim in claims:
        if claim.id in verdicts and claim.place != OURS:
            of_statement.setdefault(claim.reading_of or claim.id, set()).add(verdicts[claim.id])
    counted: Counter[str] = Counter()
    for found in of_statement.values():
        testable = found - {Verdict.NOT_TESTABLE} or found
        counted[testable.pop() if len(testable) == 1 else BY_READING] += 1
    return counted


def _counts(*judged: str) -> dict[str, int]:
    counted = Counter[str]()
    for name in judged:
        campaign, study = name.split("/")
        frame = table(f"{campaign}/tables/{study}/table-claims").frame
        counted += verdicts_of_statements(dict(zip(frame["id"], frame["verdict"], strict=True)), load_claims(study))
    order = (
        "holds", "stronger", "weaker", "reversed", BY_READING, "by construction", "not testable here"
    )  # fmt: skip
    return {str(verdict): counted[verdict] for verdict in order if verdict in counted}


#: Words for numbers of minutes.
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@cache
def minutes(command: str) -> str:
    """Return how many minutes a command takes, `seven minutes`: the last line of it that was measured."""
    frame = pd.read_csv(SOURCES / "minutes.csv")
    count = max(1, round(float(frame.loc[frame["command"] == command, "minutes"].iloc[-1])))
    return f"{_WORDS[count - 1] if count <= len(_WORDS) else count} minute{'s' if count > 1 else ''}"


def page(source: str, origin: str) -> str:
    """Return the page of a source, its paragraphs broken into lines anew."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    filled = environment.from_string(source).render(
        table=table,
        claims=claims,
        tally=tally,
        verdict=verdict,
        minutes=minutes,
        edges=edges,
        edge_tally=edge_tally,
        history=history,
    )
    parts = (part if part.startswith("```") else _reflow(part) for part in _FENCES.split(filled))
    text = "\n\n".join(part for part in parts if part)
    return f"<!-- source: {origin} -->\n\n{text}\n"


def _reflow(text: str) -> str:
    """Fill the paragraphs and items of a text to the width."""
    return "\n\n".join(fill(block.strip("\n")) for block in re.split(r"\n\s*\n", text) if block.strip())


def fill(block: str) -> str:
    """Return a paragraph or a list in lines of the width; code, tables, heads and pictures as they are."""
    if block.startswith(("#", "|", "    ", "!", "[!", "<")):
        return block
    items = [item for item in _ITEM.split(block) if item]
    return "\n".join(_filled(item) for item in items)


def _filled(item: str) -> str:
    mark = re.match(r"(?:-|\d+\.) |", item).group()
    words = " ".join(item.split()).replace(" %", f"{_NO_BREAK}%")
    filled = textwrap.fill(
        words, WIDTH, subsequent_indent=" " * len(mark), break_long_words=False, break_on_hyphens=False
    )
    return filled.replace(_NO_BREAK, " ")


def target_of(source: Path) -> Path:
    """Return the page that is made of a source."""
    return ROOT / source.name if source.name == "README.md" else ROOT / "docs" / source.name


def page_of(source: Path) -> str:
    """Return the text of the page that is made of a source."""
    return page(source.read_text(), str(source.relative_to(ROOT)))


if __name__ == "__main__":
    for source in SOURCES.glob("*.md"):
        target_of(source).write_text(page_of(source))
