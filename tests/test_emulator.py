"""The CPU in the place of a GPU: threads that do not wait for each other are seen where that matters."""

import numpy as np
import pytest

from support.emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler

NEIGHBOURS = """
extern "C" __global__ void __launch_bounds__(64) neighbours(int step, int* result)
{
    __shared__ int of_all[64];
    of_all[threadIdx.x] = 100 * blockIdx.x + threadIdx.x;
    %s
    result[64 * blockIdx.x + threadIdx.x] = of_all[min(max(int(threadIdx.x) + step, 0), 63)];
}
"""


@needs_compiler
@pytest.mark.parametrize("step", [1, -1], ids=["of the next", "of the one before"])
@pytest.mark.parametrize("barrier", ["__syncthreads();", ""], ids=["barrier", "none"])
def test_a_barrier_that_is_missing_is_seen_whoever_comes_first(tmp_path, barrier, step):
    device = EmulatedCuda()
    program = compile_kernels(NEIGHBOURS % barrier, tmp_path)
    result, values = device.allocate(512), np.zeros(128, np.int32)
    device.bind(program.kernel("neighbours"), 2, 64, [step, result])()
    device.download(result, values)
    expected = np.concatenate([100 * block + np.clip(np.arange(64) + step, 0, 63) for block in range(2)])
    assert np.array_equal(values, expected) == bool(barrier)
