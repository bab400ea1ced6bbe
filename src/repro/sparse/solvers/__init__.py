"""Iterative solvers on a device, over any product: what a product that is faster is worth."""
