"""Anything that can be run, by its name: variants of any space, the floor, routines of the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from repro.baselines import for_problem
from repro.bench.floor import Floor
from repro.bench.runnable import Runnable
from repro.codegen.render import streams
from repro.codegen.targets import Target
from repro.config.models import Config
from repro.errors import ReproError
from repro.studies.registry import get_study

FLOOR = "floor"
#: Taken where no floor is recorded: of middling shape, in the space of every device.
SOME_FLOOR = "floor/256-4"
#: Orders of the unknowns that the library is run in.
UNKNOWNS = ("natural", "rcm", "sorted")


def find_runnables(
    config: Config, study: str, entry: str, precision: str, names: Sequence[str], target: Target, recorded: Path
) -> list[Runnable]:
    """Return what the names stand for, each once; a variant that no module holds is compiled by itself.

    Parameters
    ----------
    config, study, entry, precision, target
        What they are for.
    names
        Variants, `floor` or one configuration of it (`floor/256-4`), routines (`cusparse/bsrmv/real3`).
    recorded
        Folder of the measured rows, where `floor` looks for the fastest.

    Raises
    ------
    ReproError
        A name stands for nothing, or a kernel does not compile.
    """
    floors = {floor.name: floor for floor in map(Floor, streams(target))}
    known: dict[str, Runnable] = {**floors}
    for ordering in UNKNOWNS:
        known |= {runnable.name: runnable for runnable in for_problem(entry, target.dialect, ordering)}
    found: dict[str, Runnable] = {}
    for name in names:
        if name == FLOOR:
            runnable: Runnable = floors[fastest_floor(recorded)]
        elif name in known:
            runnable = known[name]
        elif name.partition("/")[0] in {one.partition("/")[0] for one in known}:
            raise ReproError("unknown routine", expected=f"one of {', '.join(known)}", actual=name)
        else:
            runnable = get_study(study).find(Path(config.kernels), entry, precision, name, target)
        found[runnable.name] = runnable
    return list(found.values())


def fastest_floor(recorded: Path) -> str:
    """Return the name of the fastest recorded configuration of the floor, of any where none is recorded."""
    for path in (recorded / "report.parquet", recorded / "baseline.parquet"):
        if path.exists():
            rows = pd.read_parquet(path)
            rows = rows[(rows["kind"] == FLOOR) & (rows["cache"] == "warm")].dropna(subset="graph_median")
            if len(rows):
                return str(rows.sort_values("graph_median")["name"].iloc[0])
    return SOME_FLOOR
