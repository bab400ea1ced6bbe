from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from repro.errors import ReproError
from repro.problems import matrix_market
from repro.problems.matrix_market import is_matrix_market, read_matrix

HEAD = "%%MatrixMarket matrix "
GENERAL = HEAD + "coordinate real general\n"


@pytest.fixture(autouse=True)
def _without_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read here, which is quicker; `test_apart.py` and `test_limits.py` read in a process of its own."""
    monkeypatch.setattr("repro.problems.matrix_market.read_isolated", lambda read, *_, **__: read())


def write(tmp_path: Path, text: str, name: str = "toy.mtx") -> Path:
    data = text.encode()
    path = tmp_path / name
    path.write_bytes(
        gzip.compress(data) if name.endswith("gz") else lzma.compress(data) if name.endswith("xz") else data
    )
    return path


@pytest.mark.parametrize(
    ("text", "dense"),
    [
        ("coordinate real general\n2 2 3\n2 2 4\n1 2 3\n1 1 -1.5\n", [[-1.5, 3], [0, 4]]),
        ("coordinate integer symmetric\n2 2 2\n1 1 7\n2 1 3\n", [[7, 3], [3, 0]]),
        ("coordinate pattern general\n2 2 2\n1 2\n2 1\n", [[0, 1], [1, 0]]),
        ("coordinate real skew-symmetric\n2 2 1\n2 1 3\n", [[0, -3], [3, 0]]),
        ("coordinate complex symmetric\n2 2 2\n1 1 1 1\n2 1 0 2\n", [[1 + 1j, 2j], [2j, 0]]),
        ("coordinate complex hermitian\n2 2 2\n1 1 1 0\n2 1 3 2\n", [[1, 3 - 2j], [3 + 2j, 0]]),
        ("array real general\n2 2\n1\n0\n2\n3\n", [[1, 2], [0, 3]]),
        ("coordinate real general\n2 3 2\n2 3 4\n1 2 3\n", [[0, 3, 0], [0, 0, 4]]),
        ("coordinate pattern general\n3 1 1\n2 1\n", [[0], [1], [0]]),
        ("array complex general\n1 2\n1 1\n0 2\n", [[1 + 1j, 2j]]),
    ],
)
@pytest.mark.parametrize("name", ["toy.mtx", "toy.mtx.gz", "toy.mtx.xz"])
def test_every_kind_and_wrapping(tmp_path: Path, text: str, dense: list[list[complex]], name: str) -> None:
    file = read_matrix(write(tmp_path, HEAD + text, name))
    np.testing.assert_array_equal(file.matrix.toarray(), dense)
    assert file.matrix.has_sorted_indices
    assert file.matrix.dtype == (np.complex128 if "complex" in text else np.float64)
    assert np.iscomplexobj(file.matrix.data) == (file.field == "complex") == ("complex" in text)


def test_the_lower_triangle_alone(tmp_path: Path) -> None:
    text = HEAD + "coordinate pattern symmetric\n3 3 3\n2 1\n3 2\n3 3\n"
    file = read_matrix(write(tmp_path, text), lower=True)
    np.testing.assert_array_equal(file.matrix.toarray(), [[0, 0, 0], [1, 0, 0], [0, 1, 1]])
    assert (file.counts["stored"], file.counts["expanded"]) == (3, 3)
    assert file.notes == ("the lower triangle alone, which is what the file stores of a symmetric matrix",)
    assert read_matrix(write(tmp_path, text)).checksum() != file.checksum()


@pytest.mark.wording
@pytest.mark.parametrize(
    ("text", "actual"),
    [
        ("coordinate pattern general\n2 2 1\n2 1\n", "a general one"),
        ("coordinate real skew-symmetric\n2 2 1\n2 1 3\n", "a skew-symmetric one"),
        ("coordinate pattern symmetric\n2 2 1\n1 2\n", "entries above it"),
    ],
)
def test_a_file_that_stores_no_lower_triangle(tmp_path: Path, text: str, actual: str) -> None:
    with pytest.raises(ReproError, match=rf"does not store only a lower triangle[\s\S]*actual: {actual}"):
        read_matrix(write(tmp_path, HEAD + text), lower=True)


def test_zeros_are_dropped_and_duplicates_added_and_both_counted(tmp_path: Path) -> None:
    text = GENERAL.replace("general", "symmetric") + "3 3 6\n1 1 1\n1 1 2\n2 2 0\n3 1 5\n3 2 4\n3 2 -4\n"
    file = read_matrix(write(tmp_path, text))
    assert file.matrix.toarray().tolist() == [[3, 0, 5], [0, 0, 0], [5, 0, 0]]
    assert file.counts == {"stored": 6, "expanded": 9, "duplicates": 3, "explicit_zeros": 3, "nonzeros": 3}
    assert file.header == "coordinate real symmetric"


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("coordinate real general\n2 2 0\n", (2, 2), float),
        ("coordinate real general\n2 2 1\n1 1 0.0\n", (2, 2), float),
        ("coordinate pattern symmetric\n3 3 0\n", (3, 3), float),
        ("coordinate complex general\n0 4 0\n", (0, 4), complex),
        ("coordinate real general\n0 0 0\n", (0, 0), float),
        ("array real general\n0 0\n", (0, 0), float),
        ("array complex general\n2 0\n", (2, 0), complex),
    ],
)
def test_a_matrix_may_be_empty(tmp_path: Path, text: str, shape: tuple[int, int], dtype: type) -> None:
    file = read_matrix(write(tmp_path, HEAD + text))
    assert (file.matrix.shape, file.matrix.nnz, file.counts["nonzeros"]) == (shape, 0, 0)
    assert file.matrix.dtype == dtype


def test_columns_count_in_the_checksum_of_a_rectangular_matrix(tmp_path: Path) -> None:
    files = [read_matrix(write(tmp_path, GENERAL + f"2 {columns} 1\n1 1 1\n")) for columns in (2, 3, 4)]
    assert len({file.checksum() for file in files}) == 3
    # as registries and records have it for a square one
    assert files[0].checksum() == "276dd94311a94ea04c0013ecc46397ba42169f7a45cb09e563c7af17878a93e4"


def test_the_sign_of_a_zero_does_not_change_the_checksum(tmp_path: Path) -> None:
    text = HEAD + "coordinate complex general\n1 1 1\n1 1 2.0 {}0.0\n"
    sums = {read_matrix(write(tmp_path, text.format(sign))).checksum() for sign in ("", "-")}
    assert len(sums) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "coordinate real symmetric\n2 3 1\n1 1 1\n", r"not square[\s\S]*header says symmetric[\s\S]*2 x 3"),
        (HEAD + "array complex hermitian\n1 0\n", r"not square[\s\S]*header says hermitian[\s\S]*1 x 0"),
        (GENERAL + "2 2 2\n1 1 1\n2 1 nan\n", "NaN or infinite.*\n.*row 2, column 1"),
        (GENERAL + "2 2 2\n1 2 inf\n2 1 1\n", "NaN or infinite.*\n.*row 1, column 2"),
        (GENERAL + "0 0 1\n1 1 1\n", r"outside the matrix.*\n.*line 3[\s\S]*there are no rows"),
        (
            GENERAL + "2 2 3\n1 1 1\n2 2 1\n",
            r"not a complete Matrix Market file[\s\S]*3 entries, as line 2 says[\s\S]*: 2\n.*: write it anew$",
        ),
        (
            GENERAL + "2 2 1\n1 1 1\n2 2 1\n",
            r"not a complete[\s\S]*, line 4\n[\s\S]*1 entries[\s\S]*more: '2 2 1'",
        ),
        (GENERAL + "2 2 1\n\n1 1 1\n\n2 2 1\n1 2 3\n", r"not a complete[\s\S]*, line 6\n[\s\S]*: more: '2 2 1' is"),
        (GENERAL + "2 2 1\n3 1 1\n", r"outside the matrix.*\n.*line 3[\s\S]*rows from 1 to 2[\s\S]*'3 1 1'"),
        (
            GENERAL + "2 2 2\n1 1 1\n\n1 0 1\n",
            r"outside the matrix.*\n.*line 5[\s\S]*columns from 1 to 2[\s\S]*'1 0 1'",
        ),
        (GENERAL + "3000000000 3000000000 1\n1 1 1\n", "too large for 32-bit"),
        (GENERAL + "2 3000000000 1\n1 1 1\n", r"too large for 32-bit[\s\S]*2 x 3,000,000,000"),
        ("<!doctype html>\n<p>Moved</p>\n", "not a complete Matrix Market file"),
        ("", "not a complete Matrix Market file"),
        ("\x00\x01\x02", "not a complete Matrix Market file"),
    ],
)
def test_a_file_that_does_not_do_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ReproError, match=said) as caught:
        read_matrix(path)
    assert str(path) in str(caught.value.where)


@pytest.mark.parametrize("name", ["toy.mtx.gz", "toy.mtx.xz"])
def test_a_truncated_archive(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, GENERAL + "2 2 2\n1 1 1\n2 2 2\n", name)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ReproError, match=r"truncated or corrupt[\s\S]*to do: write it anew$"):
        read_matrix(path)


ENTRY = "a line of the file is not what the header says"
DOUBLE, DIGITS, FIELD = "out of range for a double", "more digits than a double", "does not match the field"
LOST = [
    *[("real", number, DOUBLE) for number in ("1e400", "-1D+400", "1e-400", "-1d-400", f"0.{'0' * 400}1", "2e-324")],
    *[("complex", number, DOUBLE) for number in ("1 1e400", "1e400 1", "1 -1E-400", "1D-400 1", "0 1e-9999999999")],
    *[("integer", number, DIGITS) for number in ("9007199254740993", "-9007199254740993", "9223372036854775807")],
    *[("integer", number, FIELD) for number in ("9223372036854775808", "92233720368547758071", "9" * 5000)],
    *[("unsigned-integer", number, FIELD) for number in ("-1", "18446744073709551616", "99999999999999999999")],
    *[("unsigned-integer", number, DIGITS) for number in ("9007199254740993", "18446744073709551615")],
]
BAD_LINES = [
    ("coordinate real general", "1 1 2,5", ENTRY),
    ("coordinate real general", "1 1 2.5 7", ENTRY),
    ("coordinate real general", "1 1 x", ENTRY),
    ("coordinate real general", "1 1", ENTRY),
    ("coordinate real general", "1 1 1.2.3", ENTRY),
    ("coordinate real general", "1 1 1.5+5", ENTRY),
    ("coordinate real general", "1 1 1D", ENTRY),
    ("coordinate real general", "1 1 1.5Q3", ENTRY),
    ("coordinate real general", "1 1 1_0", ENTRY),
    ("coordinate real general", "1 1 nan(1)", ENTRY),
    ("coordinate real general", "1d0 1 1", ENTRY),
    ("coordinate real general", "1 0x1 2", ENTRY),
    ("coordinate real general", "1.0 1 2", ENTRY),
    ("coordinate real general", '"1" 1 2', ENTRY),
    ("coordinate real general", "1 1 NA", ENTRY),
    ("coordinate real general", "% a remark", ENTRY),
    ("coordinate integer general", "1 1 1.5", ENTRY),
    ("coordinate integer general", "1 1 1e2", ENTRY),
    ("coordinate integer general", "1 1 1.0", ENTRY),
    ("coordinate integer general", "1 1 1d2", ENTRY),
    ("coordinate integer general", "1 1 nan", ENTRY),
    ("coordinate unsigned-integer general", "1 1 1.0", ENTRY),
    ("coordinate pattern general", "1 1 1", ENTRY),
    ("coordinate complex general", "1 1 1", ENTRY),
    ("coordinate complex general", "1 1 1 2i", ENTRY),
    ("coordinate complex general", "1 1 1 2 3", ENTRY),
    ("array real general", "1 2", ENTRY),
    ("coordinate real general", "99999999999999999999 1 2", "outside the matrix"),
    ("coordinate real general", "-1 1 2", "outside the matrix"),
    ("coordinate real symmetric", "1 3 2", "one half of the matrix"),
    ("coordinate pattern symmetric", "1 3", "one half of the matrix"),
    ("coordinate complex hermitian", "2 3 1 1", "one half of the matrix"),
    ("coordinate real skew-symmetric", "1 2 2", "one half of the matrix"),
    ("coordinate real skew-symmetric", "2 2 2", "diagonal of a skew-symmetric matrix is 0"),
    ("coordinate integer skew-symmetric", "2 2 -1", "diagonal of a skew-symmetric matrix is 0"),
    ("coordinate complex skew-symmetric", "2 2 0 1", "diagonal of a skew-symmetric matrix is 0"),
    ("coordinate complex hermitian", "2 2 1 1e-9", "diagonal of a Hermitian matrix is real"),
    ("coordinate real general", "1 0 2", "outside the matrix"),
    *[(f"coordinate {field} symmetric", f"1 1 {number}", said) for field, number, said in LOST],
    *[(f"array {field} general", number, said) for field, number, said in LOST],
]  # fmt: skip


@pytest.mark.sampled(82)
@pytest.mark.parametrize(("banner", "line", "said"), BAD_LINES)
@pytest.mark.parametrize("spaces", [" ", "  ", "\t "])
def test_what_a_line_has_too_much_or_wrong_is_an_error_that_names_it(
    tmp_path: Path, banner: str, line: str, said: str, spaces: str
) -> None:
    form, field, _ = banner.split()
    values = {"pattern": "", "complex": " 5 6"}.get(field, " 5")
    good = [f"{row} {column}{values}" for row, column in ((3, 1), (3, 2), (2, 1))]
    size = "3 3 4" if form == "coordinate" else "2 2"
    good = good if form == "coordinate" else [values.strip()] * 3
    lines = [*good[:2], "", line, *good[2:]]
    text = HEAD + f"{banner}\n% by hand\n{size}\n" + "".join(spaces.join(text.split(" ")) + "\n" for text in lines)
    with pytest.raises(ReproError, match=said) as caught:
        read_matrix(write(tmp_path, text))
    assert "line 7" in str(caught.value.where)
    assert line.split(" ", maxsplit=1)[0].strip('"')[:60] in str(caught.value.actual)


@pytest.mark.parametrize(
    "text",
    [
        "1 1 1.5\r\n2 2 -2e3\r\n",
        "  1\t1 1.5  \n\n 2 2\t\t-2E+3",
        "+1 1 +1.5\n2 2 -2000.\n",
        "1 1 1.5 \n2 2 -2e03\n   \n",
    ],
)
def test_spaces_and_signs_are_free(tmp_path: Path, text: str) -> None:
    assert read_matrix(write(tmp_path, GENERAL + "2 2 2\n" + text)).matrix.toarray().tolist() == [[1.5, 0], [0, -2000]]


@pytest.mark.parametrize(
    ("field", "number", "value"),
    [
        ("real", "1.5D+00", 1.5),
        ("real", "-2.5d-1", -0.25),
        ("real", "1.D2", 100),
        ("real", "4.9e-324", 5e-324),
        ("real", "1.7976931348623157D308", 1.7976931348623157e308),
        ("real", "9007199254740993", 2.0**53),
        ("real", f"{'0' * 400}7", 7),
        ("double", "1d3", 1000),
        ("complex", "1.5D+00 -1d-1", 1.5 - 0.1j),
        ("integer", "9007199254740992", 2**53),
        ("integer", "9007199254740994", 2**53 + 2),
        ("integer", "-9223372036854775808", -(2**63)),
        ("integer", "+3000000000", 3_000_000_000),
        ("integer", f"-{'0' * 5000}7", -7),
        ("unsigned-integer", "9223372036854775808", 2**63),
        ("unsigned-integer", "18446744073709549568", 2**64 - 2048),
    ],
)
@pytest.mark.parametrize("place", ["1 1 ", "1\t1  ", f"+{'0' * 5000}1 1 "])
def test_a_number_that_a_double_holds(tmp_path: Path, field: str, number: str, value: complex, place: str) -> None:
    text = HEAD + f"coordinate {field} general\n1 1 1\n{place}{number}\n"
    assert read_matrix(write(tmp_path, text)).matrix.toarray().item() == value


@pytest.mark.parametrize(
    "text",
    [
        "%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.5\n2 2 -2e3\n",
        "\ufeff%%MatrixMarket matrix coordinate real general\r\n2 2 2\r\n1 1 1.5\r\n2 2 -2e3\r\n",
        "%%matrixmarket MATRIX Coordinate Real GENERAL\n % a remark\n\n02 2 00000000000000000002\n1 1 1.5\n\n2 2 -2D3",
    ],
)
def test_headers_of_other_writers(tmp_path: Path, text: str) -> None:
    assert read_matrix(write(tmp_path, text)).matrix.toarray().tolist() == [[1.5, 0], [0, -2000]]


@pytest.mark.parametrize(
    ("field", "zero", "value"), [("real", "0", "3"), ("integer", "-0", "3"), ("complex", "0 -0.0", "3 0")]
)
def test_zeros_on_the_diagonal_of_a_skew_symmetric_matrix(tmp_path: Path, field: str, zero: str, value: str) -> None:
    file = read_matrix(write(tmp_path, HEAD + f"coordinate {field} skew-symmetric\n2 2 2\n1 1 {zero}\n2 1 {value}\n"))
    assert file.matrix.toarray().tolist() == [[0, -3], [3, 0]]
    assert file.notes == ("1 explicit zeros dropped",)


def test_a_file_that_ends_inside_a_line_is_called_cut_off(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match=r"ends here, after 2 of 4 entries: probably cut off\n.*line 5(.|\n)*'2'"):
        read_matrix(write(tmp_path, GENERAL + "2 2 4\n1 1 1\n1 2 3\n2"))
    for wrong in ("1 1 1\n1 x 3\n2 1 1\n2", "1 1 1\n1 2 3\n2 1 1\n2 2 x"):  # a line before, and one that is whole
        with pytest.raises(ReproError, match="not what the header says"):
            read_matrix(write(tmp_path, GENERAL + f"2 2 4\n{wrong}"))


@pytest.mark.wording
@pytest.mark.parametrize("line", ["1 1 1\r2 2 1", "\ufeff1 1 1", "1 1 1\r\r1"])
def test_what_ends_no_line_is_not_taken_for_an_end(tmp_path: Path, line: str) -> None:
    with pytest.raises(ReproError, match=r"not what the header says.*\n.*line 4"):
        read_matrix(write(tmp_path, GENERAL + f"2 2 3\n2 1 1\n{line}\n1 2 1\n"))
    with pytest.raises(ReproError, match=r"not what the header says.*\n.*line 3"):
        read_matrix(write(tmp_path, GENERAL + f"2 2 3\n{line}\n1 2 1\n"))


@pytest.mark.parametrize(
    ("field", "first", "second"),
    [
        ("real", "1e308", "1e308"),
        ("complex", "1 -1e308", "0 -1e308"),
        ("integer", "9007199254740992", "1"),
        ("unsigned-integer", "9007199254740994", "9007199254740994"),
    ],
)
def test_entries_that_come_twice_add_up_to_what_a_double_holds(
    tmp_path: Path, field: str, first: str, second: str
) -> None:
    text = HEAD + f"coordinate {field} general\n3 3 3\n2 2 {second}\n3 1 {first}\n{{}} {second}\n"
    assert read_matrix(write(tmp_path, text.format("3 2"))).matrix.nnz == 3
    with pytest.raises(ReproError, match=r"duplicate entries.*\n.*row 3, column 1\n"):
        read_matrix(write(tmp_path, text.format("3 1")))


def test_the_upper_half_alone_will_do(tmp_path: Path) -> None:
    file = read_matrix(write(tmp_path, HEAD + "coordinate real symmetric\n3 3 2\n1 3 5\n2 2 1\n"))
    assert file.matrix.toarray().tolist() == [[0, 0, 5], [0, 1, 0], [5, 0, 0]]


@pytest.mark.parametrize(
    ("banner", "values", "dense"),
    [
        ("array real symmetric", "1\n2\n3\n", [[1, 2], [2, 3]]),
        ("array integer skew-symmetric", "2\n", [[0, -2], [2, 0]]),
        ("array complex hermitian", "1 0\n2 3\n4 0\n", [[1, 2 - 3j], [2 + 3j, 4]]),
    ],
)
def test_halves_of_dense_matrices(tmp_path: Path, banner: str, values: str, dense: list[list[complex]]) -> None:
    assert read_matrix(write(tmp_path, HEAD + f"{banner}\n2 2\n{values}")).matrix.toarray().tolist() == dense


def test_an_entry_that_comes_twice_is_named_where_it_may_not(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "coordinate pattern general\n3 3 4\n2 1\n1 1\n\n2 1\n3 3\n")
    assert read_matrix(path).notes == ("1 duplicate entries added up",)
    with pytest.raises(ReproError, match=r"entry of a pattern occurs twice.*\n.*line 6\n.*that of line 3\n") as caught:
        read_matrix(path, distinct=True)
    assert "entry: real" in str(caught.value.todo)


def test_blocks_are_put_together_as_the_file_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines cross blocks, some of which are parsed the slow way; the result is SciPy's to the bit."""
    monkeypatch.setattr(matrix_market, "BLOCK", 1000)
    rng = np.random.default_rng(3)
    places = rng.choice(60 * 70, 500, replace=False)
    values = rng.standard_normal(500) * 10.0 ** rng.integers(-300, 300, 500)
    rows = [f"{p // 70 + 1} {p % 70 + 1} {v!r}" for p, v in zip(places.tolist(), values.tolist(), strict=True)]
    rows[300] = rows[300].replace(" ", " +", 1)
    rows[100] = rows[100].replace(" ", "   ")
    path = write(tmp_path, GENERAL + "60 70 500\n" + "\n".join(rows))
    assert len(path.read_bytes()) > 10_000
    expected = sp.csr_array(scipy.io.mmread(write(tmp_path, path.read_text().replace(" +", " "), "other.mtx")))
    expected.sort_indices()
    found = read_matrix(path).matrix
    assert (found != expected).nnz == 0 and found.nnz == 500
    path.write_text(path.read_text() + "\n\n1 1 1 1")
    with pytest.raises(ReproError, match="line 504"):
        read_matrix(path)


def test_a_line_without_an_end_is_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_market, "BLOCK", 1000)
    with pytest.raises(ReproError, match="is too long"):
        read_matrix(write(tmp_path, GENERAL + "2 2 1\n1 1 " + "1" * 5000))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="no such file"):
        read_matrix(tmp_path / "none.mtx")


def test_names_of_matrix_files() -> None:
    assert all(is_matrix_market(Path(name)) for name in ("a.mtx", "a.b.MTX.GZ", "a.tar.gz"))
    assert not any(is_matrix_market(Path(name)) for name in ("a.ply", "a.mtx.txt", "a.ply.gz"))


@pytest.mark.mirror
@pytest.mark.parametrize(("name", "counts"), [("mhd1280b", (1280, 12029, 22778, 0)), ("qc324", (324, 13527, 26730, 0))])
def test_real_matrices(mirror: Path, name: str, counts: tuple[int, ...]) -> None:
    file = read_matrix(mirror / f"suitesparse/Bai/{name}.mtx.gz")
    assert (file.matrix.shape[0], *(file.counts[k] for k in ("stored", "nonzeros", "explicit_zeros"))) == counts
