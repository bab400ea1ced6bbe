"""The standard streams of `repro` as a process: one that is closed, full or read no more costs a message at most."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

#: What an `OSError` names as its file where standard output cannot be written to.
STDOUT = "standard output"
#: How each is opened that is closed: nothing can be read from standard input, and standard output refuses what comes.
_CLOSED = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))


class _Output(io.FileIO):
    """Standard output, whose first failure says whose it is; what comes after it is dropped, as nobody has it."""

    failed = False

    def write(self, content: object) -> int:
        """Write, and name the stream in what is raised."""
        size = memoryview(content).nbytes  # type: ignore[arg-type]
        if self.failed:
            return size
        try:
            return super().write(content) or 0  # type: ignore[arg-type]
        except OSError as error:
            self.failed = True
            error.filename = STDOUT
            raise


class _Errors(io.FileIO):
    """Standard error: where it fails there is no other place to say so, and the exit code remains."""

    def write(self, content: object) -> int:
        """Write what can be written."""
        try:
            return super().write(content) or 0  # type: ignore[arg-type]
        except OSError:
            return memoryview(content).nbytes  # type: ignore[arg-type]


def hold_streams() -> None:
    """Open the standard streams that are closed, so that no file comes to lie in their place, and watch the others."""
    for number, flags in _CLOSED:
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Errors(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: TextIO | None) -> TextIO:
    """Return a stream of text over another one of bytes, as the interpreter had made it; letters are no failure."""
    errors = before.errors if before and before.errors != "strict" else "backslashreplace"
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if before else None,
        errors=errors,
        line_buffering=raw.fileno() == 2 or raw.isatty(),
    )
