"""A sparse matrix in dynamic CSR, which grows on the device (King 2017, chapter 5): its operations and its products."""
