"""Guard zones on a GPU: a write just outside of the result is incorrect, one within is not, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from repro.bench.guards import ZONE, Guards
from repro.bench.timing import SamplingPlan
from repro.bench.yardsticks import DeviceCopy, Floor
from repro.codegen.build_cache import compile_module
from repro.codegen.templates import StreamConfig
from repro.sparse.operands import ProductRunnable, operands_of, y_on

pytestmark = pytest.mark.gpu

EFFORT = SamplingPlan(20, 5, 5)
SOURCE = """
extern "C" __global__ void right(int n, const double* product, double* y, int stray)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = product[i];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        y[stray] = stray >= 0 && stray < n ? product[stray] : 1.5;
}
"""


class Straying(ProductRunnable):
    """Leaves the right product, and writes one more number."""

    kind, name, arrangement, bytes_moved = "variant", "straying", "AoS", 8

    def __init__(self, binary, stray):
        self._binary, self._stray = binary, stray

    def prepare(self, workspace):
        device, product = workspace.device, operands_of(workspace).reference.ravel()
        self._y = y_on(workspace)
        arguments = [np.int32(product.size), device.upload(product), self._y, np.int32(self._stray(product.size))]
        self.launch = device.bind(workspace.program(self._binary).kernel("right"), 2, 32, arguments)

    def result(self):
        return self._y

    def arrange(self, values):
        return values.ravel()


@pytest.mark.parametrize(
    ("stray", "message"),
    [
        (lambda n: 0, None),
        (lambda n: n, "writes outside of its result: 8 bytes past the end"),
        (lambda n: -1, "writes outside of its result: 8 bytes before the start"),
    ],
)
def test_a_write_outside_of_the_result_is_incorrect(gpu, make_gpu_bench, small_problem, tmp_path, stray, message):
    module = compile_module(SOURCE, gpu.target, tmp_path / "right.json")
    bench = make_gpu_bench(small_problem("real"), "double")
    row = bench.try_once(Straying(tmp_path / module.binary, stray), "search", EFFORT)
    assert (row.status, row.message) == (("incorrect", message) if message else ("ok", None))
    assert not bench.lost


def test_yardsticks_stay_within_their_memory(make_gpu_bench, small_problem):
    bench = make_gpu_bench(small_problem("real"), "double")
    for yardstick in (Floor(StreamConfig(256, 4)), DeviceCopy(StreamConfig(256, 4))):
        row = bench.try_once(yardstick, "search", EFFORT)
        assert (row.status, row.message) == ("ok", None)


@pytest.mark.parametrize("nbytes", [1, 255, 256, 4001])
def test_guarded_memory_is_aligned_and_given_back(gpu, taken, nbytes):
    guards = Guards(gpu)
    guarded = guards.allocate(nbytes, "it")
    assert guarded.memory.pointer % 256 == 0
    gpu.fill(guarded.memory, 0)
    assert guards.out_of_bounds_writes() == []
    gpu.fill(gpu.part(guarded._whole, ZONE, nbytes + 1), 0)
    assert guards.out_of_bounds_writes() == ["writes outside of it: 1 byte past the end"]
    assert taken() >= nbytes
    guarded.release()
    assert taken() == 0
