"""Numbers of one type as numbers of another: what the new type cannot hold is refused, never changed in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.errors import ReproError

#: Numbers that are compared at once.
PART = 1 << 15
#: Kinds of NumPy's dtypes that are numbers.
_NUMBERS = "biufc"


def cast(array: Any, dtype: DTypeLike, what: str, todo: str | None = None, *, as_vector: bool = False) -> NDArray[Any]:
    """Return numbers as those of another type, if it can hold each of them.

    Whole numbers have to stay what they are. Real numbers may be rounded by the new type's relative precision, but none
    may overflow, or lose digits below its smallest normal number; real and imaginary parts alike. Infinity and NaN stay
    what they are between types of real numbers, and are refused where whole numbers are wanted.

    Parameters
    ----------
    array
        Numbers, in any shape.
    dtype
        The new type.
    what
        What to call the numbers in messages.
    todo
        What a user can do about numbers that do not fit.
    as_vector
        Whether digits may be lost that are below the new type's relative precision of the largest number: a vector is
        as exact as it can be without them, and solvers make such numbers.

    Returns
    -------
    array
        The same one where the type is right already, else a new one.

    Raises
    ------
    ReproError
        These are no numbers, or one of them does not fit; it names the first and where it is.
    """
    given, wanted = np.asarray(array), np.dtype(dtype)
    if given.dtype.kind not in _NUMBERS:
        raise ReproError("these are no numbers", where=what, expected=f"numbers of {wanted}", actual=given.dtype)
    if given.dtype == wanted:
        return given
    with np.errstate(all="ignore"):
        new = _real_part(given, wanted).astype(wanted, order="C")
        first = _first_lost(given, new, as_vector)
    if first is not None:
        place = tuple(int(i) for i in np.unravel_index(first, given.shape))
        at = ", ".join(map(str, place))
        raise ReproError(
            f"a number does not fit into {wanted}",
            where=f"{what}[{at}]" if place else what,
            expected=expectation(wanted),
            actual=str(given[place]),  # in words, of which a wider type than Python's has its own
            todo=todo,
        )
    return new


def holds(old: DTypeLike, new: DTypeLike) -> bool:
    """Say whether a type holds all numbers of another one."""
    given, wanted = np.dtype(old), np.dtype(new)
    return bool(np.can_cast(given, wanted, "safe")) and not _rounds(given, wanted)


def _first_lost(given: NDArray[Any], new: NDArray[Any], as_vector: bool) -> int | None:
    """Return where the first number is that the new type does not hold, in C order; None: it holds all."""
    if holds(given.dtype, new.dtype):
        return None
    flat, made = given.reshape(-1), new.reshape(-1)
    for start in range(0, flat.size, PART):  # what is compared stays in the cache
        lost = _lost(flat[start : start + PART], made[start : start + PART])
        if lost is not None and as_vector and given.dtype.kind in "fc" and new.dtype.kind in "fc" and lost.any():
            lost &= _beyond_precision(flat, made, slice(start, start + PART))
        if lost is not None and lost.any():
            return start + int(lost.argmax())
    return None


def _beyond_precision(given: NDArray[Any], new: NDArray[Any], part: slice) -> NDArray[np.bool_]:
    """Say of a part which numbers are off by more than the new type's relative precision of the largest of all."""
    largest = np.abs(given[np.isfinite(given)]).max(initial=0)
    off = np.abs(new[part] - given[part])  # in the wider type
    return np.asarray(~(off <= np.finfo(new.dtype).eps * largest))


def _real_part(given: NDArray[Any], wanted: np.dtype[Any]) -> NDArray[Any]:
    return given.real if given.dtype.kind == "c" and wanted.kind != "c" else given


def _lost(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Say which numbers the new type does not hold; None: it holds all of the old one."""
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
    """Say whether whole numbers become real ones that NumPy calls safe and that have fewer digits."""
    return old.kind in "iu" and new.kind in "fc" and 8 * old.itemsize > np.finfo(new).nmant + 1


def _outside(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which numbers are not whole, or beyond a type of whole numbers."""
    limits = np.iinfo(new.dtype)
    if given.dtype.kind == "f":
        # the upper limit itself is none of a real type, the power of two behind it is
        within = (given >= float(limits.min)) & (given < 2.0 ** int(limits.max).bit_length())
        return np.asarray(~within | (given != np.trunc(given)))
    return np.asarray((given < limits.min) | (given > limits.max))


def _not_near(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which real numbers a narrower type does not hold to its relative precision."""
    limits, size = np.finfo(new.dtype), np.abs(given)
    lost = ~((size >= limits.tiny) & (size <= limits.max))
    if lost.any():  # 0, infinity, NaN, and small numbers that are some of the new type's
        lost &= (new != given) & ~np.isnan(given)
    return np.asarray(lost)


def _not_exact(given: NDArray[Any], new: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which whole numbers a real type has no number for."""
    exact = 2 ** (np.finfo(new.dtype).nmant + 1)
    lost = (given > exact) | (given < -exact) if given.dtype.kind == "i" else np.asarray(given > exact)
    for place in np.argwhere(lost):  # rare, and NumPy itself compares these after rounding
        at = tuple(place)
        lost[at] = not np.isfinite(new[at]) or int(new[at]) != int(given[at])
    return lost


def expectation(dtype: DTypeLike) -> str:
    """Return which numbers a type holds, as a word for messages."""
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
