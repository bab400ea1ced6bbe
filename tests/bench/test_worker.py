"""Worker processes: how their end is reported, and which processes must end together."""

import os
import signal
import subprocess
import sys
import time

import pytest

from repro.bench.worker import End, run_worker, run_workers, signals_held

#: Runs the words of the line as a worker, and says how it ended.
PARENT = """
import sys
from repro.bench.worker import run_worker, signals_held
with signals_held():
    print(run_worker(sys.argv[1:]), flush=True)
"""
#: Says that it is there, and waits to be interrupted.
WAITING = """
import os, sys, time
from repro.bench.worker import end_with_parent
end_with_parent()
try:
    print('in', os.getpid(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(7)
"""


def python(script):
    return [sys.executable, "-c", script]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("", 0),
        ("raise SystemExit(75)", 75),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV),
        ("import os; os.abort()", -signal.SIGABRT),
    ],
)
def test_how_it_ended_is_told(script, code):
    with signals_held():
        assert run_worker(python(script)) == End(code)


def test_the_signals_of_a_worker_are_not_held():
    script = "import signal; raise SystemExit(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
    with signals_held():
        assert run_worker(python(script)) == End(0)


def started(script=WAITING):
    words = [*python(PARENT), *python(script)]
    process = subprocess.Popen(words, text=True, stdout=subprocess.PIPE, start_new_session=True)
    word, pid = process.stdout.readline().split()
    assert word == "in"
    return process, int(pid)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "end"),
    [(signal.SIGINT, End(7, signal.SIGINT)), (signal.SIGTERM, End(-signal.SIGTERM, signal.SIGTERM))],
)
def test_what_asks_the_one_to_end_is_passed_on(number, end):
    process, _ = started()
    process.send_signal(number)
    assert process.communicate(timeout=60)[0] == f"{End(end.code, int(number))}\n"


def test_a_worker_ends_with_the_one_it_works_for():
    process, pid = started()
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and is_running(pid):
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_asked_before_there_was_a_worker_is_heard():
    script = (
        "import os, signal, sys\n"
        "from repro.bench.worker import run_worker, signals_held\n"
        "with signals_held():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print(run_worker([sys.executable, '-c', 'print(1)']), flush=True)\n"
    )
    done = subprocess.run(python(script), text=True, stdout=subprocess.PIPE, check=False, env=os.environ)
    assert done.stdout == f"{End(-15, 15)}\n"


def test_several_workers_run_at_the_same_time_and_each_has_its_code(tmp_path):
    """Each of two workers waits for the other's file."""
    code = "import pathlib, sys, time\nmine, other = map(pathlib.Path, sys.argv[1:3])\nmine.touch()\n"
    code += "while not other.exists():\n    time.sleep(0.01)\nsys.exit(int(sys.argv[3]))"
    paths = [str(tmp_path / name) for name in "ab"]
    commands = [[sys.executable, "-c", code, *order, text] for order, text in ((paths, "0"), (paths[::-1], "3"))]
    with signals_held():
        assert [end.code for end in run_workers(commands)] == [0, 3]
