"""A command that is told to end says so, exits with the code of the signal, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from repro.cli import console

SECONDS = 30.0


def start(body: str, folder: Path) -> subprocess.Popen[str]:
    """Run statements as the body of a command that has made the file `ready` when it may be ended."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    code = (
        "import subprocess, sys, time\nfrom concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
        f"from repro.cli import console\nconsole.GRACE = 1.0\nwith console.handle_signals():\n{lines}"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def end(process: subprocess.Popen[str], folder: Path, number: signal.Signals = signal.SIGTERM) -> str:
    """Send a signal as soon as it is ready; return what it says on standard error."""
    deadline = time.monotonic() + SECONDS
    while not (folder / "ready").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    return process.communicate(timeout=SECONDS)[1]


def test_a_terminated_command_says_so_and_cleans_up(tmp_path: Path) -> None:
    body = "try:\n    Path('ready').touch()\n    time.sleep(60)\nfinally:\n    Path('cleaned').touch()"
    process = start(body, tmp_path)
    assert end(process, tmp_path) == "terminated\n"
    assert process.returncode == 143
    assert (tmp_path / "cleaned").exists()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_command_says_so_wherever_it_is(tmp_path: Path) -> None:
    process = start("Path('ready').touch()\ntime.sleep(60)", tmp_path)
    assert end(process, tmp_path, signal.SIGINT) == "interrupted\n"
    assert process.returncode == 130


CHILD = "'sleep 60 & echo $! >> pids; touch ready; wait'"


@pytest.mark.parametrize(
    "body",
    [
        f"subprocess.run(['sh', '-c', {CHILD}])",
        f"with ThreadPoolExecutor(2) as pool:\n    list(pool.map(subprocess.run, [['sh', '-c', {CHILD}]]))",
    ],
)
def test_what_a_terminated_command_started_ends_with_it(body: str, tmp_path: Path) -> None:
    process = start(body, tmp_path)
    assert end(process, tmp_path) == "terminated\n"
    assert process.returncode == 143
    deadline = time.monotonic() + SECONDS
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_command_that_cannot_be_broken_off_is_ended_after_a_while(tmp_path: Path) -> None:
    """As in a wait for a device: no Python runs in the main thread, so no handler does."""
    wait = "import ctypes\nPath('ready').touch()\nwhile True:\n    try:\n        ctypes.CDLL(None).sleep(60)\n"
    process = start(f"{wait}    except BaseException:\n        pass", tmp_path)
    assert end(process, tmp_path) == "terminated\n"
    assert process.returncode == 143


def test_signals_are_as_before_when_a_command_has_ended() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with console.handle_signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_terminated_compilation_is_no_refusal_by_the_compiler(tmp_path: Path) -> None:
    """The whole program: `--record-errors` records what does not compile, not what was not let to compile."""
    compiler = tmp_path / "bin/nvcc"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo fake, release 0.0 && exit\ntouch ready\nsleep 60\n')
    compiler.chmod(0o755)
    (tmp_path / "kernels").symlink_to(Path(__file__).parents[2] / "kernels")
    process = subprocess.Popen(
        [sys.executable, "-m", "repro", "compile", "common", "--target", "sm_90", "--record-errors"],
        cwd=tmp_path,
        # a flag for nvcc chooses nvcc, whatever is installed
        env={**os.environ, "PATH": f"{compiler.parent}:{os.environ['PATH']}", "NVCC_APPEND_FLAGS": "-w"},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert end(process, tmp_path) == "terminated\n"
    assert process.returncode == 143
    assert not list((tmp_path / "modules").rglob("*.json"))
