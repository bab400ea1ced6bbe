"""Iterative solvers on a device, with any implementation of y = A x: they show the benefit of a faster product."""
