"""Anything that can be run, by its name: variants of any space, the floor, routines of the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from repro.baselines import for_problem
from repro.bench.floor import Floor
from repro.bench.runnable import Runnable
from repro.bench.variant import Variant
from repro.codegen.compile import Module, compile_module
from repro.codegen.names import read_variant
from repro.codegen.render import kernel_name, render_module, streams
from repro.codegen.targets import Target
from repro.config.models import Config
from repro.errors import ReproError
from repro.studies.registry import get_study
from repro.studies.session import modules_folder

FLOOR = "floor"
#: Taken where no floor is recorded: of middling shape, in the space of every device.
SOME_FLOOR = "floor/256-4"
SPACES = ("paper", "extended")
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
            runnable = find_variant(config, study, entry, precision, name, target)
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


def find_variant(config: Config, study: str, entry: str, precision: str, name: str, target: Target) -> Variant:
    """Return the variant of that name, from a module of the study if one holds it, else from one of its own."""
    layout, schedule = read_variant(name, target)
    module = get_study(study)
    for space in SPACES:
        manifest = module.manifest(target, space, entry, precision, layout)
        if schedule in module.schedules(target, space, layout.stored) and manifest.exists():
            built = Module.load(manifest)
            if built.binary and (not built.resources or kernel_name(schedule, target) in built.resources):
                return Variant(layout, schedule, built, manifest.parent, space)
    source = render_module(Path(config.kernels), study, entry, precision, layout.stored, [schedule], target)
    folder = modules_folder(target.name) / study / "single" / f"{entry}-{precision}"
    manifest = folder / f"{layout.stored}-{schedule}.json"
    return Variant(layout, schedule, compile_module(source, target, manifest), manifest.parent, SPACES[-1])
