/* The same with the three functions of the header, in which a rival may do on the host what it likes: here each row
 * gets a power of two of threads, by the mean length of the rows, which is the set-up. A configuration names it as
 *   {name: vector, source: examples/rivals/warp_library.cu}
 * and it is compiled for the types of each case. Compiled by hand, it has one precision, and refuses the other:
 *   {name: vector, library: build/libvector.so}
 * docs/bring-your-own-kernel.md has the line for nvcc.
 */
#include <cstdio>

#include "repro_rival.h"

using real = repro_rival_real;
using offset = repro_rival_offset;

namespace {

char error[200];

struct Plan {
  int threads_per_row;
};

template <int T>
__global__ void product(int rows, const offset *__restrict__ offsets, const int *__restrict__ indices,
                        const real *__restrict__ values, const real *__restrict__ x, real *__restrict__ y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / T, lane = threadIdx.x % T;
  real sum = 0;
  if (row < rows)
    for (offset at = offsets[row] + lane; at < offsets[row + 1]; at += T) sum += values[at] * x[indices[at]];
  for (int step = T / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step, T);
  if (row < rows && lane == 0) y[row] = sum;
}

template <int T>
void launch(const repro_rival_problem &problem) {
  const repro_rival_matrix &a = problem.a;
  const int block = 128, grid = int((a.rows * T + block - 1) / block);
  product<T><<<grid, block, 0, static_cast<cudaStream_t>(problem.stream)>>>(
      int(a.rows), static_cast<const offset *>(a.offsets), a.indices, static_cast<const real *>(a.values),
      static_cast<const real *>(problem.x), static_cast<real *>(problem.y));
}

int fail(const char *why) {
  std::snprintf(error, sizeof error, "%s", why);
  return REPRO_RIVAL_UNSUPPORTED;
}

}  // namespace

extern "C" const char *repro_rival_name(void) { return "vector"; }
extern "C" const char *repro_rival_version(void) { return "1.0"; }
extern "C" const char *repro_rival_error(void) { return error; }

extern "C" int repro_rival_setup(repro_rival_problem *problem, void **state) {
  if (problem->task != REPRO_RIVAL_SPMV) return fail("it computes y = A x alone");
  if (problem->device < 0) return fail("it needs a GPU");
  if (problem->a.block != 1) return fail("it takes no blocks");
  if (problem->number_bytes != sizeof(real)) return fail("it is compiled for the other precision");
  if (problem->a.offset_bytes != sizeof(offset)) return fail("it is compiled for offsets of other bits");
  const double mean = double(problem->a.entries) / double(problem->a.rows);
  *state = new Plan{mean > 16 ? 32 : mean > 4 ? 8 : 2};
  return REPRO_RIVAL_OK;
}

extern "C" int repro_rival_run(repro_rival_problem *problem, void *state) {
  switch (static_cast<Plan *>(state)->threads_per_row) {
    case 32: launch<32>(*problem); break;
    case 8: launch<8>(*problem); break;
    default: launch<2>(*problem);
  }
  const cudaError_t status = cudaGetLastError();
  std::snprintf(error, sizeof error, "%s", cudaGetErrorString(status));
  return status == cudaSuccess ? REPRO_RIVAL_OK : 2;
}

extern "C" void repro_rival_teardown(repro_rival_problem *, void *state) { delete static_cast<Plan *>(state); }
