"""Winners of recorded searches that lie on an edge of their space, and the measurement of what lies beyond.

A winner lies on an edge if, of the searched variants that differ from it in one number alone, it has the least or the
largest number, and no variant with another number ties with it. Numbers that cannot go further are no edges: one, a
warp of threads, the largest block, and blocks that fill a multiprocessor.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import TIMED, Row
from repro.bench.runnable import Candidate, Runnable, Workspace
from repro.bench.store import read_rows
from repro.bench.variant_id import BaseId
from repro.errors import ReproError, Unsupported
from repro.tuning.search import Choice
from repro.tuning.strategies import read_ids
from repro.words import EXTENDED, SPACES

if TYPE_CHECKING:
    import pandas as pd

    from repro.tuning.session import Session

#: Columns that, beside the searched numbers, tell variants apart.
WORDS = (
    "layout", "outer", "inner", "vector", "clustered", "ordering", "schedule", "load", "ahead", "way",
    "kernel_degree", "method", "format", "state", "exact", "product", "mode", "bin", "kind",
)  # fmt: skip
CASE = ["problem", "precision"]
WARP, MOST_THREADS, THREADS_OF_SM, BLOCKS_OF_SM = 32, 1024, 2048, 32
THREADS, BLOCKS = ("n_t", "threads"), ("n_b", "blocks")
#: A block's threads, and the number of blocks: per multiprocessor (`n_b`), which bounds their product, or of the grid.
SIZES = (*THREADS, *BLOCKS)
#: Steps by a factor of two beyond an edge: at least, and at most while the time still falls.
LEAST_STEPS, MOST_STEPS = 2, 5


@dataclass(frozen=True)
class Winner:
    """A number of a tuning's winner in one case by one clock."""

    tuning: str
    clock: str
    name: str
    problem: str
    precision: str
    number: str
    value: float
    #: `inside`, `limit`, or the edge: `least` or `most`; `alone` if no variant differs in this number alone.
    position: str

    @property
    def is_on_edge(self) -> bool:
        return self.position in ("least", "most")


def position(value: float, tried: Sequence[float], number: str, other: float = 1, tied: Sequence[float] = ()) -> str:
    """Return where a winner's number lies among those that were tried with all else equal.

    `other` is the number of `SIZES` that goes with it, and `tied` are the numbers of the variants that are as fast.
    """
    least, most = min(tried), max(tried)
    if least == most:
        return "alone"
    if any(least < one < most for one in (value, *tied)) or {least, most} <= {value, *tied}:
        return "inside"
    largest = {"width": WARP, **dict.fromkeys(THREADS, MOST_THREADS), "n_b": BLOCKS_OF_SM}.get(number)
    fills = value == largest or (number in ("n_t", "n_b") and 2 * value * other > THREADS_OF_SM)
    if value == most:
        return "limit" if fills else "most"
    return "limit" if value == 1 or (number in THREADS and value == WARP) else "least"


def spaces_of(tuning: str) -> tuple[str, ...]:
    """Return the spaces that a tuning chooses from."""
    if tuning.startswith(("paper_tuned", "tuned_")):
        return SPACES[:2]
    return SPACES[:1] if tuning.startswith("paper") else SPACES


def without_bin(tuning: str) -> str:
    """Return the tuning's name for all bins of rows together."""
    return re.sub(r"/b\d+$", "", tuning)


class SearchedVariants:
    """The variants of a search, grouped so that those of a group differ in one number only."""

    def __init__(self, search: pd.DataFrame, numbers: Sequence[str]) -> None:
        self.rows = search.drop_duplicates([*CASE, "name"]).reset_index(drop=True)
        self.numbers = [name for name in numbers if name in self.rows]
        words = [name for name in (*CASE, *WORDS) if name in self.rows]
        # 0: a kernel without the number
        self.values = self.rows[self.numbers].fillna(0).astype(float).to_numpy()
        self._kinds = list(self.rows[words].astype(str).itertuples(index=False, name=None))
        ids = zip(*(self.rows[name] for name in (*CASE, "name")), strict=True)
        self.places = {id: place for place, id in enumerate(ids)}
        self._lines: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for place in range(len(self.rows)):
            for column in range(len(self.numbers)):
                self._lines[self._key(place, column)].append(place)

    def _key(self, place: int, column: int) -> tuple[object, ...]:
        return (column, self._kinds[place], tuple(value for at, value in enumerate(self.values[place]) if at != column))

    def differing_in(self, place: int, column: int) -> list[int]:
        """Return the places of a variant and of all that differ from it in one number only."""
        return self._lines[self._key(place, column)]


