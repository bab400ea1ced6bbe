"""Which numbers `repro.exact_casts.cast` converts and which it refuses, for all pairs of types."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from repro import exact_casts
from repro.errors import ReproError
from repro.exact_casts import PART, can_hold, cast, expectation

TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "c8", "c16"]


def refused(array: object, dtype: str) -> str:
    with warnings.catch_warnings(), pytest.raises(ReproError) as error:
        warnings.simplefilter("error")
        cast(np.asarray(array), dtype, "x", "widen it")
    real = "pass real numbers, such as the real part, or use a complex matrix"
    assert error.value.todo in ("widen it", None, exact_casts.WHOLE, real)
    return str(error.value)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        ([0.0, 1e39], "f4"),
        ([0.0, -1e39], "f4"),
        ([0.0, 1e-46], "f4"),
        ([0.0, 1e-45], "f4"),  # a third more than itself as the smallest number there is
        ([0.0, 1e300j], "c8"),
        ([0, 1 + 1j], "f8"),
        ([0, 1 + 1j], "i4"),
        ([0, 0.5], "i4"),
        ([0, 0.5], "?"),
        ([0, 2], "?"),
        ([0, np.nan], "i8"),
        ([0, np.inf], "i8"),
        ([0, 2.0**63], "i8"),
        ([0, 2**31], "i4"),
        ([0, -1], "u4"),
        ([0, 2**53 + 1], "f8"),
        (np.array([0, 2**64 - 1], "u8"), "f8"),
        (np.array([0, 2**64 - 1], "u8"), "i8"),
        (np.array([0, -(2**63)], "i8"), "i4"),
        ([0, 2**24 + 1], "f4"),
        ([0, 2**53 + 1], "c16"),
        ([0, 70_000], "f2"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(array: object, dtype: str) -> None:
    message = refused(array, dtype)
    assert "x[1]" in message
    assert str(np.dtype(dtype)) in message


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        ([0.1, -0.0, np.inf, -np.inf, np.nan], "f4"),
        ([1e38, 1.5e-38, 2.0**-149], "f4"),  # the last is a number of the type
        ([2**53, -(2**53), 2**60], "f8"),
        (np.array([2**63], "u8"), "f8"),
        (np.array([-(2**63)], "i8"), "f8"),
        ([1.0, -2.0, 2.0**31 - 1], "i4"),
        ([1 + 0j, 2], "f4"),
        ([True, False], "f4"),
        ([0.1 + 0.2j], "c8"),
        ([], "i4"),
        (3.0, "i4"),
    ],
)
def test_what_fits_is_what_numpy_makes_of_it(array: object, dtype: str) -> None:
    numbers = np.asarray(array)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = numbers.astype(dtype)
    np.testing.assert_array_equal(cast(numbers, dtype, "x"), wanted)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_what_is_nothing_beside_the_largest_number_of_a_vector_may_be_lost(dtype: str) -> None:
    vector = np.array([1.0, 1e-60, -1e-42, 3e-7])
    with pytest.raises(ReproError):
        cast(vector, dtype, "x")
    np.testing.assert_array_equal(cast(vector, dtype, "x", as_vector=True), vector.astype(dtype))
    np.testing.assert_array_equal(cast(vector * 1j, "c8", "x", as_vector=True), (vector * 1j).astype("c8"))


@pytest.mark.wording
@pytest.mark.parametrize("vector", [[1e-60, 0], [1.0, 1e39], [np.inf, 1e-60], [1e-42, 1.1e-45], [2**24 + 1, 2**30]])
def test_a_vector_that_would_be_another_one_is_refused(vector: list[float]) -> None:
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        cast(np.array(vector), "f4", "x", as_vector=True)


def test_the_largest_number_of_a_long_vector_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny numbers in every part; finding the maximum for each part would take quadratic time."""
    sizes, is_finite = [], np.isfinite
    monkeypatch.setattr(exact_casts, "PART", 4)
    monkeypatch.setattr(np, "isfinite", lambda array: (sizes.append(array.size), is_finite(array))[1])
    vector = np.full(40, 1e-60)
    vector[-1] = 1.0
    np.testing.assert_array_equal(cast(vector, "f4", "x", as_vector=True), vector.astype("f4"))
    assert sizes == [40]


def test_the_right_type_is_not_copied() -> None:
    array = np.array([1.0, np.nan])
    assert cast(array, float, "x") is array


@pytest.mark.parametrize("array", [["a"], [None], [b"1"], np.array(["2020-01-01"], "M8[D]")])
def test_what_is_no_number_is_refused(array: object) -> None:
    assert "not numbers" in refused(array, "f8")


@pytest.mark.parametrize("place", [0, PART - 1, PART, 2 * PART + 5])
def test_the_first_of_many_is_named(place: int) -> None:
    numbers = np.zeros(2 * PART + 9)
    numbers[place:] = 1e300
    assert f"x[{place}]" in refused(numbers, "f4")
    assert f"x[{place}, 0]" in refused(numbers[:, None], "f4")
    # a column in Fortran's order, or every second number, is where it is in the array
    assert f"x[1, {place}]" in refused(np.asfortranarray(np.stack([np.ones_like(numbers), numbers])), "f4")
    assert f"x[{place}]" in refused(np.repeat(numbers, 2)[::2], "i4")


def test_an_integer_that_would_be_rounded_may_be_passed_as_a_real_number() -> None:
    assert exact_casts.WHOLE in refused(np.array([2**24 + 1]), "f4")
    assert cast(np.array([2.0**24 + 1]), "f4", "x") == 2**24


def test_a_number_past_pythons_own_is_said_in_its_own_words() -> None:
    assert "1e+400" in refused(np.array([np.longdouble("1e400")]), "f8")


def test_the_advice_for_complex_numbers_is_about_their_type() -> None:
    assert "real part" in refused([1j], "f8")
    assert "widen it" in refused([1e300 + 0j], "f4")
    assert "widen it" in refused([1e300j], "c8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("f4", "f8", True), ("f8", "f4", False), ("i8", "f8", False), ("i4", "f8", True), ("i4", "f4", False),
     ("?", "f4", True), ("u1", "f2", True), ("i8", "c16", False), (">f8", "f8", True)],
)  # fmt: skip
def test_which_types_hold_all_of_another(old: str, new: str, said: bool) -> None:
    assert can_hold(old, new) is said
    assert expectation(new)


@given(st.data(), st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_whole_numbers_stay_the_same_or_are_refused(data: st.DataObject, old: str, new: str) -> None:
    given_numbers = data.draw(hnp.arrays(old, 3))
    try:
        held = cast(given_numbers, new, "x")
    except ReproError:
        return
    assert held.dtype == np.dtype(new)
    for before, after in zip(given_numbers.tolist(), held.tolist(), strict=True):
        if isinstance(before, (bool, int)):
            assert after == before  # Python compares whole and real numbers exactly
        elif np.isfinite(before):
            assert abs(after - before) <= abs(before) * max(np.finfo(t).eps for t in (new, "f8") if t[0] in "fgc")
        else:
            assert not np.isfinite(after)


@pytest.mark.parametrize("new", [t for t in TYPES if t[0] not in "fgc"])
@pytest.mark.parametrize("old", [t for t in TYPES if t[0] in "fgc"])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_integer_types_refuse_infinity_and_nan(old: str, new: str, number: float) -> None:
    assert "x[1]" in refused(np.array([0, number], old), new)
