"""Taking the large entries out of a matrix: how many there are is not known before, and taking them changes it.

Two ways: `exact` counts first, reads the number back and allocates what is needed, in two stages by the host's clock;
`bound` takes them in one pass into memory for all entries, by events as well. Each device has a part of the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import ColumnType
from repro.bench.runnable import Candidate, Runnable, Workspace
from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import render_template
from repro.config.models import StudySettings
from repro.devices.base import Argument, Buffer, Program
from repro.errors import IncorrectError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, Problem
from repro.sparse.device_primitives import ModuleFile, read_module
from repro.studies import StepResult, Study
from repro.tuning.search import pick
from repro.tuning.session import Session

NAME = "small"
EXACT, BOUND = "exact", "bound"
BLOCK_SIZE = 64


@dataclass(frozen=True)
class Entries:
    """The entries of a matrix as one array `(entries,)`, and which of them are large: more than the median."""

    values: NDArray[np.floating]
    precision: str
    checksum: str

    @cached_property
    def least(self) -> np.floating:
        """What a large entry is larger than, without its sign."""
        return self.values.dtype.type(np.median(np.abs(self.values)))

    @property
    def min_bytes(self) -> tuple[int, int]:
        """Each entry is read, and the place of each large one written."""
        return self.values.nbytes, 4 * int((np.abs(self.values) > self.least).sum())

    @property
    def operations(self) -> int:
        """A comparison each."""
        return len(self.values)

    @property
    def columns(self) -> Mapping[str, Any]:
        """Nothing that all rows share."""
        return {}

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Take once, and compare the places, in whatever order, and the state that is left."""
        if not isinstance(runnable, Take):
            return None
        runnable.before()
        runnable.launch()
        places, left = runnable.result()
        large = np.abs(self.values) > self.least
        if not np.array_equal(np.sort(places), np.flatnonzero(large)):
            raise IncorrectError(f"{len(places)} places where {large.sum()} are large, or others")
        if not np.array_equal(left, np.where(large, 0, self.values)):
            raise IncorrectError("what is left is not what was there without the large entries")
        return 0.0


class Take(Candidate):
    """One of the two ways, over all devices."""

    kind = "variant"
    space = "paper"
    packing = group = None
    devices = 0  # all that there are

    def __init__(self, way: str, built: ModuleFile) -> None:
        self.name, self._built = way, built
        self.clocks = ("host",) if way == EXACT else ("event", "host")
        self._parts: list[_Part] = []

    @property
    def identity(self) -> str:
        """The module's hash."""
        return self._built.module.hash

    @property
    def columns(self) -> Mapping[str, Any]:
        """The way, and over how many devices."""
        return {"way": self.name, "parts": len(self._parts) or None}

    def prepare(self, workspace: Workspace) -> None:
        """Give each device its part of the entries."""
        self.release()
        entries = workspace.operands
        assert isinstance(entries, Entries)
        parts = np.array_split(entries.values, len(workspace.devices))
        programs = [self._built.program(workspace, at) for at in range(len(parts))]
        self._parts = [_Part(workspace, at, parts[at], entries.least, program) for at, program in enumerate(programs)]
        if self.name == EXACT:
            self.stages = {"count": self._all(_Part.count), "take": self._all(_Part.take_counted)}
            self.launch = self._one_after_the_other
        else:
            self.launch = self._all(_Part.take_all)

    def _all(self, step: Callable[[_Part], None]) -> Callable[[], None]:
        def launch() -> None:
            for part in self._parts:
                step(part)

        return launch

    def _one_after_the_other(self) -> None:
        for stage in self.stages.values():
            stage()

    def before(self) -> None:
        """Put the entries back that the last launch took."""
        for part in self._parts:
            part.restore()

    def result(self) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
        """Return the places on the host, brought to the first device from the others, and what is left."""
        starts = np.cumsum([0, *(len(part.values) for part in self._parts)])
        places = [part.taken() + start for part, start in zip(self._parts, starts, strict=False)]
        return np.concatenate(places).astype(np.int32), np.concatenate([part.left() for part in self._parts])

    def release(self) -> None:
        """Give all memory back."""
        while self._parts:
            self._parts.pop().release()


