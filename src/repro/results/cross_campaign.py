"""Tables with columns for several campaigns, and the row-by-row comparison of two campaigns.

The comparison labels each row as same, faster, slower, or undecided if noise between runs can explain the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import ALL_CLOCKS, TIMED, ClockName
from repro.bench.store import recorded_studies
from repro.config.validation_errors import suggestion
from repro.errors import ReproError
from repro.results.campaign_data import Campaign, ProblemRecord
from repro.results.significance import adjusted, interval_of_mean, p_values, sampling_error, spread_between_runs

#: Note on a cell without a number because the campaigns use one name for different problems.
OTHER_CONTENT = "another problem by this name: its content is not that of the line’s, so that no number stands here"


def with_all_problems(campaign: Campaign) -> Campaign:
    """Return a campaign whose problems also include those of `campaign.beside`, for a table of all campaigns.

    Each problem has the record of the first campaign in which it is available.
    """
    records: dict[str, ProblemRecord] = {}
    for compared in (campaign, *campaign.beside):
        for name, record in compared.problems.items():
            if name not in records or (record.available and not records[name].available):
                records[name] = record
    return replace(campaign, problems=dict(sorted(records.items())))


def blank_reason(record: ProblemRecord | None, line: ProblemRecord | None) -> tuple[str, ...] | None:
    """Return the notes for an empty cell of a campaign, or None if the cell may have a number.

    `record` is the campaign's record of the problem, `line` the record that the table line shows. If `line` itself is
    unavailable, the line already gives the reason and the cell gets no note.
    """
    if record is None:
        return ()
    if not record.available:
        return () if record is line else (str(record.remark),)
    return (OTHER_CONTENT,) if line is not None and record.differs(line) else None


def conflicting_names(campaign: Campaign, other: Campaign) -> list[str]:
    """Return the names that denote problems of different content in two campaigns."""
    shared = ((name, record, other.problems.get(name)) for name, record in campaign.problems.items())
    return [name for name, mine, theirs in shared if theirs is not None and mine.differs(theirs)]


def conflict_note(campaign: Campaign) -> str:
    """Return a sentence that lists problems not compared because of `conflicting_names`; empty if there are none."""
    names = {other.name: conflicting_names(campaign, other) for other in campaign.beside}
    said = [f"{', '.join(problems)} ({name})" for name, problems in names.items() if problems]
    return f"Not compared, since their content differs in spite of the name: {'; '.join(said)}." if said else ""


def others_note(campaign: Campaign) -> str:
    """Return sentences that name the campaigns in `campaign.beside` and their code versions; empty if none."""
    if not campaign.beside:
        return ""
    places = [f"campaign {other.name} on {other.device or 'no device yet'}" for other in campaign.beside]
    changed = [other.name for other in campaign.beside if campaign.sources and other.sources - campaign.sources]
    code = f" Measured, in part at least, with other code than this campaign: {', '.join(changed)}." if changed else ""
    return f"Beside it, by the same clock: {', '.join(places)}.{code}"


def column_title(campaign: Campaign, other: Campaign) -> str:
    """Return the column title of another campaign: its device, followed by its name if devices repeat."""
    return f"{other.column}, {other.name}" if _repeats(campaign, other) else other.column


def campaign_label(campaign: Campaign, other: Campaign) -> str:
    """Return a short label for campaign `other`, `campaign` itself or one beside it: its device, or its name if devices
    repeat.
    """
    return other.name if _repeats(campaign, other) else other.column


def _repeats(campaign: Campaign, other: Campaign) -> bool:
    return [each.column for each in (campaign, *campaign.beside)].count(other.column) > 1


Verdict = Literal["same", "faster", "slower", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("same", "faster", "slower", "undecided")
KEY = ["study", "problem", "precision", "kind", "name", "cache"]
CASE = ["study", "problem", "precision"]
SAMPLED = ["q1", "median", "q3"]
#: False discovery rate: expected share of wrong verdicts among the rows labelled faster or slower.
FALSE_DISCOVERIES = 0.05


@dataclass(frozen=True)
class ComparedChoice:
    """The variants that one tuning chose in the two campaigns."""

    study: str
    problem: str
    precision: str
    clock: str
    tuning: str
    #: The variant that each campaign chose.
    first: str
    second: str
    #: Relative slowdown from using the other campaign's winner: the smaller of the two campaigns' values, from times of
    #: the search; None if neither campaign has timed both winners.
    loss: float | None
    #: Whether the winners are the same variant, tied in a campaign, or have a loss within the first campaign's tie.
    agree: bool


@dataclass(frozen=True)
class Comparison:
    """Comparison of two campaigns; a ratio is the second campaign's time divided by the first's."""

    first: str
    second: str
    #: Device models of the two campaigns.
    devices: tuple[str, str]
    #: One line for each row that both campaigns have timed. Columns: `KEY` and `phase`; for each clock
    #: `<clock>_first` and `<clock>_second` (medians in seconds), `<clock>_ratio`, `<clock>_spread` (scale of Student's
    #: t for changes between runs) and `<clock>_p`, all NaN if a campaign lacks the clock; `ratio` (geometric mean of
    #: the clocks' ratios), `p` (largest p value of the clocks, or 1 if they contradict each other), `adjusted` (`p`
    #: corrected for the number of rows), `verdict`. Different devices get no spreads, p values and verdicts.
    rows: pd.DataFrame
    #: Number of rows that were not compared, for each reason.
    uncompared: Mapping[str, int]
    #: For each case, clock and tuning with a choice in both campaigns: the two chosen variants.
    winners: tuple[ComparedChoice, ...]
    #: Differing entries of the environments with the values of both campaigns; empty for different devices.
    changes: Mapping[str, tuple[str, str]]
    #: Whether the devices are of different models.
    across: bool

    @property
    def slower(self) -> pd.DataFrame:
        """The rows that got slower, the worst first."""
        return self.rows[self.rows["verdict"] == "slower"].sort_values(["ratio", *KEY], ascending=[False] + [True] * 6)

    def mean_ratio(self) -> tuple[float, tuple[float, float] | None]:
        """Return the geometric mean of all ratios and its bootstrap interval; no interval for fewer than two cases."""
        timed = self.rows[self.rows["ratio"].notna()]
        changes = np.log(timed["ratio"].to_numpy(float))
        return float(np.exp(changes.mean())), interval_of_mean(changes, list(timed[CASE].itertuples(index=False)))


def find_campaign(given: str, results: Path) -> CampaignFolder:
    """Return the folder of a campaign, given by its name, its folder or its `raw`; raise `ReproError` if missing."""
    tried = [CampaignFolder.of(given, results), CampaignFolder(Path(given))]
    if Path(given) == (above := CampaignFolder(Path(given).parent)).raw:
        tried.append(above)
    for folder in tried:
        if folder.raw.is_dir():
            return folder
    raise ReproError(
        "no such campaign",
        expected=f"a folder below {results}, or the path of one that holds raw/",
        actual=f"{given}{suggestion(given, [folder.name for folder in CampaignFolder.measured(results)])}",
        todo="measure it first, or copy its folder there: `repro list campaigns` has all",
    )


def compare_campaigns(
    first: CampaignFolder,
    second: CampaignFolder,
    *,
    tolerance: float,
    search: bool = False,
    across_devices: bool = False,
    load: Callable[[CampaignFolder, str], Campaign] = Campaign.load,
) -> Comparison:
    """Compare all studies that two campaigns share.

    Parameters
    ----------
    tolerance
        Largest relative change that does not matter. Medians within a factor of 1 + tolerance count as the same; a row
        is faster or slower if its true change exceeds the tolerance.
    search
        Also compare fully timed rows of the search phase, not only rows of the report phase.
    across_devices
        Allow different device models, with ratios but no verdicts; otherwise they are refused.
    load
        Function that reads one study of a campaign.
    """
    shared = [name for name in recorded_studies(first) if name in recorded_studies(second)]
    if not shared:
        raise ReproError("the campaigns share no study", where=f"{first.raw} and {second.raw}")
    pairs = [(load(first, study), load(second, study)) for study in shared]
    measured = [(a, b) for a, b in pairs if a.device and b.device]  # a study without a device has no measured rows
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
    frames, counts, winners = [], dict[str, int](), list[ComparedChoice]()
    for base, other in pairs:
        phases = [(base.report, other.report)]
        if search:
            phases.append((_full(base.search), _full(other.search)))
        for mine, theirs in phases:
            if mine.empty and theirs.empty:  # recorded campaigns may lack the rows of the search phase
                continue
            rows, left_out = _pair(mine, theirs)
            frames.append(rows)
            for why, count in left_out.items():
                counts[why] = counts.get(why, 0) + count
        winners += _winners(base, other)
    timed = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if timed.empty:
        raise ReproError(
            "the campaigns share no timed row",
            where=f"{first.raw} and {second.raw}",
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
    """Return the devices of the two campaigns, from their first study."""
    first, other = pairs[0]
    return first.device or "nothing measured", other.device or "nothing measured"


def _full(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.protocol == "full"]


def _pair(mine: pd.DataFrame, theirs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Join rows with equal keys; return those timed in both campaigns, and counts of the others by reason."""
    columns = [
        *KEY,
        "phase",
        "status",
        "least_bytes",
        *(f"{c}_{q}" for c in ALL_CLOCKS for q in (*SAMPLED, "launches")),
    ]
    mine, theirs = (frame.loc[frame.status != "unavailable", columns] for frame in (mine, theirs))
    both = mine.merge(theirs, on=KEY, how="outer", suffixes=("_first", "_second"), indicator="in")
    matched = both["in"] == "both"
    timed = [both[f"status_{side}"].isin(TIMED) for side in ("first", "second")]
    # different `least_bytes` reveal different matrices with the same name
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
    """Return one line for each joined pair of rows; with verdicts if `judged`."""
    lines = pairs[[*KEY, "phase"]].copy()
    for clock in ALL_CLOCKS:
        sides = [
            {
                column: pairs[f"{clock}_{column}_{side}"].to_numpy(float, na_value=np.nan)
                for column in (*SAMPLED, "launches")
            }
            for side in ("first", "second")
        ]
        medians = [side["median"] for side in sides]
        timed = np.logical_and.reduce([side[column] > 0 for side in sides for column in SAMPLED])  # false for NaN
        lines[f"{clock}_first"], lines[f"{clock}_second"] = medians
        lines[f"{clock}_ratio"] = lines[f"{clock}_spread"] = lines[f"{clock}_p"] = np.nan
        lines.loc[timed, f"{clock}_ratio"] = medians[1][timed] / medians[0][timed]
        if not judged:
            continue
        errors = np.hypot(*(sampling_error(**side) for side in sides))
        for phase in lines.phase.unique():  # search and report phases use different timing protocols
            part = timed & (lines.phase == phase).to_numpy()
            changes = np.log(medians[1][part] / medians[0][part])
            spreads = spread_between_runs(changes, np.sqrt(medians[0][part] * medians[1][part]), clock)
            lines.loc[part, f"{clock}_spread"] = spreads
            lines.loc[part, f"{clock}_p"] = p_values(changes, spreads, errors[part], tolerance)
    ratios = lines[[f"{clock}_ratio" for clock in ALL_CLOCKS]]
    lines["ratio"] = np.exp(np.log(ratios).mean(axis=1))  # geometric mean over available clocks
    # a row has changed only if all of its clocks show a change in the same direction: intersection-union test
    # (R. L. Berger: Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24(4), 1982)
    longer, shorter = (ratios > 1).any(axis=1), (ratios < 1).any(axis=1)
    lines["p"] = lines[[f"{clock}_p" for clock in ALL_CLOCKS]].max(axis=1).mask(longer & shorter & judged, 1.0)
    lines["adjusted"] = adjusted(lines["p"].to_numpy(float))
    changed = lines["adjusted"] <= FALSE_DISCOVERIES
    within = (ratios.max(axis=1) <= 1 + tolerance) & (1 / ratios.min(axis=1) <= 1 + tolerance)
    verdicts = np.select([changed & longer, changed & shorter, within], ["slower", "faster", "same"], "undecided")
    lines["verdict"] = pd.Series(verdicts, lines.index, dtype=object).where(lines["p"].notna(), None)
    return lines


