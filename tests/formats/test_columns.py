import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import ReproError
from repro.formats.columns import ABSENT, TooFarApartError, lengthen, shorten
from repro.formats.layout import SHORT_TILES, Layout, extended_layouts
from repro.formats.pack import pack
from repro.formats.tiles import TILE
from repro.problems.problem import Problem

REACH = ABSENT


def band(n: int, width: int, entry: str, members: int) -> Problem:
    """Return a problem with rows of 0 to 6 entries within a band, far from column 0."""
    random = np.random.default_rng(4)
    lengths = random.integers(0, 7, n)
    indices = [np.sort(random.choice(width, length, replace=False)) + n - width for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = np.concatenate(indices).astype(np.int32)
    return Problem("band", entry, n, indptr, columns, random.normal(size=(len(columns), members)))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), slots=st.integers(1, 200), offset=st.integers(0, 2**31 - 1 - REACH))
def test_short_columns_are_the_same_columns(data, slots, offset):
    seed = data.draw(st.integers(0, 99))
    columns = (np.random.default_rng(seed).integers(0, REACH + 1, slots) + offset).astype(np.int32)
    np.testing.assert_array_equal(lengthen(shorten(columns, REACH, "test"), slots), columns)


def test_a_tile_may_span_what_16_bits_hold_and_no_more():
    """Each tile has its own base: what counts is the distance within one, not within the matrix."""
    columns = np.zeros(3 * TILE, np.int32)
    columns[TILE:] = 1_000_000
    columns[2 * TILE - 1] += REACH
    np.testing.assert_array_equal(lengthen(shorten(columns, REACH, "test"), len(columns)), columns)
    columns[2 * TILE - 1] += 1
    with pytest.raises(TooFarApartError, match=r"too far apart for 16 bits\n.*test\n.*65535.*\n.*65536"):
        shorten(columns, REACH, "test")


def test_slots_without_an_entry_have_an_offset_of_their_own():
    columns = np.array([70_000, -1, 70_002] + [-1] * TILE, np.int32)
    stored = shorten(columns, ABSENT - 1, "test")
    offsets, bases = stored[:TILE].view(np.uint16), stored[TILE:]
    assert offsets[:4].tolist() == [0, ABSENT, 2, ABSENT]
    assert bases.tolist() == [70_000, 0]
    assert (offsets[TILE:] == ABSENT).all()


@pytest.mark.parametrize(("entry", "members", "precision"), [("complex", 2, np.float32), ("block3", 9, np.float64)])
@pytest.mark.parametrize("layout", extended_layouts(2, SHORT_TILES), ids=str)
def test_a_layout_with_short_columns_holds_the_same_matrix_in_fewer_bytes(layout, entry, members, precision):
    problem = band(2000, 40, entry, members)
    values = problem.values.astype(precision)
    rows = np.random.default_rng(1).permutation(problem.n) if layout.ordering == "clustered" else None
    long = pack(problem, values, Layout(layout.outer, "AoSoA", "AoS", layout.ordering), 32, rows)
    short = pack(problem, values, layout, 32, rows)
    for name in ("index", "values"):
        np.testing.assert_array_equal(short.arrays[name], long.arrays[name])
    np.testing.assert_array_equal(lengthen(short.arrays["columns"], short.slots), long.arrays["columns"])
    tiles = -(-short.slots // TILE)
    assert short.arrays["columns"].nbytes == tiles * (2 * TILE + 4)
    assert short.nbytes < long.nbytes


def test_a_matrix_that_is_too_wide_is_refused_by_name():
    problem = Problem(
        "wide", "real", 70_000, *(np.array(a, np.int32) for a in ([0, 2] + [2] * 69_999, [0, 69_999])), np.ones((2, 1))
    )
    with pytest.raises(ReproError, match="wide in CSR-AoSoA16-AoS"):
        pack(problem, problem.values, Layout("CSR", SHORT_TILES, "AoS"), 32)
    pack(problem, problem.values, Layout("CSR", "AoSoA", "AoS"), 32)


@pytest.mark.parametrize("inner", ["AoS", "SoA", "AoSoA"])
@pytest.mark.parametrize("outer", ["Sl-4", "Sl-16", "ELLPACK"])
def test_padding_of_entries_without_members_has_no_column(outer, inner):
    problem = band(100, 30, "pattern", 0)
    packed = pack(problem, problem.values, Layout(outer, inner, "AoS"), 32)
    columns = packed.arrays["columns"]
    assert packed.arrays["values"].nbytes == 0
    assert packed.slots > problem.nnz
    assert np.count_nonzero(columns >= 0) == problem.nnz
    assert (columns[columns < 0] == -1).all()
