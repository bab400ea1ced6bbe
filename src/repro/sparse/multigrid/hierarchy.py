"""The set-up of multigrid by smoothed aggregation, wholly on a device (King 2017, Algorithm 8)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Device
from repro.errors import ReproError
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels
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
    refreshable: bool = False,
    multiply: Multiply | None = None,
) -> list[DeviceLevel]:
    """Return the levels of a hierarchy, the finest first; the caller releases them.

    Parameters
    ----------
    device, load
        Where, and what gives modules in the precision of the matrix.
    a
        A square matrix, each row in one segment without room, no column twice. It becomes that of the finest level;
        where there will be none, it is given back.
    near_null
        `(n, k)` on the host; None: the constant vector.
    unknowns
        Of a node, one after the other.
    refreshable
        Whether levels keep T and A P, so that `refresh_on` can take other values.
    multiply
        Multiplies matrices; None: in one phase.

    Raises
    ------
    ReproError
        The matrix is not square, its diagonal has a zero, or the vectors do not fit.
    OutOfDeviceMemory
    """
    settings = settings or Settings()
    levels: list[DeviceLevel] = []
    left: Storage | None = a  # a matrix that no level has yet
    try:
        vectors = None if near_null is None else np.asarray(near_null)
        _check(a, vectors, unknowns)
        multiply = multiply or Multiplication(device, load, a.dtype).in_one_phase
        nnz = a.report().pointer
        near = _ones(device, load, a) if vectors is None else _upload(device, vectors, a.dtype)
        while True:
            with device.pooling(), ExitStack() as of_level:
                of_level.callback(near.vectors.release)
                step = Coarsening(Run(device, load, a.dtype, of_level), multiply, settings)
                levels.append(DeviceLevel(a, nnz, step.diagonal(a), unknowns=unknowns))
                left = None
                if len(levels) == settings.levels or a.shape[0] <= settings.coarsest:
                    return levels
                made = _coarsen(step, levels[-1], near, settings.stall, refreshable)
                if made is None:
                    return levels
                levels[-1], a, nnz, near = made
                unknowns = near.count
                left = a
    except BaseException:
        for level in levels:
            level.release()
        if left is not None:
            left.release()
        raise


def refresh_on(
    device: Device, load: Load, levels: Sequence[DeviceLevel], settings: Settings | None = None
) -> list[DeviceLevel]:
    """Return levels that were set up before, for other values of the finest matrix in the same places.

    Aggregates, tentative prolongators and the patterns of all matrices stay, those of strong connections therefore too,
    whatever the values say; diagonals, radii and the values of P, R and all coarser matrices are computed anew where
    they lie. With the same aggregates a set-up comes to the same, but for rounding.

    Parameters
    ----------
    device, load, settings
        As of the set-up.
    levels
        Set up as `refreshable`; the finest matrix has the new values.

    Raises
    ------
    ReproError
        The values make no sense. Those of some levels are new then, and those of others are not.
    OutOfDeviceMemory
    """
    multiplication = Multiplication(device, load, levels[0].a.dtype)
    refreshed: list[DeviceLevel] = []
    for at, level in enumerate(levels):
        with device.pooling(), ExitStack() as of_level:
            run = Run(device, load, level.a.dtype, of_level)
            step = Coarsening(run, multiplication.in_one_phase, settings or Settings())
            step.take_diagonal(level.a, level.diagonal)
            if level.p is None:
                refreshed.append(level)
            else:
                refreshed.append(replace(level, radius=step.radius(level)))
                step.refresh(refreshed[-1], levels[at + 1].a, multiplication)
    return refreshed


def _coarsen(
    step: Coarsening, level: DeviceLevel, near: NearNull, stall: float, refreshable: bool
) -> tuple[DeviceLevel, Storage, int, NearNull] | None:
    """Return a level with its prolongator, and what the next one is made of; None where that would not be coarser."""
    rows, unknowns = level.a.shape[0], level.unknowns
    with ExitStack() as made, ExitStack() as passing:
        aggregates, keys, count = step.aggregates(level, unknowns)
        made.callback(aggregates.release)
        if not count or count * near.count > stall * rows:
            return None
        t, coarse_near = step.tentative(aggregates, keys, rows // unknowns, count, unknowns, near)
        made.callback(coarse_near.vectors.release)
        if refreshable:
            t.hold()  # longer than for this level's set-up
            made.callback(t.release)
        radius = step.radius(level)
        p = step.prolongator(level, aggregates, t, unknowns, near.count, radius)
        made.callback(p.release)
        r = step.transposed(p)
        made.callback(r.release)
        ap = step.multiplied(level.a, p)
        (made if refreshable else passing).callback(ap.release)
        a, nnz = step.coarse_of(r, ap)
        made.pop_all()
    level = replace(level, radius=radius, p=p, r=r, aggregates=aggregates, vectors=near.count)
    return replace(level, t=t, ap=ap) if refreshable else level, a, nnz, coarse_near


def _ones(device: Device, load: Load, a: Storage) -> NearNull:
    """Return the constant vector."""
    n, with_room = a.shape[0], device.allocate(max(a.shape[0], 1) * a.dtype.itemsize)
    Kernels(device, load("setup")).over("fill_ones", n, [np.int32(n), with_room])()
    return NearNull(with_room, 1)


def _upload(device: Device, vectors: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NearNull:
    return NearNull(device.upload(np.ascontiguousarray(vectors, dtype).ravel()), vectors.shape[1])


def _check(a: Storage, vectors: NDArray[np.floating] | None, unknowns: int) -> None:
    if a.shape[0] != a.shape[1]:
        raise ReproError("multigrid needs a square matrix", expected="as many columns as rows", actual=a.shape)
    if unknowns < 1 or a.shape[0] % unknowns:
        raise ReproError(
            "the unknowns of a node do not divide the rows",
            where="unknowns",
            expected=f"a divisor of {a.shape[0]}",
            actual=unknowns,
        )
    if vectors is None:
        return
    if vectors.ndim != 2 or vectors.shape[0] != a.shape[0] or not vectors.shape[1]:
        raise ReproError("the near null space does not fit", expected=f"({a.shape[0]}, k)", actual=tuple(vectors.shape))
