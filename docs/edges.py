"""Winners of recorded searches that lie on an edge of their space, so that a larger space might have a faster one.

A winner lies on an edge if, of the searched variants that differ from it in one number alone, it has the least or the
largest number, and no variant with another number ties with it. Numbers that cannot go further are no edges: one, a
warp of threads, the largest block, and blocks that fill a multiprocessor.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

#: The searched numbers of each study, by the column of rows.
NUMBERS: Mapping[str, tuple[str, ...]] = {
    "compound_spmv": ("n_t", "n_b", "width", "unroll"),
    "compressed_coo": ("n_t", "per_thread", "chunks"),
    "dg_postprocessing": ("threads", "cell", "blocks", "vector_width", "regions_per_block", "blocks_per_sm"),
    "dynamic_csr": ("width", "per_thread", "unroll"),
    "spgemm_amg": ("width", "slots", "rows_of_block"),
}
#: What else tells variants apart.
WORDS = (
    "layout", "outer", "inner", "vector", "clustered", "ordering", "schedule", "load", "ahead", "way", "what",
    "kernel_degree", "method", "format", "state", "exact", "product", "mode", "bin", "kind",
)  # fmt: skip
ROOT = Path(__file__).parents[1]
CASE = ["problem", "precision"]
SPACES = ("paper", "paper_tuned", "extended")
WARP, MOST_THREADS, THREADS_OF_SM, BLOCKS_OF_SM = 32, 1024, 2048, 32
THREADS, BLOCKS = ("n_t", "threads"), ("n_b", "blocks")
#: A block's threads and the blocks of a multiprocessor, whose product a multiprocessor bounds.
SIZES = (*THREADS, *BLOCKS)


@dataclass(frozen=True)
class Winner:
    """A number of a tuning's winner in one case by one clock."""

    study: str
    tuning: str
    number: str
    value: float
    #: `inside`, `limit`, or the edge: `least` or `most`; `alone` if no variant differs in this number alone.
    position: str
    case: str


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


def winners(folder: Path) -> list[Winner]:
    """Return each number of each winner of a study's record, `results/<campaign>/raw/<study>`."""
    choices, search = (pd.read_parquet(folder / f"{step}.parquet") for step in ("choices", "search"))
    search = search[search["status"].isin(["ok", "noisy"])].drop_duplicates([*CASE, "name"])
    numbers = [name for name in NUMBERS[folder.name] if name in search]
    words = [name for name in (*CASE, *WORDS) if name in search]
    # 0: a kernel without the number
    values = search[numbers].fillna(0).astype(float).to_numpy()
    kinds = list(search[words].astype(str).itertuples(index=False, name=None))
    ids = list(zip(*(search[name] for name in (*CASE, "name")), strict=True))
    place_of = {id: place for place, id in enumerate(ids)}
    spaces = list(search["space"]) if "space" in search else [SPACES[0]] * len(search)

    def line(place: int, column: int) -> tuple[object, ...]:
        """Return what all variants share that differ from one in a number alone."""
        return (column, kinds[place], tuple(value for at, value in enumerate(values[place]) if at != column))

    lines = defaultdict(list)
    for place in range(len(ids)):
        for column in range(len(numbers)):
            lines[line(place, column)].append(place)
    found = []
    for choice in choices.itertuples(index=False):
        case, allowed = (choice.problem, choice.precision), spaces_of(choice.tuning)
        winner = place_of.get((*case, choice.name))
        ties = {place_of.get((*case, name)) for name in choice.ties}
        for column, number in enumerate(numbers if winner is not None else ()):
            if not values[winner, column]:
                continue
            places = [place for place in lines[line(winner, column)] if spaces[place] in allowed]
            tried = [values[place, column] for place in places]
            same = [values[place, column] for place in places if place in ties]
            others = [values[winner, at] for at, name in enumerate(numbers) if name != number and name in SIZES]
            where = position(values[winner, column], tried, number, max(others, default=1.0), same)
            found.append(Winner(folder.name, choice.tuning, number, values[winner, column], where, " ".join(case)))
    return found


def edges(*records: str) -> str:
    """Return, as a Markdown table, the winners on an edge of `campaign/study[/tuning,…]`, and what would bracket them.

    Bins of rows count as one tuning. Numbers of which no winner is on an edge have no line.
    """
    lines = [["record", "tuning", "number", "winners on an edge", "at", "to try"], ["---"] * 6]
    for record in records:
        campaign, study, *asked = record.split("/", 2)
        counted: dict[tuple[str, str], Counter[tuple[str, float]]] = defaultdict(Counter)
        for winner in _winners(campaign, study):
            tuning = re.sub(r"/b\d+$", "", winner.tuning)
            if winner.position != "alone" and (not asked or tuning in asked[0].split(",")):
                counted[tuning, winner.number][winner.position, winner.value] += 1
        for (tuning, number), positions in sorted(counted.items()):
            at = {value: n for (where, value), n in sorted(positions.items()) if where in ("least", "most")}
            if not at:
                continue
            least = [value / 2 for where, value in positions if where == "least"]
            most = [value * 2 for where, value in positions if where == "most"]
            lines.append(
                [
                    f"{campaign}, {study}",
                    tuning,
                    f"`{number}`",
                    f"{sum(at.values())} of {sum(positions.values())}",
                    ", ".join(f"{value:g}" for value in at),
                    ", ".join(f"{value:g}" for value in sorted({*least, *most})),
                ]
            )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


@cache
def _winners(campaign: str, study: str) -> list[Winner]:
    return winners(ROOT / "results" / campaign / "raw" / study)
