"""The process that reads a file: what it has of its caller, and that nothing outlives it."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import cast

import psutil
import pytest

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.subprocess_reader import read_isolated
from support import readers

pytestmark = pytest.mark.medium

READ = """
import os, signal, sys, threading, time
from functools import partial
from pathlib import Path
from support import readers
from repro.config.models import Limits
from repro.problems.subprocess_reader import read_isolated
read = lambda function, *words: read_isolated(partial(function, *words), Path("a.mtx"), Limits(), "the reader")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2\n")
    return tmp_path / "a.mtx"


@pytest.fixture
def read(path: Path) -> Callable[..., object]:
    """Call a function of `readers` in a process of its own."""
    return lambda function, *words: read_isolated(partial(function, *words), path, Limits(), "the reader of tests")


def start(program: str, folder: Path) -> subprocess.Popen[str]:
    """Start a program, given on standard input, in a group of its own and with a folder for temporary files."""
    (folder / "temporary").mkdir()
    path = os.pathsep.join([str(Path(readers.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TMPDIR": str(folder / "temporary"), "PYTHONPATH": path}
    process = subprocess.Popen(
        [sys.executable], stdin=subprocess.PIPE, cwd=folder, env=environment, text=True, start_new_session=True
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(READ + program)
    return process


def test_locks_that_another_thread_holds_do_not_matter(
    read: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_module_that_waits.py").write_text(
        "import threading\nfrom support import readers\n"
        "threading.current_thread().name == 'slow' and readers.GO.wait(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    slow = threading.Thread(target=importlib.import_module, args=["a_module_that_waits"], name="slow")
    with readers.LOCK:
        slow.start()
        try:
            assert read(readers.hold_and_import, "a_module_that_waits")
            assert slow.is_alive()
        finally:
            readers.GO.set()
            slow.join()


def test_a_reader_is_where_the_caller_is_and_has_what_it_has(
    read: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(readers.describe, "b")[1:] == (None, None, *[entry for entry in sys.path if entry][:1], False)  # type: ignore[index]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/b").touch()
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/a_module_made_now.py").write_text("def speak():\n    return 'here'\n")
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setenv("REPRO_TEST", "ä")
    monkeypatch.setitem(os.environb, b"REPRO_BYTES", b"\xff")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    assert read(readers.describe, "b") == (str(tmp_path / "folder"), "ä", b"\xff", str(tmp_path / "modules"), True)
    assert read(importlib.import_module("a_module_made_now").speak) == "here"


def test_a_reader_has_the_limits_of_the_caller(read: Callable[..., object]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert read(resource.getrlimit, resource.RLIMIT_NOFILE) == (soft, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        assert read(resource.getrlimit, resource.RLIMIT_NOFILE) == (soft - 1, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_a_reader_says_goes_to_standard_error(
    read: Callable[..., object], capfd: pytest.CaptureFixture[str]
) -> None:
    read(readers.say, "a word")
    out, err = capfd.readouterr()
    assert (out, set(err.splitlines())) == ("", {"a word", "a word below"})


def test_readers_at_once_have_no_second_thread_and_no_files_of_others(read: Callable[..., object]) -> None:
    files = len(list(Path("/proc/self/fd").iterdir()))
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: read(readers.count), range(8)))
    ((threads, _),) = cast("set[tuple[int, int]]", found)
    assert threads == 1
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_a_thread_with_blocked_signals_reads_as_others(read: Callable[..., object], path: Path) -> None:
    def read_all() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        assert read(readers.give, 1) == 1
        with pytest.raises(ReproError, match="takes too long"):
            read_isolated(partial(time.sleep, 60), path, Limits(seconds=0.01), "the reader of tests")
        with pytest.raises(ReproError, match="SIGTERM"):
            read(readers.end_by, signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(read_all).result()


@pytest.mark.parametrize("python", ["", "/nonexistent/python", "/bin/false", "/bin/true"])
def test_no_process_is_one_message(read: Callable[..., object], monkeypatch: pytest.MonkeyPatch, python: str) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(ReproError, match="no process can be started to read files in"):
        read(readers.give, 1)


def test_a_program_without_guard_streams_and_path_reads(path: Path) -> None:
    process = start(
        "for file in (0, 1, 2):\n    os.close(file)\n"
        "Path('json.py').write_text('a file of the user, which is no module')\n"
        "Path('said').write_text(repr(read(readers.give, 7)))\n",
        path.parent,
    )
    assert process.wait(60) == 0
    assert (path.parent / "said").read_text() == "7"
    assert not list((path.parent / "temporary").iterdir())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("number", "group", "thread"),
    [(signal.SIGKILL, False, False), (signal.SIGTERM, True, True), (signal.SIGINT, True, False),
     (signal.SIGINT, True, True)],
    ids=["killed", "terminated", "interrupted", "interrupted-thread"],
)  # fmt: skip
def test_all_ends_with_the_program(
    path: Path, interruptible: None, number: signal.Signals, group: bool, thread: bool
) -> None:
    hang = "read(readers.hang, Path('pid'))\n"
    if thread:
        hang = (
            "thread = threading.Thread(target=read, args=(readers.hang, Path('pid')))\nthread.start()\nthread.join()\n"
        )
    process = start(hang, path.parent)
    wait_for(path.parent / "pid")
    reader = int((path.parent / "pid").read_text())
    assert psutil.Process(reader).ppid() == process.pid
    (os.killpg if group else os.kill)(process.pid, number)
    assert process.wait(20) != 0
    wait_for_end(reader)
    assert not list((path.parent / "temporary").iterdir())


def wait_for(file: Path) -> None:
    """Wait until there is a file, with something in it."""
    eventually(lambda: file.exists() and bool(file.read_text()))


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended."""

    def ended() -> bool:
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)  # nobody is left to ask for its code
        except psutil.NoSuchProcess:
            return True

    eventually(ended)


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
