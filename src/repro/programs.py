"""Running other programs, with limits of time and output."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError

#: Maximum bytes that are kept of each output stream.
MAX_OUTPUT = 16 << 20
#: Seconds between checks of a running program.
LOOK = 0.05
#: Seconds to read the remaining output of an ended program.
LAST_WORDS = 1.0


def ensure_utf8() -> None:
    """Start this program again in Python's UTF-8 mode if names of files are not UTF-8 to it, as in the locale C.

    Letters outside ASCII in a folder's name are lone surrogates there, which packages in Rust cannot take. Python
    coerces that locale by itself unless PYTHONCOERCECLOCALE or PYTHONUTF8 is 0.
    """
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # for all programs that are started from here, too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@dataclass(frozen=True)
class Ended:
    """A finished program."""

    #: Exit code; after a signal minus the signal's number.
    code: int
    output: str
    errors: str

    @property
    def said(self) -> str:
        """Standard error, or standard output if that is empty."""
        return self.errors if self.errors.strip() else self.output


def run_program(
    command: Sequence[str | Path], seconds: float, subject: str, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a program until it ends, then kill its process group; also kill it if this process is interrupted.

    Child processes that outlive the program do not delay the return, even if they keep the streams open. Raises
    `ReproError`: the program cannot be started, or exceeds the time limit.

    Parameters
    ----------
    command
        The program and its arguments.
    seconds
        Time limit.
    subject
        Name of the program in messages, such as `the compiler`.
    environment
        Environment variables; None passes those of this process.
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
        raise ReproError(f"{subject} cannot be started", where=command[0], actual=reason, todo=todo) from None
    try:
        outputs = _listen(process, seconds)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
    if outputs is None:
        raise ReproError(
            f"{subject} did not finish",
            where=" ".join(map(str, command)),
            expected=f"the end within {seconds:g} s",
            actual="it was killed, with all processes that it had started",
            todo="try it by hand; if the machine is busy, run fewer jobs at a time",
        )
    output, errors = outputs
    return Ended(process.returncode, output, errors)


def _listen(process: subprocess.Popen[bytes], seconds: float) -> tuple[str, str] | None:
    """Read the output of a program until it ends; None after the time limit."""
    end = time.monotonic() + seconds
    streams = [process.stdout, process.stderr]
    outputs = [bytearray(), bytearray()]
    ended = False
    with selectors.DefaultSelector() as selector:
        for place, stream in enumerate(streams):
            assert stream is not None  # both are pipes
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, place)
        while True:
            if not ended and process.poll() is not None:
                # the ended program's output is already in the pipes, but surviving child processes may write for ever
                ended, end = True, time.monotonic() + LAST_WORDS
            ready = selector.select(0 if ended else LOOK) if selector.get_map() else []
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                if not block:
                    selector.unregister(key.fileobj)
                outputs[key.data] += block[: MAX_OUTPUT - len(outputs[key.data])]
            if ended and (not ready or time.monotonic() > end):
                break
            if time.monotonic() > end:
                return None
            if not selector.get_map() and not ended:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK)
    output, errors = (bytes(part).decode(errors="replace") for part in outputs)
    return output, errors
