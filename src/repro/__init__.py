"""Re-run published experiments on sparse-matrix GPU kernels."""

from importlib.metadata import version

__version__ = version("sparse-repro")
