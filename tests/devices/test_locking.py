"""A device is one measurement's at a time, whoever measures and from wherever."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.campaign import measurement
from repro.devices import locks
from repro.devices.locks import lock_devices, lock_path
from repro.errors import ReproError

HOLD = """
import sys
from pathlib import Path
from repro.devices import locks
if len(sys.argv) > 3:
    locks.PLACES = (Path(sys.argv[3]),)
with locks.lock_devices([sys.argv[1]], sys.argv[2]):
    print("held", flush=True)
    sys.stdin.readline()
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process that holds a device until a line is written to it, with a TMPDIR of its own."""
    started: list[subprocess.Popen[str]] = []

    def run(device: str, work: str, *place: Path) -> subprocess.Popen[str]:
        folder = tmp_path / f"tmp{len(started)}"
        folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, device, work, *map(str, place)],
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of locks that this test alone uses."""
    folder = tmp_path / "lock"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(locks, "PLACES", (folder,))
    return folder


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> str:
    return process.communicate("\n", timeout=20)[0]


def test_processes_with_other_folders_for_temporary_files_exclude_each_other(start: Start) -> None:
    device = f"test-{os.getpid()}"  # in the machine's own place
    try:
        first = start(device, "campaign one: spmv nut double")
        assert line(first) == "held\n"
        second = start(device, "campaign two: spmv nut single")
        told = line(second)
        assert re.fullmatch(
            rf"the device {device} is held by pid {first.pid} \(\S+, campaign one: spmv nut double\) "
            r"since \d\d:\d\d; waiting\n",
            told,
        )
        assert end(first) == ""
        said = end(second)
        assert re.fullmatch(rf"the device {device} is free: went on after \d+ s\nheld\n", said)
    finally:
        lock_path(device).unlink(missing_ok=True)


def test_a_holder_that_is_killed_frees_the_device(start: Start, place: Path) -> None:
    first = start("GPU-1", "campaign one", place)
    assert line(first) == "held\n"
    second = start("GPU-1", "campaign two", place)
    assert f"held by pid {first.pid} " in line(second)
    first.send_signal(signal.SIGKILL)
    assert "went on after" in line(second)
    assert line(second) == "held\n"
    # what the killed one left is overwritten
    assert json.loads(lock_path("GPU-1").read_text())["pid"] == second.pid
    end(second)
    assert json.loads(lock_path("GPU-1").read_text()) == {"idle": [second.pid]}


