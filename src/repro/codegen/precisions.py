"""The working precisions: what a number is in C and in NumPy; and how large an index is in all of them."""

from __future__ import annotations

import numpy as np

#: The C type of a number, and its bytes.
SCALARS = {"single": ("float", 4), "double": ("double", 8)}
DTYPES: dict[str, type[np.floating]] = {"single": np.float32, "double": np.float64}
INDEX_BYTES = 4
