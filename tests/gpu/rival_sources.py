"""Rivals in CUDA C++ that do right or go wrong, as text."""

from __future__ import annotations

#: A thread for each row; `{first}` and `{last}` stand at the start and at the end of the kernel.
KERNEL = """
#include "repro_rival.h"

extern "C" __global__ void product(int rows, const repro_rival_offset *offsets, const int *indices,
                                   const repro_rival_real *values, const repro_rival_real *x, repro_rival_real *y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  @first@
  repro_rival_real sum = 0;
  for (repro_rival_offset at = offsets[row]; at < offsets[row + 1]; at++) sum += values[at] * x[indices[at]];
  y[row] = sum;
  @last@
}
"""

#: What goes wrong, by the status and a part of the message of its row.
SPOILT = {
    "wrong": (("", "if (row == 3) y[row] += 1;"), "incorrect", "1 of 300 numbers are wrong"),
    "outside": (("", "if (row == 0) y[rows + 1] = 1;"), "incorrect", "writes outside of its result"),
    "inputs": (("", "if (row == 0) ((repro_rival_real *)x)[0] = 7;"), "incorrect", "writes to x"),
    "idle": (("return;", ""), "incorrect", "300 of 300 numbers are wrong"),
    "broken": (("this does not compile;", ""), "compile_error", "does not compile"),
}
CRASHING = ("*((volatile int *)y + ((size_t)1 << 42)) = 1;", "")
HANGING = ("for (volatile int i = 0; i < 2; i++) i = 0;", "")


def kernel(first: str = "", last: str = "") -> str:
    return KERNEL.replace("@first@", first).replace("@last@", last)


#: With the functions of the header; it keeps memory of the GPU where LEAKING is 1, and waits for it where WAITING is.
LIBRARY = """
#include "repro_rival.h"

extern "C" int repro_rival_setup(repro_rival_problem *problem, void **state) {
  return cudaMalloc(state, 4 << 20) == cudaSuccess ? REPRO_RIVAL_OK : 2;
}

__global__ void product(repro_rival_matrix a, const repro_rival_real *x, repro_rival_real *y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const repro_rival_offset *offsets = (const repro_rival_offset *)a.offsets;
  if (row >= a.rows) return;
  repro_rival_real sum = 0;
  for (repro_rival_offset at = offsets[row]; at < offsets[row + 1]; at++)
    sum += ((const repro_rival_real *)a.values)[at] * x[a.indices[at]];
  y[row] = sum;
}

extern "C" int repro_rival_run(repro_rival_problem *problem, void *state) {
  const int blocks = int((problem->a.rows + 127) / 128);
  product<<<blocks, 128, 0, (cudaStream_t)problem->stream>>>(problem->a, (const repro_rival_real *)problem->x,
                                                              (repro_rival_real *)problem->y);
  if (WAITING) cudaStreamSynchronize((cudaStream_t)problem->stream);
  return cudaGetLastError() == cudaSuccess ? REPRO_RIVAL_OK : 2;
}

extern "C" void repro_rival_teardown(repro_rival_problem *problem, void *state) {
  if (!LEAKING) cudaFree(state);
}
"""


def library(*, leaking: bool = False, waiting: bool = False) -> str:
    return LIBRARY.replace("LEAKING", str(int(leaking))).replace("WAITING", str(int(waiting)))


#: Launches a compiled kernel by NVIDIA's bindings, on the harness's stream.
PYTHON = """
import ctypes
from pathlib import Path

from cuda.bindings import driver


class Product:
    name = "bindings"

    def setup(self, problem):
        self.problem, a = problem, problem.a
        status, self.module = driver.cuModuleLoadData(Path("{cubin}").read_bytes())
        assert status == 0, status
        status, self.function = driver.cuModuleGetFunction(self.module, b"product")
        assert status == 0, status
        arrays = (a.offsets, a.indices, a.values, problem.x, problem.y)
        places = [array.__cuda_array_interface__["data"][0] for array in arrays]
        self.rows = a.shape[0]
        self.arguments = ((self.rows, *places), (ctypes.c_int, *[ctypes.c_void_p] * 5))

    def run(self):
        grid = (self.rows + 127) // 128
        stream = driver.CUstream(self.problem.stream)
        (status,) = driver.cuLaunchKernel(self.function, grid, 1, 1, 128, 1, 1, 0, stream, self.arguments, 0)
        assert status == 0, status

    def teardown(self):
        driver.cuModuleUnload(self.module)
"""
