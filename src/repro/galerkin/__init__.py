"""Polynomials on simplices: bases that the modes of a discontinuous field belong to, and quadrature."""
