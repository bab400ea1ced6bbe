"""A tuned kernel for y = A x as a SciPy `LinearOperator` that also takes arrays on the GPU.

The variant that it runs is named by the user, chosen by a campaign, a default, or the fastest of a few tried now.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np

from repro.bench.runnable import Unsupported
from repro.bench.workspace import Workspace
from repro.codegen.targets import DTYPES, Target
from repro.devices.base import Buffer, OutOfDeviceMemory
from repro.entries import get_entry
from repro.errors import ReproError
from repro.export.campaign_choice import find_campaign_choice
from repro.operators.arrays import DeviceArray, Kind, on_device
from repro.operators.base import Closing, DeviceOperator
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.operators.scipy_matrices import as_problem, transposed
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.compound.ids import VariantId, fitting
from repro.sparse.compound.kernels import TEMPLATES, render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.operands import ProductOperands
from repro.sparse.symmetry import symmetry_of

#: Pairs of vectors whose launches are kept: those of an iterative solver are always the same.
KEPT = 64


class Product:
    """A matrix on the device and the one kernel that multiplies with it.

    Parameters
    ----------
    runtime
        The device.
    matrix, precision
        The matrix, rounded to the precision.
    id
        The variant.

    Attributes
    ----------
    vectors
        Vectors in the layout's order.
    direct
        Whether these are a user's vectors as they are: AoS, unknowns not renumbered.
    nbytes
        Bytes of the packed matrix.

    Raises
    ------
    ReproError
        The kernel cannot be compiled, or the matrix is too large for the device or for 32-bit indices.
    """

    def __init__(self, runtime: Runtime, matrix: Matrix, precision: str, id: VariantId) -> None:
        self.runtime, self.id, layout = runtime, id, id.layout
        kind = Kind(matrix.entry, precision)
        source = render_module(KERNELS, matrix.entry, precision, layout, [id.schedule], runtime.device.target)
        name = f"{TEMPLATES}/{matrix.entry}-{precision}/{layout.stored}-{id.schedule}"
        self._variant = Variant(id, *runtime.compiled(source, name))
        # x and y are a user's, and nothing is verified here
        none = np.empty((0, kind.algebra.size))
        operands = ProductOperands(matrix, precision, none.astype(kind.scalar), none, none)
        self._workspace = Workspace(runtime.devices, operands)
        try:
            with runtime.after():
                self._variant.bind(self._workspace)
        except OutOfDeviceMemory as error:
            raise runtime.no_room(error) from None
        except Unsupported as error:
            raise ReproError(
                "the variant cannot hold the matrix", where=id, actual=error, todo="choose another variant"
            ) from None
        self.nbytes = self._variant.matrix_bytes
        self.direct = layout.unknowns == "natural" and layout.vector == "AoS"
        rows = None if layout.unknowns == "natural" else operands.permutation(layout.unknowns)
        self.vectors = Vectors(runtime, matrix.n, kind, layout.vector, rows)
        self._bound: OrderedDict[tuple[int, int], Callable[[], None]] = OrderedDict()

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues one product of vectors in the layout's order."""
        return self._variant.product(x, y)

    def multiply(self, x: Buffer, y: Buffer) -> None:
        """Queue one product of vectors in the layout's order."""
        if not hasattr(x, "pointer") or not hasattr(y, "pointer"):
            self.bind(x, y)()  # OpenCL's launches would keep their buffers alive
            return
        key = x.pointer, y.pointer
        if key not in self._bound:
            while len(self._bound) >= KEPT:
                self._bound.popitem(last=False)
            self._bound[key] = self.bind(x, y)
        self._bound[key]()

    def release(self) -> None:
        """Wait for the device and give the matrix's memory back; nothing can be multiplied then."""
        self.runtime.device.synchronize()
        self._bound.clear()
        self._variant.release()
        self._workspace.release()


