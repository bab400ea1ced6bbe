"""Conversion of arrays between number types; a value that the new type cannot represent raises an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.errors import ReproError

#: Number of array elements that are compared at once, so few that they stay in the cache.
PART = 1 << 15
#: Kinds of NumPy's numeric dtypes.
_NUMBERS = "biufc"


def cast(
    array: Any, dtype: DTypeLike, subject: str, todo: str | None = None, *, as_vector: bool = False
) -> NDArray[Any]:
    """Convert an array to another number type; raise `ReproError` if the type cannot represent each number.

    Integers must stay exact. Real and imaginary parts may be rounded by the new type's relative precision, but may
    neither overflow nor lose digits below its smallest normal number. Infinity and NaN can be converted only to
    floating-point types.

    Parameters
    ----------
    array
        Numbers of any shape.
    dtype
        The new type.
    subject
        Name of the array in error messages.
    todo
        Advice for numbers that cannot be represented.
    as_vector
        Allow loss of digits below the new type's relative precision of the largest number, as in vectors of solvers.

    Returns
    -------
    array
        The given array if it has the type already, else a new array in C order.

    Raises
    ------
    ReproError
        The array has no numbers, or a number cannot be represented; the message has the first such number and its
        index.
    """
    given, wanted = np.asarray(array), np.dtype(dtype)
    if given.dtype.kind not in _NUMBERS:
        raise ReproError("these are no numbers", where=subject, expected=f"numbers of {wanted}", actual=given.dtype)
    if given.dtype == wanted:
        return given
    with np.errstate(all="ignore"):
        real = given.real if given.dtype.kind == "c" and wanted.kind != "c" else given
        new = real.astype(wanted, order="C")
        first = _first_lost(given, new, as_vector)
    if first is not None:
        place = tuple(int(i) for i in np.unravel_index(first, given.shape))
        position = ", ".join(map(str, place))
        raise ReproError(
            f"a number does not fit into {wanted}",
            where=f"{subject}[{position}]" if place else subject,
            expected=expectation(wanted),
            actual=str(given[place]),  # `str` keeps all digits of types wider than Python's float
            todo=todo,
        )
    return new


def holds(old: DTypeLike, new: DTypeLike) -> bool:
    """Return whether the new type can represent all numbers of the old one."""
    given, wanted = np.dtype(old), np.dtype(new)
    return bool(np.can_cast(given, wanted, "safe")) and not _rounds(given, wanted)


def _first_lost(given: NDArray[Any], new: NDArray[Any], as_vector: bool) -> int | None:
    """Return the flat index in C order of the first number of `given` that `new` does not represent, or None."""
    if holds(given.dtype, new.dtype):
        return None
    flat, made = given.reshape(-1), new.reshape(-1)
    for start in range(0, flat.size, PART):  # in parts that fit into the cache
        lost = _lost(flat[start : start + PART], made[start : start + PART])
        if lost is not None and as_vector and given.dtype.kind in "fc" and new.dtype.kind in "fc" and lost.any():
            lost &= _beyond_precision(flat, made, slice(start, start + PART))
        if lost is not None and lost.any():
            return start + int(lost.argmax())
    return None


def _beyond_precision(given: NDArray[Any], new: NDArray[Any], part: slice) -> NDArray[np.bool_]:
    """Return which numbers differ by more than the new type's relative precision of the largest number."""
    largest = np.abs(given[np.isfinite(given)]).max(initial=0)
    off = np.abs(new[part] - given[part])  # computed in the wider type
    return np.asarray(~(off <= np.finfo(new.dtype).eps * largest))


def _lost(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return which numbers the new type cannot represent; None if it represents all numbers of the old type."""
    if holds(given.dtype, new.dtype):
        return None
    if given.dtype.kind == "c":
        lost = _lost(given.real, new.real)
        beside = given.imag != 0 if new.dtype.kind != "c" else _lost(given.imag, new.imag)
        return beside if lost is None else lost if beside is None else lost | beside
    if new.dtype.kind == "c":
        return _lost(given, new.real)
    if new.dtype.kind == "b":
        return np.asarray(given != new)
    if new.dtype.kind in "iu":
        return _outside(given, new)
    return _not_near(given, new) if given.dtype.kind == "f" else _not_exact(given, new)


def _rounds(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
    """Return whether a floating-point type has too few digits for some numbers of an integer type.

    NumPy calls some of these conversions safe.
    """
    return old.kind in "iu" and new.kind in "fc" and 8 * old.itemsize > np.finfo(new).nmant + 1


def _outside(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers are fractional or outside the range of an integer type."""
    limits = np.iinfo(new.dtype)
    if given.dtype.kind == "f":
        # the upper limit is not exact as a real number, but the next power of two is
        within = (given >= float(limits.min)) & (given < 2.0 ** int(limits.max).bit_length())
        return np.asarray(~within | (given != np.trunc(given)))
    return np.asarray((given < limits.min) | (given > limits.max))


def _not_near(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which floating-point numbers are above a narrower type's range, or below its smallest normal number."""
    limits, size = np.finfo(new.dtype), np.abs(given)
    lost = ~((size >= limits.tiny) & (size <= limits.max))
    if lost.any():  # accept 0, infinity, NaN, and subnormal numbers that are exact in the new type
        lost &= (new != given) & ~np.isnan(given)
    return np.asarray(lost)


def _not_exact(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which integers have no exact floating-point value in the new type."""
    exact = 2 ** (np.finfo(new.dtype).nmant + 1)
    lost = (given > exact) | (given < -exact) if given.dtype.kind == "i" else np.asarray(given > exact)
    for place in np.argwhere(lost):  # few numbers; compare them as Python integers, since NumPy rounds before comparing
        position = tuple(place)
        lost[position] = not np.isfinite(new[position]) or int(new[position]) != int(given[position])
    return lost


def expectation(dtype: DTypeLike) -> str:
    """Return a text for error messages that describes the numbers of a type."""
    wanted = np.dtype(dtype)
    if wanted.kind == "b":
        return "0 or 1"
    if wanted.kind in "iu":
        limits = np.iinfo(wanted)
        return f"a whole number from {limits.min:,} to {limits.max:,}"
    limits_of_reals = np.finfo(wanted)
    kind = "a number" if wanted.kind == "c" else "a real number"
    digits = limits_of_reals.nmant + 1
    return f"{kind} of size {limits_of_reals.tiny:.4g} to {limits_of_reals.max:.4g}, or 0; a whole one of {digits} bits"
