"""What can be verified and timed: a variant, a routine of a library, the floor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Buffer

if TYPE_CHECKING:
    from repro.bench.workspace import Workspace


class Unsupported(Exception):
    """This runnable cannot do this problem in this precision on this device; the message says why."""


class Runnable(Protocol):
    """One thing to run. Its life: `prepare`, then `launch` any number of times and `result`, then `release`.

    Attributes
    ----------
    kind
        The row's kind: `variant`, `baseline`, `floor`, `copy` or `empty`.
    name
        The row's name, unique for a problem and precision.
    columns
        Further columns of its row (`layout`, `schedule`, `routine`, `papers_choice`, `registers`, …).
    identity
        What tells it from anything else of that name: the hash of a module, the version of a library. Part of the key.
    arrangement
        Names the order of the numbers in `result`; equal names, equal order.
    """

    kind: str
    name: str
    arrangement: str

    @property
    def columns(self) -> Mapping[str, Any]:
        """See above."""

    @property
    def identity(self) -> str:
        """See above."""

    def prepare(self, workspace: Workspace) -> None:
        """Bring the operands to the device and do the library's own analysis.

        Raises
        ------
        Unsupported, OutOfDeviceMemory, LaunchError
        """

    def launch(self) -> None:
        """Queue one product y = A x, with all that belongs to it (resetting a counter, say)."""

    def result(self) -> Buffer | None:
        """Return y in device memory in the working precision; None where there is nothing to verify."""

    def arrange(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring `(n, k)` members into the order, with the signs, of `result`; flat. Linear."""

    @property
    def moved(self) -> tuple[int, int]:
        """(bytes of a launch at the least, bytes of the matrix alone), once prepared."""

    def release(self) -> None:
        """Give back what is held on the device; harmless before `prepare`."""


class Candidate(Runnable, Protocol):
    """A runnable that a search tries: a variant of some layout.

    Attributes
    ----------
    space
        The space that it belongs to: `paper` or `extended`.
    packing
        What the matrix is packed as; candidates of equal packing share its arrays on the device.
    """

    space: str
    packing: Hashable


class Multiplies(Runnable, Protocol):
    """A runnable whose product can be had for other vectors than its own, for an iterative solver say."""

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors; once prepared, and valid until `release`.

        Parameters
        ----------
        x, y
            n·k numbers of the working precision, in the order of `result`, aligned to 16 bytes.
        """
