"""Page-locked memory for results: kept while an array lies in it, and used again after that."""

import gc

import numpy as np

from repro.devices import cuda_driver
from repro.devices.cuda_driver import PinnedPool


def pool():
    made = []

    def allocate(nbytes):
        made.append(nbytes)
        return np.zeros(nbytes, np.uint8)

    return PinnedPool(allocate), made


def test_memory_is_used_again_once_no_view_of_it_is_left():
    blocks, made = pool()
    first = blocks.take(1000).view(np.float64)
    part = first[3:5]
    part[:] = 7
    del first
    gc.collect()
    second = blocks.take(900)
    assert made == [1024, 1024] and (part == 7).all()
    second[:] = 1
    assert (part == 7).all()
    address = part.__array_interface__["data"][0] - 24
    del part
    gc.collect()
    assert blocks.take(1024).__array_interface__["data"][0] == address and len(made) == 2


def test_beyond_the_limit_memory_is_ordinary(monkeypatch):
    monkeypatch.setattr(cuda_driver, "MAX_PINNED_BYTES", 2048)
    blocks, made = pool()
    held = [blocks.take(1024) for _ in range(3)]
    assert made == [1024, 1024] and held[2].nbytes == 1024


def test_memory_that_cannot_be_locked_is_ordinary_and_does_not_count():
    def refuse(nbytes):
        raise MemoryError

    blocks = PinnedPool(refuse)
    assert blocks.take(1000).nbytes == 1000
    assert blocks._total == 0
