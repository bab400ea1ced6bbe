"""Y = A X for several columns in one launch, by the default kernels for a GPU; on its emulator, and on the CPU."""

import numpy as np
import pytest

from repro.codegen.build_cache import compile_module
from repro.entries import entries
from repro.sparse.compound.defaults import RECORDED
from repro.sparse.compound.kernels import columns_schedule, render_module, split_columns
from repro.sparse.compound.packing import pack
from repro.sparse.compound.product import CompoundProduct, Steps, vector_entry_bytes
from repro.sparse.compound.variants import VariantId
from repro.sparse.operands import make_operands
from support.emulated_cuda import EmulatedCuda, compile_kernels

pytestmark = pytest.mark.medium
#: Defaults of entries of few members, of even rows and of others.
NARROW = {"single": "Sl-32-AoSoA-AoS/direct-256-4-u7-cs", "double": "CSR-AoSoA-AoS/direct-128-8-w4-u2"}
#: Precision and number of columns: all in one launch, and in launches that overlap.
CASES = [("single", 2), ("double", 15)]


@pytest.fixture
def load(device, tmp_path):
    def program_of(source):
        if isinstance(device, EmulatedCuda):
            return compile_kernels(source, tmp_path)
        module = compile_module(source, device.target, tmp_path / "module.json")
        return device.load(tmp_path / str(module.binary))

    return program_of


def in_columns(x, parts):
    """Return vectors `(columns, n, size)` as a matrix, a column each, of complex or real numbers' parts."""
    return x.reshape(len(x), -1, parts).transpose(1, 0, 2)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("precision", "count"), CASES)
@pytest.mark.parametrize("entry", sorted(entries()))
def test_columns_are_multiplied_as_vectors_are(device, load, templates, small_problem, entry, precision, count):
    problem = small_problem(entry)
    operands = make_operands(problem, precision, 1)
    id = VariantId.parse(RECORDED.get((entry, precision), NARROW[precision]))
    packed = pack(problem, operands.values, id.layout, device.target.warp)
    size, parts = operands.entry.size, 2 if entry == "complex" else 1
    width, starts = split_columns(count, size)
    schedule = columns_schedule(id.schedule, device.target, size)
    source = render_module(templates, entry, precision, id.layout, [schedule], device.target, "tests", columns=width)
    product = CompoundProduct(
        device, load(source), VariantId(id.layout, schedule), packed.facts,
        {name: device.upload(array) for name, array in packed.arrays.items()}, problem.n,
        vector_entry_bytes(id.layout, size, operands.dtype.itemsize), device.allocate,
    )  # fmt: skip
    factors = np.arange(1, count + 1, dtype=operands.dtype)
    X, exact = (in_columns(factors[:, None, None] * x, parts) for x in (operands.x, operands.reference))
    bound = in_columns(factors[:, None, None] * operands.bound, parts)
    for row_major in (True, False):
        shape = X.shape[:2]
        x = device.upload(np.ascontiguousarray(X if row_major else X.swapaxes(0, 1)))
        y = device.upload(np.full(X.shape, np.nan, X.dtype))
        steps = Steps.of(shape, parts, row_major=row_major), Steps.of(shape, parts, row_major=not row_major)
        for first in starts:
            product.bind_columns(x, y, first, *steps)()
        Y = np.empty(X.shape if not row_major else (shape[1], shape[0], parts), X.dtype)
        device.download(y, Y)
        Y = Y.swapaxes(0, 1) if row_major else Y
        assert (np.abs(Y - exact) <= bound).all()
