"""Conversion of arrays between number types; a value that the new type cannot represent raises an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.errors import ReproErrorOfValue

#: Number of array elements that are compared at once, so few that they stay in the cache.
PART = 1 << 15
#: Advice for integers that would be rounded.
WHOLE = "take more precision, or pass real numbers, which are rounded"
#: Kinds of NumPy's numeric dtypes.
_NUMBERS = "biufc"


def cast(
    array: Any, dtype: DTypeLike, subject: str, todo: str | None = None, *, as_vector: bool = False
) -> NDArray[Any]:
    """Convert an array to another number type; raise `ReproError` if the type cannot represent each number.

    Integers must stay exact. Real and imaginary parts may be rounded by the new type's relative precision, but may
    neither overflow nor lose digits below its smallest normal number. Infinity and NaN can be converted only to
    floating-point types. Raises `ReproError`: the array has no numbers, or a number cannot be represented; the message
    has the first such number and its index.

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
    """
    source, target_dtype = np.asarray(array), np.dtype(dtype)
    if source.dtype.kind not in _NUMBERS:
        raise ReproErrorOfValue(
            "not numbers", where=subject, expected=f"numbers of {target_dtype}", actual=source.dtype
        )
    if source.dtype == target_dtype:
        return source
    with np.errstate(all="ignore"):
        real_part = source.real if source.dtype.kind == "c" and target_dtype.kind != "c" else source
        result = real_part.astype(target_dtype, order="C")
        first = _first_lost(source, result, as_vector)
    if first is not None:
        place = tuple(int(i) for i in np.unravel_index(first, source.shape))
        position = ", ".join(map(str, place))
        if todo and source.dtype.kind == "c" and target_dtype.kind != "c" and source[place].imag:
            todo = "pass real numbers, such as the real part, or use a complex matrix"
        raise ReproErrorOfValue(
            f"a number cannot be represented in {target_dtype}",
            where=f"{subject}[{position}]" if place else subject,
            expected=expectation(target_dtype),
            actual=str(source[place]),  # `str` keeps all digits of types wider than Python's float
            todo=WHOLE if source.dtype.kind in "iu" and target_dtype.kind in "fc" else todo,
        )
    return result


def can_hold(old: DTypeLike, new: DTypeLike) -> bool:
    """Return whether the new type can represent all numbers of the old one."""
    source_dtype, target_dtype = np.dtype(old), np.dtype(new)
    # NumPy calls some conversions safe for which the type has too few digits
    bits = np.finfo(target_dtype).nmant + 1 if target_dtype.kind in "fc" else 64
    is_rounded = source_dtype.kind in "iu" and 8 * source_dtype.itemsize > bits
    return bool(np.can_cast(source_dtype, target_dtype, "safe")) and not is_rounded


def _first_lost(source: NDArray[Any], result: NDArray[Any], as_vector: bool) -> int | None:
    """Return the flat index in C order of the first number of `source` that `result` does not represent, or None."""
    if can_hold(source.dtype, result.dtype):
        return None
    flat_source, flat_result = source.reshape(-1), result.reshape(-1)
    may_round = as_vector and source.dtype.kind in "fc" and result.dtype.kind in "fc"
    tolerance: Any = None
    for start in range(0, flat_source.size, PART):  # in parts that fit into the cache
        old, new = flat_source[start : start + PART], flat_result[start : start + PART]
        is_lost = _loss_mask(old, new)
        if may_round and is_lost is not None and is_lost.any():
            if tolerance is None:  # once for all parts, since this reads the whole array
                tolerance = np.finfo(result.dtype).eps * np.abs(source[np.isfinite(source)]).max(initial=0)
            is_lost &= ~(np.abs(new - old) <= tolerance)  # computed in the wider type
        if is_lost is not None and is_lost.any():
            return start + int(is_lost.argmax())
    return None


def _loss_mask(source: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return which numbers the new type cannot represent; None if it represents all numbers of the old type."""
    if can_hold(source.dtype, result.dtype):
        return None
    if source.dtype.kind == "c":
        is_lost = _loss_mask(source.real, result.real)
        imaginary_lost = source.imag != 0 if result.dtype.kind != "c" else _loss_mask(source.imag, result.imag)
        return imaginary_lost if is_lost is None else is_lost if imaginary_lost is None else is_lost | imaginary_lost
    if result.dtype.kind == "c":
        return _loss_mask(source, result.real)
    if result.dtype.kind == "b":
        return np.asarray(source != result)
    if result.dtype.kind in "iu":
        return _overflow_mask(source, result)
    return _rounding_mask(source, result) if source.dtype.kind == "f" else _inexact_mask(source, result)


def _overflow_mask(source: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers are fractional or outside the range of an integer type."""
    limits = np.iinfo(result.dtype)
    if source.dtype.kind == "f":
        # the upper limit is not exact as a real number, but the next power of two is
        upper = 2.0 ** int(limits.max).bit_length()
        # where a limit overflows in the source's type, only infinity reaches it
        is_within = np.isfinite(source) & (source >= float(limits.min)) & (source < upper)
        return np.asarray(~is_within | (source != np.trunc(source)))
    return np.asarray((source < limits.min) | (source > limits.max))


def _rounding_mask(source: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which floating-point numbers are above a narrower type's range, or below its smallest normal number."""
    limits, size = np.finfo(result.dtype), np.abs(source)
    is_lost = ~((size >= limits.tiny) & (size <= limits.max))
    if is_lost.any():  # accept 0, infinity, NaN, and subnormal numbers that are exact in the new type
        is_lost &= (result != source) & ~np.isnan(source)
    return np.asarray(is_lost)


def _inexact_mask(source: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which integers have no exact floating-point value in the new type."""
    exact = 2 ** (np.finfo(result.dtype).nmant + 1)
    is_lost = (source > exact) | (source < -exact) if source.dtype.kind == "i" else np.asarray(source > exact)
    # few numbers; compare them as Python integers, since NumPy rounds before comparing
    for place in np.argwhere(is_lost):
        position = tuple(place)
        is_lost[position] = not np.isfinite(result[position]) or int(result[position]) != int(source[position])
    return is_lost


def expectation(dtype: DTypeLike) -> str:
    """Return a text for error messages that describes the numbers of a type."""
    target_dtype = np.dtype(dtype)
    if target_dtype.kind == "b":
        return "0 or 1"
    if target_dtype.kind in "iu":
        limits = np.iinfo(target_dtype)
        return f"a whole number from {limits.min:,} to {limits.max:,}"
    limits_of_reals = np.finfo(target_dtype)
    kind = "a number" if target_dtype.kind == "c" else "a real number"
    digits = limits_of_reals.nmant + 1
    return f"{kind} of size {limits_of_reals.tiny:.4g} to {limits_of_reals.max:.4g}, or 0; a whole one of {digits} bits"
