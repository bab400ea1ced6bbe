"""Kernels for rows of a product one after the other, in a process that may be ended when one of them never ends.

    python shapes_alone.py MODULES PRECISION KERNEL...

It prints a line of JSON before each kernel and one after it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from repro.codegen.targets import DTYPES  # noqa: E402
from repro.devices.base import LaunchError  # noqa: E402
from repro.devices.cuda import open_cuda  # noqa: E402
from support.products_by_shape import check_shape, every_shape, five_point, rows_that_fit  # noqa: E402
from support.sparse_modules import by_precision, loader  # noqa: E402

#: Rows and columns of the grid by precision; the same kernels are in both.
SIDE = {"single": 128, "double": 512}


def main(modules: str, precision: str, *names: str) -> None:
    """Run kernels; a lost context ends it, once that is said."""
    gpu = open_cuda(0)
    load = by_precision(loader(gpu, ROOT / "kernels", Path(modules)))(precision)
    dtype = DTYPES[precision]
    shapes = every_shape(gpu.target, dtype().itemsize)
    grid = five_point(SIDE[precision])
    for name in names:
        print(json.dumps({"begins": name}), flush=True)
        mode, shape = shapes[name]
        wrong, lost = None, False
        try:
            for a, b in (rows_that_fit(shape), (grid, grid)):
                check_shape(gpu, load, mode, shape, a, b, dtype)
        except Exception as failure:  # whatever it is, it is this kernel's
            wrong = f"{type(failure).__name__}: {failure}"
            lost = isinstance(failure, LaunchError) and failure.sticky
        print(json.dumps({"ended": name, "wrong": wrong}), flush=True)
        if lost:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
