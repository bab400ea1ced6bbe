"""Matrices of compound entries, such as small blocks or quaternions: layouts, schedules, packing, ids, and kernels."""
