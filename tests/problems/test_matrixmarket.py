from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest

from repro.errors import ReproError
from repro.problems.matrixmarket import is_matrix_market, read_matrix

HEAD = "%%MatrixMarket matrix "
GENERAL = HEAD + "coordinate real general\n"


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
        (HEAD + "coordinate real symmetric\n2 3 1\n1 1 1\n", r"not square[\s\S]*calls it symmetric[\s\S]*2 x 3"),
        (HEAD + "array complex hermitian\n1 0\n", r"not square[\s\S]*calls it hermitian[\s\S]*1 x 0"),
        (GENERAL + "2 2 2\n1 1 1\n2 1 nan\n", "NaN or infinite.*\n.*row 2, column 1"),
        (GENERAL + "2 2 2\n1 2 inf\n2 1 1\n", "NaN or infinite.*\n.*row 1, column 2"),
        (GENERAL + "0 0 1\n1 1 1\n", "not a complete Matrix Market file"),
        (GENERAL + "2 2 3\n1 1 1\n2 2 1\n", "not a complete Matrix Market file"),
        (GENERAL + "2 2 1\n3 1 1\n", "not a complete Matrix Market file"),
        (GENERAL + "2 2 1\n1 1 x\n", "not a complete Matrix Market file"),
        (GENERAL + "3000000000 3000000000 1\n1 1 1\n", "too large for 32-bit"),
        (GENERAL + "2 3000000000 1\n1 1 1\n", r"too large for 32-bit[\s\S]*2 x 3000000000"),
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
    with pytest.raises(ReproError, match="truncated or corrupt"):
        read_matrix(path)


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
