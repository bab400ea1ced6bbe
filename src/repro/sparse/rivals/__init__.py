"""Rivals: kernels from outside the project, which a configuration names, verified and timed beside our kernels.

A rival is CUDA C++, a shared library with the functions of `include/repro_rival.h`, or a Python object. It receives a
`RivalProblem`. The forms (`repro.sparse.rivals.forms`) differ in how a rival is called.
"""

from __future__ import annotations
