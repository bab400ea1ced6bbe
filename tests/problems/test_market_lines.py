"""Tokens of Matrix Market files: both ways of reading them give what exact arithmetic says, or refuse them alike."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from repro.errors import ReproError
from repro.problems import matrix_market
from repro.problems.matrix_market import tokens

EXACT = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN)
SPECIAL = [
    "0", "-0", "+0", "-0.0", "00", "1.", ".5", "-.5", ".", "-", "+", "e5", ".e5", "1e", "1e+", "1d", "1.5+5", "1.5-5",
    "--1", "+-1", "1e5", "1E5", "1d5", "1D5", "1.5D-5", "1.e5", "1e+05", "1e-005", "1_0", "1,5", "0x10", "0X1p3", "1f",
    "1e400", "1e-400", "-1D400", "1D-400", "0e999999", "0e-999999", "0.0d-999", "1e308", "1.7976931348623157e308",
    "1.7976931348623158e308", "1.7976931348623159e308", "2.2250738585072014e-308", "2.2250738585072011e-308", "5e-324",
    "4.9e-324", "2.4703282292062328e-324", "2.4703282292062327e-324", "2e-324", "1e-323", f"0.{'0' * 323}1",
    f"0.{'0' * 322}1", f"0.{'0' * 250}1e-99", f"0.{'0' * 250}1e-50", f"1{'0' * 308}", f"1{'0' * 309}",
    f"1{'0' * 400}e-400", f"0.{'0' * 400}1e400", f"{'0' * 300}1", f"{'9' * 800}e-800", "0.1000000000000000055511151231",
    "9007199254740991", "9007199254740992", "9007199254740993", "9007199254740994", "-9007199254740993",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "9223372036854774784", "18446744073709551615", "18446744073709551616", "18446744073709549568",
    "2147483648", "4294967296", "92233720368547758071", "1.0", "1e3", "007", "+7", "-007", "1e99999999999999999999",
    "1e-99999999999999999999",
]  # fmt: skip


def made(count: int) -> Iterator[str]:
    """Give numbers of all sizes and spellings, and what only looks like them."""
    chance = random.Random(7)
    for _ in range(count):
        digits = "".join(chance.choices("0123456789", k=chance.choice([1, 2, 5, 16, 17, 18, 19, 20, 40])))
        if chance.random() < 0.4:
            at = chance.randint(0, len(digits))
            digits = f"{digits[:at]}.{digits[at:]}"
        if chance.random() < 0.5:
            size = chance.choice([9, 99, 330, 400])
            sign = chance.choice(["", "+", "-"])
            digits += f"{chance.choice('eEdD')}{sign}{'0' * chance.choice([0, 0, 1, 3])}{chance.randint(0, size)}"
        text = chance.choice(["", "", "-", "+"]) + "0" * chance.choice([0, 0, 0, 1, 30]) + digits
        if chance.random() < 0.05:
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice(".eEdD+-_x0") + text[at + 1 :]
        yield text


def held(token: str, kind: str) -> float | None:
    """Return the double that is a number's, or None where none is, by arithmetic without rounding."""
    if kind in ("whole", "unsigned"):
        if not re.fullmatch("[+-]?[0-9]+", token):
            return None
        whole = int(token)
        least, most = (-(2**63), 2**63 - 1) if kind == "whole" else (0, 2**64 - 1)
        return float(whole) if least <= whole <= most and Fraction(float(whole)) == whole else None
    text = re.sub("[dD]", "e", token)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    value, mantissa = float(text), Decimal(re.split("[eE]", text)[0], EXACT)
    return None if np.isinf(value) or (value == 0) != (mantissa == 0) else value


def bits(values: list[float]) -> list[str]:
    return [value.hex() for value in values]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["real", "whole", "unsigned"])
def test_both_ways_hold_the_same_numbers(kind: str) -> None:
    path = Path("a.mtx")
    good = []
    for token in (*SPECIAL, *made(2500)):
        expected = held(token, kind)
        for read in (tokens, matrix_market._slow_tokens):
            try:
                found = read(f"{token}\n".encode(), (kind,), 3, path)[0].tolist()
            except ReproError as error:
                assert expected is None, token
                assert error.where == "a.mtx, line 3"
            else:
                assert expected is not None, token
                assert bits(found) == bits([expected]), token
        if expected is not None:
            good.append((token, expected))
    assert 100 < len(good) < 2400
    # those that a double holds together, which takes the fast way alone if none is 0 or spelt otherwise
    plain = [(token, value) for token, value in good if value and (kind == "real" or not token.startswith("+"))]
    plain = [(token, value) for token, value in plain if kind != "unsigned" or not token.startswith("-")]
    for those in (good, plain):
        block = "".join(f"{place} 1 {token}\n" for place, (token, _) in enumerate(those, 1)).encode()
        rows, columns, values = tokens(block, ("row", "column", kind), 3, path)
        assert bits(values.tolist()) == bits([value for _, value in those])
        assert rows.tolist() == list(range(1, len(those) + 1)) and set(columns.tolist()) == {1}
        assert (rows.dtype, columns.dtype, values.dtype) == (np.int32, np.int32, np.float64)
    assert matrix_market._fast_tokens(block, ("row", "column", kind)) is not None
    parts = matrix_market._slow_tokens(block, ("row", "column", kind), 3, path)
    assert bits(parts[2].tolist()) == bits(values.tolist()) and parts[0].tolist() == rows.tolist()


@pytest.mark.wording
@pytest.mark.parametrize("space", [" ", "\t ", "  "])
@pytest.mark.parametrize("zeros", ["", "0"])
@pytest.mark.parametrize("number", ["1e-400", "1D-0324", f"0.{'0' * 330}1", "1e400", "0.00001d-320"])
def test_a_number_that_is_lost_is_found_among_many(number: str, zeros: str, space: str) -> None:
    """Also in a second column, and in a block that has explicit zeros."""
    lines = [f"{row} 1 {row}.5e-3 {zeros or row}" for row in range(1, 2000)]
    for line in (f"7 7 {number} 1", f"7 7 0 {number}"):
        block = "\n".join([*lines, line, *lines]).replace(" ", space).encode()
        with pytest.raises(ReproError, match=r"out of range for a double\n  where: a\.mtx, line 2010\n"):
            tokens(block, ("row", "column", "real", "real"), 11, Path("a.mtx"))


@pytest.mark.parametrize(
    ("token", "index"), [("1", 1), ("+2", 2), ("-1", -1), (f"{'0' * 60}3", 3), ("2147483647", 2**31 - 1)]
)
def test_an_index_is_what_the_text_has(token: str, index: int) -> None:
    for read in (tokens, matrix_market._slow_tokens):
        (found,) = read(f"{token}\n".encode(), ("row",), 1, Path("a.mtx"))[0].tolist()
        assert found == index or found < 1 > index


@pytest.mark.parametrize("token", ["2147483648", "4294967297", "99999999999999999999", "9" * 5000, f"-{'9' * 5000}"])
def test_an_index_that_no_matrix_has_is_none(token: str) -> None:
    assert tokens(f"{token}\n".encode(), ("row",), 1, Path("a.mtx"))[0].tolist() <= [0]
