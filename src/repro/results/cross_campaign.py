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
from repro.errors import ReproError
from repro.results.campaign_data import Campaign, ProblemRecord
from repro.results.significance import (
    adjusted_p_values,
    interval_of_mean,
    p_values,
    sampling_error,
    spread_between_runs,
)
from repro.words import suggestion

#: Note on a cell without a number because the campaigns use one name for different problems.
OTHER_CONTENT = "another problem with this name: its content differs, so no number is shown"


def join_reference_problems(campaign: Campaign) -> Campaign:
    """Return a campaign whose problems also include those of `campaign.beside`, for a table of all campaigns.

    Each problem has the record of the first campaign in which it is available.
    """
    records: dict[str, ProblemRecord] = {}
    for source in (campaign, *campaign.beside):
        for name, record in source.problems.items():
            if name not in records or (record.is_available and not records[name].is_available):
                records[name] = record
    return replace(campaign, problems=dict(sorted(records.items())))


def blank_reason(record: ProblemRecord | None, line: ProblemRecord | None) -> tuple[str, ...] | None:
    """Return the notes for an empty cell of a campaign, or None if the cell may have a number.

    `record` is the campaign's record of the problem, `line` the record that the table line shows. If `line` itself is
    unavailable, the line already gives the reason and the cell gets no note.
    """
    if record is None:
        return ()
    if not record.is_available:
        return () if record is line else (str(record.remark),)
    return (OTHER_CONTENT,) if line is not None and record.differs(line) else None


def conflicting_names(campaign: Campaign, other: Campaign) -> list[str]:
    """Return the names that denote problems of different content in two campaigns."""
    shared = ((name, record, other.problems.get(name)) for name, record in campaign.problems.items())
    return [
        name
        for name, own_record, other_record in shared
        if other_record is not None and own_record.differs(other_record)
    ]


def conflict_note(campaign: Campaign) -> str:
    """Return a sentence that lists problems not compared because of `conflicting_names`; empty if there are none."""
    names = {reference.name: conflicting_names(campaign, reference) for reference in campaign.beside}
    conflicts = [f"{', '.join(problems)} ({name})" for name, problems in names.items() if problems]
    return f"Not compared, because problems of the same name differ: {'; '.join(conflicts)}." if conflicts else ""


def others_note(campaign: Campaign) -> str:
    """Return sentences that name the campaigns in `campaign.beside` and their code versions; empty if none."""
    if not campaign.beside:
        return ""
    campaign_texts = [
        f"campaign {reference.name} on {reference.device or 'no device yet'}" for reference in campaign.beside
    ]
    changed_names = [
        reference.name for reference in campaign.beside if campaign.sources and reference.sources - campaign.sources
    ]
    code = (
        f" At least partly measured with other code than this campaign: {', '.join(changed_names)}."
        if changed_names
        else ""
    )
    return f"Beside it, by the same clock: {', '.join(campaign_texts)}.{code}"


def column_title(campaign: Campaign, reference: Campaign) -> str:
    """Return the column title of another campaign: its device, followed by its name if devices repeat."""
    return f"{reference.column}, {reference.name}" if _has_repeated_column(campaign, reference) else reference.column


def campaign_label(campaign: Campaign, reference: Campaign) -> str:
    """Return a short label for campaign `reference`, `campaign` itself or one beside it: its device, or its name if
    devices repeat.
    """
    return reference.name if _has_repeated_column(campaign, reference) else reference.column


def _has_repeated_column(campaign: Campaign, reference: Campaign) -> bool:
    return [column_campaign.column for column_campaign in (campaign, *campaign.beside)].count(reference.column) > 1


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
        timed_rows = self.rows[self.rows["ratio"].notna()]
        changes = np.log(timed_rows["ratio"].to_numpy(float))
        return float(np.exp(changes.mean())), interval_of_mean(changes, list(timed_rows[CASE].itertuples(index=False)))


