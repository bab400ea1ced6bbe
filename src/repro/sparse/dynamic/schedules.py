"""How the entries of a product are dealt to threads: which schedules there are, and how they are spelt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from repro.codegen.targets import TARGETS, Target
from repro.errors import ReproError
from repro.sparse.dynamic.bins import widths_of

Kind = Literal["vector", "mixed", "streams", "adaptive", "chunks"]
#: Entries of a thread that are under way at a time, and how columns and values are loaded: as anything else (`ca`), or
#: as what is read once (`cs`). By dialect; and those of `mixed` and of `chunks`.
WAYS = {"cuda": ((1, "ca"), (2, "ca"), (2, "cs"), (4, "cs")), "opencl": ((1, "ca"), (2, "ca"))}
MIXED_WAYS = {"cuda": ((2, "ca"), (4, "cs")), "opencl": ((2, "ca"),)}
CHUNK_WAYS = {"cuda": ((4, "ca"), (4, "cs"), (8, "cs")), "opencl": ((2, "ca"), (4, "ca"))}
#: Entries for each thread from which on a row of our bins has twice as many.
PER_THREAD = (2, 4)
_TEXT = re.compile(
    r"(?P<kind>vector|mixed|streams|adaptive|chunks)(-w(?P<width>\d+))?(-e(?P<per_thread>\d+))?(-u(?P<unroll>\d+))?"
    r"(?P<cs>-cs)?(?P<exact>-exact)?"
)


@dataclass(frozen=True, order=True)
class Schedule:
    """One way to deal the entries, spelt `vector-w8-u2-cs`, `streams`, `adaptive-e4-u2`, `chunks-u4-exact`.

    Attributes
    ----------
    kind
        `vector`: so many threads for each row. `mixed`: the same, but a warp for a longer row, and a block for a row
        that is longer still; it knows nothing of the rows beforehand. `streams`: the paper's bins of rows, each by a
        kernel on a stream of its own. `adaptive`: our bins, all in one launch. `chunks`: consecutive rows of about
        equally many entries for each block.
    width
        Threads of a row, for `vector` and `mixed`; else 0.
    per_thread
        For `adaptive`: entries for each thread from which on a row has twice as many threads; else 0.
    unroll
        Entries of a thread under way at a time.
    load
        `ca` or `cs`: whether columns and values stay in the caches or are read as once.
    exact
        Whether it relies on each row being in one segment without room.
    """

    kind: Kind
    width: int = 0
    per_thread: int = 0
    unroll: int = 1
    load: str = "ca"
    exact: bool = False

    def __str__(self) -> str:
        words: list[str] = [self.kind]
        words += [f"w{self.width}"] if self.width else []
        words += [f"e{self.per_thread}"] if self.per_thread else []
        words += [f"u{self.unroll}"] if self.unroll > 1 else []
        words += [self.load] if self.load != "ca" else []
        words += ["exact"] if self.exact else []
        return "-".join(words)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read a schedule's text; the inverse of `str`.

        Raises
        ------
        ReproError
            It is no schedule's.
        """
        match = _TEXT.fullmatch(text)
        if match:
            kind: Kind = match["kind"]  # type: ignore[assignment]  # the expression has these alone
            schedule = cls(
                kind,
                int(match["width"] or 0),
                int(match["per_thread"] or 0),
                int(match["unroll"] or 1),
                "cs" if match["cs"] else "ca",
                bool(match["exact"]),
            )
            if str(schedule) == text and schedule in _EVERY:
                return schedule
        raise ReproError(
            "unknown schedule of a product",
            expected="one like vector-w8-u2-cs, streams-u2, adaptive-e4-u2-exact or chunks-u4",
            actual=text,
        )

    @property
    def papers(self) -> bool:
        """Whether the paper has it: one entry of a thread at a time, no hints, sizes read."""
        return self.kind in ("vector", "streams") and self.unroll == 1 and self.load == "ca" and not self.exact


def schedules(target: Target) -> list[Schedule]:
    """Return all schedules of a device generation, exact ones and others."""
    made: list[Schedule] = []
    for unroll, load in WAYS[target.dialect]:
        if load == "ca":
            made += [Schedule("streams", 0, 0, unroll, load)]
        for exact in (False, True):
            made += [Schedule("vector", width, 0, unroll, load, exact) for width in widths_of(target)]
            if unroll > 1:
                made += [Schedule("adaptive", 0, per_thread, unroll, load, exact) for per_thread in PER_THREAD]
    made += [
        Schedule("mixed", width, 0, unroll, load, exact)
        for unroll, load in MIXED_WAYS[target.dialect]
        for exact in (False, True)
        for width in widths_of(target)
    ]
    made += [Schedule("chunks", 0, 0, unroll, load, True) for unroll, load in CHUNK_WAYS[target.dialect]]
    return made


def usual_schedule(target: Target, mean: float) -> Schedule:
    """Return a schedule for products that are not searched, of a matrix whose rows change.

    Each thread has about four entries of a row of the mean size.
    """
    widths = widths_of(target)
    width = next((width for width in widths if 4 * width >= mean), widths[-1])
    return Schedule("mixed", width, 0, *MIXED_WAYS[target.dialect][-1])


def usual_bins(target: Target) -> Schedule:
    """Return a schedule by our bins for products that are not searched, of a matrix whose rows change little."""
    return Schedule("adaptive", 0, PER_THREAD[0], *WAYS[target.dialect][-1])


#: Those of any device.
_EVERY = frozenset(schedule for target in TARGETS.values() for schedule in schedules(target))
