"""Sparse matrices of compound entries: layouts, schedules, packing, ids, and the kernels that multiply by them."""
