"""Several campaigns: in columns of one table, and two of them compared row by row.

Tables with columns of several campaigns take their problems, the titles of columns and the sentences of captions
from here. A comparison judges each row: the same, faster, slower, or undecided where runs scatter as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from repro.bench.rows import ALL_CLOCKS, TIMED
from repro.bench.runnable import ClockName
from repro.bench.store import recorded_studies
from repro.errors import ReproError
from repro.results.campaign_data import Campaign, ProblemRecord, median
from repro.results.significance import adjusted, interval_of_mean, p_values, sampling_error, spread_between_runs

#: Of a number that stands in no line with another campaign's.
OTHER_CONTENT = "another problem by this name: its content is not that of the line’s, so that no number stands here"


def with_all_problems(campaign: Campaign) -> Campaign:
    """Return a campaign with the problems of those beside it as well: what a table of all has lines of.

    The record of a problem is the first one's that could have it, so that what is unavailable here has a line of what
    was measured elsewhere.
    """
    records: dict[str, ProblemRecord] = {}
    for one in (campaign, *campaign.beside):
        for name, record in one.problems.items():
            if name not in records or (record.available and not records[name].available):
                records[name] = record
    return replace(campaign, problems=dict(sorted(records.items())))


def blank_reason(record: ProblemRecord | None, line: ProblemRecord | None) -> tuple[str, ...] | None:
    """Return what a campaign's cell has to say where it has no number to show in a line; None where it may have one.

    Parameters
    ----------
    record
        The campaign's own of the problem, None where it has none.
    line
        That of the line, which says itself why it is unavailable.
    """
    if record is None:
        return ()
    if not record.available:
        return () if record is line else (str(record.remark),)
    return (OTHER_CONTENT,) if line is not None and record.differs(line) else None


def conflicting_names(campaign: Campaign, other: Campaign) -> list[str]:
    """Return the names by which two campaigns mean different problems."""
    shared = ((name, record, other.problems.get(name)) for name, record in campaign.problems.items())
    return [name for name, mine, theirs in shared if theirs is not None and mine.differs(theirs)]


def conflict_note(campaign: Campaign) -> str:
    """Return the sentence that names the problems that are not compared for that; empty where there is none."""
    names = {other.name: conflicting_names(campaign, other) for other in campaign.beside}
    said = [f"{', '.join(problems)} ({name})" for name, problems in names.items() if problems]
    return f"Not compared, since their content differs in spite of the name: {'; '.join(said)}." if said else ""


def others_note(campaign: Campaign) -> str:
    """Return the sentences that say which campaigns stand beside this one, and of which code; empty where none does."""
    if not campaign.beside:
        return ""
    places = [f"campaign {other.name} on {other.device or 'no device yet'}" for other in campaign.beside]
    changed = [other.name for other in campaign.beside if campaign.sources and other.sources - campaign.sources]
    code = f" Measured, in part at least, with other code than this campaign: {', '.join(changed)}." if changed else ""
    return f"Beside it, by the same clock: {', '.join(places)}.{code}"


def column_title(campaign: Campaign, other: Campaign) -> str:
    """Return the title of another campaign's column: its device, and its name where another has the same device."""
    return f"{other.column}, {other.name}" if _repeats(campaign, other) else other.column


def campaign_label(campaign: Campaign, one: Campaign) -> str:
    """Return what stands for this campaign, or one beside it, in few words: its device, its name where that repeats."""
    return one.name if _repeats(campaign, one) else one.column


def _repeats(campaign: Campaign, one: Campaign) -> bool:
    return [each.column for each in (campaign, *campaign.beside)].count(one.column) > 1


