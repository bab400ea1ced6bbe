"""What a campaign chose for a problem."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from repro.codegen.targets import Target, get_target
from repro.errors import ReproError

#: The clock that claims about speed use, and so does the choice of what is taken away.
CLOCK = "graph"
#: The first of these that a campaign answers is what is exported.
TUNINGS = ("extended", "joint")


@dataclass(frozen=True)
class Chosen:
    """A campaign's choice.

    Attributes
    ----------
    name, entry
        The variant and what its non-zeros are.
    target
        What it was compiled for.
    campaign, problem, precision, tuning
        Which choice it is.
    device
        The GPU's name; None where it is not recorded.
    seconds
        Median of the report phase by the graph clock, warm; None where it was not timed again.
    environment
        Hash of the environment record.
    """

    name: str
    entry: str
    target: Target
    campaign: str
    problem: str
    precision: str
    tuning: str
    device: str | None
    seconds: float | None
    environment: str | None


def find_chosen(
    results: Path, campaign: str, study: str, problem: str, precision: str, tuning: str | None = None
) -> Chosen:
    """Read what a campaign chose for a problem in a precision.

    Parameters
    ----------
    tuning
        `schedule`, `layout`, `joint`, `static`, `dynamic`, `extended`, `reordered`; None: `extended` where the campaign
        has one, else `joint`.

    Raises
    ------
    ReproError
        There is no such campaign, problem or choice, or a record of it is missing or damaged.
    """
    folder = results / campaign / "raw" / study / problem / precision
    choices = _read(folder / "choices.parquet", results / campaign / "raw" / study)
    by_tuning = {str(row["tuning"]): row for row in choices if row["clock"] == CLOCK}
    wanted = next((t for t in TUNINGS if t in by_tuning), TUNINGS[-1]) if tuning is None else tuning
    if wanted not in by_tuning:
        raise ReproError(
            "the campaign has no such choice",
            where=folder / "choices.parquet",
            expected=f"one of {', '.join(by_tuning)}" if by_tuning else "a problem that could be measured",
            actual=wanted,
        )
    choice = by_tuning[wanted]
    name = str(choice["name"])
    rows = [row for row in _read(folder / "report.parquet") if row["name"] == name and row.get("cache") != "cold"]
    row = rows[0] if rows else {}
    environment = row.get("environment")
    target = get_target(_target(results / campaign / "raw" / "environment" / f"{environment}.json"))
    median = row.get(f"{CLOCK}_median")
    return Chosen(
        name=name,
        entry=str(choice["entry"]),
        target=target,
        campaign=campaign,
        problem=problem,
        precision=precision,
        tuning=wanted,
        device=row.get("device"),
        seconds=float(median) if median is not None else None,
        environment=environment,
    )


def _read(path: Path, study: Path | None = None) -> list[dict[str, Any]]:
    try:
        frame = pd.read_parquet(path).astype(object)
    except FileNotFoundError:
        known = sorted(str(p.parent.relative_to(study)) for p in study.rglob("choices.parquet")) if study else []
        raise ReproError(
            "the campaign has no such result",
            where=path,
            expected=f"one of {', '.join(known)}" if known else None,
            todo="measure it, name another campaign with --campaign, or a variant with --variant",
        ) from None
    except (OSError, ValueError) as error:
        raise ReproError("results cannot be read", where=path, actual=error) from None
    frame = frame.where(frame.notna(), None)
    return [{str(column): value for column, value in row.items()} for row in frame.to_dict("records")]


def _target(path: Path) -> str:
    """Return the name of the target that an environment record says was compiled for."""
    try:
        return str(json.loads(path.read_text())["target"])
    except FileNotFoundError:
        raise ReproError(
            "it is not recorded what the winner was compiled for",
            where=path,
            todo="measure the problem with `repro measure`, or name the variant with --variant and --target",
        ) from None
    except (ValueError, KeyError) as error:
        raise ReproError("an environment record is damaged", where=path, actual=error) from None