class _Part:
    """What one device has."""

    def __init__(
        self, workspace: Workspace, at: int, values: NDArray[np.floating], least: np.floating, program: Program
    ) -> None:
        self.values, self._devices, self._at, self._least = values, workspace.devices, at, least
        self._device, self._program = workspace.devices[at], program
        self._entries, self._count = self._device.upload(values), self._device.upload(np.zeros(1, np.int32))
        self._places = self._bound = self._device.allocate(4 * len(values))
        self._counted = 0

    def count(self) -> None:
        """Count, and have the number brought to the host: the first stage of `exact`."""
        self._device.fill(self._count, 0)
        self._run("count_large")
        self._counted = self._number()

    def take_counted(self) -> None:
        """Allocate what the counted ones need, and take them: the second stage."""
        self._free()
        self._places = self._device.allocate(4 * max(self._counted, 1))
        self.take_all()

    def take_all(self) -> None:
        """Take them into the memory that there is."""
        self._device.fill(self._count, 0)
        self._run("take_large", self._places)

    def _run(self, kernel: str, *more: Buffer) -> None:
        n = len(self.values)
        arguments: list[Argument] = [np.int32(n), self._least, self._entries, self._count, *more]
        self._device.bind(self._program.kernel(kernel), -(-n // BLOCK_SIZE), BLOCK_SIZE, arguments)()

    def _number(self) -> int:
        count = np.empty(1, np.int32)
        self._device.download(self._count, count)
        return int(count[0])

    def restore(self) -> None:
        """Bring the entries back."""
        self._device.write(self._entries, self.values)

    def taken(self) -> NDArray[np.int32]:
        """Return the places, by way of the first device."""
        places = np.empty(self._number(), np.int32)
        first = self._devices.first.allocate(max(places.nbytes, 4))
        self._devices.copy(self._places, self._at, first, 0, places.nbytes)
        self._devices.first.download(first, places)
        first.release()
        return places

    def left(self) -> NDArray[np.floating]:
        """Return what is left of the entries."""
        values = np.empty_like(self.values)
        self._device.download(self._entries, values)
        return values

    def _free(self) -> None:
        if self._places is not self._bound:
            self._places.release()
            self._places = self._bound

    def release(self) -> None:
        """Give the memory back."""
        self._free()
        for buffer in (self._entries, self._count, self._bound):
            buffer.release()


class Small(Study):
    """Both ways on every problem, and which is faster."""

    name = NAME
    reference = "none: it shows what a study may need."
    columns: Mapping[str, ColumnType] = {"way": str, "parts": int, "stage_count": float, "stage_take": float}
    outputs = ("search", "report", "choices")

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        """Return the one module of a precision."""
        return [f"take/{precision}"]

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return its source."""
        scalar, _ = SCALARS[key.rpartition("/")[2]]
        names = {"dialect": target.dialect, "title": f"{NAME}: {key}", "scalar": scalar, "block_size": BLOCK_SIZE}
        return render_template(templates, f"{NAME}/module.j2", **names)

    def operands(self, problem: Problem, precision: str, seed: int) -> Entries:
        """Return the entries, one after the other."""
        assert isinstance(problem, Matrix)
        return Entries(problem.values.ravel().astype(DTYPES[precision]), precision, problem.checksum())

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Time both, choose, and time them again side by side."""
        built = read_module(session.target, NAME, f"take/{session.precision}")
        ways = [Take(way, built) for way in (EXACT, BOUND)]
        rows = session.measure_all(ways, "ways")
        yield "search", rows
        yield "report", session.time_in_rounds(ways)
        yield "choices", pick(rows, session.settings.timing.tie, lambda timed, clock: {"joint": timed})


STUDY = Small()