#: By entry and precision, of the variants that read and write a user's vectors as they are, the one that loses least
#: over the problems of the campaign `h200`, both spaces, by the geometric mean: 8 to 12 %, at most 32 % on one problem.
DEFAULTS = {
    ("block3", "single"): "CSR-AoSoA-AoS/direct-128-8-w8-u2",
    ("block3", "double"): "CSR-AoSoA-AoS/direct-64-8-w8-u2",
    ("complex", "single"): "CSR-AoSoA-AoS@clustered/direct-256-4-w8-u4",
    ("complex", "double"): "CSR-AoSoA-AoS@clustered/direct-64-16-w8-u4",
    ("quaternion", "single"): "CSR-AoSoA-AoS/direct-64-16-w4-u2-cs",
    ("quaternion", "double"): "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w2-cg",
}
#: For `real`, which it did not have, and entries to come: what does well for `complex` in either precision.
DEFAULT = DEFAULTS["complex", "double"]
#: A block's rows lie side by side, so that its threads, which a CPU runs one after the other, find theirs in the cache.
CPU_DEFAULT = "CSR-AoS-AoS/direct-64-3"
#: What `now` tries beside the default: one after the other those that lowered the mean loss over that campaign most, of
#: variants that fit every GPU. The best of them and the default loses 3 % there, at most 12 %.
QUICK = (
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4-u2-cs",
    "CSR-AoSoA-AoS/direct-64-8-w32-u4",
    "Sl-8-AoSoA-AoS@clustered/direct-256-4-w4",
    "CSR-AoSoA-AoS@clustered/direct-64-16-w8-u2-cs",
    "CSR-AoSoA-AoS/direct-256-4-w32",
    "Sl-8-AoSoA-AoS/direct-128-8-w4",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w2",
)
#: What it tries too where the matrix is symmetric. No campaign has chosen them: of the formats of pairs these are the
#: ones with tiles of the middle size, one thread to a row and two, past L2 and within it.
QUICK_PAIRS = (
    "Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2-cs",
    "Pairs-128-AoSoA-AoS@clustered/direct-256-4-w2-u2",
)
CPU_QUICK = ("Sl-16-AoS-AoS/static-64-3", "Sl-16-SoA-AoS/direct-64-3", "ELL-SoA-AoS/static-64-3")
CPU_QUICK_PAIRS: tuple[str, ...] = ()
LAUNCHES, REPLAYS = 20, 5


def find_variant(tuned: str, problem: Matrix, precision: str, target: Target, results: Path) -> VariantId:
    """Return the variant for a word of the user's.

    Parameters
    ----------
    tuned
        A variant's name, `Sl-32-SoA-AoS/static-256-4`; `campaign:problem` for a campaign's choice; or `default`.
    results
        Folder of the campaigns.

    Raises
    ------
    ReproError
        It names no variant, the campaign has no such choice, its entry is another, or the target cannot hold it.
    """
    if tuned == "default":
        tuned = _default(problem.entry, precision, target)
    elif ":" in tuned:
        campaign, _, name = tuned.partition(":")
        chosen = find_campaign_choice(results, campaign, TEMPLATES, name, precision)
        if chosen.entry != problem.entry:
            raise ReproError(
                "the campaign's problem has another entry",
                where=tuned,
                expected=problem.entry,
                actual=chosen.entry,
                todo="name a problem like this matrix",
            )
        tuned = chosen.name
    return fitting(VariantId.parse(tuned), target)


def fastest(runtime: Runtime, problem: Matrix, precision: str) -> VariantId:
    """Time the default and a few others on this matrix, and return the best: seconds, most of them compiling.

    Those that the matrix or the device has no room for are left out; if that is all of them it is the default, which
    then says why. Formats of pairs are compiled only where the matrix is symmetric.
    """
    target = runtime.device.target
    default = _default(problem.entry, precision, target)
    seconds: dict[str, float] = {}
    for name in (default, *_quick(problem, precision, target)):
        with suppress(ReproError, Unsupported, MemoryError):
            variant = fitting(VariantId.parse(name), target)
            seconds[name] = _seconds(Product(runtime, problem, precision, variant))
    return VariantId.parse(min(seconds, key=seconds.__getitem__, default=default))


def _quick(problem: Matrix, precision: str, target: Target) -> tuple[str, ...]:
    """Return what is tried beside the default on this matrix."""
    quick, pairs = (QUICK, QUICK_PAIRS) if target.dialect == "cuda" else (CPU_QUICK, CPU_QUICK_PAIRS)
    return quick + pairs if pairs and _symmetric(problem, precision) else quick


