// y = A x with a warp for each row. A configuration names it as
//   {name: warp, source: examples/rivals/warp_per_row.cu, of: spmv, kernel: warp_per_row, threads_per_row: 32}
#include "repro_rival.h"

extern "C" __global__ void warp_per_row(int rows, const repro_rival_offset *__restrict__ offsets,
                                        const int *__restrict__ indices, const repro_rival_real *__restrict__ values,
                                        const repro_rival_real *__restrict__ x, repro_rival_real *__restrict__ y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  repro_rival_real sum = 0;
  for (repro_rival_offset at = offsets[row] + lane; at < offsets[row + 1]; at += 32) sum += values[at] * x[indices[at]];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
  if (lane == 0) y[row] = sum;
}
