"""Programs that this one runs: each has a time to end in, and what it says is text of bounded length."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError

#: Bytes that a program may say on each of its two streams; what comes after them is dropped.
MAX_OUTPUT = 16 << 20
#: Seconds between looks at whether a program has ended whose streams are open.
LOOK = 0.05
#: Seconds to take in what it said before it ended.
LAST_WORDS = 1.0


@dataclass(frozen=True)
class Ended:
    """A program that came to its end.

    Attributes
    ----------
    code
        Its exit code; of one that a signal ended minus the signal's number.
    output, errors
        What it said on its two streams; bytes that are no UTF-8 stand as question marks in it.
    """

    code: int
    output: str
    errors: str

    @property
    def said(self) -> str:
        """What it said, errors where there are any."""
        return self.errors if self.errors.strip() else self.output


def run_program(
    command: Sequence[str | Path], seconds: float, what: str, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a program to its end, and end with it all that it started.

    It is over when the program itself has ended: what it leaves running does not count, though it holds the streams
    open. The program and what it started are a group of processes of their own, which is killed in the end, also where
    this process is interrupted.

    Parameters
    ----------
    command
        The program and its arguments.
    seconds
        After which it is killed.
    what
        What it is for, for messages: `the compiler`.
    environment
        Of the program; None: this process's own.

    Raises
    ------
    ReproError
        It cannot be started, or does not end in time.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        todo = "install it again, or take it from PATH"
        raise ReproError(f"{what} cannot be started", where=command[0], actual=reason, todo=todo) from None
    try:
        said = _listen(process, seconds)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
    if said is None:
        raise ReproError(
            f"{what} did not end",
            where=" ".join(map(str, command)),
            expected=f"an end within {seconds:g} s",
            actual="it was killed, with all that it had started",
            todo="try it by hand; where the machine is busy, run fewer jobs at a time",
        )
    output, errors = said
    return Ended(process.returncode, output, errors)


def _listen(process: subprocess.Popen[bytes], seconds: float) -> tuple[str, str] | None:
    """Take what a program says until it has ended; None where it does not in time."""
    end = time.monotonic() + seconds
    streams = [process.stdout, process.stderr]
    said = [bytearray(), bytearray()]
    ended = False
    with selectors.DefaultSelector() as selector:
        for place, stream in enumerate(streams):
            assert stream is not None  # both are pipes
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, place)
        while True:
            if not ended and process.poll() is not None:
                # what it said before its end is in the pipes by now; what it left behind may say ever more
                ended, end = True, time.monotonic() + LAST_WORDS
            ready = selector.select(0 if ended else LOOK) if selector.get_map() else []
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                if not block:
                    selector.unregister(key.fileobj)
                said[key.data] += block[: MAX_OUTPUT - len(said[key.data])]
            if ended and (not ready or time.monotonic() > end):
                break
            if time.monotonic() > end:
                return None
            if not selector.get_map() and not ended:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK)
    output, errors = (bytes(part).decode(errors="replace") for part in said)
    return output, errors
