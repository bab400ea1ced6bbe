"""Anything that can be run, by its name: variants of any space, the floor, routines of the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repro.bench.recorded import read_case
from repro.bench.rows import TIMED
from repro.bench.runnable import Runnable
from repro.bench.yardsticks import FLOOR, Floor
from repro.codegen.common import streams
from repro.codegen.targets import Target
from repro.config.models import Config
from repro.errors import ReproError
from repro.problems.outline import Outline
from repro.sparse.library import for_problem
from repro.sparse.ordering import UNKNOWNS
from repro.studies import get_study

#: Taken where no floor is recorded: of middling shape, in the space of every device.
SOME_FLOOR = f"{FLOOR}/256-4"


def find_runnables(
    config: Config, study: str, problem: Outline, precision: str, names: Sequence[str], target: Target, recorded: Path
) -> list[Runnable]:
    """Return what the names stand for, each once; a variant that no module holds is compiled by itself.

    Parameters
    ----------
    config, study, problem, precision, target
        What they are for.
    names
        Variants, `floor` or one configuration of it (`floor/256-4`), routines (`cusparse/bsrmv/real3`).
    recorded
        Folder of the study's measured rows, where `floor` looks for the fastest.

    Raises
    ------
    ReproError
        A name stands for nothing, or a kernel does not compile.
    """
    floors = {floor.name: floor for floor in map(Floor, streams(target))}
    fixed: dict[str, Runnable] = {**floors}
    for ordering in UNKNOWNS if problem.entry else ():
        fixed |= {routine.name: routine for routine in for_problem(problem.entry or "", target.dialect, ordering)}
    runnables: dict[str, Runnable] = {}
    for name in names:
        if name == FLOOR:
            runnable: Runnable = floors[fastest_floor(recorded, problem.name, precision)]
        elif name in fixed:
            runnable = fixed[name]
        elif name.partition("/")[0] in {routine.partition("/")[0] for routine in fixed}:
            raise ReproError("unknown routine", expected=f"one of {', '.join(fixed)}", actual=name)
        else:
            runnable = get_study(study).find(Path(config.kernels), problem, precision, name, target)
        runnables[runnable.name] = runnable
    return list(runnables.values())


def fastest_floor(recorded: Path, problem: str, precision: str) -> str:
    """Return the name of the fastest recorded configuration of the floor, of any where none is recorded."""
    for step in ("report", "baseline"):
        rows = read_case(recorded, step, problem, precision)
        floors = [row for row in rows if row["kind"] == FLOOR and row["cache"] == "warm" and row["graph_median"]]
        floors = [row for row in floors if row["status"] in TIMED]
        if floors:
            return str(min(floors, key=lambda row: row["graph_median"])["name"])
    return SOME_FLOOR
