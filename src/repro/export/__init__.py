"""Export of tuned kernels as a C++ header and CUDA source that need no Python."""

#: The study whose choices are operators and exported kernels: rows, not templates, are looked up by this name.
EXPORTED_STUDY = "compound_spmv"
