"""Code shared by studies of sparse matrices: operands, verification, orderings, library routines, solvers, products.

A tuned constant names the file in `results` that it rests on; where it names none, its measurements were not recorded.
"""
