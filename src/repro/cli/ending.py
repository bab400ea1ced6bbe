"""How a command ends that is told to: by SIGTERM or an interruption, with a word, and with all that it started."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143
#: Seconds to clean up in: a wait for a device cannot be broken off.
GRACE = 5.0


class Terminated(BaseException):
    """SIGTERM came. Not an `Exception`, as KeyboardInterrupt is none, so that nothing takes it for a failure."""


@contextmanager
def told() -> Iterator[None]:
    """Let the body end by SIGTERM or an interruption with a word on standard error and that exit code.

    What is open in the body is closed, and what is half-written removed, for which there are `GRACE` seconds. Processes
    that it started get SIGTERM as well. In another thread than the main one signals cannot be heeded, and are not.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    ended = threading.Event()
    threading.Thread(target=_enforce, args=[receiver, ended], daemon=True).start()
    earlier_sender = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    earlier = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    except Terminated:
        _end("terminated", TERMINATED)
    finally:
        signal.set_wakeup_fd(earlier_sender)
        signal.signal(signal.SIGTERM, earlier)
        ended.set()
        os.close(sender)  # for which the thread waits


def _terminate(number: int, frame: FrameType | None) -> None:
    signal_children(signal.SIGTERM)
    raise Terminated


def _end(word: str, code: int) -> None:
    print(word, file=sys.stderr, flush=True)
    raise SystemExit(code)


def _enforce(receiver: int, ended: threading.Event) -> None:
    """Wait for SIGTERM, and end the process if the body has not ended in time."""
    while word := os.read(receiver, 1):
        if word[0] == signal.SIGTERM and not ended.wait(GRACE):
            signal_children(signal.SIGKILL)
            with suppress(OSError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"terminated\n")
            os._exit(TERMINATED)
    os.close(receiver)


def signal_children(number: signal.Signals) -> None:
    """Send a signal to all processes that this one started, and to theirs."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.send_signal(number)
