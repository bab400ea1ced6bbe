"""Rivals in Python that compute y = A x, on a CPU or a GPU, and that change the process that runs them.

`CHANGES` lists each of them with what its row says.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp


def driver():
    return ctypes.CDLL("libcuda.so.1")


def to_host(array):
    if isinstance(array, np.ndarray):
        return array
    host = np.empty(array.shape, array.dtype)
    assert not driver().cuMemcpyDtoH_v2(
        host.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(array.pointer), ctypes.c_size_t(array.nbytes)
    )
    return host


class Good:
    """It computes on the host; set `waits` for it on a GPU."""

    def setup(self, problem):
        a = problem.a
        self.problem = problem
        self.matrix = sp.csr_array(tuple(map(to_host, (a.values, a.indices, a.offsets))), shape=a.shape)

    def run(self):
        y = np.ascontiguousarray(self.matrix @ to_host(self.problem.x))
        if isinstance(self.problem.y, np.ndarray):
            self.problem.y[:] = y
        else:
            assert not driver().cuMemcpyHtoD_v2(
                ctypes.c_uint64(self.problem.y.pointer), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(y.nbytes)
            )

    def teardown(self):
        self.matrix = self.problem = None


class Moves(Good):
    def setup(self, problem):
        folder = Path(os.environ["ELSEWHERE"])
        folder.mkdir(exist_ok=True)
        os.chdir(folder)
        os.umask(0o777)
        super().setup(problem)


class MovesAtTeardown(Good):
    def teardown(self):
        super().teardown()
        os.chdir("/")


class Prints(Good):
    def run(self):
        print("iteration done", end=" ")
        os.write(1, b"by descriptor ")
        os.write(2, b"an error ")
        ctypes.CDLL(None).puts(b"by the C library")
        super().run()


class Panic(BaseException):
    pass


class Panics(Good):
    def run(self):
        raise Panic("index out of bounds")


class Interrupts(Good):
    def setup(self, problem):
        raise KeyboardInterrupt


class Mute(Good):
    def run(self):
        class MuteError(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        raise MuteError


class Closes(Good):
    def setup(self, problem):
        super().setup(problem)
        os.closerange(3, 4096)


class Redirects(Good):
    def setup(self, problem):
        super().setup(problem)
        empty = os.open(os.devnull, os.O_RDWR)
        for path in [*Path("/proc/self/fd").iterdir()]:
            if (number := int(path.name)) > 2 and number != empty and path.exists():
                os.dup2(empty, number)


class ClosesStreams(Good):
    def setup(self, problem):
        super().setup(problem)
        sys.stdout.close()
        os.closerange(0, 3)


class Signals(Good):
    def setup(self, problem):
        super().setup(problem)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})


class Terminates(Good):
    def run(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)


class Hangs_Up(Good):  # noqa: N801
    def run(self):
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.1)


class Sizes(Good):
    def setup(self, problem):
        super().setup(problem)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


class Files(Good):
    def setup(self, problem):
        super().setup(problem)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Armed(Good):
    def setup(self, problem):
        super().setup(problem)
        signal.setitimer(signal.ITIMER_REAL, 0.2)


class Localised(Good):
    def setup(self, problem):
        super().setup(problem)
        os.environ["LANG"] = "xx"
        os.environ.pop("ELSEWHERE", None)
        np.seterr(all="raise")


class Clocked(Good):
    def setup(self, problem):
        super().setup(problem)
        time.perf_counter = time.monotonic = lambda: 0.0


class Threaded(Good):
    """It leaves a thread and a function that runs at exit, neither of which ends."""

    def setup(self, problem):
        super().setup(problem)
        threading.Thread(target=time.sleep, args=(3600,)).start()
        atexit.register(time.sleep, 3600)


class Busy(Good):
    def setup(self, problem):
        super().setup(problem)

        def spin():
            while True:
                pass

        threading.Thread(target=spin, daemon=True).start()


class Tampers(Good):
    """It replaces the operands that the harness has given it."""

    def run(self):
        super().run()
        self.problem.a = self.problem.arrays = self.problem.x = None
        raise ValueError("tampered")


class WhileNan(Good):
    def run(self):
        if np.isnan(to_host(self.problem.y)).any():
            super().run()


class PopsContext(Good):
    """It leaves this thread without a current CUDA context."""

    def setup(self, problem):
        super().setup(problem)
        driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


class OwnContext(Good):
    """It leaves a context of its own current."""

    def setup(self, problem):
        super().setup(problem)
        context = ctypes.c_void_p()
        assert not driver().cuCtxCreate_v2(ctypes.byref(context), 0, 0)


#: Status and part of the message of each hostile rival; the first ones are the short version.
CHANGES = {
    "Moves": ("ok", "changes the working folder, changes the umask"),
    "Prints": ("ok", None),
    "Panics": ("launch_error", "run raised Panic: index out of bounds"),
    "Closes": ("launch_error", "the process was kept from storing rows"),
    "WhileNan": ("incorrect", "wrong after timed launches before which x was changed"),
    "Sizes": ("ok", "changes limits of its process"),
    "MovesAtTeardown": ("ok", "changes the working folder"),
    "Interrupts": ("launch_error", "setup raised KeyboardInterrupt"),
    "Mute": ("launch_error", "run raised MuteError: its text cannot be read"),
    "Redirects": ("launch_error", "the process was kept from storing rows"),
    "ClosesStreams": ("ok", None),
    "Signals": ("ok", "changes signal handlers, blocks signals"),
    "Terminates": ("launch_error", "SIGTERM"),
    "Hangs_Up": ("launch_error", "SIGHUP"),
    "Files": ("ok", "changes limits of its process"),
    "Armed": ("ok", "leaves a timer armed"),
    "Localised": ("ok", "changes environment variables"),
    "Clocked": ("ok", "replaces time.monotonic, time.perf_counter"),
    "Threaded": ("ok", "leaves 1 thread running"),
    "Busy": ("launch_error", "leaves a thread that keeps a processor busy"),
    "Tampers": ("launch_error", "run raised ValueError: tampered"),
}
SHORT = 4
CHANGES_ON_GPU = {
    "PopsContext": ("ok", "changes the current CUDA context"),
    "OwnContext": ("ok", "changes the current CUDA context"),
}
