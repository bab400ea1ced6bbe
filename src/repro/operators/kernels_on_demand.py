"""Modules of many kernels on a GPU, each compiled when it is first used: all of them take up to half a minute."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from repro.devices.base import LaunchError, Program

#: The beginning of a kernel's definition, as all templates have it; group 1 is its name.
_KERNEL = re.compile(r"^(?:WARP_)?KERNEL\([^()]*\)\s+(\w+)\(", re.MULTILINE)


def kernel_names(source: str) -> tuple[str, ...]:
    """Return the names of the kernels that a rendered source defines."""
    return tuple(_KERNEL.findall(source))


def with_kernel(source: str, name: str) -> str:
    """Return a CUDA source with one of its kernels; the others become functions that nothing calls."""
    return _KERNEL.sub(lambda begin: begin[0] if begin[1] == name else f"static __device__ void {begin[1]}(", source)


class KernelsOnDemand:
    """A program whose kernels are compiled and loaded one by one; implements `Program`.

    Parameters
    ----------
    source, name
        The rendered source of all kernels, and its name in the cache.
    load
        Compiles a source with a name unless the cache has it, and loads it.
    """

    def __init__(self, source: str, name: str, load: Callable[[str, str], Program]) -> None:
        self._source, self._name, self._load = source, name, load
        self._names = frozenset(kernel_names(source))
        self._programs: dict[str, Program] = {}

    def having(self, name: str) -> Program:
        """Return the loaded program that has a kernel."""
        if name not in self._names:
            raise LaunchError(f"no kernel {name} in the module {self._name}")
        if name not in self._programs:
            self._programs[name] = self._load(with_kernel(self._source, name), f"{self._name}-{name}")
        return self._programs[name]

    def kernel(self, name: str, shared: int = 0) -> Any:
        return self.having(name).kernel(name, shared)
