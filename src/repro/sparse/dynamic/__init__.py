"""Sparse matrices in dynamic CSR, into which entries are inserted on the device (King 2017, chapter 5)."""