def winners(choices: pd.DataFrame, search: pd.DataFrame, numbers: Sequence[str]) -> list[Winner]:
    """Return each number of each winner, from the rows of a record's steps `choices` and `search`."""
    lines = SearchedVariants(search[search["status"].isin(TIMED)], numbers)
    spaces = list(lines.rows["space"]) if "space" in lines.rows else [SPACES[0]] * len(lines.rows)
    found = []
    for choice in choices.to_dict("records"):
        case, allowed = (choice["problem"], choice["precision"]), spaces_of(choice["tuning"])
        winner = lines.places.get((*case, choice["name"]))
        if winner is None:
            continue
        ties, own = {lines.places.get((*case, name)) for name in choice["ties"]}, lines.values[winner]
        for column, number in enumerate(lines.numbers):
            if not own[column]:
                continue
            places = [place for place in lines.differing_in(winner, column) if spaces[place] in allowed]
            tried = [lines.values[place, column] for place in places]
            same = [lines.values[place, column] for place in places if place in ties]
            others = [own[at] for at, name in enumerate(lines.numbers) if name != number and name in SIZES]
            where = position(own[column], tried, number, max(others, default=1.0), same)
            chosen = (choice["tuning"], choice.get("clock", ""), choice["name"])
            found.append(Winner(*chosen, *case, number, float(own[column]), where))
    return found


def with_number(id: Any, path: str, number: float) -> Any:
    """Return an id with another number in the attribute `path`, such as `schedule.width`."""
    name, _, rest = path.partition(".")
    old = getattr(id, name)
    return replace(id, **{name: with_number(old, rest, number) if rest else type(old)(number)})


class Refused(Candidate):
    """A variant beyond an edge that there is no kernel for; its row has the reason."""

    kind, space, packing, group = "variant", EXTENDED, None, None

    def __init__(self, id: BaseId, reason: ReproError) -> None:
        self.id, self.name = id, str(id)
        self._reason = ": ".join(str(part) for part in (reason.what, reason.expected, reason.actual) if part)

    @property
    def columns(self) -> dict[str, Any]:
        return {**self.id.columns, "space": self.space}

    def prepare(self, workspace: Workspace) -> None:
        raise Unsupported(self._reason)


def winners_on_edges(session: Session, numbers: Sequence[str]) -> Iterator[tuple[str, Winner]]:
    """Yield the configured records' winners of this case that lie on an edge, each with its record."""
    for record in session.settings.edge_records:
        folder = CampaignFolder.of(record, session.campaign.path.parent).study(session.bench.study_name)
        steps = (read_rows(folder, step, [session.problem.name]).to_pandas() for step in ("choices", "search"))
        choices, search = (rows[rows["precision"] == session.precision] if len(rows) else rows for rows in steps)
        for winner in winners(choices, search, numbers) if len(choices) else ():
            if winner.is_on_edge and f"{record}/{without_bin(winner.tuning)}" in session.settings.edges:
                yield record, winner


def measure_edges(
    session: Session, numbers: Mapping[str, str], id_class: type[BaseId], variant: Callable[[BaseId], Runnable]
) -> Iterator[tuple[str, Sequence[Row] | Sequence[Choice]]]:
    """Time recorded winners on an edge and the variants beyond it, all in the same rounds; yield a study's steps.

    From each winner the number that lies on the edge goes on by factors of two, while the time falls. `choices` has the
    recorded winner, under the name of record, tuning, number and edge.

    Parameters
    ----------
    numbers
        Attribute of an id that holds a number, by the number's column.
    variant
        Function that returns the compiled variant of an id; it raises `ReproError` for one that cannot exist.
    """
    edges = list(winners_on_edges(session, list(numbers)))
    ids_by_name = {str(id): id for id in read_ids([edge.name for _, edge in edges], id_class)}
    lines = {(edge.name, edge.number, edge.position): [ids_by_name[edge.name]] for _, edge in edges}
    built: dict[str, Candidate] = {}
    rows: dict[str, Row] = {}

    def build(id: BaseId) -> Candidate:
        try:
            candidate = variant(*read_ids([str(id)], id_class))  # refuses what is no id
            assert isinstance(candidate, Candidate)
            _ = candidate.identity  # compiles what is compiled on demand
        except ReproError as reason:
            return Refused(id, reason)
        return candidate

    for step in range(1 + MOST_STEPS):
        reached = {key: line for key, line in lines.items() if len(line) == 1 + step}
        ids = list({str(line[-1]): line[-1] for line in reached.values() if str(line[-1]) not in built}.values())
        with session.bench.workspace.device_lent(), ThreadPoolExecutor(session.jobs) as pool:
            candidates = [*map(build, ids[:1]), *pool.map(build, ids[1:])]  # the first compiles what all share
        built |= {candidate.name: candidate for candidate in candidates}
        rows |= {row.name: row for row in session.screen_candidates(candidates, "edges")} if candidates else {}
        for (_, number, where), line in reached.items():
            times = [row.screened_by or inf if (row := rows[str(id)]).status in TIMED else inf for id in line]
            value = attrgetter(numbers[number])(line[-1]) * (2 if where == "most" else 0.5)
            goes_on = step < MOST_STEPS and (step < LEAST_STEPS or times[-1] == min(times))
            if times[-1] < inf and goes_on and (value >= 1 or number == "cell"):
                line.append(with_number(line[-1], numbers[number], value))
    yield "search", list(rows.values())
    yield "baseline", []
    timed = [candidate for name, candidate in built.items() if rows[name].status in TIMED]
    yield "report", session.time_in_rounds(timed) if timed else []
    tunings = [(edge, f"{record}/{edge.tuning}/{edge.number}/{edge.position}") for record, edge in edges]
    yield "choices", [Choice(edge.clock, tuning, ids_by_name[edge.name]) for edge, tuning in tunings]
