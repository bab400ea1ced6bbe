"""Code shared by studies of y = A x: operands, verification, orderings, products of libraries, solvers, vectors."""
