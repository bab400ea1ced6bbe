"""Which variant an operator runs: named, chosen by a campaign, a default, or the fastest of a few tried now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from repro.codegen.schedules import Schedule
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.export.chosen import find_chosen
from repro.export.names import parse_variant
from repro.formats.layout import Layout
from repro.operators.product import STUDY, Product
from repro.operators.runtime import Runtime
from repro.problems.problem import Problem

#: Of the variants with vectors in AoS order, those that lose least over the problems of the first campaign on an H200,
#: both precisions, by the geometric mean (3 to 7 %; at most 30 % on one problem); for `real`, which it did not have,
#: that of `complex`.
DEFAULTS = {
    "block3": "Sl-32-AoS-AoS/static-96-6",
    "complex": "CSR-AoS-AoS/static-64-4",
    "quaternion": "Sl-32-SoA-AoS/static-64-12",
}
DEFAULT = "CSR-AoS-AoS/static-64-4"
CPU_DEFAULT = "CSR-AoS-AoS/static-64-3"
#: What `now` tries beside the default: few formats, and several threads to a row.
QUICK = (
    *(f"CSR-AoS-AoS/direct-256-8-w{width}" for width in (2, 4, 8, 16, 32)),
    "Sl-32-AoS-AoS/static-96-6",
    "Sl-8-AoSoA-AoS/direct-256-8-w4",
    "Sl-4-AoSoA-AoS/direct-256-8-w8",
)
CPU_QUICK = ("Sl-16-AoS-AoS/static-64-3", "Sl-16-SoA-AoS/static-64-3", "ELL-SoA-AoS/static-64-3")
LAUNCHES, REPLAYS = 20, 5


def find_variant(
    tuned: str, problem: Problem, precision: str, target: Target, results: Path
) -> tuple[Layout, Schedule]:
    """Return layout and schedule for a word of the user's.

    Parameters
    ----------
    tuned
        A variant's name, `Sl-32-SoA-AoS/static-256-4`; `campaign:problem` for a campaign's choice; or `default`.
    results
        Folder of the campaigns.

    Raises
    ------
    ReproError
        It names no variant, the campaign has no such choice, its entry is another, or the target cannot hold it.
    """
    if tuned == "default":
        tuned = DEFAULTS.get(problem.entry, DEFAULT) if target.dialect == "cuda" else CPU_DEFAULT
    elif ":" in tuned:
        campaign, _, name = tuned.partition(":")
        chosen = find_chosen(results, campaign, STUDY, name, precision)
        if chosen.entry != problem.entry:
            raise ReproError(
                "the campaign's problem has another entry",
                where=tuned,
                expected=problem.entry,
                actual=chosen.entry,
                todo="name a problem like this matrix",
            )
        tuned = chosen.name
    return parse(tuned, target)


def parse(name: str, target: Target) -> tuple[Layout, Schedule]:
    """Return layout, reordering or not, and schedule of a variant's name."""
    layout = Layout.parse(name.partition("/")[0])
    _, schedule = parse_variant(f"{replace(layout, ordering='natural')}/{name.partition('/')[2]}", target)
    return layout, schedule


def fastest(runtime: Runtime, problem: Problem, precision: str) -> tuple[Layout, Schedule]:
    """Time the default and a few others on this matrix, and return the best: seconds, most of them compiling."""
    target = runtime.device.target
    names = (CPU_DEFAULT, *CPU_QUICK) if target.dialect == "opencl" else (DEFAULTS.get(problem.entry, DEFAULT), *QUICK)
    times = [_seconds(Product(runtime, problem, precision, *parse(name, target))) for name in names]
    return parse(names[int(np.argmin(times))], target)


def _seconds(product: Product) -> float:
    device = product.runtime.device
    x, y = (product.vectors.zeros() for _ in range(2))
    launch = product.bind(x.buffer, y.buffer)
    launch()
    return float(np.median(device.time_graph(launch, LAUNCHES, REPLAYS)))
