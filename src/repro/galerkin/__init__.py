"""Polynomials on simplices: bases for the modes of discontinuous fields, and quadrature."""
