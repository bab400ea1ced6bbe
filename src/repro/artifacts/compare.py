"""Two campaigns, row by row: the same, faster, slower, or not to be told from the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from repro.artifacts.case import median
from repro.artifacts.data import Campaign
from repro.artifacts.numbers import geometric_mean
from repro.bench.recorded import recorded_studies
from repro.bench.rows import ALL_CLOCKS, TIMED
from repro.bench.runnable import Clock
from repro.errors import ReproError

Verdict = Literal["same", "faster", "slower", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("same", "faster", "slower", "undecided")
KEY = ["study", "problem", "precision", "kind", "name", "cache"]
SAMPLED = ["q1", "median", "q3"]


@dataclass(frozen=True)
class Winner:
    """What one tuning chose in both campaigns.

    Attributes
    ----------
    study, problem, precision, clock, tuning
        Which choice.
    first, second
        The variant that each campaign chose.
    loss
        By how much, as a fraction, the foreign winner is slower than a campaign's own, in the search of the campaign
        where that is less; None where neither has timed both.
    agree
        One variant, one among the ties of the other, or a loss within the first campaign's tie.
    """

    study: str
    problem: str
    precision: str
    clock: str
    tuning: str
    first: str
    second: str
    loss: float | None
    agree: bool


@dataclass(frozen=True)
class Comparison:
    """Two campaigns side by side.

    Attributes
    ----------
    first, second
        Names of the campaigns; a ratio is the second's time over the first's.
    devices
        Model of each.
    rows
        A line for each row that both have timed: `KEY`, `phase`; for each clock `<clock>_first` and `<clock>_second`
        (medians in seconds), `<clock>_ratio` and `<clock>_verdict` (absent where a campaign lacks the clock); `ratio`
        (the geometric mean of the clocks') and `verdict`. Across devices all verdicts are None.
    uncompared
        Why rows of one campaign have no line, and how many.
    winners
        Every choice that both have made.
    changes
        What differs between the environments: key to the values of the first and of the second; empty across devices.
    across
        Whether the devices are of different models.
    """

    first: str
    second: str
    devices: tuple[str, str]
    rows: pd.DataFrame
    uncompared: Mapping[str, int]
    winners: tuple[Winner, ...]
    changes: Mapping[str, tuple[str, str]]
    across: bool

    @property
    def slower(self) -> pd.DataFrame:
        """The rows that got slower, the worst first."""
        return self.rows[self.rows["verdict"] == "slower"].sort_values(["ratio", *KEY], ascending=[False] + [True] * 6)


def find_campaign(given: str, results: Path) -> Path:
    """Return the `raw` folder of a campaign that is given by its name or by its folder.

    Raises
    ------
    ReproError
        There is none.
    """
    tried = [results / given / "raw", Path(given) / "raw", Path(given)]
    for path in tried:
        if path.name == "raw" and path.is_dir():
            return path
    raise ReproError(
        "no such campaign",
        expected=f"a folder below {results}, or the path of one that holds raw/",
        actual=given,
        todo="measure it first, or copy its folder there",
    )


def compare(
    first: Path,
    second: Path,
    *,
    tolerance: float,
    search: bool = False,
    across_devices: bool = False,
    load: Callable[[Path, str], Campaign] = Campaign.load,
) -> Comparison:
    """Compare all studies that two campaigns share.

    Parameters
    ----------
    first, second
        Their `raw` folders.
    tolerance
        Medians whose ratio is within 1 + tolerance either way are the same.
    search
        Compare the full rows of the search as well as the report's.
    across_devices
        Give ratios, and no verdict, where the devices are of different models.
    load
        Reads a study of a campaign.

    Raises
    ------
    ReproError
        A campaign cannot be read, they share no study, or the devices differ and that was not asked for.
    """
    shared = [name for name in recorded_studies(first) if name in recorded_studies(second)]
    if not shared:
        raise ReproError("the campaigns share no study", where=f"{first} and {second}")
    pairs = [(load(first, study), load(second, study)) for study in shared]
    devices = pairs[0][0].device or "nothing measured", pairs[0][1].device or "nothing measured"
    across = any((a.backend, a.device) != (b.backend, b.device) for a, b in pairs)
    if across and not across_devices:
        raise ReproError(
            "the campaigns are of different devices: a difference says nothing of what changed",
            expected=devices[0],
            actual=devices[1],
            todo="compare campaigns of one model, or ask for ratios alone with --across-devices",
        )
    frames, counts, winners = [], dict[str, int](), list[Winner]()
    for one, other in pairs:
        phases = [(one.report, other.report)]
        if search:
            phases.append((_full(one.search), _full(other.search)))
        for mine, theirs in phases:
            rows, left_out = _pair(mine, theirs)
            frames.append(rows)
            for why, count in left_out.items():
                counts[why] = counts.get(why, 0) + count
        winners += _winners(one, other)
    rows = _judge(pd.concat(frames, ignore_index=True), tolerance, judged=not across)
    return Comparison(
        first=pairs[0][0].name,
        second=pairs[0][1].name,
        devices=devices,
        rows=rows,
        uncompared={why: count for why, count in counts.items() if count},
        winners=tuple(winners),
        changes={} if across else _changes(*pairs[0]),
        across=across,
    )


def judge(first: Mapping[str, float], second: Mapping[str, float], tolerance: float) -> Verdict:
    """Return the verdict on two samples, each given by `q1`, `median` and `q3`.

    Medians within the tolerance are the same, whatever the spread; beyond it the second is faster or slower where the
    boxes from the first to the third quartile do not overlap, and else it is undecided.
    """
    if max(first["median"], second["median"]) <= min(first["median"], second["median"]) * (1 + tolerance):
        return "same"
    if second["q3"] < first["q1"]:
        return "faster"
    if second["q1"] > first["q3"]:
        return "slower"
    return "undecided"


def _full(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["protocol"] == "full"]


def _pair(mine: pd.DataFrame, theirs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Put rows of one key side by side; return those that both have timed, and why the others are left out."""
    columns = [*KEY, "phase", "status", "least_bytes", *(f"{c}_{q}" for c in ALL_CLOCKS for q in SAMPLED)]
    mine, theirs = (frame.loc[frame["status"] != "unavailable", columns] for frame in (mine, theirs))
    both = mine.merge(theirs, on=KEY, how="outer", suffixes=("_first", "_second"), indicator="in")
    matched = both["in"] == "both"
    timed = [both[f"status_{side}"].isin(TIMED) for side in ("first", "second")]
    # the same name, but another matrix: the least bytes differ
    changed = (both["least_bytes_first"] != both["least_bytes_second"]).fillna(False).astype(bool)
    keep = matched & timed[0] & timed[1] & ~changed
    left_out = {
        "only in the first": int((both["in"] == "left_only").sum()),
        "only in the second": int((both["in"] == "right_only").sum()),
        "timed in the first, failed in the second": int((matched & timed[0] & ~timed[1]).sum()),
        "failed in the first, timed in the second": int((matched & ~timed[0] & timed[1]).sum()),
        "failed in both": int((matched & ~timed[0] & ~timed[1]).sum()),
        "another matrix of that name": int((matched & timed[0] & timed[1] & changed).sum()),
    }
    return both[keep].rename(columns={"phase_first": "phase"}), left_out


def _judge(pairs: pd.DataFrame, tolerance: float, *, judged: bool) -> pd.DataFrame:
    """Return a line for each pair; without verdicts where nothing is to be judged."""
    lines = []
    for pair in pairs.to_dict("records"):
        line: dict[str, Any] = {name: pair[name] for name in [*KEY, "phase"]}
        ratios: list[float] = []
        verdicts: list[Verdict] = []
        for clock in ALL_CLOCKS:
            first, second = ({q: pair[f"{clock}_{q}_{side}"] for q in SAMPLED} for side in ("first", "second"))
            timed = all(time > 0 for time in (*first.values(), *second.values()))  # false for NaN
            verdict = judge(first, second, tolerance) if timed and judged else None
            ratio = second["median"] / first["median"] if timed else None
            line |= {f"{clock}_first": first["median"], f"{clock}_second": second["median"]}
            line |= {f"{clock}_ratio": ratio, f"{clock}_verdict": verdict}
            ratios += [] if ratio is None else [ratio]
            verdicts += [] if verdict is None else [verdict]
        line["ratio"] = geometric_mean(ratios) if ratios else np.nan
        # where the clocks contradict each other nothing is decided
        line["verdict"] = (verdicts[0] if len(set(verdicts)) == 1 else "undecided") if verdicts else None
        lines.append(line)
    columns = [*KEY, "phase"]
    columns += [f"{clock}_{what}" for clock in ALL_CLOCKS for what in ("first", "second", "ratio", "verdict")]
    return pd.DataFrame(lines, columns=[*columns, "ratio", "verdict"])


def _winners(one: Campaign, other: Campaign) -> Iterator[Winner]:
    chosen = [
        {
            (c["problem"], c["precision"], c["clock"], c["tuning"]): c
            for c in campaign.choices.to_dict("records")
        }
        for campaign in (one, other)
    ]  # fmt: skip
    for key in (key for key in chosen[0] if key in chosen[1]):
        problem, precision, clock, tuning = key
        first, second = (str(chosen[side][key]["name"]) for side in (0, 1))
        losses = [
            loss
            for campaign, own, foreign in ((one, first, second), (other, second, first))
            if (loss := _loss(campaign, key, own, foreign)) is not None
        ]
        loss = min(losses, default=None)
        tied = first in _names(chosen[1][key]["ties"]) or second in _names(chosen[0][key]["ties"])
        agree = first == second or tied or (loss is not None and loss <= one.tie)
        yield Winner(one.study, problem, precision, clock, tuning, first, second, loss, agree)


def _names(ties: Any) -> set[str]:
    return set() if ties is None else set(map(str, ties))


def _loss(campaign: Campaign, key: tuple[str, str, Clock, str], own: str, foreign: str) -> float | None:
    """Return by how much, as a fraction, the foreign winner is slower in a campaign's search than its own."""
    problem, precision, clock, _ = key
    times = {
        row["name"]: seconds
        for row in campaign.search_rows(problem, precision)
        # a few launches of the screening say too little
        if row["name"] in (own, foreign) and row["protocol"] == "full" and (seconds := median(row, clock))
    }
    return times[foreign] / times[own] - 1 if {own, foreign} <= set(times) else None


def _changes(one: Campaign, other: Campaign) -> dict[str, tuple[str, str]]:
    """Return what differs between the environments that the reports were measured in."""
    mine, theirs = (_environment(campaign) for campaign in (one, other))
    return {
        key: (mine.get(key, "–"), theirs.get(key, "–"))
        for key in sorted(mine | theirs)
        if mine.get(key) != theirs.get(key)
    }


def _environment(campaign: Campaign) -> dict[str, str]:
    used = sorted(set(campaign.report["environment"].dropna()) & set(campaign.environments))
    flat: dict[str, set[str]] = {}
    for name in used:
        for key, value in campaign.environments[name].items():
            inner = value.items() if isinstance(value, Mapping) else [(None, value)]
            for sub, part in inner:
                flat.setdefault(f"{key}.{sub}" if sub else key, set()).add(str(part))
    return {key: " and ".join(sorted(values)) for key, values in flat.items()}
