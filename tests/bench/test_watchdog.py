"""What is given up, and when: only time in which the process could run counts."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from repro.bench import worker as module
from repro.bench.worker import AGAIN, Watchdog

SECONDS = 0.4


def test_what_takes_too_long_is_given_up_about_when_it_should():
    given_up = threading.Event()
    with Watchdog(SECONDS) as watchdog, watchdog.guard(given_up.set):
        began = time.monotonic()
        assert given_up.wait(60)
        assert time.monotonic() - began >= SECONDS


def test_one_block_after_the_other_has_all_the_time():
    expired = []
    with Watchdog(SECONDS) as watchdog:
        for _ in range(4):
            with watchdog.guard(lambda: expired.append(1)):
                time.sleep(SECONDS / 2)
    assert expired == []


def test_time_in_which_the_process_was_stopped_does_not_count():
    script = (
        "import sys\n"
        "from repro.bench.worker import Watchdog\n"
        f"with Watchdog({SECONDS}) as watchdog, watchdog.guard(lambda: print('expired', flush=True)):\n"
        "    print('in', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    print('done', flush=True)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], text=True, **pipes) as process:
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(3 * SECONDS)
        process.send_signal(signal.SIGCONT)
        time.sleep(SECONDS / 4)  # it looks at the clock
        assert process.communicate("go on\n")[0] == "done\n"


def test_a_process_that_cannot_go_on_asks_for_another(capsys, monkeypatch):
    class Ended(Exception):
        pass

    def end(code):
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(Ended, match=str(AGAIN)):
        module.restart("the context is lost")
    assert capsys.readouterr().out == "the context is lost; going on in a new process\n"
