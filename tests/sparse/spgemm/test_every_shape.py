"""Every kernel for rows of a product alone, on the CPU and by a GPU's emulator, compared with SciPy's."""

import numpy as np
import pytest

from repro.codegen.targets import get_target
from repro.sparse.spgemm.kernels import hash_shapes
from support.products_by_shape import check_shape, every_shape, five_point, rows_that_fit


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("kernels", ["one", "symbolic", "numeric", "esc"])
@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_rows_that_fit(device, load, large, kernels, precision):
    dtype = np.float32 if precision == "single" else np.float64
    shapes = every_shape(device.target, dtype().itemsize)
    names = [name for name in shapes if name.split("_")[0] == kernels]
    if device.backend == "cuda":  # the emulator is slow, and tests/gpu runs all shapes
        names = names[::3]
    half = -(-len(names) // 2)  # shapes of each kind become larger
    for name in names[half:] if large else names[:half]:
        print(name)  # what would hang on a GPU ends the process of its emulator
        for a, b in (rows_that_fit(shapes[name][1]), 2 * (five_point(12),)):
            check_shape(device, load(precision), *shapes[name], a, b, dtype)


def test_no_table_has_fewer_slots_than_lanes_of_a_warp():
    # a warp goes through the slots of its tables together: lanes without any would be waited for for ever
    for scalar_bytes in (4, 8):
        assert all(min(shape.width, 32) <= shape.table for shape in hash_shapes(get_target("sm_90"), scalar_bytes))
