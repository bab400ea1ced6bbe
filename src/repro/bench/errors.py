"""Exceptions for runnables that get no time: unsupported problem, failed compilation, or wrong result."""

from __future__ import annotations


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
    """A result exceeds its error bound, but even correct results of this problem differ that much."""

    def __init__(self, message: str, error: float) -> None:
        self.error = error
        super().__init__(message)
