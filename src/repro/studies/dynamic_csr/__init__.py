"""Dynamic CSR: a sparse matrix that grows on the device, against HYB, coordinates and rebuilding."""
