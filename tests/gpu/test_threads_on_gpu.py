"""Right answers from any thread on a GPU, also where the thread that opened it has ended, and from another's memory."""

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import scipy.sparse as sp

import repro
from repro.operators.runtime import open_runtime
from support.threaded_operators import GROUPS, wrong_answers

pytestmark = pytest.mark.gpu
DEVICE = "cuda:0"
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def runtime(gpu, tmp_path_factory):
    """The operator's own opening of the GPU beside that of the tests, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_runtime(DEVICE)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_threads_get_their_own_answers(runtime, group):
    for name, call in group(DEVICE):
        wrong, raised = wrong_answers(call, 100)
        assert (name, wrong, raised) == (name, 0, [])


@pytest.mark.parametrize("where", [(), ("--in-a-thread",)], ids=["of the main thread", "of a thread that ends"])
def test_a_program_of_threads_ends_well(runtime, where):
    # in a process of its own: PyCUDA ends the process where a thread ends with a context that is its current one
    command = [sys.executable, "-W", "ignore", "-m", "support.threaded_operators", DEVICE, "100", *where]
    done = subprocess.run(command, cwd=TESTS, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PyCUDA" not in done.stderr


def test_memory_that_another_thread_forgets_is_given_back(runtime, monkeypatch):
    given_back = []
    allocate = runtime.device._memory.allocate

    def watched(nbytes):
        buffer = allocate(nbytes)
        buffer._allocation = Watched(buffer._allocation, lambda: given_back.append(runtime.device._is_current()))
        return buffer

    monkeypatch.setattr(runtime.device._memory, "allocate", watched)
    held = [repro.operator(sp.eye_array(1000).tocsr(), device=DEVICE)]
    given_back.clear()  # of what the set-up needed for a while
    thread = threading.Thread(target=lambda: (held.clear(), gc.collect()))
    thread.start()
    thread.join()
    assert given_back
    assert all(given_back)


class Watched:
    """An allocation of PyCUDA's, which gives nothing back in a thread whose current context is another."""

    def __init__(self, allocation, given_back):
        self._allocation, self._given_back = allocation, given_back

    def free(self):
        self._given_back()
        self._allocation.free()
