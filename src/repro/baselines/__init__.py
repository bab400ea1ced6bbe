"""What kernels are compared with: cuSPARSE on a GPU, SciPy on the CPU."""
