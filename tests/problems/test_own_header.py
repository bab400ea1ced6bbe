"""What the first lines of a user's own file say."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from repro.config.models import OwnProblem
from repro.errors import ReproError
from repro.problems.own import assemble_own
from repro.problems.own_header import describe


def write(path: Path, banner: str, sizes: str = "4 4 6") -> str:
    text = f"%%MatrixMarket matrix coordinate {banner}\n% a remark\n\n{sizes}\n1 1 1.0\n"
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wt") as file:
        file.write(text)
    return str(path)


@pytest.mark.parametrize(
    ("banner", "expected"),
    [
        ("complex general", ("complex", (4, 6))),
        ("real general", ("real", (4, 6))),
        ("integer general", ("real", (4, 6))),
        ("pattern symmetric", ("pattern", (4, 8))),  # with a full diagonal: 4 on it, 2 below, 2 above
        ("complex hermitian", ("complex", (4, 8))),
    ],
)
def test_the_header_states_entry_and_size(banner: str, expected: tuple[str, tuple[int, int]], tmp_path: Path) -> None:
    assert describe(OwnProblem(path=write(tmp_path / "a.mtx", banner))) == expected


@pytest.mark.parametrize("name", ["a.mtx.gz", "a.mtx.xz"])
def test_compressed_files_are_read(name: str, tmp_path: Path) -> None:
    assert describe(OwnProblem(path=write(tmp_path / name, "complex general"))) == ("complex", (4, 6))


def test_folding_changes_the_size(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mtx", "real general")
    assert describe(OwnProblem(path=path, entry="quaternion")) == ("quaternion", None)
    assert describe(OwnProblem(path=path, entry="real")) == ("real", (4, 6))


def test_a_pattern_may_be_taken_as_real_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mtx", "pattern general")
    assert describe(OwnProblem(path=path, entry="real")) == ("real", (4, 6))


def test_the_entry_planned_is_the_one_built(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    for field, values in (("real", " 2"), ("integer", " 2"), ("complex", " 2 1"), ("pattern", "")):
        path.write_text(f"%%MatrixMarket matrix coordinate {field} general\n1 1 1\n1 1{values}\n")
        assert describe(OwnProblem(path=str(path)))[0] == assemble_own(path, None)[0]


def test_a_file_may_be_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.mtx", "real general")
    assert describe(OwnProblem(path="~/a.mtx")) == ("real", (4, 6))


def test_a_mesh_needs_its_entry(tmp_path: Path) -> None:
    path = tmp_path / "part.ply"
    path.write_bytes(b"ply\nformat binary_little_endian 1.0\n\xff\xfe\n")
    assert describe(OwnProblem(path=str(path), entry="quaternion")) == ("quaternion", None)
    with pytest.raises(ReproError, match=r"add `entry: quaternion`"):
        describe(OwnProblem(path=str(path)))


@pytest.mark.parametrize("name", ["a.mtx.gz", "a.mtx.xz"])
def test_a_file_that_is_not_compressed_as_its_name_says_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n")
    with pytest.raises(ReproError, match="cannot be read"):
        describe(OwnProblem(path=str(tmp_path / name)))


def test_a_size_that_is_none_is_left_to_the_reader(tmp_path: Path) -> None:
    assert describe(OwnProblem(path=write(tmp_path / "a.mtx", "real general", "four by four"))) == ("real", None)
