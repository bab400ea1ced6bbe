"""The products of libraries: cuSPARSE's on a GPU, SciPy's on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import scipy.sparse as sp

from repro.bench.runnable import Clock, not_prepared
from repro.bench.workspace import Workspace
from repro.config.models import StudySettings
from repro.sparse.library.cusparse_gemm import ALGORITHMS, Gemm, GemmReuse
from repro.sparse.library.cusparse_library import gpu, version
from repro.sparse.library.gpu_csr import GpuCsr
from repro.sparse.library.registry import among
from repro.sparse.work import keep
from repro.studies.spgemm_amg.operands import Multiplied, operands_of
from repro.studies.spgemm_amg.paper import STUDY, ProductName
from repro.studies.spgemm_amg.stored import factor_of

REUSE = "reuse"
#: Of numbers that no product has: 32.5 in double precision, 3.004 in single.
WRONG_BYTE = 0x40
#: Routines by backend.
ROUTINES: Mapping[str, tuple[str, ...]] = {"cuda": (*ALGORITHMS, REUSE), "opencl": ("csr",)}


def routines(settings: StudySettings, backend: str) -> list[str]:
    """Return the routines that are asked for on a backend.

    Raises
    ------
    ReproError
        One is none.
    """
    return among(STUDY, settings.baselines, ROUTINES[backend])


def library_products(names: Collection[str], backend: str, product: ProductName) -> Sequence[LibraryProduct]:
    """Return the routines of these names for a product; of `reuse` its numeric phase alone too."""
    if backend == "opencl":
        return [ScipyProduct(product)] if names else []
    whole = [CusparseProduct(product, name) for name in ROUTINES[backend] if name in names]
    return [*whole, CusparseRefill(product)] if REUSE in names else whole


class LibraryProduct(Multiplied):
    """A product by a library."""

    kind = "baseline"
    cold = False
    clocks: tuple[Clock, ...] = ("host",)
    what: Literal["product", "numeric"] = "product"
    library: str

    def __init__(self, product: ProductName, routine: str) -> None:
        self.product, self.routine = product, routine
        self.name = f"{self.library}/spgemm-{routine.lower()}/{product}"
        self._held = ExitStack()
        self._said: dict[str, Any] = {}

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is multiplied, by which routine."""
        return {"what": self.what, "product": self.product, "routine": self.routine, "format": "csr", **self._said}

    def prepare(self, workspace: Workspace) -> None:
        """Bring the factors to where the library takes them.

        Raises
        ------
        Unsupported, OutOfDeviceMemory
        """
        self.release()
        with ExitStack() as held:
            self.bind(workspace, held)
            self._held = held.pop_all()
        amount, self.moved = operands_of(workspace).amount(self.product)
        self._said |= amount

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Do what `prepare` does; what is held is given to the stack."""
        raise NotImplementedError

    def release(self) -> None:
        """Give all memory back."""
        self._held, held = ExitStack(), self._held
        held.close()
        self.launch = not_prepared


class CusparseProduct(LibraryProduct):
    """A product by cuSPARSE from its factors on the GPU to C there, memory from the same pool as ours."""

    library = "cusparse"

    def __init__(self, product: ProductName, routine: str) -> None:
        super().__init__(product, routine)
        self._c: GpuCsr | None = None

    @property
    def identity(self) -> str:
        """The library's version."""
        return f"{version()} {self.name}"

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Upload the factors, and see how much memory a product takes.

        Raises
        ------
        Unsupported, OutOfDeviceMemory
        """
        device = gpu(workspace.device)
        multiplier = held.enter_context(_multiplier(workspace, self.product, self.routine))

        def multiply() -> GpuCsr:
            with device.pooling():
                return multiplier.multiply()

        def launch() -> None:
            self._c = multiply()

        self.launch = launch
        self._said = {"peak_bytes": device.pool_growth(lambda: multiply().release())}

    def before(self) -> None:
        """Give the product of the launch before back."""
        if self._c is not None:
            self._c.release()
            self._c = None

    def result(self) -> sp.csr_array:
        """Wait, and return the product."""
        assert self._c is not None
        return self._c.download()

    def release(self) -> None:
        """Give all memory back."""
        self.before()
        super().release()


class CusparseRefill(LibraryProduct):
    """The numeric phase of `SpGEMMreuse` alone, into a product whose pattern it has."""

    library = "cusparse"
    what = "numeric"
    #: As ours: kernels that run side by side take longer in a graph, where they are forked and joined each time.
    clocks: tuple[Clock, ...] = ("event",)

    def __init__(self, product: ProductName) -> None:
        super().__init__(product, f"{REUSE}-compute")
        self._read: Callable[[], sp.csr_array] | None = None

    @property
    def identity(self) -> str:
        """The library's version."""
        return f"{version()} {self.name}"

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Multiply once, for the pattern, and bind the numeric phase.

        Raises
        ------
        Unsupported, OutOfDeviceMemory
        """
        reuse = held.enter_context(_multiplier(workspace, self.product, REUSE))
        assert isinstance(reuse, GemmReuse)
        c = keep(held, reuse.multiply())
        self.launch = reuse.bind()
        self._read = c.download
        # so that what is left out is seen; finite, since 0 times C may be added
        workspace.device.fill(c.values, WRONG_BYTE)

    def result(self) -> sp.csr_array:
        """Wait, and return the product."""
        assert self._read is not None
        return self._read()


@contextmanager
def _multiplier(workspace: Workspace, product: ProductName, routine: str) -> Iterator[Gemm | GemmReuse]:
    """Give what multiplies the factors of a product on the GPU."""
    device = gpu(workspace.device)
    given = factor_of(workspace, product)
    with ExitStack() as held:
        a = keep(held, GpuCsr.upload(device, given.a))
        b = a if given.b is given.a else keep(held, GpuCsr.upload(device, given.b))
        yield keep(held, GemmReuse(device, a, b) if routine == REUSE else Gemm(device, a, b, routine))


class ScipyProduct(LibraryProduct):
    """A product by SciPy, on one core."""

    library = "scipy"
    drops = True

    def __init__(self, product: ProductName) -> None:
        super().__init__(product, "csr")
        self._c: sp.csr_array | None = None

    @property
    def identity(self) -> str:
        """SciPy's version."""
        import scipy

        return f"{scipy.__version__} {self.name}"

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Take the factors as they are."""
        a, b = factor_of(workspace, self.product)

        def launch() -> None:
            self._c = sp.csr_array(a @ b)

        self.launch = launch

    def result(self) -> sp.csr_array:
        """Return the product."""
        assert self._c is not None
        return self._c
