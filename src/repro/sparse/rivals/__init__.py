"""Rivals: kernels from outside the project, which a configuration names, verified and timed beside ours.

A rival is CUDA C++, a shared library with the functions of `include/repro_rival.h`, or a Python object. What is told
to it is a `RivalProblem`; the forms differ in how they are called (`repro.sparse.rivals.forms`).
"""

from __future__ import annotations
