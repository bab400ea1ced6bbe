/* A rival for the CPU, in C: C = A B in memory of the harness or, with OWN, of its own; A y = x by conjugate gradients.
 * It does right or goes wrong as the macro SPOILT says. Numbers are double. */
#include "repro_rival.h"

#include <stdlib.h>
#include <string.h>

enum { RIGHT, WRONG, OUTSIDE, UNSORTED, NOTHING, RANGE };

typedef struct {
  int32_t *offsets, *indices;
  double *values;
} product;

static void *memory(repro_rival_problem *problem, int64_t bytes) {
  return OWN ? malloc(bytes) : problem->allocate(problem->harness, bytes);
}

static void drop(product *held) {
  if (OWN && held) {
    free(held->offsets);
    free(held->indices);
    free(held->values);
    memset(held, 0, sizeof *held);
  }
}

int repro_rival_setup(repro_rival_problem *problem, void **state) {
  if (problem->number_bytes != 8) return REPRO_RIVAL_UNSUPPORTED;
  *state = calloc(1, sizeof(product));
  return REPRO_RIVAL_OK;
}

static int multiply(repro_rival_problem *problem, product *held) {
  const repro_rival_matrix *a = &problem->a, *b = &problem->b;
  const int32_t *of_a = a->offsets, *of_b = b->offsets;
  double *row = calloc(b->columns, sizeof *row);
  char *seen = calloc(b->columns, 1);
  drop(held);
  if (SPOILT == NOTHING) return REPRO_RIVAL_OK;
  int32_t *offsets = memory(problem, (a->rows + 1) * sizeof *offsets), *indices = NULL;
  double *values = NULL;
  for (int pass = 0; pass < 2; pass++) {
    int32_t count = 0;
    for (int64_t i = 0; i < a->rows; i++) {
      offsets[i] = count;
      for (int32_t at = of_a[i]; at < of_a[i + 1]; at++)
        for (int32_t to = of_b[a->indices[at]]; to < of_b[a->indices[at] + 1]; to++) {
          row[b->indices[to]] += ((const double *)a->values)[at] * ((const double *)b->values)[to];
          seen[b->indices[to]] = 1;
        }
      for (int64_t j = 0; j < b->columns; j++) {
        const int64_t column = SPOILT == UNSORTED ? b->columns - 1 - j : j;
        if (seen[column] && pass) {
          indices[count] = SPOILT == RANGE ? (int32_t)b->columns : (int32_t)column;
          values[count] = SPOILT == WRONG ? row[column] + 1 : row[column];
        }
        count += seen[column];
      }
      memset(row, 0, b->columns * sizeof *row);
      memset(seen, 0, b->columns);
    }
    offsets[a->rows] = count;
    if (!pass) {
      indices = memory(problem, count * sizeof *indices);
      values = memory(problem, count * sizeof *values);
    } else if (SPOILT == OUTSIDE)
      values[count] = 1;
  }
  free(row);
  free(seen);
  held->offsets = offsets, held->indices = indices, held->values = values;
  problem->c.entries = offsets[a->rows];
  problem->c.offset_bytes = 4;
  problem->c.offsets = offsets, problem->c.indices = indices, problem->c.values = values;
  return REPRO_RIVAL_OK;
}

static void times(const repro_rival_matrix *a, const double *x, double *y) {
  const int32_t *offsets = a->offsets;
  for (int64_t i = 0; i < a->rows; i++) {
    y[i] = 0;
    for (int32_t at = offsets[i]; at < offsets[i + 1]; at++) y[i] += ((const double *)a->values)[at] * x[a->indices[at]];
  }
}

static double dot(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static int solve(repro_rival_problem *problem) {
  const int64_t n = problem->a.rows;
  double *y = problem->y, *r = malloc(3 * n * sizeof *r), *p = r + n, *ap = p + n;
  memcpy(r, problem->x, n * sizeof *r);
  memcpy(p, r, n * sizeof *p);
  memset(y, 0, n * sizeof *y);
  double left = dot(r, r, n);
  const double goal = left * problem->tolerance * problem->tolerance * (SPOILT == WRONG ? 1e12 : 1);
  int64_t step = 0;
  for (; step < problem->iterations && left > goal; step++) {
    times(&problem->a, p, ap);
    const double alpha = left / dot(p, ap, n), before = left;
    for (int64_t i = 0; i < n; i++) y[i] += alpha * p[i], r[i] -= alpha * ap[i];
    left = dot(r, r, n);
    for (int64_t i = 0; i < n; i++) p[i] = r[i] + left / before * p[i];
  }
  if (SPOILT == OUTSIDE) y[-1] = 0;
  problem->iterations = step;
  free(r);
  return REPRO_RIVAL_OK;
}

int repro_rival_run(repro_rival_problem *problem, void *state) {
  return problem->task == REPRO_RIVAL_SPGEMM ? multiply(problem, state) : solve(problem);
}

void repro_rival_teardown(repro_rival_problem *problem, void *state) {
  (void)problem;
  drop(state);
  free(state);
}
