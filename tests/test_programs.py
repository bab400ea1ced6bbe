"""Programs are run to their end and no longer: what hangs, or leaves something running, is one message."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from repro import programs
from repro.errors import ReproError
from repro.programs import run_program


def script(folder: Path, text: str) -> Path:
    """Write a program that the shell runs."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_what_it_said_and_how_it_ended_is_told(tmp_path: Path) -> None:
    ended = run_program([script(tmp_path, "echo out; echo err >&2; exit 3")], 20, "it")
    assert (ended.code, ended.output, ended.errors, ended.said) == (3, "out\n", "err\n", "err\n")
    assert run_program([script(tmp_path, "echo out")], 20, "it").said == "out\n"
    assert run_program([script(tmp_path, "kill -9 $$")], 20, "it").code == -9


def test_more_than_a_pipe_holds_is_taken_on_both_streams(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; sys.stdout.write('o' * 300_000); sys.stderr.write('e' * 300_000)"]
    ended = run_program(words, 30, "it")
    assert (len(ended.output), len(ended.errors)) == (300_000, 300_000)


def test_a_program_reads_nothing_of_the_terminal(tmp_path: Path) -> None:
    assert run_program([script(tmp_path, "cat; echo end")], 20, "it").output == "end\n"


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    assert run_program([script(tmp_path, r"printf '\377\376x\000y'")], 20, "it").output == "\ufffd\ufffdx\0y"


def test_what_does_not_end_is_killed_with_all_that_it_started(tmp_path: Path, at_once: None) -> None:
    path = script(tmp_path, "sleep 1000 & echo $! $$ > pids; sleep 1000")
    with pytest.raises(ReproError, match=r"the compiler did not finish\n.*program[\s\S]*within 0.5 s") as caught:
        run_program(["/bin/sh", "-c", f"cd {tmp_path}; exec {path}"], 0.5, "the compiler")
    assert caught.value.todo
    assert not any(_lives(int(pid)) for pid in (tmp_path / "pids").read_text().split())


@pytest.mark.parametrize("left", ["sleep 1000", "while true; do echo more; done"], ids=["silent", "talking"])
def test_what_it_leaves_running_is_not_waited_for(tmp_path: Path, at_once: None, left: str) -> None:
    path = script(tmp_path, f"( {left} ) & echo $! > {tmp_path}/pid; echo end")
    ended = run_program([path], 30, "it")
    assert "end\n" in ended.output
    assert not _lives(int((tmp_path / "pid").read_text()))


def test_what_it_says_without_end_is_dropped(tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_OUTPUT", 1000)
    ended = run_program([script(tmp_path, "head -c 1000000 /dev/zero; echo e >&2")], 30, "it")
    assert (len(ended.output), ended.errors) == (1000, "e\n")
    with pytest.raises(ReproError, match="did not finish"):
        run_program([script(tmp_path, "cat /dev/zero")], 0.5, "it")


def test_what_is_interrupted_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(programs, "_listen", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_program([script(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 1000")], 30, "it")
    assert not _lives(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("kind", ["absent", "no-program", "no-permission", "folder", "null"])
def test_what_cannot_be_started_is_one_message(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    if kind == "folder":
        path.mkdir()
    elif kind != "absent":
        path.write_bytes(b"\0\1\2")
        path.chmod(0o644 if kind == "no-permission" else 0o755)
    with pytest.raises(ReproError, match=r"it cannot be started\n  where: .*program") as caught:
        run_program([f"{path}\0" if kind == "null" else path], 20, "it")
    assert caught.value.actual


def _lives(pid: int) -> bool:
    """Return whether a process is there and no zombie; it is given a moment to end in."""
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return False
        time.sleep(0.02)
    return True
