"""What can be verified and timed (a variant, a library routine, a yardstick, stages), and its operands.

Operands are what runnables work on. A trial knows only their size and whether a result is right.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from repro.bench.workspace import Workspace


#: `event`: device events around single launches. `graph`: a replayed graph of many. `host`: wall time from an idle
#: device to an idle device, for what needs the host on the way (allocation, a size that is read back).
ClockName = Literal["event", "graph", "host"]


class Unsupported(Exception):
    """This runnable cannot do this problem in this precision on this device; the message says why."""


class ModuleError(Exception):
    """A runnable's module did not compile; the message is the compiler's first error."""


class IncorrectError(Exception):
    """A result is wrong.

    Parameters
    ----------
    message
        What is wrong.
    error
        The largest error over its bound; None where the result is wrong in another way.
    """

    def __init__(self, message: str, error: float | None = None) -> None:
        self.error = error
        super().__init__(message)


class UnstableError(Exception):
    """A result is not what it should be, and right results differ as much: it cannot be judged.

    Parameters
    ----------
    message
        How far it is off, and how far right results are apart.
    error
        The largest error over its bound.
    """

    def __init__(self, message: str, error: float) -> None:
        self.error = error
        super().__init__(message)


class Runnable:
    """One thing to run, the base of all that there are.

    Its life: `pack`, `prepare`, then any number of times `before`, `launch` and `result`, then `release`.

    Attributes
    ----------
    kind
        The row's kind: `variant`, `baseline`, `solver`, `floor`, `copy`, `empty`, or what a study adds.
    name
        The row's name, unique for a problem and precision.
    clocks
        By which clocks it can be timed: `event` or `host`, which it is screened by, and maybe others. A launch that
        changes its operand, so that `before` has to put it back, cannot be replayed in a graph; one that waits for the
        device on the way has the clock `host` alone.
    launch
        Queues one launch, with all that belongs to it (resetting a counter, say); set by `prepare`.
    stages
        Parts of a launch by name, in their order, where it has several: `launch` does what they do one after the other.
        Set by `prepare`; the names are known before.
    cold
        Whether it is timed with a cold cache too; not where its times say nothing of a cache, or are too long to tell.
    devices
        So many of the devices, the first ones, it runs on and is timed over; 0 for all that there are.
    moved
        Bytes that a launch has to move at the least, once prepared; 0 where that is not known.
    of_device
        Whether its times say something of the device and nothing of a problem: a batch takes them once.
    """

    kind: str
    name: str
    clocks: tuple[ClockName, ...] = ("event", "graph")
    launch: Callable[[], None]
    stages: Mapping[str, Callable[[], None]] = {}
    cold: bool = True
    devices: int = 1
    moved: int = 0
    of_device: bool = False

    @property
    def columns(self) -> Mapping[str, Any]:
        """Further columns of its row: those that all rows have, and the study's own."""
        return {}

    @property
    def identity(self) -> str:
        """What tells it from anything else of that name: the hash of a module, the version of a library."""
        return self.name

    def pack(self, workspace: Workspace) -> None:
        """Do on the host, by `Workspace.pack`, what of `prepare` takes long there; others may use the device meanwhile.

        `prepare` does without, and what cannot be packed is for it to say.
        """

    def prepare(self, workspace: Workspace) -> None:
        """Bring what it needs to the device and do a library's own analysis.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory, LaunchError
        """

    def before(self) -> None:
        """Do what has to be done before each launch and is no part of its time: put back what a launch changes."""

    def result(self) -> Any:
        """Return what a launch leaves for the operands to check; None where there is nothing to verify."""
        return None

    def release(self) -> None:
        """Give back what is held on the device; harmless before `prepare`."""


class Candidate(Runnable):
    """A runnable that a search tries: a variant.

    Attributes
    ----------
    space
        The space that it belongs to: `paper`, or `extended` where it is ours.
    packing
        What the operand is packed as; candidates of equal packing share its arrays on the device.
    group
        The best of each group get the full effort, so that tables by group stand on full measurements.
    """

    space: str
    packing: Hashable
    group: Hashable


def not_prepared() -> None:
    """Stand for the launch of what is not prepared, or was released."""
    raise RuntimeError("launched before it was prepared")


def in_turn(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    """Return a launch of both: what clears a result or a counter first is part of its time."""

    def launch() -> None:
        first()
        then()

    return launch


class Operands(Protocol):
    """The operands of one problem in one precision on the host, and what a right result is.

    A result is what the study's runnables return: a vector, a matrix (pattern and values), a state.
    """

    @property
    def precision(self) -> str:
        """`single` or `double`."""

    @property
    def checksum(self) -> str:
        """Hash of the problem and of what was drawn beside it."""

    @property
    def least_bytes(self) -> tuple[int, int]:
        """Bytes that any solution has to read and to write, each once."""

    @property
    def operations(self) -> int:
        """Additions and multiplications that any solution has to do."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The study's own columns that all rows of these operands share."""

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch a prepared runnable once and return its largest error over its bound; None: nothing to verify.

        Raises
        ------
        IncorrectError
            The result is wrong.
        """
