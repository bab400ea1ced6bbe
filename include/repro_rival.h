/*
 * What a kernel of yours has to offer to be timed beside those of sparse-repro: a few functions, in C or CUDA C++.
 * docs/bring-your-own-kernel.md says how one is named in a configuration, and has examples.
 *
 * All arrays belong to the harness and are on the device that `problem->device` says. Only `y`, and what `allocate`
 * returned, may be written. A function returns REPRO_RIVAL_OK, REPRO_RIVAL_UNSUPPORTED for what it cannot do, or any
 * other number for a failure, and says why in `repro_rival_error`.
 */
#ifndef REPRO_RIVAL_H
#define REPRO_RIVAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface that this header describes; `problem->interface` has the one of the harness. */
#define REPRO_RIVAL_INTERFACE 1

enum { REPRO_RIVAL_OK = 0, REPRO_RIVAL_UNSUPPORTED = 1 };

enum {
  REPRO_RIVAL_SPMV = 0,   /* y = A x */
  REPRO_RIVAL_SPGEMM = 1, /* C = A B */
  REPRO_RIVAL_SOLVE = 2,  /* A y = x, from y = 0, until |x - A y| <= tolerance |x| */
  REPRO_RIVAL_UPDATES = 3 /* C = A + batches of entries, one after the other */
};

/* A matrix in compressed sparse rows; with `block` k > 1 its entries are k by k blocks (BSR). */
typedef struct repro_rival_matrix {
  int64_t rows, columns;  /* of numbers, not of blocks */
  int64_t entries;        /* stored entries, or blocks */
  int32_t block;          /* 1, or k */
  int32_t offset_bytes;   /* of each offset: 4 (int32_t) or 8 (int64_t) */
  const void *offsets;    /* rows / block + 1 of them, the first is 0 */
  const int32_t *indices; /* column of each entry, counted in blocks, ascending within a row */
  const void *values;     /* float or double: an entry each, or k * k of a block, row by row */
} repro_rival_matrix;

/* Entries for a matrix, in any order; a place may be there several times, or in the matrix already. */
typedef struct repro_rival_batch {
  int64_t entries; /* may be 0 */
  const int32_t *rows, *columns;
  const void *values; /* float or double */
} repro_rival_batch;

typedef struct repro_rival_problem {
  int32_t interface;    /* REPRO_RIVAL_INTERFACE */
  int32_t task;         /* REPRO_RIVAL_SPMV, ... */
  int32_t number_bytes; /* of each value: 4 (float) or 8 (double) */
  int32_t device;       /* number of the CUDA device, which is current; -1: arrays are in host memory */
  void *stream;         /* cudaStream_t on which `run` has to queue its work; NULL on the host */
  repro_rival_matrix a, b;
  repro_rival_matrix c; /* SpGEMM, updates: `run` writes what C is, with sorted columns or not */
  const void *x;        /* SpMV: the vector to multiply; solve: the right-hand side */
  void *y;              /* SpMV: the product; solve: the solution */
  double tolerance;     /* of a solve */
  int64_t iterations;   /* of a solve: at the most; `run` may write how many it took */
  /* Returns memory of the harness for C's arrays, NULL where there is too little. It is there until the next `run`, of
   * updates until the next set-up. A library may point `c` at memory of its own instead, which then has to stay as long.
   * Between two runs of spgemm the harness may overwrite the values of `c`, as it does y: each run has to write all. */
  void *(*allocate)(void *harness, int64_t bytes);
  void *harness;
  int64_t coming;        /* updates: entries of all batches together, so that `setup` can take memory */
  int64_t largest_batch; /* updates: entries of the largest batch */
} repro_rival_problem;

/* Once: analyse A, make copies in formats of one's own. Timed as set-up. `*state` is handed to the other functions. */
int repro_rival_setup(repro_rival_problem *problem, void **state);
/* Again and again: compute the result. This alone is timed as a launch. Of updates it is not timed: it writes to `c`
 * what the matrix is now, each place once, with the sum of its values. */
int repro_rival_run(repro_rival_problem *problem, void *state);
/* Of updates alone: add a batch to the matrix. A launch is all batches, one after the other, and this is timed. The
 * harness tears the rival down and sets it up again before the next launch. */
int repro_rival_update(repro_rival_problem *problem, void *state, const repro_rival_batch *batch);
/* Last: give back all that `setup` and `run` took. Also called where `setup` failed, if it had set `*state`. */
void repro_rival_teardown(repro_rival_problem *problem, void *state);

/* All three are optional. The texts have to stay until the next call. */
const char *repro_rival_name(void);
const char *repro_rival_version(void);
const char *repro_rival_error(void); /* why the last function failed */

/* What the harness defines when it compiles a source: the types of the case, so that a source needs no templates. */
#ifdef REPRO_RIVAL_REAL
typedef REPRO_RIVAL_REAL repro_rival_real;     /* float or double */
typedef REPRO_RIVAL_OFFSET repro_rival_offset; /* int32_t or int64_t */
#endif

#ifdef __cplusplus
}
#endif

#endif