def _symmetric(problem: Matrix, precision: str) -> bool:
    if not get_entry(problem.entry).members:
        return False
    return bool(symmetry_of(problem, problem.values.astype(DTYPES[precision], copy=False)).kind)


def _default(entry: str, precision: str, target: Target) -> str:
    return DEFAULTS.get((entry, precision), DEFAULT) if target.dialect == "cuda" else CPU_DEFAULT


def _seconds(product: Product) -> float:
    device = product.runtime.device
    x, y = (product.vectors.zeros() for _ in range(2))
    with product.runtime.after():
        launch = product.bind(x.buffer, y.buffer)
        launch()
        return float(np.median(device.time_graph(launch, LAUNCHES, REPLAYS)))


class SlowOnCpuWarning(UserWarning):
    """An operator runs on the CPU, where SciPy's own product is as fast or faster."""


class SpmvOperator(DeviceOperator, Closing):
    """y = A x by one of our kernels; made by `repro.operator`.

    Shape and dtype are those of the matrix as SciPy has it: a matrix of n×n blocks of 3×3 is 3n×3n, one of quaternions
    4n×4n, one of complex numbers n×n and complex.

    `A.T`, and `A.H` with complex numbers conjugated, are operators of the transposed matrix by the same variant, made
    at first use and kept: as much memory again, one for real entries, two for complex ones where both are asked for. A
    symmetric matrix is its own `A.T`, a Hermitian one its own `A.H`, where they are bit for bit. Close it, or use it in
    a `with`, to give its memory back before it is forgotten, and that of these two.

    It is for any thread: those that work with one device take turns. What is copied or pickled is the matrix with the
    variant's name, of which the copy is made anew on a device of the same words.

    Attributes
    ----------
    name
        The variant, `Sl-32-SoA-AoS/static-256-4`.
    entry, precision
        What the non-zeros are, and in which precision they are multiplied.
    n
        Rows, counted in entries.
    device_name
        What it runs on.
    nbytes
        Bytes of the matrix on the device.
    """

    def __init__(self, problem: Matrix, product: Product) -> None:
        kind = product.vectors.kind
        size = problem.n * kind.numbers
        super().__init__(product.runtime, kind, (size, size))
        self._problem = problem
        self._product: Product | None = product
        # by whether they are conjugated: those that belong to this one; and all, whoever made them
        self._made: dict[bool, SpmvOperator] = {}
        self._transposes: dict[bool, ref[SpmvOperator]] = {}
        self.name = str(product.id)
        self.entry, self.precision, self.n, self.nbytes = problem.entry, kind.precision, problem.n, product.nbytes

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors that it multiplies as they are: on the same device, in natural order, members side by side."""
        product = self._open()
        return product.vectors if product.direct else Vectors(self._runtime, self.n, self._kind)

    def rmatvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return the product of the conjugate transpose, `A.H @ x`; arguments and errors are those of `matvec`."""
        return self.H.matvec(x, out, stream=stream)

    def matmat(self, X: Any) -> Any:
        """Return A X of a NumPy array `(columns, vectors)`.

        Raises
        ------
        ReproError
            It lies on a device.
        """
        if on_device(X):
            raise ReproError(
                "several vectors on the device are not multiplied at once",
                where="X",
                todo="multiply one after the other by `matvec`, or bring them to the host",
            )
        return super().matmat(X)

    def rmatmat(self, X: Any) -> Any:
        """Return the product of the conjugate transpose, `A.H @ X`, as `matmat`."""
        return self.H.matmat(X)

    def close(self) -> None:
        """Give the memory of the matrix, and of its transposes, back; it is of no use afterwards."""
        with self._runtime.after():  # no other thread is in the middle of a product
            product, self._product = self._product, None
            for transpose in self._made.values():
                transpose.close()
            self._made.clear()
            if product is not None:
                product.release()  # waits, before what it worked on goes
                for name in ("_staging", "_in_order"):
                    self.__dict__.pop(name, None)

    def __rmul__(self, x: Any) -> Any:
        """Return `x A`, which is `A.T x`; of anything else what SciPy returns."""
        return self.T.matvec(x) if on_device(x) else super().__rmul__(x)

    def _transpose(self) -> SpmvOperator:
        return self._transposed(self.dtype.kind != "c")

    def _adjoint(self) -> SpmvOperator:
        return self._transposed(True)

    def _transposed(self, conjugate: bool) -> SpmvOperator:
        """Return the transpose, that of real entries always by the name of the conjugated one."""
        with self._runtime.after():  # one for all threads
            product, kept = self._open(), self._transposes.get(conjugate)
            there = None if kept is None else kept()
            if there is None or there._product is None:
                matrix = transposed(self._problem, conjugate)
                if matrix is self._problem:
                    there = self
                else:
                    there = SpmvOperator(matrix, Product(self._runtime, matrix, self.precision, product.id))
                    there._transposes[conjugate] = ref(self)  # not held by it: whoever forgets this one frees both
                    self._made[conjugate] = there
                self._transposes[conjugate] = ref(there)
            return there

    def _open(self) -> Product:
        if self._product is None:
            raise ReproError("the operator is closed", where=repr(self), todo="make a new one")
        return self._product

    def _require_open(self) -> None:
        self._open()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._problem, str(self._open().id), self.precision, self._runtime.words)

    def _multiply(self, x: Any, y: Any) -> None:
        product = self._open()
        if product.direct:
            product.multiply(x.buffer, y.buffer)
            return
        ordered_x, ordered_y = self._in_order
        product.vectors.arrange(x.buffer, ordered_x.buffer)
        product.multiply(ordered_x.buffer, ordered_y.buffer)
        product.vectors.restore(ordered_y.buffer, y.buffer)

    @cached_property
    def _in_order(self) -> tuple[DeviceArray, DeviceArray]:
        """Arrays in the layout's own order, where that is not the user's."""
        vectors = self._open().vectors
        return vectors.empty(), vectors.empty()

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        return f"<{size} {type(self).__name__}: {self.entry}, {self.name} on {self.device_name}>"


