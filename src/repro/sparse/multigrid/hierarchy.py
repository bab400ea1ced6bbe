"""The set-up of multigrid by smoothed aggregation, wholly on a device (King 2017, Algorithm 8)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Device
from repro.errors import ReproError
from repro.sparse.dynamic.storage import Storage
from repro.sparse.launches import Load
from repro.sparse.multigrid.device import Run
from repro.sparse.multigrid.levels import Coarsening, DeviceLevel, Multiply, NearNull
from repro.sparse.multigrid.settings import Settings
from repro.sparse.spgemm.product import Multiplication


def set_up_on(
    device: Device,
    load: Load,
    a: Storage,
    near_null: NDArray[np.floating] | None = None,
    unknowns: int = 1,
    settings: Settings | None = None,
    multiply: Multiply | None = None,
) -> list[DeviceLevel]:
    """Return the levels of a hierarchy, the finest first; the caller releases them.

    Parameters
    ----------
    device, load
        Where, and what gives modules in the precision of the matrix.
    a
        A square matrix, each row in one segment without room, no column twice. It becomes that of the finest level.
    near_null
        `(n, k)` on the host; None: the constant vector.
    unknowns
        Of a node, one after the other.
    multiply
        Multiplies matrices; None: in one phase.

    Raises
    ------
    ReproError
        The matrix is not square, its diagonal has a zero, or the vectors do not fit.
    OutOfDeviceMemory
    """
    settings = settings or Settings()
    n = a.shape[0]
    vectors = np.ones((n, 1)) if near_null is None else np.asarray(near_null)
    _check(a, vectors, unknowns)
    multiply = multiply or Multiplication(device, load, a.dtype).in_one_phase
    levels: list[DeviceLevel] = []
    nnz = a.report().pointer
    near = NearNull(device.upload(np.ascontiguousarray(vectors, a.dtype).ravel()), vectors.shape[1])
    try:
        while True:
            with device.pooling(), ExitStack() as of_level:
                of_level.callback(near.vectors.release)
                step = Coarsening(Run(device, load, a.dtype, of_level), multiply, settings)
                levels.append(_level(step, a, nnz))
                if len(levels) == settings.levels or a.shape[0] <= settings.coarsest:
                    return levels
                made = _coarsen(step, levels[-1], unknowns, near, settings.stall)
                if made is None:
                    return levels
                levels[-1], a, nnz, near, unknowns = made
    except BaseException:
        for level in levels:
            level.release()
        raise


def _level(step: Coarsening, a: Storage, nnz: int) -> DeviceLevel:
    try:
        return DeviceLevel(a, nnz, step.diagonal(a))
    except BaseException:
        a.release()
        raise


def _coarsen(
    step: Coarsening, level: DeviceLevel, unknowns: int, near: NearNull, stall: float
) -> tuple[DeviceLevel, Storage, int, NearNull, int] | None:
    """Return a level with its prolongator, and what the next one is made of; None where that would not be coarser."""
    rows = level.a.shape[0]
    with ExitStack() as made:
        aggregates, keys, count = step.aggregates(level, unknowns)
        made.callback(aggregates.release)
        if not count or count * near.count > stall * rows:
            return None
        t, coarse_near = step.tentative(aggregates, keys, rows // unknowns, count, unknowns, near)
        made.callback(coarse_near.vectors.release)
        radius = step.radius(level)
        p = step.prolongator(level, aggregates, t, unknowns, near.count, radius)
        made.callback(p.release)
        r = step.transposed(p)
        made.callback(r.release)
        a, nnz = step.coarse(level.a, p, r)
        made.pop_all()
    level = replace(level, radius=radius, p=p, r=r, aggregates=aggregates)
    return level, a, nnz, coarse_near, near.count


def _check(a: Storage, vectors: NDArray[np.floating], unknowns: int) -> None:
    if a.shape[0] != a.shape[1]:
        raise ReproError("multigrid needs a square matrix", expected="as many columns as rows", actual=a.shape)
    if unknowns < 1 or a.shape[0] % unknowns:
        raise ReproError("the unknowns of a node do not divide the rows", expected=a.shape[0], actual=unknowns)
    if vectors.ndim != 2 or vectors.shape[0] != a.shape[0] or not vectors.shape[1]:
        raise ReproError("the near null space does not fit", expected=f"({a.shape[0]}, k)", actual=tuple(vectors.shape))