Verdict = Literal["same", "faster", "slower", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("same", "faster", "slower", "undecided")
KEY = ["study", "problem", "precision", "kind", "name", "cache"]
CASE = ["study", "problem", "precision"]
SAMPLED = ["q1", "median", "q3"]
#: Of the rows that are called faster or slower, the share that may be neither.
FALSE_DISCOVERIES = 0.05


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
        (medians in seconds), `<clock>_ratio`, `<clock>_spread` (between runs, the scale of Student's t) and `<clock>_p`
        (all absent where a campaign lacks the clock); `ratio` (the geometric mean of the clocks'), `p` (the largest
        of the clocks', 1 where they contradict each other), `adjusted` (that for the number of rows) and `verdict`.
        Across devices there are neither spreads, p values nor verdicts.
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

    def mean_ratio(self) -> tuple[float, tuple[float, float] | None]:
        """Return the geometric mean of all ratios, and its interval by the bootstrap where there are two cases."""
        timed = self.rows[self.rows["ratio"].notna()]
        changes = np.log(timed["ratio"].to_numpy(float))
        return float(np.exp(changes.mean())), interval_of_mean(changes, list(timed[CASE].itertuples(index=False)))


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


def compare_campaigns(
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
        The smallest change that matters: medians whose ratio is within 1 + tolerance either way are the same, and a row
        is faster or slower where its true change is larger than that.
    search
        Compare the full rows of the search as well as the report's.
    across_devices
        Give ratios, and no verdict, where the devices are of different models.
    load
        Reads a study of a campaign.

    Raises
    ------
    ReproError
        A campaign cannot be read, they share no study or no timed row, or the devices differ and that was not asked
        for.
    """
    shared = [name for name in recorded_studies(first) if name in recorded_studies(second)]
    if not shared:
        raise ReproError("the campaigns share no study", where=f"{first} and {second}")
    pairs = [(load(first, study), load(second, study)) for study in shared]
    measured = [(a, b) for a, b in pairs if a.device and b.device]  # else there is nothing to compare
    differing = [(a, b) for a, b in measured if (a.backend, a.device) != (b.backend, b.device)]
    devices = _devices(differing or measured or pairs)
    across = bool(differing)
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
    timed = pd.concat(frames, ignore_index=True)
    if timed.empty:
        raise ReproError(
            "the campaigns share no timed row",
            where=f"{first} and {second}",
            actual=", ".join(f"{count} {why}" for why, count in counts.items() if count) or "no rows",
            todo="measure the same problems in both",
        )
    rows = _verdicts(timed, tolerance, judged=not across)
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


def _devices(pairs: Sequence[tuple[Campaign, Campaign]]) -> tuple[str, str]:
    """Return the device of either side, by the first pair."""
    one, other = pairs[0]
    return one.device or "nothing measured", other.device or "nothing measured"


def _full(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["protocol"] == "full"]


def _pair(mine: pd.DataFrame, theirs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Put rows of one key side by side; return those that both have timed, and why the others are left out."""
    columns = [
        *KEY,
        "phase",
        "status",
        "least_bytes",
        *(f"{c}_{q}" for c in ALL_CLOCKS for q in (*SAMPLED, "launches")),
    ]
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


def _verdicts(pairs: pd.DataFrame, tolerance: float, *, judged: bool) -> pd.DataFrame:
    """Return a line for each pair; without verdicts where nothing is to be judged."""
    lines = pairs[[*KEY, "phase"]].copy()
    for clock in ALL_CLOCKS:
        sides = [
            {what: pairs[f"{clock}_{what}_{side}"].to_numpy(float, na_value=np.nan) for what in (*SAMPLED, "launches")}
            for side in ("first", "second")
        ]
        medians = [side["median"] for side in sides]
        timed = np.logical_and.reduce([side[what] > 0 for side in sides for what in SAMPLED])  # false for NaN
        lines[f"{clock}_first"], lines[f"{clock}_second"] = medians
        lines[f"{clock}_ratio"] = lines[f"{clock}_spread"] = lines[f"{clock}_p"] = np.nan
        lines.loc[timed, f"{clock}_ratio"] = medians[1][timed] / medians[0][timed]
        if not judged:
            continue
        errors = np.hypot(*(sampling_error(**side) for side in sides))
        for phase in lines["phase"].unique():  # the search times otherwise than the report
            part = timed & (lines["phase"] == phase).to_numpy()
            changes = np.log(medians[1][part] / medians[0][part])
            spreads = spread_between_runs(changes, np.sqrt(medians[0][part] * medians[1][part]), clock)
            lines.loc[part, f"{clock}_spread"] = spreads
            lines.loc[part, f"{clock}_p"] = p_values(changes, spreads, errors[part], tolerance)
    ratios = lines[[f"{clock}_ratio" for clock in ALL_CLOCKS]]
    lines["ratio"] = np.exp(np.log(ratios).mean(axis=1))  # of the clocks that there are
    # a row has changed if all of its clocks say so and none says the opposite: intersection and union of tests
    # (R. L. Berger: Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24(4), 1982)
    longer, shorter = (ratios > 1).any(axis=1), (ratios < 1).any(axis=1)
    lines["p"] = lines[[f"{clock}_p" for clock in ALL_CLOCKS]].max(axis=1).mask(longer & shorter & judged, 1.0)
    lines["adjusted"] = adjusted(lines["p"].to_numpy(float))
    changed = lines["adjusted"] <= FALSE_DISCOVERIES
    within = (ratios.max(axis=1) <= 1 + tolerance) & (1 / ratios.min(axis=1) <= 1 + tolerance)
    verdicts = np.select([changed & longer, changed & shorter, within], ["slower", "faster", "same"], "undecided")
    lines["verdict"] = pd.Series(verdicts, lines.index, dtype=object).where(lines["p"].notna(), None)
    return lines


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


def _loss(campaign: Campaign, key: tuple[str, str, ClockName, str], own: str, foreign: str) -> float | None:
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
