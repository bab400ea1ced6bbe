"""Files and folders that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.filesystem import making_folder, replacing, write_whole


def test_a_file_takes_the_place_of_the_old_one_in_a_folder_that_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new/file.json"
    for content in ("é", b"\xff"):
        write_whole(path, content)
    assert path.read_bytes() == b"\xff"
    assert list(path.parent.iterdir()) == [path]


def test_what_fails_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_whole(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new/folder"
    with making_folder(path) as partial:
        (partial / "file").write_text("half")
        assert not path.exists()
    assert [*path.parent.rglob("*")] == [path, path / "file"]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_fails_leaves_nothing(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "folder"
    if there:
        path.mkdir()
        (path / "old").touch()
    with pytest.raises((RuntimeError, OSError)), making_folder(path) as partial:
        (partial / "file").write_text("half")
        if not there:
            raise RuntimeError
    assert [*tmp_path.rglob("*")] == ([path, path / "old"] if there else [])
