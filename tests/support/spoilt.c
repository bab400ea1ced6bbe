/* A rival for the CPU, in C, that does right or goes wrong as the macro SPOILT says. */
#include "repro_rival.h"

#include <stdlib.h>
#include <unistd.h>

enum { RIGHT, WRONG, CRASHING, HANGING, OUTSIDE, INPUTS, EXITING, FAILING, UNSUPPORTED, LEAKING, IDLE };

static double number(const void *values, int64_t at, int bytes) {
  return bytes == 4 ? ((const float *)values)[at] : ((const double *)values)[at];
}

static int64_t offset(const repro_rival_matrix *a, int64_t row) {
  return a->offset_bytes == 4 ? ((const int32_t *)a->offsets)[row] : ((const int64_t *)a->offsets)[row];
}

static void store(void *y, int64_t at, int bytes, double value) {
  if (bytes == 4)
    ((float *)y)[at] = (float)value;
  else
    ((double *)y)[at] = value;
}

const char *repro_rival_name(void) { return "spoilt"; }
const char *repro_rival_version(void) { return "2.1"; }
const char *repro_rival_error(void) { return "it was told to"; }

int repro_rival_setup(repro_rival_problem *problem, void **state) {
  *state = malloc(1 << 20);
  if (problem->interface != REPRO_RIVAL_INTERFACE || problem->task != REPRO_RIVAL_SPMV || problem->device != -1) return 9;
  return SPOILT == UNSUPPORTED ? REPRO_RIVAL_UNSUPPORTED : REPRO_RIVAL_OK;
}

int repro_rival_run(repro_rival_problem *problem, void *state) {
  const repro_rival_matrix *a = &problem->a;
  const int bytes = problem->number_bytes, k = a->block;
  (void)state;
  if (SPOILT == CRASHING) *(volatile int *)8 = 1;
  if (SPOILT == HANGING)
    for (;;) sleep(1);
  if (SPOILT == EXITING) exit(3);
  if (SPOILT == FAILING) return 7;
  if (SPOILT == IDLE) return REPRO_RIVAL_OK;
  if (SPOILT == INPUTS) ((char *)problem->x)[0] ^= 1;
  for (int64_t row = 0; row < a->rows; row++) {
    double sum = 0;
    for (int64_t at = offset(a, row / k); at < offset(a, row / k + 1); at++)
      for (int column = 0; column < k; column++)
        sum += number(a->values, (at * k + row % k) * k + column, bytes) *
               number(problem->x, (int64_t)a->indices[at] * k + column, bytes);
    store(problem->y, row, bytes, SPOILT == WRONG && row == a->rows / 2 ? sum + 1 : sum);
  }
  if (SPOILT == OUTSIDE) store(problem->y, a->rows, bytes, 1.0);
  return REPRO_RIVAL_OK;
}

void repro_rival_teardown(repro_rival_problem *problem, void *state) {
  (void)problem;
  if (SPOILT != LEAKING) free(state);
}
