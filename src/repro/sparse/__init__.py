"""What studies on products y = A x share: operands, verification, orders, the library's products, solvers, vectors."""