def _winners(base: Campaign, other: Campaign) -> Iterator[ComparedChoice]:
    chosen = [
        {
            (*case, choice.clock, choice.tuning): choice
            for case, choices in campaign.choices_by_case.items()
            for choice in choices
        }
        for campaign in (base, other)
    ]
    for key in (key for key in chosen[0] if key in chosen[1]):
        problem, precision, clock, tuning = key
        first, second = (chosen[side][key] for side in (0, 1))
        losses = [
            loss
            for campaign, own, foreign in ((base, first.name, second.name), (other, second.name, first.name))
            if (loss := _loss(campaign, key, own, foreign)) is not None
        ]
        loss = min(losses, default=None)
        tied = first.name in (second.name, *second.ties) or second.name in first.ties
        agree = tied or (loss is not None and loss <= base.tie)
        yield ComparedChoice(base.study, problem, precision, clock, tuning, first.name, second.name, loss, agree)


def _loss(campaign: Campaign, key: tuple[str, str, ClockName, str], own: str, foreign: str) -> float | None:
    """Return the relative slowdown of the other campaign's winner against the own one, by times of the search."""
    problem, precision, clock, _ = key
    times = {
        row.name: seconds
        for row in campaign.search_rows(problem, precision)
        # only fully timed rows: the few launches of the screening are too inexact
        if row.name in (own, foreign) and row.protocol == "full" and (seconds := row.seconds(clock))
    }
    return times[foreign] / times[own] - 1 if {own, foreign} <= set(times) else None


def _changes(first: Campaign, other: Campaign) -> dict[str, tuple[str, str]]:
    """Return the differing entries of the two campaigns' environments, with both values."""
    mine, theirs = (_environment(campaign) for campaign in (first, other))
    return {
        key: (mine.get(key, "–"), theirs.get(key, "–"))
        for key in sorted(mine | theirs)
        if mine.get(key) != theirs.get(key)
    }


def _environment(campaign: Campaign) -> dict[str, str]:
    used = sorted(set(campaign.report.environment.dropna()) & set(campaign.environments))
    flat: dict[str, set[str]] = {}
    for name in used:
        for key, value in campaign.environments[name].items():
            inner = value.items() if isinstance(value, Mapping) else [(None, value)]
            for sub, part in inner:
                flat.setdefault(f"{key}.{sub}" if sub else key, set()).add(str(part))
    return {key: " and ".join(sorted(values)) for key, values in flat.items()}
