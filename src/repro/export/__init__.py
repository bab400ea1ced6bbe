"""Export of tuned kernels as a C++ header and CUDA source that need no Python."""
