"""What our space is worth idea by idea: how much slower the best variant is that does without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from repro.artifacts.case import NEAR_EMPTY
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on, name_cell, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compound_spmv.layout import TILE_ROWS
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.schedules import LOADS
from repro.studies.compound_spmv.searched import SPACES, searched

#: A loss above this share is counted.
NOTABLE = 0.02
#: The columns of a row that anything is read of.
COLUMNS = ("problem", "precision", "space", "status", "protocol", "name", "layout", "schedule", "n_t", "width",
           "unroll", "load", "ahead", "outer", "vector", "clustered", "least_bytes", "event_launches", "event_median",
           "device_uuid", "environment")  # fmt: skip
#: An idea, and which of the rows of `described` make use of it.
IDEAS: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {
    "several entries in flight": lambda rows: rows["unroll"] > 1,
    "more than 8 threads to a row": lambda rows: rows["width"] > 8,
    "clustered rows": lambda rows: rows["clustered"],
    "padded vectors": lambda rows: rows["vector"] == "Padded",
    "loads past L1 (cg)": lambda rows: rows["load"] == "cg",
    "loads that leave nothing in L2 (cs)": lambda rows: rows["load"] == "cs",
    "any hint to the caches": lambda rows: rows["load"] != LOADS[0],
    "chunks of neighbouring rows": lambda rows: rows["schedule"] == "chunk",
    "blocks of fewer than 256 threads": lambda rows: rows["n_t"] < 256,
    "ELLPACK": lambda rows: rows["outer"].isin(["ELL", "ELLPACK"]),
    "slices": lambda rows: rows["outer"].str.startswith("Sl-"),
    "CSR": lambda rows: rows["outer"] == "CSR",
    "pairs of symmetric matrices, stored once": lambda rows: rows["outer"].isin(list(TILE_ROWS)),
}
#: Ideas that campaigns before them did not try: a line each where one did.
LATER_IDEAS: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {
    "loads that keep a share in L2 (el)": lambda rows: rows["load"] == "el",
    "next entries asked for ahead": lambda rows: rows["ahead"].fillna("") != "",
}
ALL = "all of it: the papers’ space"


@dataclass(frozen=True)
class Loss:
    """What one problem in one precision loses without an idea.

    Attributes
    ----------
    problem, precision
        Which.
    cached
        Whether the matrix in CSR-AoS and both vectors fit into the last-level cache; None where its size is unknown.
    ratio
        Time of the best variant without the idea over that of the best, both beyond an empty kernel's; at least 1.
    screened
        Whether the best without was timed by the screening only.
    """

    problem: str
    precision: str
    cached: bool | None
    ratio: float
    screened: bool


def described(campaign: Campaign) -> pd.DataFrame:
    """Return the searched variants in natural unknowns with columns that `IDEAS` ask for.

    Beside `COLUMNS` these are `cached` as in `Loss`, and `beyond`: the median by the event clock beyond an empty
    kernel's, in seconds, missing where the variant failed. Cases that were not searched in full in our space are left
    out, and the papers' space of cases where it was not.
    """
    rows = campaign.search
    rows = rows[(rows["kind"] == "variant") & (rows["ordering"] == "natural") & (rows["cache"] == campaign.cache)]
    full = {space: {(one.problem, one.precision) for one in searched(campaign, space)} for space in SPACES}
    cases = pd.Series(list(zip(rows["problem"], rows["precision"], strict=True)), index=rows.index, dtype=object)
    kept = cases.isin(full["extended"]) & ((rows["space"] == "extended") | cases.isin(full["paper"]))
    rows = rows.loc[kept, list(COLUMNS)]
    beyond = rows["event_median"].where(rows["status"] == "ok") - offset(campaign)
    rows = rows.assign(beyond=beyond, cached=None)
    cache = rows["environment"].map({name: record.get("cache_bytes") for name, record in campaign.environments.items()})
    bytes_ = rows.groupby(["problem", "precision"])["least_bytes"].transform("max")  # a failed row may not say
    if cache.notna().all() and bytes_.notna().all():
        rows["cached"] = bytes_ <= cache
    return rows


def offset(campaign: Campaign) -> float:
    """Return what the event clock reads of an empty kernel in seconds, the median of the campaign; 0 if untimed."""
    rows = campaign.report
    empty = rows.loc[(rows["kind"] == "empty") & (rows["cache"] == campaign.cache), "event_median"].dropna()
    return float(empty.median()) if len(empty) else 0.0


def losses(rows: pd.DataFrame, uses: pd.Series) -> list[Loss]:
    """Return what each case loses without the rows that use an idea; cases of which no row was tried have none.

    A screened time below the best of the full protocol is noise: no loss.
    """
    lost = []
    needed = rows[["problem", "precision", "protocol", "beyond", "cached"]].assign(uses=uses)
    for (problem, precision), case in needed.groupby(["problem", "precision"], sort=True):
        timed = case[case["beyond"] > 0]
        without = timed[~timed["uses"]]
        if not case["uses"].any() or without.empty:
            continue
        full = timed[timed["protocol"] == "full"]
        best = (timed if full.empty else full)["beyond"].min()
        rest = without.sort_values("beyond", kind="stable").iloc[0]
        cached = None if rest["cached"] is None else bool(rest["cached"])
        ratio = max(float(rest["beyond"] / best), 1.0)
        lost.append(Loss(str(problem), str(precision), cached, ratio, rest["protocol"] != "full"))
    return lost


@table(STUDY, "table-ablation", title="What our space loses without one of its ideas", numbering="ours")
def ablation(campaign: Campaign, published: Published) -> Table:
    """An idea a row: the loss over the matrices that the L2 holds and over larger ones, the worst, and how many."""
    rows = described(campaign)
    ours = rows[rows["space"] == "extended"]
    sized = not ours["cached"].isna().any()
    groups = {"cached": (True, "fits L2"), "larger": (False, "larger")} if sized else {"mean": (None, "all")}
    columns = (
        Column("without", "without", numeric=False),
        *(Column(key, head, "slower, mean [%]") for key, (_, head) in groups.items()),
        Column("worst", "worst [%]"),
        Column("where", "worst at", numeric=False),
        Column("lose", f"above {100 * NOTABLE:g} %"),
    )
    sizes = [cached for cached, _ in groups.values()]
    lines: list[tuple[Cell, ...]] = []
    summary: list[tuple[Cell, ...]] = []
    if len(ours):
        tried = {name: uses for name, uses in LATER_IDEAS.items() if uses(ours).any()}
        ideas = {**IDEAS, **tried}
        lines = [_line(campaign, name, losses(ours, uses(ours)), sizes) for name, uses in ideas.items()]
        if len(ours) < len(rows):
            summary = [_line(campaign, ALL, losses(rows, rows["space"] == "extended"), sizes)]
    caption = [
        "By how many percent the fastest variant of our space in the problem’s own order of unknowns is slower when",
        "one idea is left out and all else is tuned again, from the exhaustive search: geometric mean over the cases",
        "(pairs of problem and precision) whose matrix in CSR-AoS and both vectors fit into the L2 cache, and over the",
        f"larger ones; the worst; and how many cases lose more than {100 * NOTABLE:g} %, of those that tried the idea.",
        "The last line is the best of the papers’ space against the best of both.",
        measured_on(campaign, "event", "the search"),
        *(
            _doubts(campaign, rows, ours)
            if len(ours)
            else ["No problem of this campaign was searched in full in our space."]
        ),
    ]
    return Table(columns, lines, sentences(caption), summary)


def _line(campaign: Campaign, name: str, lost: Sequence[Loss], sizes: Sequence[bool | None]) -> tuple[Cell, ...]:
    if not lost:
        return Cell(name), *(Cell() for _ in range(len(sizes) + 3))
    worst = max(lost, key=lambda one: one.ratio)
    remarks = name_cell(campaign.problems[worst.problem]).notes
    many = sum(one.ratio > 1 + NOTABLE for one in lost)
    screened = sum(one.screened for one in lost)
    note = f"in {screened} of {len(lost)} cases the best without was timed by the screening only"
    return (
        Cell(name, notes=(note,) if screened else ()),
        *(_mean([one.ratio for one in lost if one.cached is cached]) for cached in sizes),
        _percent(worst.ratio),
        Cell(f"{worst.problem}, {worst.precision}", notes=remarks) if worst.ratio > 1 else Cell(),
        Cell(many, f"{many} of {len(lost)}"),
    )


def _mean(ratios: Sequence[float]) -> Cell:
    return _percent(float(np.exp(np.mean(np.log(ratios))))) if ratios else Cell()


def _percent(ratio: float) -> Cell:
    return Cell(round(100 * (ratio - 1), 6), f"{100 * (ratio - 1):.1f}")


def _doubts(campaign: Campaign, rows: pd.DataFrame, ours: pd.DataFrame) -> list[str]:
    """Return the sentences on what the numbers rest on."""
    said = []
    empty = offset(campaign)
    if empty:
        best = ours.groupby(["problem", "precision"])["beyond"].min()
        near = int((best <= (NEAR_EMPTY - 1) * empty).sum())
        said += [
            f"The clock’s own offset, an empty kernel’s {empty * 1e6:.2f} µs (median), is subtracted before ratios",
            f"are formed; in {near} of {len(best)} cases our best time is within {NEAR_EMPTY:g}× of it, and a step of",
            "the clock may be percents of what is left.",
        ]
    screened = ours.loc[ours["protocol"] == "screen", "event_launches"].dropna()
    if len(screened):
        said.append(
            f"Times are of the full protocol where a variant had it; screened ones, of {screened.max()} launches at"
            " most, scatter more, and one below the best of the full protocol counts as no loss."
        )
    cards = rows.groupby(["problem", "precision", "space"])["device_uuid"].first().unstack("space")
    if "paper" in cards:
        other = int((cards["paper"] != cards["extended"]).sum())
        said.append(f"In {other} cases the spaces were searched on two cards of this model." if other else "")
    return said
