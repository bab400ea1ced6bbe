"""How much Python a call runs: frames of this package and their files; `python -m support.frames` prints a table."""

import gc
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any


def frames(call: Callable[[], Any]) -> list[CodeType]:
    """Return the code of each function of this package that a call enters, in order."""
    entered: list[CodeType] = []
    gc.collect()
    gc.disable()  # finalizers of others' objects would be counted
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return [code for code in entered if "/repro/" in code.co_filename]


def main() -> None:
    """Print the numbers of some calls on the CPU; the matrix is made, and each call but the first was made once."""
    import numpy as np
    import scipy.sparse as sp

    import repro

    matrix = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(1000, 1000)).tocsr()
    A, x, ones = repro.operator(matrix, device="opencl"), np.ones(1000), np.arange(1000)
    D, solver = repro.DynamicCSR.from_csr(matrix, device="opencl", capacity=100_000), A.solver()
    calls: dict[str, Callable[[], Any]] = {
        "repro.operator(m)": lambda: repro.operator(matrix, device="opencl"),
        "A @ x": lambda: A @ x,
        "repro.spgemm(m, m)": lambda: repro.spgemm(matrix, matrix, "opencl"),
        "D.insert(rows, columns, values)": lambda: D.insert(ones, ones, x),
        "solver.solve(b)": lambda: solver.solve(x),
    }
    print(f"{'call':32}{'files':>8}{'frames':>8}")
    for name, call in calls.items():
        call()
        codes = frames(call)
        print(f"{name:32}{len({code.co_filename for code in codes}):8}{len(codes):8}")


if __name__ == "__main__":
    main()
