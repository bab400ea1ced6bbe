"""An expanded matrix on the device: the arrays of all formats, each uploaded once, for all routines that use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from repro.bench.workspace import Workspace
from repro.devices.base import Buffer
from repro.sparse.expansions import Bsr, Csr, Representation, to_bsr, to_coo, to_csr, to_sell
from repro.sparse.operands import operands_of

#: Rows of a slice of sliced ELLPACK: a warp.
SLICE_ROWS = 32

#: The arrays of each format; coordinates are CSR with a row for each number.
ARRAYS = {
    "csr": ("csr offsets", "csr columns", "csr values"),
    "coo": ("coo rows", "csr columns", "csr values"),
    "sell": ("sell offsets", "sell columns", "sell values"),
    "bsr": ("bsr offsets", "bsr columns", "bsr values"),
}
VECTOR = "x"


class Resident:
    """One representation of a matrix in one ordering, as far as somebody uses it.

    Expanding tens of millions of numbers takes the host seconds, and a GPU's memory holds a large matrix only so often:
    the routines of a library are given one of these together.

    Parameters
    ----------
    representation
        What the numbers are.
    ordering
        The order of the rows and columns.
    """

    def __init__(self, representation: Representation, ordering: str) -> None:
        self._representation = representation
        self._ordering = ordering
        self._csr: Csr | None = None
        self._buffers: dict[str, Buffer] = {}
        self._users: Counter[str] = Counter()

    def take(self, workspace: Workspace, name: str) -> list[Buffer]:
        """Return the arrays of a format (offsets or rows, columns, values), and x; `give_back` ends their use.

        Raises
        ------
        OverflowError
            More numbers than 32-bit indices can count.
        OutOfDeviceMemory
        """
        wanted = (*ARRAYS[name], VECTOR)
        self._users.update(wanted)
        try:
            if any(array not in self._buffers for array in wanted):
                arrays = self._expand(workspace, name)
                for array in wanted:
                    if array not in self._buffers:
                        self._buffers[array] = workspace.device.upload(arrays[array])
        except Exception:
            self.give_back(name)
            raise
        return [self._buffers[array] for array in wanted]

    def give_back(self, name: str) -> None:
        """End the use of a format; what nobody else uses is released."""
        self._users.subtract((*ARRAYS[name], VECTOR))
        for array in [array for array in self._buffers if self._users[array] == 0]:
            self._buffers.pop(array).release()
        if not self._buffers:
            self._csr = None

    def _expand(self, workspace: Workspace, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of a format on the host, and x."""
        operands, representation = operands_of(workspace), self._representation
        x = representation.arrange(operands.x_in(self._ordering))

        def blocks() -> Bsr:
            return to_bsr(operands.reordered(self._ordering), representation, operands.dtype)

        if name == "bsr":
            return self._named(name, blocks(), x)
        csr = self._csr or to_csr(blocks())
        if name == "sell":
            self._csr = None  # routines come in the order of `ARRAYS`, and this is the last that needs it
            return self._named(name, to_sell(csr, SLICE_ROWS), x)
        self._csr = csr
        return self._named(name, csr if name == "csr" else to_coo(csr), x)

    def _named(self, name: str, arrays: Iterable[NDArray[Any]], x: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return dict(zip((*ARRAYS[name], VECTOR), (*arrays, x), strict=True))
