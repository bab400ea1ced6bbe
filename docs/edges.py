"""Winners of recorded searches that lie on an edge of their space, and what the record `h200-edges` found beyond.

The rule is that of `repro.tuning.edges`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from math import inf
from pathlib import Path

import pandas as pd
import yaml

from repro.results.edges import Bracket, brackets
from repro.studies import get_study
from repro.tuning.edges import Winner, winners, without_bin

ROOT = Path(__file__).parents[1]
#: The record of what lies beyond, and the studies and tunings that it measures.
BEYOND, CONFIG = "h200-edges", "config/edges.yaml"
HEAD = ("record", "tuning", "number", "winners on an edge", "at", "bracketed", "at a limit", "open", "to try", "missed")


def edges(*records: str) -> str:
    """Return, as a Markdown table, the winners on an edge of `campaign/study[/tuning,…]`, and what lies beyond.

    Bins of rows count as one tuning. Numbers of which no winner is on an edge have no line. Without arguments, return
    the tunings of `config/edges.yaml`.
    """
    lines = [list(HEAD), ["---"] * len(HEAD)]
    for record in records or configured():
        campaign, study, *asked = record.split("/", 2)
        found: dict[tuple[str, str], list[Winner]] = defaultdict(list)
        for winner in winners_of(campaign, study):
            tuning = without_bin(winner.tuning)
            if winner.position != "alone" and (not asked or tuning in asked[0].split(",")):
                found[tuning, winner.number].append(winner)
        for (tuning, number), group in sorted(found.items()):
            on_edge = [winner for winner in group if winner.is_on_edge]
            if not on_edge:
                continue
            beyond = {winner: bracket_of(campaign, study, winner) for winner in on_edge}
            states = [bracket.state if bracket else "falls" for bracket in beyond.values()]
            still = [winner for winner, bracket in beyond.items() if not bracket or bracket.state == "falls"]
            gains = [bracket.gain - 1 for bracket in beyond.values() if bracket and bracket.seconds < inf]
            to_try = {_next(winner, beyond[winner]) for winner in still}
            missed = f"{max(0.0, *gains):.1%}" if gains else ""
            lines.append(
                [
                    f"{campaign}, {study}",
                    tuning,
                    f"`{number}`",
                    f"{len(on_edge)} of {len(group)}",
                    ", ".join(f"{value:g}" for value in sorted({winner.value for winner in on_edge})),
                    *(str(states.count(state)) for state in ("rises", "limit", "falls")),
                    ", ".join(f"{value:g}" for value in sorted(to_try)),
                    missed,
                ]
            )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def tally() -> str:
    """Return a sentence on how many winners of the configured tunings are on an edge, and what became of them."""
    on_edge = list(_on_edges())
    states = [bracket.state for _, _, bracket in on_edge if bracket]
    missing = {winner.problem for _, winner, bracket in on_edge if not bracket}
    return (
        f"Of {len(on_edge)} winners on an edge, {states.count('rises')} are bracketed, {states.count('limit')} at a "
        f"limit, and {states.count('falls')} might go further; {len(on_edge) - len(states)} were not measured, of "
        f"{', '.join(f'`{problem}`' for problem in sorted(missing))}."
    )


def open_winners() -> list[tuple[str, Winner]]:
    """Return the winners of the configured tunings that are on an edge, and that the record does not bracket."""
    return [(record, winner) for record, winner, bracket in _on_edges() if not bracket or bracket.state == "falls"]


def _on_edges() -> Iterator[tuple[str, Winner, Bracket | None]]:
    """Yield record, winner and what was measured beyond it, for winners of the configured tunings on an edge."""
    for record in configured():
        campaign, study, tunings = record.split("/", 2)
        for winner in winners_of(campaign, study):
            if winner.is_on_edge and without_bin(winner.tuning) in tunings.split(","):
                yield record, winner, bracket_of(campaign, study, winner)


def configured() -> list[str]:
    """Return `campaign/study/tuning,…` for each record of `config/edges.yaml`."""
    studies = yaml.safe_load((ROOT / CONFIG).read_text())["studies"]
    asked: dict[tuple[str, str], list[str]] = defaultdict(list)
    for study, settings in studies.items():
        for edge in settings["edges"]:
            campaign, _, tuning = edge.partition("/")
            asked[campaign, study].append(tuning)
    return [f"{campaign}/{study}/{','.join(tunings)}" for (campaign, study), tunings in sorted(asked.items())]


def bracket_of(campaign: str, study: str, winner: Winner) -> Bracket | None:
    """Return what was measured beyond a winner; None if nothing was."""
    key = (campaign, winner.tuning, winner.number, winner.problem, winner.precision, winner.clock, winner.name)
    return _brackets(study).get(key)


def _next(winner: Winner, bracket: Bracket | None) -> float:
    furthest = list(bracket.beyond)[-1] if bracket and bracket.beyond else winner.value
    return furthest * 2 if winner.position == "most" else furthest / 2


@cache
def winners_of(campaign: str, study: str) -> list[Winner]:
    choices, search = _steps(campaign, study, "choices", "search")
    return winners(choices, search, list(get_study(study).numbers))


@cache
def _brackets(study: str) -> dict[tuple[str, ...], Bracket]:
    if not (ROOT / "results" / BEYOND / "raw" / study / "choices.parquet").is_file():
        return {}
    found = brackets(*_steps(BEYOND, study, "choices", "search", "report"), list(get_study(study).numbers))
    return {(one.record, one.tuning, one.number, one.problem, one.precision, one.clock, one.name): one for one in found}


def _steps(campaign: str, study: str, *steps: str) -> list[pd.DataFrame]:
    return [pd.read_parquet(ROOT / "results" / campaign / "raw" / study / f"{step}.parquet") for step in steps]
