"""Exceptions: failures that a user can cause, and the reasons why a runnable (variant, baseline, …) has no time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

#: Largest number of characters that a message shows of an argument; elements that it shows of an array or a long list.
MAX_VALUE, SHOWN = 200, 3


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

    #: Largest number of characters that the message shows of a part.
    max_length = 2000

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
        # errors of arguments have the same constructor as this class
        kind = type(self) if isinstance(self, (ReproErrorOfValue, ReproErrorOfType)) else ReproError
        return kind(self.what, where=where, expected=self.expected, actual=self.actual, todo=self.todo)

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
                parts.append(f"  {label}: {_cut(_text(value), self.max_length)}")
        return "\n".join(parts)


class ReproErrorOfValue(ReproError, ValueError):
    """An argument has a wrong value: a number out of range, or another shape, length, dtype or word."""

    max_length = 2 * MAX_VALUE


class ReproErrorOfType(ReproError, TypeError):
    """An argument is an object of the wrong kind, or there is no such argument."""

    max_length = 2 * MAX_VALUE


@contextmanager
def argument_errors() -> Iterator[None]:
    """Raise a plain `ReproError` of the body, which checks arguments, as a `ReproErrorOfValue`."""
    try:
        yield
    except ReproError as error:
        if type(error) is not ReproError:
            raise
        raise ReproErrorOfValue(
            error.what, where=error.where, expected=error.expected, actual=error.actual, todo=error.todo
        ) from error.__cause__


def brief(value: object) -> str:
    """Return a user's argument as text that is short for any value: of arrays and lists the size and a few elements."""
    return _cut(_text(value, repr), MAX_VALUE)


def _text(value: Any, text: Any = str) -> str:
    """Return the text of a value; of an array or a long list its size and first elements."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and hasattr(value, "dtype"):
        few = [f"{element}" for element in islice(getattr(value, "flat", ()), SHOWN + 1)]
        return f"{type(value).__name__} of shape {shape}, {value.dtype}" + _few(few)
    if isinstance(value, (list, tuple, set, frozenset, dict)) and len(value) > 2 * SHOWN:
        few = [_cut(repr(element), MAX_VALUE // SHOWN) for element in islice(value, SHOWN + 1)]
        return f"{type(value).__name__} of {len(value):,}" + _few(few)
    return f"{text(value)}"


def _few(texts: list[str]) -> str:
    return f": {', '.join(texts[:SHOWN])}" + ", …" * (len(texts) > SHOWN) if texts else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


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
