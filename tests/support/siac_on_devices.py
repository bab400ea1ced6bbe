"""What every way to filter on a device has to do, whatever the device: shared by tests on the CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.build_cache import compile_module
from repro.devices.base import Buffer, Device, Program
from repro.filtering.grids import SortedCells, Triangulation
from repro.filtering.kernels import render_siac
from repro.filtering.matrix import SHARES, FilterMatrix, MatrixRows
from repro.filtering.matrix_free import (
    LocalPerPoint,
    MatrixFree,
    PerElement,
    PerElementAtomic,
    PerPoint,
    Points,
    Stencil,
)
from repro.filtering.stencil_geometry import predicted_pairs
from repro.galerkin import mode_count
from repro.sparse.device_primitives import LaunchContext
from support.emulated_cuda import EmulatedCuda, compile_kernels

#: Ways that clip or go around edges, each on grids of other cells than the others.
WAYS: dict[str, Callable[..., MatrixFree]] = {
    "point": lambda *given, **keys: PerPoint(*given, method="point", **keys),
    "edges": lambda *given, **keys: PerPoint(*given, method="edges", **keys),
    "element": PerElement,
    "element in many patches": lambda *given, **keys: PerElement(*given, patches=13, **keys),
    "atomic": PerElementAtomic,
    "atomic in many patches": lambda *given, **keys: PerElementAtomic(*given, patches=13, **keys),
}
#: By what part of the largest value two launches may differ, where sums come in any order.
REORDERED = 1e-12


def siac_loader(device: Device, templates: Path, folder: Path) -> Callable[[str], Program]:
    """Return what loads a module of the filter, compiled at first use."""
    programs: dict[str, Program] = {}

    def load(module: str) -> Program:
        if module not in programs:
            source = render_siac(templates, module, device.target, "tests")
            if isinstance(device, EmulatedCuda):
                programs[module] = compile_kernels(source, folder)
            else:
                built = compile_module(source, device.target, folder / f"{module}.json")
                assert built.binary, built.message
                programs[module] = device.load(folder / built.binary)
        return programs[module]

    return load


@contextmanager
def stencil_on(
    device: Device,
    load: Callable[[str], Program],
    mesh: Triangulation,
    points: NDArray[np.float64],
    degree: int,
    scale: float | None = None,
    cell: float | None = None,
) -> Iterator[tuple[LaunchContext, Stencil, Points]]:
    """Provide the arguments with which a filter on a device is made."""
    with ExitStack() as held:
        launches = LaunchContext(device, load, held)
        stencil = Stencil(mesh, degree, scale or mesh.longest)
        yield launches, stencil, Points(launches, SortedCells(mesh, points), cell and cell * mesh.longest)


def filtered(
    device: Device,
    load: Callable[[str], Program],
    way: str,
    mesh: Triangulation,
    points: NDArray[np.float64],
    degree: int,
    modes: NDArray[np.float64],
    *,
    basis: str = "dubiner",
    scale: float | None = None,
    cell: float | None = None,
    **keys: Any,
) -> NDArray[np.float64]:
    """Return a field filtered at points."""
    with stencil_on(device, load, mesh, points, degree, scale, cell) as given:
        direct = WAYS[way](*given, basis, **keys)
        direct.field.set(modes)
        direct.launch()
        first = direct.result()
        direct.launch()
        if way.startswith("atomic"):
            np.testing.assert_allclose(direct.result(), first, rtol=0, atol=REORDERED * np.nanmax(np.abs(first)))
        else:
            np.testing.assert_array_equal(direct.result(), first)  # the same bits each time
        return first


def several_filtered(
    device: Device,
    load: Callable[[str], Program],
    way: str,
    mesh: Triangulation,
    points: NDArray[np.float64],
    degree: int,
    modes: NDArray[np.float64],
    *,
    basis: str = "dubiner",
    scale: float | None = None,
) -> NDArray[np.float64]:
    """Return fields `(t, m, fields)` filtered at points one after the other: `(n, fields)`."""
    results = []
    with stencil_on(device, load, mesh, points, degree, scale) as given:
        direct = WAYS[way](*given, basis)
        for field in range(modes.shape[2]):
            direct.field.set(np.ascontiguousarray(modes[:, :, field]))
            direct.launch()
            results.append(direct.result())
    return np.stack(results, axis=1)


def filtered_locally(
    device: Device,
    load: Callable[[str], Program],
    mesh: Triangulation,
    points: NDArray[np.float64],
    degree: int,
    modes: NDArray[np.float64],
    scales: NDArray[np.float64],
    *,
    basis: str = "dubiner",
    derivative: tuple[int, int] = (0, 0),
    **keys: Any,
) -> tuple[NDArray[np.float64], int]:
    """Return a field filtered with an h of each point, and how many triangles meet the squares of all stencils."""
    with ExitStack() as held:
        launches, stencil = LaunchContext(device, load, held), Stencil(mesh, degree, float(scales.max()), derivative)
        local = LocalPerPoint(launches, stencil, Points(launches, SortedCells(mesh, points)), scales, basis, **keys)
        local.field.set(modes)
        local.launch()
        return local.result(), local.count()


def matrix_and_products(
    device: Device,
    load: Callable[[str], Program],
    mesh: Triangulation,
    points: NDArray[np.float64],
    degree: int,
    modes: NDArray[np.float64],
    *,
    basis: str = "dubiner",
    scale: float | None = None,
    **keys: Any,
) -> tuple[sp.csr_array, NDArray[np.float64]]:
    """Return the filter's matrix as SciPy's, and its product with fields `(t, m, fields)`."""
    with stencil_on(device, load, mesh, points, degree, scale) as (launches, stencil, places), ExitStack() as own:
        rows = MatrixRows(launches, stencil, places, basis, **keys)
        starts = rows.count()
        matrix = rows.make(starts, own)
        fields, shape = modes.shape[2], (len(points), modes.shape[2])
        result = launches.numbers(shape[0] * fields, np.float64)
        matrix.bind(launches.upload(np.ascontiguousarray(modes)), result, fields)()
        return matrix.download(), launches.download(result, shape[0] * fields, np.float64).reshape(shape)


def check_shares(launches: LaunchContext, matrix: FilterMatrix, modes: Buffer, points: int, fields: int) -> None:
    """Hold the products of warps that share tiles against that of one warp to a tile."""
    products = []
    for shares in SHARES:
        result = launches.upload(np.full((points, fields), np.nan))
        matrix.bind(modes, result, fields, shares)()
        products.append(launches.download(result, points * fields, np.float64))
    for product in products[1:]:
        np.testing.assert_allclose(product, products[0], rtol=0, atol=1e-13 * np.abs(products[0]).max())


def random_modes(mesh: Triangulation, degree: int, *more: int, seed: int = 1) -> NDArray[np.float64]:
    """Return modes of all triangles drawn at random."""
    shape = (len(mesh.triangles), mode_count(degree, 2), *more)
    return np.random.default_rng(seed).standard_normal(shape)


def bound_of(rows: sp.csr_array, modes: NDArray[np.float64], mesh: Triangulation, degree: int) -> NDArray[np.float64]:
    """Return by how much results may differ: terms of a row times ε Σ|w||u|, and what contours lose."""
    pairs = predicted_pairs(mesh, 3 * degree + 1)  # entries of a row are fewer where images of a triangle are one
    terms = np.maximum(np.diff(rows.indptr), pairs * mode_count(degree, 2)) * Stencil(mesh, degree, 1.0).loss
    return terms * np.finfo(np.float64).eps * (abs(rows) @ np.abs(modes.ravel()))
