"""Ranges of an arena on a GPU's emulator."""

import numpy as np

from repro.sparse.spgemm import arena as module
from repro.sparse.spgemm.arena import MIN_ENTRIES, Arena
from support.emulated_cuda import EmulatedCuda


def test_one_large_block_of_an_arena_stays():
    arena = Arena(EmulatedCuda(), np.dtype(np.float64))
    first, second = arena.reserve(MIN_ENTRIES + 1), arena.reserve(MIN_ENTRIES + 1)
    columns = first.buffers(1)[0].pointer
    first.release()
    second.release()
    assert 12 * MIN_ENTRIES < arena.nbytes < 13 * MIN_ENTRIES
    assert arena.reserve(MIN_ENTRIES + 1).buffers(1)[0].pointer == columns
    arena.release()


def test_ranges_of_an_arena_are_cut_and_given_back(monkeypatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 0)
    arena = Arena(EmulatedCuda(), np.dtype(np.float64))
    first, second = arena.reserve(1000), arena.reserve(3000)
    columns, values = first.buffers(1000)
    assert (columns.nbytes, values.nbytes) == (4000, 8000)
    first.cut(100)
    third = arena.reserve(500)
    assert first.buffers(1)[0].pointer < third.buffers(1)[0].pointer < second.buffers(1)[0].pointer
    large = arena.reserve(MIN_ENTRIES + 1)
    assert arena.nbytes > 24 * MIN_ENTRIES
    large.release()
    assert arena.nbytes == 12 * MIN_ENTRIES
    for one in (second, first, third, third):
        one.release()
    whole = arena.reserve(MIN_ENTRIES)
    assert whole.buffers(1)[0].pointer == columns.pointer
    arena.trim()
    assert arena.nbytes == 12 * MIN_ENTRIES
    whole.release()
    arena.trim()
    assert arena.nbytes == 0
    arena.reserve(1)
    arena.release()
    assert arena.nbytes == 0
