"""Exceptions: failures that a user can cause, and the reasons why a runnable (variant, baseline, …) has no time."""

from __future__ import annotations


class ReproError(Exception):
    """A failure with a cause outside the program: bad input, a missing file, a missing device.

    The command line prints it as one message and exits with code 1; anything else is a bug and keeps its
    traceback.

    Parameters
    ----------
    what
        What went wrong, as one sentence without a full stop.
    where
        The file, key, problem or module that the error concerns.
    expected, actual
        What was expected and what was found instead.
    todo
        What the user can do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        actual: object = None,
        todo: str | None = None,
    ) -> None:
        self.what, self.where, self.expected, self.actual, self.todo = what, where, expected, actual, todo
        super().__init__(self.message)

    def at(self, where: object) -> ReproError:
        """Return the same error with another `where`, for example with the configuration key that names the file."""
        return ReproError(self.what, where=where, expected=self.expected, actual=self.actual, todo=self.todo)

    @property
    def message(self) -> str:
        """The whole message with one line per part."""
        parts = [self.what]
        for label, value in (
            ("where", self.where),
            ("expected", self.expected),
            ("actual", self.actual),
            ("what to do", self.todo),
        ):
            if value is not None:
                parts.append(f"  {label}: {value}")
        return "\n".join(parts)


class MissingFileError(ReproError):
    """A file that the user names is missing. `path` is as it is written, `where` also names who names it."""

    def __init__(
        self,
        what: str,
        *,
        path: object,
        where: object = None,
        expected: object = None,
        actual: object = None,
        todo: str = "correct the path",
    ) -> None:
        super().__init__(what, where=path if where is None else where, expected=expected, actual=actual, todo=todo)
        self.path = path

    def at(self, where: object) -> MissingFileError:
        """Return the same error with another `where`."""
        return MissingFileError(
            self.what, path=self.path, where=where, expected=self.expected, actual=self.actual, todo=self.todo or ""
        )


class Unsupported(Exception):
    """The runnable does not support this problem in this precision on this device; the message says why."""


class ModuleError(Exception):
    """A runnable's module failed to compile; the message is the compiler's first error."""


class IncorrectError(Exception):
    """A result is wrong. `error` is the largest error divided by its bound, or None if no error was computed."""

    def __init__(self, message: str, error: float | None = None) -> None:
        self.error = error
        super().__init__(message)


class UnstableError(Exception):
    """A result exceeds its error bound, but for this problem even correct results differ by as much."""

    def __init__(self, message: str, error: float) -> None:
        self.error = error
        super().__init__(message)
