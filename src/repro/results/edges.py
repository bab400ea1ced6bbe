"""What lies beyond the edges of recorded searches: a table of the times there, and whether each winner is bracketed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import pandas as pd

from repro.bench.rows import TIMED, median_column
from repro.results.campaign_data import TIE, Campaign
from repro.results.columns import MICRO, number_cell, precision_cell, ratio
from repro.results.published import Published
from repro.results.registry import OURS, table
from repro.results.tables import Cell, Column, Table, table_of
from repro.tuning.edges import SearchedVariants

TABLE = "table-edges"


@dataclass(frozen=True)
class Bracket:
    """A recorded winner on an edge, and the variants beyond it, timed in the same rounds."""

    record: str
    tuning: str
    number: str
    #: `least` or `most`.
    edge: str
    problem: str
    precision: str
    clock: str
    name: str
    value: float
    #: Seconds of the winner; infinite if it failed.
    seconds: float
    #: Values beyond the edge, the nearest first, with their seconds; infinite if the variant failed.
    beyond: Mapping[float, float]
    #: Why the furthest variant has no time, if it has none.
    reason: str
    #: Keys of the rows with these times.
    keys: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """Time of the winner over the least time beyond the edge; at most 1 if nothing there is faster."""
        return self.seconds / min(self.beyond.values(), default=inf)

    @property
    def state(self) -> str:
        """`rises`: the furthest variant is no faster than all nearer ones, ties apart; `limit`: none is possible there;
        or `falls`.
        """
        times = [self.seconds, *self.beyond.values()]
        if len(times) > 1 and times[-1] < inf and times[-1] * (1 + TIE) > min(times[:-1]):
            return "rises"
        ends = self.reason or (min([self.value, *self.beyond]) <= 1 and self.edge == "least" and self.number != "cell")
        return "limit" if ends and self.seconds < inf else "falls"


def brackets(
    choices: pd.DataFrame, search: pd.DataFrame, report: pd.DataFrame, numbers: Sequence[str]
) -> list[Bracket]:
    """Return a bracket for each choice of a campaign that measured beyond edges."""
    lines = SearchedVariants(search, numbers)
    warm = report[(report["cache"] == "warm") & report["status"].isin(TIMED)]
    timed = {(row["problem"], row["precision"], row["name"]): row for row in warm.to_dict("records")}
    found = []
    for choice in choices.to_dict("records"):
        case, clock = (choice["problem"], choice["precision"]), choice["clock"]
        record, _, rest = choice["tuning"].partition("/")
        if not rest.endswith(("/least", "/most")):  # of a campaign that measured no edges
            continue
        tuning, number, edge = rest.rsplit("/", 2)
        winner, column = lines.places[*case, choice["name"]], lines.numbers.index(number)
        value = float(lines.values[winner, column])
        places = {
            float(lines.values[place, column]): lines.rows.loc[place] for place in lines.differing_in(winner, column)
        }
        outside = sorted(one for one in places if (one > value if edge == "most" else one < value))
        outside = outside if edge == "most" else outside[::-1]

        def seconds(name: str, case: tuple[str, str] = case, clock: str = clock) -> float:
            return timed.get((*case, name), {}).get(median_column(clock)) or inf

        beyond = {one: seconds(str(places[one]["name"])) for one in outside}
        reason = ""
        last = places[outside[-1]] if outside else None
        if last is not None and beyond[outside[-1]] == inf and last["status"] not in TIMED:
            reason = last["message"] if isinstance(last["message"], str) else str(last["status"])
        names = [choice["name"], *(str(places[one]["name"]) for one in outside)]
        keys = tuple(row["key"] for name in names if "key" in (row := timed.get((*case, name), {})))
        found.append(
            Bracket(
                *(record, tuning, number, edge, *case, clock, choice["name"], value),
                *(seconds(choice["name"]), beyond, reason, keys),
            )
        )
    return found


def _text(column: str, title: str, cell: object) -> Column[Bracket]:
    return Column(column, title, numeric=False, cell=cell)  # type: ignore[arg-type]


def _micro(seconds: float) -> str:
    return "none" if seconds == inf else f"{seconds * MICRO:.4g}"


COLUMNS: tuple[Column[Bracket], ...] = (
    _text("problem", "problem", lambda line: Cell(line.problem)),
    _text("precision", "precision", lambda line: precision_cell(line.precision)),
    _text("record", "record", lambda line: Cell(line.record)),
    _text("tuning", "tuning", lambda line: Cell(line.tuning)),
    _text("clock", "clock", lambda line: Cell(line.clock)),
    _text("number", "number", lambda line: Cell(line.number)),
    _text("name", "recorded winner", lambda line: Cell(line.name)),
    Column("value", "value", "recorded winner", cell=lambda line: number_cell(line.value)),
    Column("time_us", "µs", "recorded winner", cell=lambda line: Cell() if line.seconds == inf else replace(
        number_cell(line.seconds, MICRO), keys=line.keys)),
    _text("beyond", "values beyond", lambda line: Cell(", ".join(f"{value:g}" for value in line.beyond))),
    _text("us_beyond", "µs there", lambda line: Cell(", ".join(map(_micro, line.beyond.values())))),
    Column("gain", "gain", cell=lambda line: ratio(line.gain if 0 < line.gain < inf else None)),
    _text("state", "beyond", lambda line: Cell(line.state, notes=(line.reason,) if line.reason else ())),
)  # fmt: skip


def register_edges(study_name: str, numbers: Sequence[str]) -> None:
    """Register a study's table of what lies beyond edges; it is made only for campaigns that measure this."""

    @table(study_name, TABLE, title="Beyond the edges of searched spaces", numbering=OURS, needs="edges")
    def make_table(campaign: Campaign, published: Published) -> Table:
        lines = brackets(campaign.choices, campaign.search, campaign.report, numbers)
        caption = (
            "Recorded winners that lie on an edge of their space, and variants that differ from them in one number "
            "alone and lie beyond the edge, timed in the same rounds. Gain: time of the recorded winner over the least "
            "time beyond. Rises: the winner is bracketed; limit: the number cannot go further, for the reason in the "
            f"note; falls: it might go further. {campaign.device}, campaign {campaign.name}."
        )
        return table_of(COLUMNS, lines, caption, is_empty=not lines)
