"""A layout for compound_spmv: CSR with rows of a multiple of four slots."""