def test_other_devices_are_free(start: Start, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert line(start("GPU-1", "campaign one", place)) == "held\n"
    with lock_devices(["opencl:0", "GPU-2", "GPU-2"], "campaign two"):
        assert sorted(path.name for path in place.iterdir()) == [
            "sparse-repro-GPU-1.lock",
            "sparse-repro-GPU-2.lock",
            "sparse-repro-opencl-0.lock",
        ]
    assert capsys.readouterr().out == ""


def test_a_device_is_free_again_after_a_failure(place: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock_devices(["GPU-1"], "fails"):
        raise ZeroDivisionError
    with lock_devices(["GPU-1"], "again"):
        pass
    assert json.loads(lock_path("GPU-1").read_text()) == {"idle": [os.getpid()]}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"pid": "x"}', '{"pid": 7}', '{"idle": 7}', '{"idle": [1e999, "1"]}', f'{{"idle": [{10**23}]}}',
     '{"pid": ' + "[" * 4000, "\0" * 5000],
)  # fmt: skip
def test_what_a_file_still_says_locks_nothing(
    place: Path, content: str, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    lock_path("GPU-1").write_text(content)
    with lock_devices(["GPU-1"], "mine"):
        assert json.loads(lock_path("GPU-1").read_text())["work"] == "mine"
        assert capsys.readouterr().out == ""
        # and one who waits reads whatever there is
        lock_path("GPU-1").write_text(content)
        second = start("GPU-1", "campaign two", place)
        assert "held by another process, which does not say who it is; waiting" in line(second)


@pytest.mark.wording
def test_who_holds_it_is_said_with_host_and_day_and_without_steering_the_terminal(place: Path, tmp_path: Path) -> None:
    before = (datetime.now().astimezone() - timedelta(days=3)).replace(hour=12, minute=1)
    holder = {"pid": 123, "user": "eve\x1b[2J", "host": "elsewhere", "work": "a\nb", "since": before.isoformat()}
    path = tmp_path / "held"
    path.write_text(json.dumps(holder))
    file = os.open(path, os.O_RDONLY)
    assert locks._holder(file) == f"pid 123 on elsewhere (eve?[2J, a?b) since {before:%Y-%m-%d} 12:01"
    os.close(file)


def test_every_user_can_lock_the_file_whatever_the_mask(place: Path) -> None:
    before = os.umask(0o077)
    try:
        with lock_devices(["GPU-1"], "mine"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(lock_path("GPU-1").stat().st_mode) == 0o666


def test_a_file_that_is_there_is_opened_without_making_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `fs.protected_regular` the system refuses O_CREAT for another user's file in such a folder."""
    lock_path("GPU-1").touch()
    real = os.open

    def protected(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", protected)
    with lock_devices(["GPU-1"], "mine"):
        pass


def test_a_file_of_another_user_that_can_only_be_read_locks_as_well(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lock_path("GPU-1")
    path.write_text("theirs")
    real = os.open

    def theirs(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", theirs)
        lock = lock_devices(["GPU-1"], "mine")
        lock.__enter__()
    with path.open("r+") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.__exit__(None, None, None)
    assert path.read_text() == "theirs"


@pytest.mark.wording
def test_a_file_that_cannot_be_opened_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock_path("GPU-1").touch()

    def theirs(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", theirs)
    with pytest.raises(ReproError, match=r"cannot be locked[\s\S]*GPU-1\.lock[\s\S]*Permission denied[\s\S]*`rm "):
        lock_devices(["GPU-1"], "mine").__enter__()


def test_what_is_put_in_the_place_of_a_lock_is_refused_and_not_written_to(place: Path, tmp_path: Path) -> None:
    victim, path = tmp_path / "precious", lock_path("GPU-1")
    victim.write_text("kept")
    for put in (path.symlink_to, path.hardlink_to, lambda _: os.mkfifo(path), lambda _: path.mkdir()):
        put(victim)
        with pytest.raises(ReproError, match="a device cannot be locked"), lock_devices(["GPU-1"], "mine"):
            pass
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert victim.read_text() == "kept"


def test_locks_lie_where_everyone_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that this user alone can write to is not taken: another user would take the next one."""
    mine, everyones = tmp_path / "run", tmp_path / "tmp"
    mine.mkdir(mode=0o755)
    everyones.mkdir()
    everyones.chmod(0o1777)
    monkeypatch.setattr(locks, "PLACES", (tmp_path / "nowhere", mine, everyones))
    assert lock_path("opencl:0/1").parent == everyones
    assert lock_path("opencl:0/1").name == "sparse-repro-opencl-0-1.lock"


def test_a_measurement_holds_its_device_and_says_for_what(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Opened(list):  # type: ignore[type-arg]
        backend = "cuda"

        def close(self) -> None:
            print(json.loads(lock_path("GPU-1").read_text())["work"])

    monkeypatch.setattr(measurement, "resolve_device", lambda _: "cuda:0")
    monkeypatch.setattr(measurement, "identities", lambda _: ["GPU-1"])
    monkeypatch.setattr(measurement, "open_devices", lambda _: Opened())
    monkeypatch.setattr(measurement, "Workspace", lambda *_, **__: 1 / 0)
    config = SimpleNamespace(device="cuda", campaign="mine")
    operands = SimpleNamespace(precision="double")
    bench = measurement.open_bench(config, SimpleNamespace(name="spmv"), "nut", operands, None)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        bench.__enter__()
    assert capsys.readouterr().out == "campaign mine: spmv nut double\n"


def test_a_lock_whose_file_is_deleted_while_somebody_waits_is_not_taken_for_one(place: Path) -> None:
    """Who waited would hold what nobody else looks at."""
    with lock_devices(["GPU-1"], "first"):
        lock_path("GPU-1").unlink()
        with lock_devices(["GPU-1"], "second"):  # as it is told to whoever comes then
            assert json.loads(lock_path("GPU-1").read_text())["work"] == "second"
    with lock_devices(["GPU-1"], "third"):
        assert json.loads(lock_path("GPU-1").read_text())["work"] == "third"


def test_a_device_is_lent_and_taken_back_when_the_other_is_done(place: Path, start: Start) -> None:
    path = lock_path("GPU-1")
    with lock_devices(["GPU-1", "GPU-2"], "mine") as held:
        with held.lent():
            assert json.loads(path.read_text()) == {"idle": [os.getpid()]}
            other = start("GPU-1", "theirs", place)
            assert line(other) == "held\n"  # at once, and without a word
            assert json.loads(path.read_text())["idle"] == [os.getpid()]
            with pytest.raises(BlockingIOError), path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert end(other) == ""
            assert json.loads(path.read_text()) == {"idle": sorted([os.getpid(), other.pid])}
        assert json.loads(path.read_text())["work"] == "mine"
        assert held.idle == set()  # the other one has ended
    assert json.loads(path.read_text()) == json.loads(lock_path("GPU-2").read_text()) == {"idle": [os.getpid()]}


def test_who_is_idle_on_a_device_is_told_to_whoever_takes_it(place: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lock_path("GPU-1").write_text(json.dumps({"idle": [os.getppid(), ended.pid]}))
    with lock_devices(["GPU-1"], "mine") as held:
        assert held.idle == {os.getppid()}
    assert json.loads(lock_path("GPU-1").read_text()) == {"idle": sorted([os.getppid(), os.getpid()])}


@pytest.mark.parametrize(("error", "held_again"), [(ZeroDivisionError, True), (KeyboardInterrupt, False)])
def test_a_failure_takes_a_lent_device_back_and_an_interrupt_does_not_wait_for_it(
    place: Path, error: type[BaseException], held_again: bool
) -> None:
    with lock_devices(["GPU-1"], "mine") as held:
        with pytest.raises(error), held.lent():
            assert "work" not in json.loads(lock_path("GPU-1").read_text())
            raise error
        assert ("work" in json.loads(lock_path("GPU-1").read_text())) == held_again
