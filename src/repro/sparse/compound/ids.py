"""The identity of a variant, a layout and a schedule: its text is made and read only here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from repro.bench.variant_id import BaseId, Point
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.sparse.compound.layouts import TILE_ROWS, Layout
from repro.sparse.compound.schedules import CHUNK, DIRECT, KINDS, Schedule

_SCHEDULE = re.compile(
    rf"(?P<kind>{'|'.join((*KINDS, DIRECT, CHUNK))})-(?P<n_t>\d+)-(?P<n_b>\d+)"
    r"(-w(?P<width>\d+))?(-u(?P<unroll>\d+))?(-(?P<load>cg|cs|el))?(-(?P<ahead>p|a|f))?(-(?P<rolled>rolled))?"
)


@dataclass(frozen=True, order=True)
class VariantId(BaseId):
    """A layout under a schedule, spelt `Sl-32-SoA-AoS/static-256-4`."""

    layout: Layout
    schedule: Schedule

    def __str__(self) -> str:
        return f"{self.layout}/{self.schedule}"

    @classmethod
    def _read(cls, text: str) -> VariantId:
        layout_text, _, schedule_text = text.partition("/")
        layout = Layout.parse(layout_text)
        parts = _SCHEDULE.fullmatch(schedule_text)
        if parts is None:
            raise ReproError(
                "unknown schedule",
                where=text,
                expected="kind-n_t-n_b, kind static, dynamic, direct or chunk, after it -w and -u with numbers, -cg, "
                "-cs or -el, and -p, -a or -f; or -rolled alone, of static and dynamic",
                actual=schedule_text,
                todo="spell the variant as the tables do, for example Sl-32-SoA-AoS/static-256-4",
            )
        schedule = Schedule(
            parts["kind"],
            int(parts["n_t"]),
            int(parts["n_b"]),
            int(parts["width"] or 1),
            int(parts["unroll"] or 1),
            parts["load"] or "ca",
            parts["ahead"] or "",
            bool(parts["rolled"]),
        )
        if schedule.rolled and (schedule.kind not in KINDS or schedule.shape):
            raise ReproError(
                "only the papers' schedules have a loop that is not unrolled",
                where=text,
                expected="static or dynamic, one thread a row, before -rolled",
                actual=schedule,
            )
        rows = TILE_ROWS.get(layout.outer)
        if (schedule.load != "ca" or schedule.ahead) and layout.inner != "AoSoA":
            raise ReproError(
                "only tiles can be loaded so",
                where=text,
                expected="AoSoA with -cg, -cs, -el, -p, -a or -f",
                actual=layout.inner,
            )
        if not rows and (schedule.ahead == "f" or (schedule.ahead == "a" and schedule.load != "ca")):
            raise ReproError(
                "a schedule that there is for pairs alone",
                where=text,
                expected="-f for pairs; for others no word of loads beside -a, whose copies have none",
                actual=schedule,
            )
        if rows and (schedule.kind != DIRECT or schedule.block_size != rows * schedule.width):
            raise ReproError(
                "pairs have a block for each tile",
                where=text,
                expected=f"{DIRECT}-{rows}-… for one thread to a row, {DIRECT}-{2 * rows}-…-w2 for two, and so on",
                actual=schedule,
            )
        return cls(layout, schedule)

    @property
    def columns(self) -> dict[str, Any]:
        layout, schedule = self.layout, self.schedule
        return {
            "layout": str(layout),
            "ordering": layout.unknowns,
            "outer": layout.outer,
            "inner": layout.inner,
            "vector": layout.vector,
            "clustered": layout.ordering == "clustered",
            "schedule": schedule.kind,
            "n_t": schedule.block_size,
            "n_b": schedule.blocks_per_sm,
            "width": schedule.width,
            "unroll": schedule.unroll,
            "load": schedule.load,
            "ahead": schedule.ahead,
            "rolled": schedule.rolled,
        }

    @property
    def point(self) -> Point:
        layout, schedule = self.layout, self.schedule
        outer, _, rows = layout.outer.partition("-")
        sizes = (int(rows or 1), schedule.block_size, schedule.blocks_per_sm, schedule.width, schedule.unroll)
        load = schedule.load if schedule.load != "ca" else ""
        kind = f"{schedule.kind}-rolled" if schedule.rolled else schedule.kind
        words = (outer, layout.inner, layout.vector, layout.ordering, kind, load, schedule.ahead)
        return Point.of(str(layout), words, sizes)


def fitting_variant(name: str, target: Target) -> VariantId:
    """Return the variant with a name; raise `ReproError` if it is unknown, or if the target cannot hold it."""
    return fitting(VariantId.parse(name), target)


def fitting(variant: VariantId, target: Target) -> VariantId:
    """Return the variant if the target can hold its schedule; otherwise raise `ReproError`."""
    schedule = variant.schedule
    fits = (
        0 < schedule.block_size <= target.threads_per_block
        and schedule.block_size % target.warp == 0
        and 0 < schedule.blocks_per_sm <= target.blocks_per_sm
        and schedule.block_size * schedule.blocks_per_sm <= target.threads_per_sm
        and schedule.width in (1 << i for i in range(target.warp.bit_length()))
        and schedule.unroll > 0
    )
    if not fits:
        raise ReproError(
            "a schedule that the target cannot hold",
            where=variant,
            expected=f"on {target.name} n_t a multiple of {target.warp} up to {target.threads_per_block}, n_b up to "
            f"{target.blocks_per_sm}, n_t·n_b up to {target.threads_per_sm}, and a width that divides {target.warp}",
            actual=schedule,
        )
    return variant
