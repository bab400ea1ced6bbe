"""What the levels of a hierarchy on a device have to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from repro.devices.base import Buffer, Device
from repro.sparse.device_primitives import Stage
from repro.sparse.multigrid.hierarchy import DeviceLevel
from repro.sparse.multigrid.reference import HostLevel
from support.matrices import poisson, to_csr


def assert_levels(
    device: Device, levels: Sequence[DeviceLevel], expected: Sequence[HostLevel], tolerance: float
) -> None:
    assert [level.a.shape for level in levels] == [level.a.shape for level in expected]
    for ours, theirs in zip(levels, expected, strict=True):
        scale = abs(theirs.a).max()
        assert abs(to_csr(ours.a) - theirs.a).max() <= tolerance * scale
        assert ours.nnz == ours.a.download().nnz
        if theirs.p is None:
            assert ours.p is None
            continue
        assert abs(to_csr(ours.p) - theirs.p).max() <= tolerance * abs(theirs.p).max()
        assert abs(to_csr(ours.r) - to_csr(ours.p).T).max() == 0
        aggregates = np.empty(len(theirs.aggregates), np.int32)
        device.download(ours.aggregates, aggregates)
        np.testing.assert_array_equal(aggregates, theirs.aggregates)


def read(device: Device, buffer: Buffer, n: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return the numbers of a buffer."""
    array = np.empty(n, dtype)
    device.download(buffer, array)
    return array


def launch_each_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each phase of a stage be a launch, of as many blocks as where all are one."""
    bind = Stage.bind

    def apart(self: Stage, arguments: Sequence[Any], script: Callable[..., None]) -> Callable[[], None]:
        self._whole = None
        return bind(self, arguments, script)

    monkeypatch.setattr(Stage, "bind", apart)


def bit_count(device: Device, levels: Sequence[DeviceLevel]) -> list[Any]:
    """Return all that the levels come to, with columns in order."""
    bits = []
    for level in levels:
        n = level.a.shape[0]
        bits += [level.radius, read(device, level.diagonal, n, level.a.dtype).tobytes()]
        if level.aggregates is not None:
            bits.append(read(device, level.aggregates, n // level.unknowns, np.int32).tobytes())
        for matrix in (level.a, level.p, level.r):
            if matrix is not None:
                rows = to_csr(matrix)
                bits += [rows.indptr.tobytes(), rows.indices.tobytes(), rows.data.tobytes()]
    return bits


def with_hubs(side: int, hubs: int) -> sp.csr_array:
    """Return a positive definite matrix of a grid in which some nodes are connected to every tenth one."""
    n = side * side
    rows = np.repeat(np.arange(hubs), len(range(0, n, 10)))
    columns = np.tile(np.arange(0, n, 10), hubs)
    more = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    more = sp.csr_array(more + more.T)
    more.setdiag(0)
    more.eliminate_zeros()
    return sp.csr_array(poisson((side, side), 5) - more + sp.diags_array(more.sum(axis=1)))
