"""Sparse matrix products C = A B on a device; rows are grouped into bins by size (King 2017, chapter 6)."""
