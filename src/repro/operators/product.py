"""A matrix packed on a device for one variant of y = A x, and the launches that multiply by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from repro.codegen.targets import DTYPES
from repro.devices.base import Buffer, OutOfDeviceMemory
from repro.entries import get_entry
from repro.errors import ReproErrorOfValue, Unsupported, argument_errors
from repro.operators.arrays import (
    VectorType,
)
from repro.operators.matrix_sources import HostCsr, MatrixSource, device_packer, packing_source
from repro.operators.runtime import KERNELS, Runtime
from repro.operators.vectors import Vectors
from repro.sparse.compound.device_packing import DevicePacker, PackedOnDevice, can_pack
from repro.sparse.compound.kernels import TEMPLATES, columns_schedule, render_module, split_columns
from repro.sparse.compound.packing import PackedFacts
from repro.sparse.compound.product import CompoundProduct, Steps, pack_layout, require_suitable, vector_entry_bytes
from repro.sparse.compound.variants import Layout, VariantId
from repro.sparse.device_primitives import keep
from repro.sparse.ordering import permutation, reorder
from repro.sparse.symmetry import symmetry_of


class Product:
    """A matrix on the device, and the compiled kernel of one variant.

    `x_vectors` and `y_vectors` make vectors in the order that the layout requires. `is_direct`: whether users' vectors
    already have this order (AoS, unknowns not renumbered). `nbytes`: bytes of the matrix in the layout. `call` is the
    product on any stream, or None (`CompoundProduct.bind_call`). It raises `ReproError` if the kernel cannot be
    compiled, or if the matrix does not suit the variant.
    """

    def __init__(self, runtime: Runtime, matrix: MatrixSource, precision: str, id: VariantId) -> None:
        self.runtime, self.id, layout = runtime, id, id.layout
        kind, device = VectorType(matrix.entry, precision), runtime.device
        with argument_errors():
            source = render_module(KERNELS, matrix.entry, precision, layout, [id.schedule], device.target, "operator")
        self._entry, self._precision, self._shape, self._nnz = matrix.entry, precision, matrix.shape, matrix.nnz
        self._packed_on_device: PackedOnDevice | None = None
        self._pointers: Buffer | None = None
        name = f"{TEMPLATES}/{matrix.entry}-{precision}/{layout.stored}-{id.schedule}"
        if can_pack(layout):
            packing, packing_name = packing_source(runtime, matrix.entry, precision, layout.inner)
            runtime.compile_together({name: source, packing_name: packing})
        program = runtime.program(source, name)
        with ExitStack() as stack, ExitStack() as temporaries:
            try:
                require_suitable(matrix.shape, matrix.entry, layout)
                rows = None if layout.unknowns == "natural" else permutation(matrix.problem, layout.unknowns)
                ordered = matrix if rows is None else keep(temporaries, MatrixSource(reorder(matrix.problem, rows)))
                arrays, facts = self._packed(ordered, layout, stack)
                with runtime.after():
                    self._compound_product = partial(
                        CompoundProduct, facts=facts, arrays=arrays, n=matrix.shape[0],
                        entry_bytes=vector_entry_bytes(layout, kind.algebra.size, kind.scalar.itemsize),
                        counter=keep(stack, device.allocate(4)),
                    )  # fmt: skip
                    self._product = self._compound_product(device, program, id)
            except OutOfDeviceMemory as error:
                raise runtime.out_of_memory_error(error) from None
            except Unsupported as error:
                raise ReproErrorOfValue(
                    "the variant cannot hold the matrix", where=id, actual=error, todo="choose another variant"
                ) from None
            self._memory = stack.pop_all()
        #: Whether several columns are multiplied in one launch.
        self.takes_columns = rows is None and not layout.stores_pairs
        self._products_of_columns: dict[int, CompoundProduct] = {}
        self.nbytes = self._product.nbytes
        self.is_direct = rows is None and layout.vector == "AoS"
        self.call = self._product.bind_call() if self.is_direct else None
        self.y_vectors = Vectors(runtime, matrix.shape[0], kind, layout.vector, rows)
        self.x_vectors = (
            self.y_vectors if matrix.square else Vectors(runtime, matrix.shape[1], kind, layout.vector, rows)
        )

    def _packed(
        self, matrix: MatrixSource, layout: Layout, stack: ExitStack
    ) -> tuple[Mapping[str, Buffer], PackedFacts]:
        """Return the matrix in a layout on the device: its arrays, which `stack` releases, and their sizes."""
        runtime, clustered = self.runtime, layout.ordering == "clustered"
        if can_pack(layout):
            rows, long_rows = matrix.clusters if clustered else (None, 0)
            with runtime.after():
                csr = matrix.csr(runtime)
                packed_on_device = self._packer.pack(csr, layout, stack, rows, long_rows)
                self._packed_on_device = packed_on_device
                if not matrix.is_on_host:  # to read it back
                    self._pointers = keep(stack, csr.pointers.retain()).buffer
            return packed_on_device.arrays, packed_on_device.facts
        problem = matrix.problem
        values = problem.values.astype(DTYPES[self._precision], copy=False)
        packed = pack_layout(
            problem, values, layout, runtime.device.target.warp,
            lambda: symmetry_of(problem, values), lambda: matrix.clusters[0],
        )  # fmt: skip
        with runtime.after():
            return {
                name: keep(stack, runtime.device.upload(array)) for name, array in packed.arrays.items()
            }, packed.facts

    @property
    def _packer(self) -> DevicePacker:
        return device_packer(self.runtime, self._entry, self._precision, self.id.layout.inner)

    def read_back(self) -> HostCsr:
        """Return a matrix that was packed from CSR on the device: row pointers, columns and values `(nnz, members)`."""
        assert self._packed_on_device is not None and self._pointers is not None
        device, members = self.runtime.device, len(get_entry(self._entry).members)
        arrays = (
            np.empty(self._shape[0] + 1, np.int32), np.empty(self._nnz, np.int32),
            np.empty((self._nnz, members), DTYPES[self._precision]),
        )  # fmt: skip
        with self.runtime.after(), ExitStack() as stack:
            indices, values = (keep(stack, device.allocate(array.nbytes)) for array in arrays[1:])
            self._packer.unpack(self._packed_on_device, self._pointers, indices, values)
            for buffer, array in zip((self._pointers, indices, values), arrays, strict=True):
                device.download(buffer, array)
        return arrays

    @property
    def can_fill(self) -> bool:
        """Whether `fill` can replace the values; else the product has to be made anew."""
        return self._packed_on_device is not None and self.id.layout.unknowns == "natural"

    def prepare_filling(self, matrix: MatrixSource) -> None:
        """Keep the row pointers of the matrix on the device, for `fill` and `read_back`."""
        if self._pointers is None:
            assert self._packed_on_device is not None
            placing = self._packed_on_device.placing
            if placing.is_in_csr_order:
                self._pointers = placing.index
            else:
                self._pointers = keep(self._memory, self.runtime.device.upload(matrix.problem.indptr))

    def fill(self, values: Buffer) -> None:
        """Queue the replacement of all values by others, in CSR order; `prepare_filling` comes before."""
        assert self._packed_on_device is not None and self._pointers is not None
        self._packer.fill(self._packed_on_device, self._pointers, values, np.dtype(DTYPES[self._precision]))

    def transposed_values(self, order: Buffer, values: Buffer, stack: ExitStack, *, adjoint: bool) -> Buffer:
        """Queue the transposition of values in CSR order; `order` has the entry of each entry of the transpose."""
        transposed_values = keep(stack, self.runtime.device.allocate_ordered(values.nbytes))
        self._packer.transpose_values(self._nnz, order, values, transposed_values, adjoint=adjoint)
        return transposed_values

    def are_equal(self, values: Buffer, others: Buffer) -> bool:
        """Wait for the device, and return whether two arrays have the same values."""
        return self._packer.are_equal(self._nnz, values, others)

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x on the device's own queue."""
        return self._product.bind(x, y)

    def multiply_columns(self, x: Buffer, y: Buffer, count: int, x_steps: Steps, y_steps: Steps) -> None:
        """Queue Y = A X for `count` ≥ 2 columns, if `takes_columns`; the first such product of a width compiles."""
        width, starts = split_columns(count, self.x_vectors.kind.algebra.size)
        product = self._products_of_columns.get(width)
        if product is None:
            target = self.runtime.device.target
            id = replace(self.id, schedule=columns_schedule(self.id.schedule, target))
            with argument_errors():
                source = render_module(
                    KERNELS, self._entry, self._precision, id.layout, [id.schedule], target, "operator", columns=width
                )
            name = f"{TEMPLATES}/{self._entry}-{self._precision}/{id.layout.stored}-{id.schedule}-{width}-columns"
            product = self._compound_product(self.runtime.device, self.runtime.program(source, name), id)
            self._products_of_columns[width] = product
        for first in starts:
            product.bind_columns(x, y, first, x_steps, y_steps)()

    def release(self) -> None:
        """Wait for the device and release the matrix's memory."""
        if self.call is not None:
            self.call.close()
        self.runtime.device.synchronize()
        self._memory.close()
