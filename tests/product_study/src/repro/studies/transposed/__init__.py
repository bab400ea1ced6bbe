"""Products with the transpose of a matrix, y = Aᵀx."""