def find_campaign(argument: str, results: Path) -> CampaignFolder:
    """Return the folder of a campaign, given by its name, its folder or its `raw`; raise `ReproError` if missing."""
    candidates = [CampaignFolder.of(argument, results), CampaignFolder(Path(argument))]
    if Path(argument) == (parent_folder := CampaignFolder(Path(argument).parent)).raw:
        candidates.append(parent_folder)
    for folder in candidates:
        if folder.raw.is_dir():
            return folder
    raise ReproError(
        "no such campaign",
        expected=f"a folder below {results}, or the path of a folder that contains raw/",
        actual=f"{argument}{suggestion(argument, [folder.name for folder in CampaignFolder.measured(results)])}",
        todo="measure it first, or copy its folder there; `repro list campaigns` prints all",
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
        raise ReproError("the campaigns have no study in common", where=f"{first.raw} and {second.raw}")
    pairs = [(load(first, study), load(second, study)) for study in shared]
    measured_pairs = [
        (a, b) for a, b in pairs if a.device and b.device
    ]  # a study without a device has no measured rows
    differing = [(a, b) for a, b in measured_pairs if (a.backend, a.device) != (b.backend, b.device)]
    devices = _devices(differing or measured_pairs or pairs)
    has_two_devices = bool(differing)
    if has_two_devices and not across_devices:
        raise ReproError(
            "the campaigns were measured on different devices, so differences do not show what changed",
            expected=devices[0],
            actual=devices[1],
            todo="compare campaigns of one model, or request only ratios with --across-devices",
        )
    frames, counts, winners = [], dict[str, int](), list[ComparedChoice]()
    for base, second_campaign in pairs:
        phases = [(base.report, second_campaign.report)]
        if search:
            phases.append((_full_rows(base.search), _full_rows(second_campaign.search)))
        for first_rows, second_rows in phases:
            if first_rows.empty and second_rows.empty:  # recorded campaigns may lack the rows of the search phase
                continue
            rows, omissions = _join_rows(first_rows, second_rows)
            frames.append(rows)
            for reason, count in omissions.items():
                counts[reason] = counts.get(reason, 0) + count
        winners += _winners(base, second_campaign)
    timed_rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if timed_rows.empty:
        raise ReproError(
            "the campaigns have no timed row in common",
            where=f"{first.raw} and {second.raw}",
            actual=", ".join(f"{count} {reason}" for reason, count in counts.items() if count) or "no rows",
            todo="measure the same problems in both",
        )
    rows = _verdicts(timed_rows, tolerance, with_verdicts=not has_two_devices)
    return Comparison(
        first=pairs[0][0].name,
        second=pairs[0][1].name,
        devices=devices,
        rows=rows,
        uncompared={reason: count for reason, count in counts.items() if count},
        winners=tuple(winners),
        changes={} if has_two_devices else _changes(*pairs[0]),
        across=has_two_devices,
    )


def _devices(pairs: Sequence[tuple[Campaign, Campaign]]) -> tuple[str, str]:
    """Return the devices of the two campaigns, from their first study."""
    first, second_campaign = pairs[0]
    return first.device or "nothing measured", second_campaign.device or "nothing measured"


def _full_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.protocol == "full"]


