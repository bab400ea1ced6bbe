"""A product of a clustered layout on the CPU whose array `index` ends where memory does: reading past it is a crash.

Arguments are the folder of the templates and one for the module.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClBuffer, OpenClDevice
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import VariantId
from repro.sparse.operands import make_operands, operands_of, y_on


def before_the_end(device: OpenClDevice, array: np.ndarray) -> OpenClBuffer:
    """Return a buffer with a copy of an array, behind which a page is that cannot be read."""
    pages = -(-array.nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    end = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages * mmap.PAGESIZE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    view = np.frombuffer(memory, array.dtype, len(array), pages * mmap.PAGESIZE - array.nbytes)
    view[:] = array
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    return OpenClBuffer(cl.Buffer(device._context, flags, hostbuf=view))


def main(templates: Path, folder: Path) -> None:
    """Verify the product once."""
    n, id = 2001, VariantId.parse("Sl-8-AoSoA-AoS@clustered/direct-64-1-w2-u2")
    rows = np.arange(n, dtype=np.int32)
    matrix = Matrix("diagonal", "real", n, np.arange(n + 1, dtype=np.int32), rows, np.ones((n, 1)))
    source = render_module(templates, "real", "double", id.layout, [id.schedule], CPU, "tests")
    module = compile_module(source, CPU, folder / "one.json")
    device = OpenClDevice()
    device.upload = lambda array, upload=device.upload: (  # type: ignore[method-assign]
        before_the_end(device, array) if array.dtype == np.int32 and len(array) > n + 1 else upload(array)
    )
    workspace = Workspace(Devices([device]), make_operands(matrix, "double", 1))
    variant = Variant(id, module, folder)
    variant.prepare(workspace)
    variant.launch()
    y = np.empty(n)
    device.download(y_on(workspace), y)
    np.testing.assert_array_equal(y, operands_of(workspace).x.ravel())
    print("read nothing past the end")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
