/* A rival in C on the CPU: row by row, by one thread. A configuration names what gcc makes of it:
 *   mkdir -p build && gcc -O3 -shared -fPIC -I include -o build/librows.so examples/rivals/rows.c
 *   {name: rows, library: build/librows.so}
 */
#include "repro_rival.h"

int repro_rival_setup(repro_rival_problem *problem, void **state) {
  const repro_rival_matrix *a = &problem->a;
  const int ours = problem->task == REPRO_RIVAL_SPMV && problem->device < 0 && a->block == 1 && a->offset_bytes == 4;
  return ours ? REPRO_RIVAL_OK : REPRO_RIVAL_UNSUPPORTED;
}

#define PRODUCT(name, real)                                                                                  \
  static void name(const repro_rival_matrix *a, const real *x, real *y) {                                    \
    const int32_t *offsets = a->offsets;                                                                     \
    const real *values = a->values;                                                                          \
    for (int64_t row = 0; row < a->rows; row++) {                                                            \
      y[row] = 0;                                                                                            \
      for (int32_t at = offsets[row]; at < offsets[row + 1]; at++) y[row] += values[at] * x[a->indices[at]]; \
    }                                                                                                        \
  }
PRODUCT(single_product, float)
PRODUCT(double_product, double)

int repro_rival_run(repro_rival_problem *problem, void *state) {
  if (problem->number_bytes == 4) single_product(&problem->a, problem->x, problem->y);
  else double_product(&problem->a, problem->x, problem->y);
  return REPRO_RIVAL_OK;
}

void repro_rival_teardown(repro_rival_problem *problem, void *state) {}
