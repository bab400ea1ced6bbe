/* A rival for the CPU, in C, whose matrix gets batches. It keeps all numbers, zeros as well, and a flag for each place
 * that has an entry. It does right or goes wrong as the macro SPOILT says. Numbers are double. */
#include "repro_rival.h"

#include <stdlib.h>
#include <unistd.h>

enum { RIGHT, WRONG, CRASHING, HANGING, OUTSIDE, INPUTS, FAILING, LEAKING, NOTHING, LOSING };

typedef struct {
  double *values;
  char *there;
} matrix;

const char *repro_rival_error(void) { return "it was told to"; }

int repro_rival_setup(repro_rival_problem *problem, void **state) {
  const repro_rival_matrix *a = &problem->a;
  const int32_t *offsets = a->offsets;
  if (problem->number_bytes != 8 || problem->task != REPRO_RIVAL_UPDATES) return REPRO_RIVAL_UNSUPPORTED;
  if (problem->coming < problem->largest_batch || problem->x || problem->y) return 9;
  matrix *held = malloc(sizeof *held);
  held->values = calloc(a->rows * a->columns, sizeof *held->values);
  held->there = calloc(a->rows * a->columns, 1);
  for (int64_t row = 0; row < a->rows; row++)
    for (int32_t at = offsets[row]; at < offsets[row + 1]; at++) {
      held->values[row * a->columns + a->indices[at]] = ((const double *)a->values)[at];
      held->there[row * a->columns + a->indices[at]] = 1;
    }
  *state = held;
  return REPRO_RIVAL_OK;
}

int repro_rival_update(repro_rival_problem *problem, void *state, const repro_rival_batch *batch) {
  matrix *held = state;
  if (batch->entries > problem->largest_batch) return 8;
  if (SPOILT == CRASHING) *(volatile int *)8 = 1;
  if (SPOILT == HANGING)
    for (;;) sleep(1);
  if (SPOILT == FAILING) return 7;
  if (SPOILT == INPUTS && batch->entries) ((int32_t *)batch->columns)[0] ^= 1;
  for (int64_t at = SPOILT == LOSING; at < batch->entries; at++) {
    const int64_t place = batch->rows[at] * problem->a.columns + batch->columns[at];
    held->values[place] += ((const double *)batch->values)[at] * (SPOILT == WRONG ? 2 : 1);
    held->there[place] = 1;
  }
  return REPRO_RIVAL_OK;
}

int repro_rival_run(repro_rival_problem *problem, void *state) {
  const matrix *held = state;
  const int64_t rows = problem->a.rows, columns = problem->a.columns;
  int64_t count = 0;
  if (SPOILT == NOTHING) return REPRO_RIVAL_OK;
  for (int64_t place = 0; place < rows * columns; place++) count += held->there[place];
  int64_t *offsets = problem->allocate(problem->harness, (rows + 1) * sizeof *offsets);
  int32_t *indices = problem->allocate(problem->harness, count * sizeof *indices);
  double *values = problem->allocate(problem->harness, count * sizeof *values);
  if (!offsets || !indices || !values) return 3;
  count = 0;
  for (int64_t row = 0; row < rows; row++) {
    offsets[row] = count;
    for (int64_t column = 0; column < columns; column++)
      if (held->there[row * columns + column]) {
        indices[count] = (int32_t)column;
        values[count++] = held->values[row * columns + column];
      }
  }
  offsets[rows] = count;
  if (SPOILT == OUTSIDE) values[count] = 1;
  problem->c.entries = count, problem->c.offset_bytes = 8;
  problem->c.offsets = offsets, problem->c.indices = indices, problem->c.values = values;
  return REPRO_RIVAL_OK;
}

void repro_rival_teardown(repro_rival_problem *problem, void *state) {
  matrix *held = state;
  (void)problem;
  if (SPOILT != LEAKING) free(held->values);
  free(held->there);
  free(held);
}
