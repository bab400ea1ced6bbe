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


SHARED_BY_TURNS = """
#define SHARED __shared__
extern "C" __global__ void __launch_bounds__(64) totals(int rounds, int* of_blocks, int* result)
{
    extern SHARED int own[];
    own[threadIdx.x] = 1 + blockIdx.x;
    for (int round = 0; round < rounds; round++) {
        __syncthreads();
        if (threadIdx.x == 0)
            of_blocks[blockIdx.x] = own[63];
        cooperative_groups::this_grid().sync();
        own[threadIdx.x] += of_blocks[(blockIdx.x + 1) % gridDim.x];
        cooperative_groups::this_grid().sync();
    }
    result[64 * blockIdx.x + threadIdx.x] = own[threadIdx.x];
}
"""


@needs_compiler
def test_blocks_of_a_cooperative_launch_wait_for_each_other_and_keep_their_shared_memory(tmp_path):
    device = EmulatedCuda()
    program = compile_kernels(SHARED_BY_TURNS, tmp_path)
    of_blocks, result, values = device.allocate(12), device.allocate(768), np.zeros((3, 64), np.int32)
    kernel = device.cooperative(program, "totals", 64, shared=256)
    kernel.bind(3, [2, of_blocks, result])()
    device.download(result, values)
    expected = np.array([1, 2, 3])
    for _ in range(2):
        expected = expected + np.roll(expected, -1)
    assert np.array_equal(values, np.repeat(expected[:, None], 64, axis=1))
