"""Rivals in CUDA C++ that do right or go wrong, as text."""

from __future__ import annotations

from pathlib import Path

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
  const int rows = int(a.rows);
  if (row >= rows) return;
  @first@
  repro_rival_real sum = 0;
  for (repro_rival_offset at = offsets[row]; at < offsets[row + 1]; at++)
    sum += ((const repro_rival_real *)a.values)[at] * x[a.indices[at]];
  y[row] = sum;
  @last@
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


def library(first: str = "", last: str = "", *, leaking: bool = False, waiting: bool = False) -> str:
    text = LIBRARY.replace("LEAKING", str(int(leaking))).replace("WAITING", str(int(waiting)))
    return text.replace("@first@", first).replace("@last@", last)


#: Launches a compiled kernel by NVIDIA's bindings, on the harness's stream; keeps memory of the GPU if it is to leak.
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
        if {leaking}:
            status, self.kept = driver.cuMemAlloc(4 << 20)
            assert status == 0, status

    def run(self):
        grid = (self.rows + 127) // 128
        stream = driver.CUstream(self.problem.stream)
        (status,) = driver.cuLaunchKernel(self.function, grid, 1, 1, 128, 1, 1, 0, stream, self.arguments, 0)
        assert status == 0, status

    def teardown(self):
        driver.cuModuleUnload(self.module)
"""


def python(cubin: Path, *, leaking: bool = False) -> str:
    return PYTHON.replace("{cubin}", str(cubin)).replace("{leaking}", str(leaking))


#: Adds batches to a matrix of which it has every number, zeros as well; @factor@ is 1 where it is right.
UPDATES = """
#include <vector>

#include "repro_rival.h"

using real = repro_rival_real;
using offset = repro_rival_offset;

struct Dense {
  real *values;
  int *there;
};

__global__ void scatter(repro_rival_matrix a, Dense to) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const offset *offsets = (const offset *)a.offsets;
  if (row >= a.rows) return;
  for (offset at = offsets[row]; at < offsets[row + 1]; at++) {
    to.values[row * a.columns + a.indices[at]] = ((const real *)a.values)[at];
    to.there[row * a.columns + a.indices[at]] = 1;
  }
}

__global__ void add(repro_rival_batch batch, int64_t columns, Dense to) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= batch.entries) return;
  const int64_t place = batch.rows[at] * columns + batch.columns[at];
  atomicAdd(&to.values[place], @factor@ * ((const real *)batch.values)[at]);
  to.there[place] = 1;
}

extern "C" int repro_rival_setup(repro_rival_problem *problem, void **state) {
  const repro_rival_matrix &a = problem->a;
  const int64_t count = a.rows * a.columns;
  cudaStream_t stream = (cudaStream_t)problem->stream;
  Dense *held = new Dense{};
  *state = held;
  if (cudaMalloc(&held->values, count * sizeof(real)) != cudaSuccess) return 2;
  if (cudaMalloc(&held->there, count * sizeof(int)) != cudaSuccess) return 2;
  cudaMemsetAsync(held->values, 0, count * sizeof(real), stream);
  cudaMemsetAsync(held->there, 0, count * sizeof(int), stream);
  scatter<<<unsigned((a.rows + 127) / 128), 128, 0, stream>>>(a, *held);
  return cudaGetLastError() == cudaSuccess ? REPRO_RIVAL_OK : 2;
}

extern "C" int repro_rival_update(repro_rival_problem *problem, void *state, const repro_rival_batch *batch) {
  if (!batch->entries) return REPRO_RIVAL_OK;
  const unsigned blocks = unsigned((batch->entries + 127) / 128);
  add<<<blocks, 128, 0, (cudaStream_t)problem->stream>>>(*batch, problem->a.columns, *(Dense *)state);
  return cudaGetLastError() == cudaSuccess ? REPRO_RIVAL_OK : 2;
}

