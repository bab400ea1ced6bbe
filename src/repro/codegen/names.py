"""Reading the name of a variant back: `Sl-32-SoA-AoS/static-256-4`."""

from __future__ import annotations

import re

from repro.codegen.schedules import CHUNK, DIRECT, KINDS, Schedule
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.formats.layout import Layout

_SCHEDULE = re.compile(
    rf"(?P<kind>{'|'.join((*KINDS, DIRECT, CHUNK))})-(?P<n_t>\d+)-(?P<n_b>\d+)"
    r"(-w(?P<width>\d+))?(-u(?P<unroll>\d+))?(-(?P<load>cg|cs))?"
)


def read_variant(name: str, target: Target) -> tuple[Layout, Schedule]:
    """Return layout and schedule of a variant.

    Raises
    ------
    ReproError
        The name is not a variant's, or the target cannot hold the schedule.
    """
    layout_name, _, schedule_name = name.partition("/")
    layout = Layout.parse(layout_name)
    schedule = _parse_schedule(schedule_name, name, target)
    if schedule.load != "ca" and layout.inner != "AoSoA":
        raise ReproError(
            "only tiles can be loaded so", where=name, expected="AoSoA with -cg or -cs", actual=layout.inner
        )
    return layout, schedule


def _parse_schedule(text: str, variant: str, target: Target) -> Schedule:
    found = _SCHEDULE.fullmatch(text)
    if found is None:
        raise ReproError(
            "unknown schedule",
            where=variant,
            expected="kind-n_t-n_b, kind static, dynamic, direct or chunk, after it -w and -u with numbers, -cg or -cs",
            actual=text,
            todo="spell the variant as the tables do, for example Sl-32-SoA-AoS/static-256-4",
        )
    schedule = Schedule(
        found["kind"],
        int(found["n_t"]),
        int(found["n_b"]),
        int(found["width"] or 1),
        int(found["unroll"] or 1),
        found["load"] or "ca",
    )
    fits = (
        0 < schedule.n_t <= target.threads_per_block
        and schedule.n_t % target.warp == 0
        and 0 < schedule.n_b <= target.blocks_per_sm
        and schedule.n_t * schedule.n_b <= target.threads_per_sm
        and schedule.width in (1 << i for i in range(target.warp.bit_length()))
        and schedule.unroll > 0
    )
    if not fits:
        raise ReproError(
            "a schedule that the target cannot hold",
            where=variant,
            expected=f"on {target.name} n_t a multiple of {target.warp} up to {target.threads_per_block}, n_b up to "
            f"{target.blocks_per_sm}, n_t·n_b up to {target.threads_per_sm}, and a width that divides {target.warp}",
            actual=text,
        )
    return schedule
