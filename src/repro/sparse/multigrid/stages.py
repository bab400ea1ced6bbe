"""Stages of the set-up whose phases wait for each other: one cooperative launch, or a launch for each phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro.devices.base import Argument
from repro.sparse.device_work import Launches
from repro.sparse.elementwise import BLOCK_SIZE, Kernels, Launch

#: Blocks per multiprocessor where each phase is a launch.
PARTS = 4
#: Launches a phase of a step.
Phase = Callable[..., None]


class Stage:
    """A stage: the kernel `name`, whose phases have names in their order.

    A block has a part of the stage's elements. `parts` is the number of blocks: there are `lanes` threads for each of
    `count` elements, as far as blocks are resident.
    """

    def __init__(
        self, run: Launches, module: str, name: str, phases: Sequence[str], count: int, lanes: int = 1
    ) -> None:
        device, program, n_t = run.device, run.load(module), BLOCK_SIZE[run.device.backend]
        self._name, self._phases, self._kernels = name, phases, Kernels(device, program)
        self._whole = device.cooperative(program, name, n_t)
        most = device.sm_count * PARTS if self._whole is None else self._whole.resident
        self.parts = max(1, min(most, -(-count * lanes // n_t)))

    def bind(self, arguments: Sequence[Argument], script: Callable[[Phase], None]) -> Launch:
        """Return a launch of the stage; `script` calls its argument for phase after phase, as the kernel goes on."""
        if self._whole is not None:
            return self._whole.bind(self.parts, [*arguments, -1, 0])

        def launch_phase(name: str, step: int = 0) -> None:
            number = self._phases.index(name)
            self._kernels.blocks(self._name, self.parts, [*arguments, number, step])()

        return lambda: script(launch_phase)


def each_of(phases: Sequence[str]) -> Callable[[Phase], None]:
    """Return a script of phases one after the other."""

    def script(phase: Phase) -> None:
        for name in phases:
            phase(name)

    return script