extern "C" int repro_rival_run(repro_rival_problem *problem, void *state) {
  const int64_t rows = problem->a.rows, columns = problem->a.columns, count = rows * columns;
  cudaStream_t stream = (cudaStream_t)problem->stream;
  const Dense *held = (const Dense *)state;
  std::vector<real> values(count), kept;
  std::vector<int> there(count), offsets(rows + 1), indices;
  cudaMemcpyAsync(values.data(), held->values, count * sizeof(real), cudaMemcpyDeviceToHost, stream);
  cudaMemcpyAsync(there.data(), held->there, count * sizeof(int), cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  for (int64_t place = 0; place < count; place++) {
    if (there[place]) kept.push_back(values[place]), indices.push_back(int(place % columns));
    offsets[place / columns + 1] = int(kept.size());
  }
  repro_rival_matrix &c = problem->c;
  void *of_c[] = {problem->allocate(problem->harness, (rows + 1) * sizeof(int)),
                  problem->allocate(problem->harness, kept.size() * sizeof(int)),
                  problem->allocate(problem->harness, kept.size() * sizeof(real))};
  if (!of_c[0] || !of_c[1] || !of_c[2]) return 3;
  cudaMemcpyAsync(of_c[0], offsets.data(), (rows + 1) * sizeof(int), cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(of_c[1], indices.data(), kept.size() * sizeof(int), cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(of_c[2], kept.data(), kept.size() * sizeof(real), cudaMemcpyHostToDevice, stream);
  cudaStreamSynchronize(stream);
  c.entries = int64_t(kept.size()), c.offset_bytes = 4;
  c.offsets = of_c[0], c.indices = (const int32_t *)of_c[1], c.values = of_c[2];
  return REPRO_RIVAL_OK;
}

extern "C" void repro_rival_teardown(repro_rival_problem *, void *state) {
  Dense *held = (Dense *)state;
  cudaFree(held->values);
  cudaFree(held->there);
  delete held;
}
"""

#: C = A B, a thread for each row, in memory of the harness; and A y = x by Jacobi's iteration.
TASKS = """
#include <vector>

#include "repro_rival.h"

using real = repro_rival_real;
using offset = repro_rival_offset;

__global__ void multiply(repro_rival_matrix a, repro_rival_matrix b, int *counts, const int *offsets, int *indices,
                         real *values) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const offset *of_a = (const offset *)a.offsets, *of_b = (const offset *)b.offsets;
  if (row >= a.rows) return;
  int found = 0;
  for (int column = 0; column < b.columns; column++) {
    real sum = 0;
    bool there = false;
    for (offset at = of_a[row]; at < of_a[row + 1]; at++)
      for (offset to = of_b[a.indices[at]]; to < of_b[a.indices[at] + 1]; to++)
        if (b.indices[to] == column) there = true, sum += ((const real *)a.values)[at] * ((const real *)b.values)[to];
    if (there && counts == nullptr) indices[offsets[row] + found] = column, values[offsets[row] + found] = sum;
    found += there;
  }
  if (counts) counts[row] = found;
}

__global__ void jacobi(repro_rival_matrix a, const real *x, const real *from, real *to) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const offset *offsets = (const offset *)a.offsets;
  if (row >= a.rows) return;
  real sum = x[row], diagonal = 1;
  for (offset at = offsets[row]; at < offsets[row + 1]; at++) {
    const real value = ((const real *)a.values)[at];
    if (a.indices[at] == row) diagonal = value;
    else if (from) sum -= value * from[a.indices[at]];
  }
  to[row] = sum / diagonal;
}

extern "C" int repro_rival_setup(repro_rival_problem *problem, void **state) {
  return cudaMalloc(state, problem->a.rows * (sizeof(real) + sizeof(int))) == cudaSuccess ? REPRO_RIVAL_OK : 2;
}

extern "C" int repro_rival_run(repro_rival_problem *problem, void *state) {
  cudaStream_t stream = (cudaStream_t)problem->stream;
  const repro_rival_matrix &a = problem->a;
  const int rows = int(a.rows), blocks = (rows + 127) / 128;
  if (problem->task == REPRO_RIVAL_SOLVE) {
    real *even = (real *)problem->y, *odd = (real *)state;
    const real *x = (const real *)problem->x;
    jacobi<<<blocks, 128, 0, stream>>>(a, x, nullptr, even);
    for (int step = 0; step < 100; step++) {
      jacobi<<<blocks, 128, 0, stream>>>(a, x, even, odd);
      jacobi<<<blocks, 128, 0, stream>>>(a, x, odd, even);
    }
    problem->iterations = 201;
    return cudaGetLastError() == cudaSuccess ? REPRO_RIVAL_OK : 2;
  }
  int *counts = (int *)state;
  multiply<<<blocks, 128, 0, stream>>>(a, problem->b, counts, nullptr, nullptr, nullptr);
  std::vector<int> offsets(rows + 1);
  cudaMemcpyAsync(&offsets[1], counts, rows * sizeof(int), cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  for (int row = 0; row < rows; row++) offsets[row + 1] += offsets[row];
  repro_rival_matrix &c = problem->c;
  const int64_t entries = offsets[rows];
  int *given = (int *)problem->allocate(problem->harness, (rows + 1) * sizeof(int));
  int *indices = (int *)problem->allocate(problem->harness, entries * sizeof(int));
  real *values = (real *)problem->allocate(problem->harness, entries * sizeof(real));
  if (!given || !indices || !values) return 3;
  cudaMemcpyAsync(given, offsets.data(), (rows + 1) * sizeof(int), cudaMemcpyHostToDevice, stream);
  multiply<<<blocks, 128, 0, stream>>>(a, problem->b, nullptr, given, indices, values);
  c.entries = entries, c.offset_bytes = 4, c.offsets = given, c.indices = indices, c.values = values;
  cudaStreamSynchronize(stream);
  return cudaGetLastError() == cudaSuccess ? REPRO_RIVAL_OK : 2;
}

extern "C" void repro_rival_teardown(repro_rival_problem *problem, void *state) { cudaFree(state); }
"""
