"""Shared memory that a launch gives to a block, on a GPU that only keeps books."""

import numpy as np
import pytest

from repro.codegen.targets import STATIC_SHARED, TARGETS
from repro.devices.base import LaunchError
from repro.devices.cuda import open_cuda
from support.fake_cuda import install


@pytest.fixture
def machine(monkeypatch):
    return install(monkeypatch, 1)


def test_launches_give_what_their_kernel_was_asked_for_with(machine, tmp_path):
    device = open_cuda(0)
    program = device.load(tmp_path)
    for shared in (0, 1000, TARGETS["sm_90"].shared_bytes):
        device.bind(program.kernel("any", shared), 1, 32, [np.int32(1)])()
    device.bind(program.kernel("any"), 1, 32, [np.int32(1)])()
    assert machine.shared == [0, 1000, 227 * 1024, 0]
    with pytest.raises(LaunchError, match="no kernel any"):
        program.kernel("any", TARGETS["sm_90"].shared_bytes + 1)
    device.close()


@pytest.mark.parametrize("sizes", [(20000, 1000), (200 << 10, 100 << 10)])
def test_what_was_asked_for_with_more_is_launched_when_others_asked_for_less(machine, tmp_path, sizes):
    device = open_cuda(0)
    program = device.load(tmp_path)
    large, small = (device.bind(program.kernel("any", shared), 1, 32, [np.int32(1)]) for shared in sizes)
    large()
    small()
    assert machine.shared == list(sizes)
    device.close()


def test_no_target_has_less_than_a_text_may_declare():
    assert all(target.shared_bytes >= STATIC_SHARED for target in TARGETS.values())


def test_shared_memory_is_that_of_nvidias_table():
    kib = {name: target.shared_bytes // 1024 for name, target in TARGETS.items() if name != "cpu"}
    table = {48: (50, 52, 53, 60, 61, 62), 96: (70, 72), 64: (75,), 163: (80, 87), 99: (86, 88, 89, 120, 121),
             227: (90, 100, 103, 110)}  # fmt: skip
    assert kib == {f"sm_{capability}": size for size, those in table.items() for capability in those}
