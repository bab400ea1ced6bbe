"""Three rivals in Python: y = A x by SciPy and by Intel's MKL on the CPU, and by PyTorch on the GPU or on the CPU.

A configuration names them as `python: "examples/rivals/products.py:SciPyCsr"` with `of: spmv`. `setup` gets a
`repro.sparse.rivals.problem.RivalProblem`, `run` is timed, `teardown` gives back what is held.
"""

from __future__ import annotations

from typing import Any


class SciPyCsr:
    """SciPy's CSR, written into y."""

    def __init__(self) -> None:
        import scipy

        self.name, self.version = "SciPy", scipy.__version__
        self._run: Any = None

    def setup(self, problem: Any) -> None:
        import scipy.sparse

        if problem.device is not None:
            raise NotImplementedError("SciPy is for the CPU")
        a, x, y = problem.a, problem.x, problem.y
        matrix = scipy.sparse.csr_array((a.values, a.indices, a.offsets), shape=a.shape)

        def run() -> None:
            y[:] = matrix @ x

        self._run = run

    def run(self) -> None:
        self._run()

    def teardown(self) -> None:
        self._run = None


class MklCsr:
    """MKL's CSR by sparse_dot_mkl, written into y.

    `pip install mkl sparse_dot_mkl` installs both. If MKL is not found, name its file `libmkl_rt.so.3` in MKL_RT.
    """

    def __init__(self) -> None:
        import sparse_dot_mkl

        self.name, self.version = "MKL", sparse_dot_mkl.get_version_string() or ""
        self._product = sparse_dot_mkl.dot_product_mkl
        self._run: Any = None

    def setup(self, problem: Any) -> None:
        import scipy.sparse

        if problem.device is not None:
            raise NotImplementedError("MKL is for the CPU")
        a, x, y, product = problem.a, problem.x, problem.y, self._product
        matrix = scipy.sparse.csr_matrix((a.values, a.indices, a.offsets), shape=a.shape)

        def run() -> None:
            product(matrix, x, out=y, out_scalar=0)

        self._run = run

    def run(self) -> None:
        self._run()

    def teardown(self) -> None:
        self._run = None


class TorchCsr:
    """PyTorch's CSR; on a GPU on the harness's stream, without a copy of the arrays."""

    def __init__(self) -> None:
        import torch

        self.name, self.version = "PyTorch", torch.__version__
        self._torch: Any = torch
        self._matrix: Any = None
        self._x: Any = None
        self._y: Any = None
        self._stream: Any = None

    def setup(self, problem: Any) -> None:
        torch, a = self._torch, problem.a
        place = "cpu" if problem.device is None else f"cuda:{problem.device}"

        def tensor(array: Any) -> Any:
            # on the CPU what is only read is copied: PyTorch warns of arrays that it cannot write
            copied = problem.device is None and array is not problem.y
            return torch.as_tensor(array.copy() if copied else array, device=place)

        offsets, indices, values = (tensor(array) for array in (a.offsets, a.indices, a.values))
        self._matrix = torch.sparse_csr_tensor(offsets, indices, values, size=a.shape, check_invariants=False)
        self._x, self._y = tensor(problem.x), tensor(problem.y)
        if problem.device is not None:
            self._stream = torch.cuda.ExternalStream(problem.stream, device=place)

    def run(self) -> None:
        if self._stream is None:
            self._torch.mv(self._matrix, self._x, out=self._y)
            return
        with self._torch.cuda.stream(self._stream):
            self._torch.mv(self._matrix, self._x, out=self._y)

    def teardown(self) -> None:
        self._matrix = self._x = self._y = self._stream = None
