"""SciPy's products on the CPU: CSR and BSR of the real expansion, and complex CSR for complex entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import Workspace, not_prepared
from repro.devices.base import Buffer, Device
from repro.errors import Unsupported
from repro.sparse.expansions import COMPLEX, Bsr, Representation, real_expansion, to_bsr, to_csr
from repro.sparse.library import baseline, suffix
from repro.sparse.operands import ProductRunnable, operands_of


@baseline("opencl")
def scipy_products(entry: str, ordering: str) -> Iterable[ProductRunnable]:
    """Return SciPy's products for an entry; BSR only for entries with blocks."""
    real = real_expansion(entry)
    formats = [("csr", real)]
    if real.size > 1:
        formats.append(("bsr", real))
    if entry == "complex":
        formats.append(("csr", COMPLEX))
    return [SciPy(name, representation, ordering) for name, representation in formats]


class SciPy(ProductRunnable):
    """A product on the host, timed like a kernel; its upload is outside the measured time."""

    kind = "baseline"
    identity = f"scipy {scipy.__version__} numpy {np.__version__}"

    def __init__(self, format_name: str, representation: Representation, ordering: str = "natural") -> None:
        self._format = format_name
        self._representation = representation
        self._ordering = ordering
        self.name = f"scipy/{format_name}/{representation.name}{suffix(ordering)}"
        self.arrangement = f"{representation.arrangement}@{ordering}"
        self._permutation = np.empty(0, np.int64)
        self._matrix: Any = None
        self._product: NDArray[Any] | None = None
        self._device: Device | None = None
        self._y: Buffer | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "ordering": self._ordering,
            "routine": self._format,
            "format": self._format,
            "representation": self._representation.name,
            "papers_choice": False,
            "matrix_bytes": self.matrix_bytes or None,
        }

    def prepare(self, workspace: Workspace) -> None:
        """Build SciPy's matrix; `Unsupported` if it has more numbers than 32-bit indices can address."""
        self.release()
        operands = operands_of(workspace)
        problem = operands.reordered(self._ordering)
        bsr = to_bsr(problem, self._representation, operands.dtype)
        self._matrix = matrix = self.build(bsr, problem.shape[1])
        self._permutation = operands.permutation(self._ordering)
        x = self._representation.arrange(operands.x_in(self._ordering)).view(bsr.values.dtype)
        self.matrix_bytes = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
        self._device = workspace.device
        self._product = np.full(matrix.shape[0], np.nan, x.dtype)
        self.bytes_moved = self.matrix_bytes + x.nbytes + self._product.nbytes

        def launch() -> None:
            self._product = matrix @ x

        self.launch = launch

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a product on the host: it downloads x and writes y."""
        assert self._device is not None
        device, matrix = self._device, self._matrix
        host = np.empty(matrix.shape[1], matrix.dtype)

        def launch() -> None:
            device.download(x, host)
            device.write(y, matrix @ host)

        return launch

    def build(self, bsr: Bsr, columns: int) -> Any:
        """Return SciPy's matrix with `columns` columns of entries.

        It raises `Unsupported` if 32-bit indices cannot address the matrix.
        """
        size = self._representation.size
        shape = (len(bsr.offsets) - 1) * size, columns * size
        if self._format == "bsr":
            return sp.bsr_array((bsr.values, bsr.columns, bsr.offsets), shape=shape)
        try:
            csr = to_csr(bsr)
        except OverflowError as error:
            raise Unsupported(str(error)) from None
        return sp.csr_array((csr.values, csr.columns, csr.offsets), shape=shape)

    def erase_result(self, workspace: Workspace) -> None:
        if self._product is not None:
            self._product = np.full_like(self._product, np.nan)

    def result(self) -> Buffer | None:
        """Upload y of the last launch to a new buffer and return it; later launches do not change this buffer."""
        if self._product is None or self._device is None:
            return None
        if self._y is not None:
            self._y.release()
        self._y = self._device.upload(self._product)
        return self._y

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the members of a vector, `(n, k)`, as a flat array in the order of `result`.

        Vector entries are reordered like the matrix's rows; members have the order and signs of the expansion.
        """
        return self._representation.arrange(values[self._permutation])

    def release(self) -> None:
        if self._y is not None:
            self._y.release()
        self._y = self._matrix = self._product = self._device = None
        self.launch = not_prepared
