"""Variants that store each pair of a symmetric matrix once, in tiles of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.workspace import Workspace
from repro.devices.base import Argument, Buffer, Program
from repro.sparse.operands import operands_of, symmetry_on
from repro.sparse.pair_tiles import Tiles, cut_into_tiles
from repro.sparse.pairs import lay_out, shared_bytes
from repro.studies.compressed_coo.blocking import SPLITS
from repro.studies.compressed_coo.pairs import store_pairs
from repro.studies.compressed_coo.variant import Bind, CoordinateVariant, Facts, refuse_padding


@dataclass(frozen=True)
class PairsFacts(Facts):
    """What is kept on the host of pairs; a tile is a chunk, and the launch is given `shared` bytes for each."""

    shared: int
    leading: int


class PairsVariant(CoordinateVariant):
    """A product by a kernel for symmetric pairs; B of its blocking is the rows of a tile."""

    def _hold(self, workspace: Workspace, program: Program) -> tuple[PairsFacts, Bind]:
        """Pack and upload the matrix; return what is known of it, and what binds the kernel to vectors."""
        device, n, tile_rows = workspace.device, operands_of(workspace).problem.n, self.blocking.threads
        matrix, buffers = workspace.hold(self.packing, lambda: self._pack(workspace))

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            kernel = program.kernel(self.blocking.kernel, matrix.shared)  # one each: OpenCL's hold their arguments
            arguments: list[Argument] = [np.int32(n), np.int32(matrix.leading), *buffers.values(), x, y]
            return device.bind(kernel, -(-n // tile_rows), tile_rows, arguments)

        return matrix, bind

    def _pack(self, workspace: Workspace) -> tuple[PairsFacts, Mapping[str, NDArray[Any]]]:
        """Return the matrix as a kernel takes it.

        Raises
        ------
        Unsupported
            It is not symmetric, beyond what codes can say, mostly padding, or needs more shared memory than there is.
        """
        operands, tile_rows = operands_of(workspace), self.blocking.threads
        problem = operands.problem
        symmetry = symmetry_on(workspace)
        of_clusters = bool(symmetry.kind) and SPLITS[self.layout] == "clustered"

        def cut() -> Tiles:
            rows = operands.permutation("bisected") if of_clusters else None
            return cut_into_tiles(problem, symmetry, tile_rows, rows)

        tiles = workspace.fact(("tiles of pairs", tile_rows, of_clusters), cut)
        pairs = lay_out(tiles, self.blocking.entries)
        refuse_padding(pairs.slots, problem.nnz)  # those within tiles are stored once for two
        shared = shared_bytes(tiles.shared, tile_rows, operands.dtype.itemsize)
        held = store_pairs(pairs, operands.values.ravel(), tile_rows, self.blocking.entries)
        return PairsFacts(held.nbytes, len(held.tiles), held.encodings(), 0, shared, tiles.leading), held.arrays
