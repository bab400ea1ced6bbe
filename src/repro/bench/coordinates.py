"""Variants of the coordinate layouts: one layout of balanced or compressed coordinates under one blocking."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.bench.variant import ModuleError
from repro.bench.workspace import Workspace
from repro.codegen.compile import Module
from repro.codegen.coo import CLEAR_N_T, SPLITS, Blocking
from repro.devices.base import Argument, Buffer
from repro.formats.balanced import Balanced, Chunking, balance, count_slots, interleave
from repro.formats.compressed import Compressed, compress
from repro.problems.problem import Problem

#: Slots for each non-zero above which a variant is not tried.
MOST_PADDING = 2.0


class CoordinateVariant:
    """A `Candidate` that launches a kernel for balanced coordinates, plain or compressed.

    Parameters
    ----------
    layout
        A name in `SPLITS`.
    blocking
        B, K and the chunks of a block.
    module
        The manifest of its module.
    folder
        Where the manifest lies; binaries are relative to it.
    space
        The space that it belongs to: `paper` or `extended`.
    """

    kind = "variant"
    arrangement = "AoS@natural"
    launch: Callable[[], None]

    def __init__(self, layout: str, blocking: Blocking, module: Module, folder: Path, space: str) -> None:
        self.layout, self.blocking, self.module, self.space = layout, blocking, module, space
        self.name = f"{layout}/{blocking}"
        self.identity = f"{module.hash} {blocking}"
        self.packing = layout, blocking.threads, blocking.entries
        self._folder = folder
        self._columns: dict[str, Any] = {}
        self._moved = (0, 0)
        self._y: Buffer | None = None
        self._bind: Callable[[Buffer, Buffer], Callable[[], None]] | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Layout and blocking, encodings, and what the compiler said of the kernel."""
        return {
            "space": self.space,
            "layout": self.layout,
            "schedule": "chunks",
            "n_t": self.blocking.threads,
            "per_thread": self.blocking.entries,
            "chunks": self.blocking.chunks,
            **self._columns,
        }

    @property
    def moved(self) -> tuple[int, int]:
        """(matrix + x once + y, matrix alone), in bytes."""
        return self._moved

    @property
    def chunking(self) -> Chunking:
        """How the matrix is cut into chunks; plain coordinates are padded as the paper's compressed ones are."""
        split = SPLITS[self.layout]
        return Chunking(self.blocking.threads, self.blocking.entries, "padded" if split == "plain" else split)

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, bind the kernel to its arguments.

        Raises
        ------
        ModuleError
        Unsupported
            The matrix would be padded to more than `MOST_PADDING` times its non-zeros, or its entries are not real.
        """
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        problem = workspace.operands.problem
        if problem.entry != "real":
            raise Unsupported(f"coordinates hold real numbers, not {problem.entry} entries")
        padded = count_slots(problem.row_lengths, self.chunking) / max(problem.nnz, 1)
        if padded > MOST_PADDING:
            raise Unsupported(f"padded to {padded:.1f} times the non-zeros, more than {MOST_PADDING:g}")
        values = workspace.operands.values.ravel()
        matrix, buffers = workspace.hold(self.packing, lambda: self._pack(problem, values))
        program = workspace.program(self._folder / self.module.binary)
        resources = (self.module.resources or {}).get(self.blocking.kernel, {})
        counts = {"32/32/plain": matrix.chunks} if isinstance(matrix, Balanced) else matrix.encodings()
        self._columns = {
            "encodings": json.dumps(counts),
            "registers": resources.get("registers"),
            "spills": resources.get("spills"),
        }
        chunks = matrix.chunks if isinstance(matrix, Balanced) else len(matrix.chunks)
        device, per_block = workspace.device, self.blocking.chunks
        long_rows = buffers.get("long_rows")

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            arguments: list[Argument] = [
                np.int32(chunks),
                np.int32(per_block),
                *(buffers[a] for a in ARRAYS[self.plain]),
            ]
            kernel = program.kernel(self.blocking.kernel)  # one each: in OpenCL the arguments are part of it
            run = device.bind(kernel, -(-chunks // per_block), self.blocking.threads, [*arguments, x, y])
            if SPLITS[self.layout] != "aligned":
                return _after(lambda: device.fill(y, 0), run)
            if long_rows is None:
                return run
            count = len(matrix.long_rows) if isinstance(matrix, Compressed) else 0
            n_t = CLEAR_N_T[device.backend]
            clear = device.bind(program.kernel("clear_rows"), -(-count // n_t), n_t, [np.int32(count), long_rows, y])
            return _after(clear, run)

        x, self._y = workspace.x("AoS"), workspace.y
        self._moved = matrix.nbytes + 2 * x.nbytes, matrix.nbytes
        self._bind = bind
        self.launch = bind(x, self._y)

    @property
    def plain(self) -> bool:
        """Whether rows, columns and values are stored as they are."""
        return SPLITS[self.layout] == "plain"

    def _pack(self, problem: Problem, values: NDArray[np.floating]) -> tuple[Any, Mapping[str, NDArray[Any]]]:
        balanced = balance(problem.n, problem.indptr, problem.indices, values, self.chunking)
        if self.plain:
            shape = self.blocking.threads, self.blocking.entries
            return balanced, {
                "rows": balanced.rows,
                "columns": interleave(balanced.columns, *shape),
                "values": interleave(balanced.values, *shape),
            }
        matrix = compress(balanced)
        arrays: dict[str, NDArray[Any]] = {"blob": matrix.blob, "descriptions": matrix.chunks, "table": matrix.table}
        if len(matrix.long_rows) and SPLITS[self.layout] == "aligned":
            arrays["long_rows"] = matrix.long_rows
        return matrix, arrays

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors; valid until `release`."""
        assert self._bind is not None, "prepared first"
        return self._bind(x, y)

    def result(self) -> Buffer | None:
        """Return y."""
        return self._y

    def arrange(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numbers as they are: one to a row."""
        return values.ravel()

    def release(self) -> None:
        """Hold nothing: matrix and vectors belong to the workspace."""


#: What a kernel is given of the matrix, whether it is plain.
ARRAYS = {True: ("rows", "columns", "values"), False: ("blob", "descriptions", "table")}


def _after(first: Callable[[], None], run: Callable[[], None]) -> Callable[[], None]:
    """Return what clears y, or the part of it that sums are added to, and then runs: clearing is part of the time."""

    def launch() -> None:
        first()
        run()

    return launch
