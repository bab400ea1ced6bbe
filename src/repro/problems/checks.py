"""Checks that several kinds of problems share; each raises one error that names the first item that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.errors import ReproError
from repro.problems.assembled import Integers


def check_array(name: str, what: str, array: NDArray[Any], dtype: DTypeLike, shape: tuple[int, ...]) -> None:
    """Check that an array has the type and shape that the problem asks for.

    Parameters
    ----------
    name
        Of the problem.
    what
        What the array holds, in the plural.
    array, dtype, shape
        The array, and what it should be.

    Raises
    ------
    ReproError
        It is of another type or shape.
    """
    expected = np.dtype(dtype)
    if not isinstance(array, np.ndarray):
        raise ReproError(f"the {what} are no array", where=name, expected=expected, actual=type(array).__name__)
    if (array.dtype, array.shape) != (expected, shape):
        raise ReproError(
            f"the {what} do not fit",
            where=name,
            expected=f"{expected} {shape}",
            actual=f"{array.dtype} {array.shape}",
        )


def check_pointers(name: str, what: str, pointers: Integers, end: int) -> None:
    """Check that pointers start at 0, never decrease, and end at the number of items.

    Parameters
    ----------
    name
        Of the problem.
    what
        What an interval between two pointers is: `row`, `batch`.
    pointers
        `(intervals + 1,)`.
    end
        Number of items.

    Raises
    ------
    ReproError
        They do not.
    """
    if pointers[0] != 0 or pointers[-1] != end:
        raise ReproError(
            f"the {what} pointers do not fit",
            where=name,
            expected=f"from 0 to {end}",
            actual=f"from {pointers[0]} to {pointers[-1]}",
        )
    refuse(
        name,
        f"the {what} pointers decrease",
        pointers[1:] < pointers[:-1],
        place=lambda i: f"{what} {i}",
        expected="pointers that never decrease",
    )


def refuse(
    name: str,
    what: str,
    bad: NDArray[np.bool_],
    *,
    place: Callable[[int], str],
    expected: str,
) -> None:
    """Raise an error if any item is marked.

    Parameters
    ----------
    name
        Of the problem.
    what
        What is wrong with a marked item.
    bad
        `(items,)`, which ones are wrong.
    place
        Says of the first one where it is.
    expected
        What all items should be.

    Raises
    ------
    ReproError
        An item is marked.
    """
    items = np.flatnonzero(bad)
    if items.size:
        raise ReproError(
            what,
            where=f"{name}, first at {place(int(items[0]))} (counted from 0)",
            expected=expected,
            actual=f"{items.size} of {len(bad)} are not so",
        )


def outside(numbers: Integers, count: int) -> NDArray[np.bool_]:
    """Return which numbers are none of 0 to `count` - 1."""
    marked: NDArray[np.bool_] = (numbers < 0) | (numbers >= count)
    return marked


def infinite(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which items have NaN or infinite values, `(items,)` of `(items, ...)`."""
    marked: NDArray[np.bool_] = np.any(~np.isfinite(values), axis=tuple(range(1, values.ndim)))
    return marked


def allowed(count: int) -> str:
    """Say which numbers are 0 to `count` - 1."""
    return f"0 to {count - 1}" if count else "none, since there are none to name"
