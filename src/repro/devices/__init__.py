"""Devices: what can hold buffers, run kernels and time them."""
