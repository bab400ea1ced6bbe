"""What runnables work on, whatever it is: the trial knows only how much it is and whether a result is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from repro.bench.runnable import Runnable

if TYPE_CHECKING:
    from repro.bench.workspace import Workspace


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
