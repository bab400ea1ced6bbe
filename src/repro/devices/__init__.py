"""Devices, which hold buffers, run kernels and time them."""
