"""Iterative solvers on a device, over any product: they show the benefit of a faster product."""
