"""Folders for unfinished files are deleted at the end, or by the next process after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from repro.problems.fetch import YOUNG, partial_folder


def age(folder: Path) -> None:
    """Make a folder look as if nothing had been written there for a while."""
    os.utime(folder, (folder.stat().st_mtime - 2 * YOUNG,) * 2)


def test_the_folder_is_gone_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), partial_folder(tmp_path) as folder:
        (folder / "half").write_text("x")
        raise ValueError("stop")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_living_one_fills_is_not(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom repro.problems.fetch import partial_folder\n"
        "with partial_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'half').touch()\n    print(folder, flush=True)\n    time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    age(left)
    with partial_folder(tmp_path):
        assert (left / "half").exists(), "its process lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left.exists()
    with partial_folder(tmp_path) as folder:
        assert [*tmp_path.iterdir()] == [folder]


def test_a_folder_that_was_just_made_is_left_alone(tmp_path: Path) -> None:
    """Its process may be about to lock it."""
    (tmp_path / ".partial-new").mkdir()
    with partial_folder(tmp_path):
        pass
    assert (tmp_path / ".partial-new").exists()


def test_a_folder_can_be_had_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    other = tmp_path / ".partial-other"
    other.mkdir()
    age(other)
    with partial_folder(tmp_path) as folder:
        assert folder.is_dir()
    assert other.exists()