def _join_rows(first_rows: pd.DataFrame, second_rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Join rows with equal keys; return those timed in both campaigns, and counts of the others by reason."""
    columns = [
        *KEY,
        "phase",
        "status",
        "least_bytes",
        *(f"{c}_{q}" for c in ALL_CLOCKS for q in (*SAMPLED, "launches")),
    ]
    first_rows, second_rows = (frame.loc[frame.status != "unavailable", columns] for frame in (first_rows, second_rows))
    joined_rows = first_rows.merge(second_rows, on=KEY, how="outer", suffixes=("_first", "_second"), indicator="in")
    in_both = joined_rows["in"] == "both"
    has_time = [joined_rows[f"status_{side}"].isin(TIMED) for side in ("first", "second")]
    # different `least_bytes` reveal different matrices with the same name
    has_other_matrix = (
        (joined_rows["least_bytes_first"] != joined_rows["least_bytes_second"]).fillna(False).astype(bool)
    )
    is_comparable = in_both & has_time[0] & has_time[1] & ~has_other_matrix
    omissions = {
        "only in the first": int((joined_rows["in"] == "left_only").sum()),
        "only in the second": int((joined_rows["in"] == "right_only").sum()),
        "timed in the first, failed in the second": int((in_both & has_time[0] & ~has_time[1]).sum()),
        "failed in the first, timed in the second": int((in_both & ~has_time[0] & has_time[1]).sum()),
        "failed in both": int((in_both & ~has_time[0] & ~has_time[1]).sum()),
        "another matrix of that name": int((in_both & has_time[0] & has_time[1] & has_other_matrix).sum()),
    }
    return joined_rows[is_comparable].rename(columns={"phase_first": "phase"}), omissions


def _verdicts(pairs: pd.DataFrame, tolerance: float, *, with_verdicts: bool) -> pd.DataFrame:
    """Return one line for each joined pair of rows; with verdicts if `with_verdicts`."""
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
        has_times = np.logical_and.reduce([side[column] > 0 for side in sides for column in SAMPLED])  # false for NaN
        lines[f"{clock}_first"], lines[f"{clock}_second"] = medians
        lines[f"{clock}_ratio"] = lines[f"{clock}_spread"] = lines[f"{clock}_p"] = np.nan
        lines.loc[has_times, f"{clock}_ratio"] = medians[1][has_times] / medians[0][has_times]
        if not with_verdicts:
            continue
        errors = np.hypot(*(sampling_error(**side) for side in sides))
        for phase in lines.phase.unique():  # search and report phases use different timing protocols
            part = has_times & (lines.phase == phase).to_numpy()
            changes = np.log(medians[1][part] / medians[0][part])
            spreads = spread_between_runs(changes, np.sqrt(medians[0][part] * medians[1][part]), clock)
            lines.loc[part, f"{clock}_spread"] = spreads
            lines.loc[part, f"{clock}_p"] = p_values(changes, spreads, errors[part], tolerance)
    ratios = lines[[f"{clock}_ratio" for clock in ALL_CLOCKS]]
    lines["ratio"] = np.exp(np.log(ratios).mean(axis=1))  # geometric mean over available clocks
    # a row has changed only if all of its clocks show a change in the same direction: intersection-union test
    # (R. L. Berger: Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24(4), 1982)
    is_longer, is_shorter = (ratios > 1).any(axis=1), (ratios < 1).any(axis=1)
    lines["p"] = (
        lines[[f"{clock}_p" for clock in ALL_CLOCKS]].max(axis=1).mask(is_longer & is_shorter & with_verdicts, 1.0)
    )
    lines["adjusted"] = adjusted_p_values(lines["p"].to_numpy(float))
    is_changed = lines["adjusted"] <= FALSE_DISCOVERIES
    is_within_tolerance = (ratios.max(axis=1) <= 1 + tolerance) & (1 / ratios.min(axis=1) <= 1 + tolerance)
    verdicts = np.select(
        [is_changed & is_longer, is_changed & is_shorter, is_within_tolerance],
        ["slower", "faster", "same"],
        "undecided",
    )
    lines["verdict"] = pd.Series(verdicts, lines.index, dtype=object).where(lines["p"].notna(), None)
    return lines


def _winners(base: Campaign, second_campaign: Campaign) -> Iterator[ComparedChoice]:
    choices_by_side = [
        {
            (*case, choice.clock, choice.tuning): choice
            for case, choices in campaign.choices_by_case.items()
            for choice in choices
        }
        for campaign in (base, second_campaign)
    ]
    for key in (key for key in choices_by_side[0] if key in choices_by_side[1]):
        problem, precision, clock, tuning = key
        first, second = (choices_by_side[side][key] for side in (0, 1))
        losses = [
            loss
            for campaign, own_name, foreign_name in (
                (base, first.name, second.name),
                (second_campaign, second.name, first.name),
            )
            if (loss := _loss(campaign, key, own_name, foreign_name)) is not None
        ]
        loss = min(losses, default=None)
        is_tied = first.name in (second.name, *second.ties) or second.name in first.ties
        agreement = is_tied or (loss is not None and loss <= base.tie)
        yield ComparedChoice(base.study, problem, precision, clock, tuning, first.name, second.name, loss, agreement)


def _loss(campaign: Campaign, key: tuple[str, str, ClockName, str], own_name: str, foreign_name: str) -> float | None:
    """Return the relative slowdown of the other campaign's winner against the own one, by times of the search."""
    problem, precision, clock, _ = key
    times = {
        row.name: seconds
        for row in campaign.search_rows(problem, precision)
        # only fully timed rows: the few launches of the screening are too inexact
        if row.name in (own_name, foreign_name) and row.protocol == "full" and (seconds := row.seconds(clock))
    }
    return times[foreign_name] / times[own_name] - 1 if {own_name, foreign_name} <= set(times) else None


def _changes(first: Campaign, second_campaign: Campaign) -> dict[str, tuple[str, str]]:
    """Return the differing entries of the two campaigns' environments, with both values."""
    first_entries, second_entries = (_environment(campaign) for campaign in (first, second_campaign))
    return {
        key: (first_entries.get(key, "–"), second_entries.get(key, "–"))
        for key in sorted(first_entries | second_entries)
        if first_entries.get(key) != second_entries.get(key)
    }


def _environment(campaign: Campaign) -> dict[str, str]:
    record_names = sorted(set(campaign.report.environment.dropna()) & set(campaign.environments))
    entries: dict[str, set[str]] = {}
    for name in record_names:
        for key, value in campaign.environments[name].items():
            inner = value.items() if isinstance(value, Mapping) else [(None, value)]
            for subkey, part in inner:
                entries.setdefault(f"{key}.{subkey}" if subkey else key, set()).add(str(part))
    return {key: " and ".join(sorted(values)) for key, values in entries.items()}
