"""Right answers from any thread, and one message in a process that was forked from the one that opened the device."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.threaded_operators import GROUPS, LONG, THREADS, draw, matrices, near, wrong_answers

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
#: Of a thread; of what takes long as many of all threads, unless a number is asked for.
CALLS = int(os.environ.get("REPRO_THREAD_CALLS", "400"))
LONG_CALLS = CALLS if "REPRO_THREAD_CALLS" in os.environ else CALLS // THREADS


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_threads_get_their_own_answers(group):
    for name, call in group(DEVICE):
        wrong, raised = wrong_answers(call, LONG_CALLS if name.startswith(LONG) else CALLS)
        assert (name, wrong, raised) == (name, 0, [])


def test_a_solve_while_another_thread_updates_the_matrix():
    matrix, b, raised = matrices()["real"] + 50 * sp.eye_array(len(draw(1))), draw(1), []
    A = repro.operator(sp.csr_array(matrix), device=DEVICE)
    values = A.to_scipy().data

    def solve():
        try:
            for _ in range(20):
                assert near(matrix @ A.solve(b, method="bicgstab", rtol=1e-12), b)
        except Exception as error:
            raised.append(error)

    solving = threading.Thread(target=solve)
    solving.start()
    while solving.is_alive():
        A.update(values)
    assert raised == []


def test_what_a_thread_made_others_use_after_its_end():
    made = []
    maker = threading.Thread(target=lambda: made.append(repro.operator(matrices()["real"], device=DEVICE)))
    maker.start()
    maker.join()
    answers = []
    user = threading.Thread(target=lambda: answers.append(made[0] @ draw(1)))
    user.start()
    user.join()
    assert near(answers[0], matrices()["real"] @ draw(1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("made", ["repro.operator(M, device=D)", "repro.DynamicCSR.from_csr(M, device=D).reader()"])
def test_a_program_may_end_while_a_daemon_thread_multiplies(made):
    program = f"""
import threading, time
import numpy as np, scipy.sparse as sp
import repro
D, M = {DEVICE!r}, sp.eye_array(50, format="csr")
A, x = {made}, np.ones(50)
def loop():
    while True:
        A @ x
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.1)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_that_ask_first_open_a_device_once(monkeypatch):
    from repro.operators import runtime

    monkeypatch.setattr(runtime, "_open", runtime.cache(runtime._open.__wrapped__))
    opened, start = [], threading.Barrier(8)

    def ask():
        start.wait()
        opened.append(runtime.open_runtime(DEVICE))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, opened))) == 1


def _in_a_fork(use):
    """Return what a forked process says of using something."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def work():
        try:
            use()
            answers.put("used")
        except ReproError as error:
            answers.put(str(error))
        except BaseException as error:
            answers.put(repr(error))

    process = context.Process(target=work)
    process.start()
    process.join(60)
    alive = process.is_alive()
    process.kill()
    assert not alive, "it hangs"
    return answers.get()


def test_a_forked_process_is_told_that_it_cannot_use_the_device():
    matrix = sp.csr_array(np.eye(3) * 2)
    A, D = repro.operator(matrix, device=DEVICE), repro.DynamicCSR.from_csr(matrix, device=DEVICE)
    reader, space, smooth = D.reader(), repro.vectors(3, device=DEVICE), repro.amg(matrix, device=DEVICE)
    x = space.put(np.ones(3))
    for use in (
        lambda: A @ np.ones(3),
        lambda: A.matvec(x),
        lambda: D @ np.ones(3),
        lambda: D.insert([0], [0], [1.0]),
        lambda: reader @ np.ones(3),
        lambda: space.dot(x, x),
        x.get,
        lambda: smooth.solve(np.ones(3)),
        lambda: repro.spgemm(matrix, matrix, device=DEVICE),
        lambda: repro.operator(matrix, device=DEVICE),
    ):
        said = _in_a_fork(use)
        assert "before this process was forked" in said
        assert "spawn" in said
