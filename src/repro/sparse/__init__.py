"""Code shared by studies of sparse matrices: operands, verification, orderings, library routines, solvers, products."""