def operator(
    matrix: Any,
    tuned: str = "default",
    *,
    entry: str | None = None,
    precision: str | None = None,
    device: str = "auto",
    results: Path | str = "results",
) -> SpmvOperator:
    """Return a matrix as a SciPy `LinearOperator` that multiplies by one of our kernels.

    Parameters
    ----------
    matrix
        A square SciPy sparse matrix or array, or a `repro.problems.matrix.Matrix`. Real BSR of 3×3 blocks is
        multiplied block by block, real BSR of 4×4 blocks as quaternions (each block has to be the expansion of one),
        complex and other real matrices number by number.
    tuned
        The variant to run: `default`, one that does well on many matrices; a name, `Sl-32-SoA-AoS/static-256-4`;
        `campaign:problem`, what a campaign chose for a problem like this one (`h200:fem/nut_37k`); or `now`, the
        fastest of a few, timed on this matrix.
    entry
        `real`, `complex`, `quaternion`, `block3` or `pattern` where it should not be read off the matrix: `block3` for
        a 3n×3n matrix in CSR, `pattern` for one of ones, whose values are then not stored.
    precision
        `single` or `double`; that of the values unless given.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.
    results
        Folder of the campaigns.

    Raises
    ------
    ReproError
        The matrix, the variant or the device is none that can be used, there is no compiler, or not enough memory.

    Warns
    -----
    SlowOnCpuWarning
        The device is the CPU; once in a process.
    """
    problem, precision = as_problem(matrix, entry, precision)
    runtime: Runtime = open_runtime(device)
    if runtime.device.backend == "opencl":
        _say_that_the_cpu_is_slow()
    if tuned == "now":
        variant = fastest(runtime, problem, precision)
    else:
        variant = find_variant(tuned, problem, precision, runtime.device.target, Path(results))
    return SpmvOperator(problem, Product(runtime, problem, precision, variant))


def _again(problem: Matrix, name: str, precision: str, device: str) -> SpmvOperator:
    """Return what was copied or pickled, made anew."""
    return operator(problem, name, precision=precision, device=device)


@cache
def _say_that_the_cpu_is_slow() -> None:
    """Say it once: what is kept is the first call that returns."""
    warnings.warn(
        "the operator runs on the CPU, where SciPy's own product of the matrix is as fast or faster: it is there to "
        "try out what will run on a GPU (docs/operator.md)",
        SlowOnCpuWarning,
        stacklevel=3,
    )
