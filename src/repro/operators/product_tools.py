"""What sparse products of one precision on a device share: loaded kernels, memory, and the check of sums."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache

import numpy as np

from repro.codegen.targets import DTYPES
from repro.devices.base import Argument, Buffer, OutOfDeviceMemory, Program
from repro.operators.device_exchange import load_module
from repro.operators.runtime import KERNELS, Runtime
from repro.sparse.dynamic.kernels import TEMPLATES
from repro.sparse.elementwise import Kernels
from repro.sparse.spgemm.csr_arrays import CsrReader
from repro.sparse.spgemm.kernels import render_spgemm
from repro.sparse.spgemm.multiplication import Multiplication


class ProductTools:
    """Tools for products of one precision on a device; made by `product_tools`."""

    def __init__(self, runtime: Runtime, precision: str) -> None:
        self._device, self._load = runtime.device, load_products(runtime, precision)
        self.dtype = np.dtype(DTYPES[precision])
        self.multiplication = Multiplication(runtime.device, self._load, self.dtype)
        with runtime.after(), ExitStack() as undo:
            self.reader = CsrReader(runtime.device, self._load, self.dtype)
            undo.callback(self.reader.release)
            #: Set by the device if a number is not finite.
            self._found = runtime.device.host_words(1)
            undo.pop_all()

    def are_finite(self, values: Buffer, count: int) -> bool:
        """Wait for the device, and return whether `count` numbers on it are finite."""
        self._device.fill(self._found.buffer, 0)
        arguments: list[Argument] = [np.int32(count), values, self._found.buffer]
        Kernels(self._device, self._load("arrays")).over("find_not_finite", count, arguments)()
        return not self._found.read()[0]

    def release(self) -> None:
        self.reader.release()
        self._found.release()


@cache
def product_tools(runtime: Runtime, precision: str) -> ProductTools:
    """Return the tools for products of a precision, which are kept until the device is closed."""
    try:
        tools = ProductTools(runtime, precision)
    except OutOfDeviceMemory as error:
        raise runtime.out_of_memory_error(error) from None
    runtime.device.at_close(tools.release)
    return tools


@cache
def load_products(runtime: Runtime, precision: str) -> Callable[[str], Program]:
    """Return a function that loads kernel modules for sparse products by name, through the compile cache."""

    @cache
    def load(module: str) -> Program:
        if module in TEMPLATES:
            return load_module(runtime, precision, module)
        source = render_spgemm(KERNELS, f"{precision}/{module}", runtime.device.target, "spgemm")
        return runtime.kernels(source, f"spgemm/{precision}-{module}")

    return load
