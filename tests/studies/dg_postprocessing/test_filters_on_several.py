"""Filtering over a CPU that is split in two, and over contexts of their own: parts of points, and shares of patches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.devices.device_group import Devices, device_counts
from repro.devices.opencl import OpenClDevice
from repro.errors import IncorrectError
from repro.filtering.grids import (
    consecutive,
    evaluation_points,
    grid_of_points,
    of_field,
    parts_of,
    patches_of,
    work_of_cells,
)
from repro.filtering.reference import count_work
from repro.filtering.spline_kernel import kernel
from repro.problems.generated_fields import generate_field
from repro.sparse.device_primitives import ModuleFile
from repro.studies.dg_postprocessing import POINT_CELL, SEVERAL
from repro.studies.dg_postprocessing.ids import FilterId
from repro.studies.dg_postprocessing.kernels import modules_of, render_key
from repro.studies.dg_postprocessing.operands import Work2D, contour_operations, triangle_operations
from repro.studies.dg_postprocessing.runnables_plane import (
    DistributedFilter,
    FilterParts,
    FilterPatches,
    GatherParts,
    device_filters,
)
from repro.tuning.search import Choice
from support.benches import QUICK, field_benches
from support.triangulations import graded, hexagonal, one_huge, structured

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(3)
EDGES, ELEMENT = FilterId("edges", 16, 0.5, 4), FilterId("element", 16, 0.5, 1)
MADE = ((FilterParts, EDGES), (GatherParts, EDGES), (FilterPatches, ELEMENT))
CHOICES = [
    Choice("event", "edges", EDGES), Choice("graph", "edges", FilterId.parse("edges-t64-c1-b4")),
    Choice("event", "paper/element", ELEMENT), Choice("event", "point", FilterId.parse("point-t16-c1-b1")),
]  # fmt: skip


@pytest.fixture(scope="module")
def modules(tmp_path_factory, templates):
    """The modules of a degree, compiled at first use."""
    folder, built = tmp_path_factory.mktemp("parts"), {}

    def of(degree):
        for name in () if degree in built else modules_of(degree):
            manifest = folder / f"{name}.json"
            compile_module(render_key(templates, f"plane/{name}", CPU), CPU, manifest)
            built.setdefault(degree, {})[name] = ModuleFile.read(manifest)
        return built[degree]

    return of


@pytest.fixture
def make_bench(modules_folder):
    """Open a bench on several devices for a field."""
    yield from field_benches(modules_folder, **{**QUICK, "cpu_budget": 0.01})


def apart(count):
    """Return a CPU as several devices with a context each, as far apart as its parts are."""
    return Devices([OpenClDevice() for _ in range(count)])


def test_what_was_chosen_is_run_over_2_4_and_all():
    assert [device_counts(count) for count in (1, 2, 3, 4, 6, 8)] == [[], [2], [2, 3], [2, 4], [2, 4, 6], [2, 4, 8]]
    assert device_filters({}, CHOICES, 1) == []
    names = [runnable.name for runnable in device_filters({}, CHOICES, 2)]
    assert names == [f"filter-2/{EDGES}", f"gather-2/{EDGES}", f"filter-2/{ELEMENT}"]
    assert [runnable.devices for runnable in device_filters({}, CHOICES[:1], 4)] == [2, 2, 4, 4]


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(("degree", "variance"), [(1, "low"), (2, "high")])
def test_everything_is_right_and_timed_on_two(halves, modules, make_bench, degree, variance):
    bench = make_bench(halves, 60, degree, variance)
    for runnable in device_filters(modules(degree), CHOICES, 2):
        row = bench.try_once(runnable, "report", EFFORT)
        assert (row.name, row.status, row.message) == (runnable.name, "ok", None)
        assert row.error <= 1 and row.event_median > 0 and row.graph_median is None
        assert (row.kind, row["devices"], row["what"]) == (SEVERAL, 2, runnable.name.partition("-")[0])
    assert row["copies"] > 2 * len(bench.operands.points) and row.space == "paper"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize(("kind", "id"), MADE)
def test_any_number_of_devices(modules, make_bench, count, kind, id):
    bench = make_bench(apart(count), 40)
    row = bench.try_once(kind(modules(1), id, count), "report", EFFORT)
    assert (row.status, row.message) == ("ok", None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "id"), MADE)
def test_fewer_devices_than_asked_for_are_unsupported(modules, make_bench, kind, id):
    row = make_bench(apart(1), 40).try_once(kind(modules(1), id, 2), "report", EFFORT)
    assert (row.status, row.message) == ("unsupported", "there are 1 devices, not 2")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "id"), MADE)
def test_a_device_that_does_nothing_is_found(modules, make_bench, monkeypatch, kind, id):
    devices = apart(2)
    bench = make_bench(devices, 40)
    bind = devices[1].bind
    monkeypatch.setattr(
        devices[1],
        "bind",
        lambda kernel, *given: (
            (lambda: None) if kernel.handle.function_name.startswith(id.method) else bind(kernel, *given)
        ),
    )
    runnable = kind(modules(1), id, 2)
    bench.prepare(runnable)
    with pytest.raises(IncorrectError, match=r"wrong|differ"):
        bench.check(runnable)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("copies", ["second", "none"])
def test_values_that_do_not_arrive_are_found(modules, make_bench, monkeypatch, copies):
    devices = apart(3)
    bench = make_bench(devices, 40)
    exchange = devices.exchange
    monkeypatch.setattr(devices, "exchange", lambda given: exchange(given[:1] if copies == "second" else []))
    for kind, id in (MADE[1], MADE[2]):
        runnable = kind(modules(1), id, 3)
        bench.prepare(runnable)
        with pytest.raises(IncorrectError, match=r"wrong|differ"):
            bench.check(runnable)
        runnable.release()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mesh", [graded(12), of_field(generate_field("delaunay", triangles=1000, variance="high"))])
@pytest.mark.parametrize("count", [2, 4])
def test_parts_have_equal_work_as_it_is_counted(mesh, count):
    degree = 1
    points = evaluation_points(mesh, degree)
    half = kernel(degree).width * mesh.longest / 2
    grid = grid_of_points(mesh, points, POINT_CELL * mesh.longest)
    bounds = consecutive(grid, work_of_cells(mesh, grid, half, triangle_operations(mesh, degree, mesh.longest)), count)
    assert bounds[0] == 0 and bounds[-1] == len(points) and (np.diff(bounds) > 0).all()
    drawn = np.arange(0, len(points), 20)  # of all of them it would take long
    counted = count_work(mesh, points[grid.members[drawn]], degree, mesh.longest)

    def most(bounds):
        """Return the work of the part with the most over the mean."""
        work = []
        for begin, end in pairwise(bounds):
            own = (begin <= drawn) & (drawn < end)
            counts = counted.pairs[own], counted.triangles[own], counted.segments[own]
            work.append(contour_operations(Work2D(*(int(numbers.sum()) for numbers in counts)), degree))
        return max(work) / np.mean(work)

    assert most(bounds) <= 1.06 < most(np.linspace(0, len(points), count + 1))


@pytest.mark.parametrize("mesh", [structured(1), one_huge()])
def test_parts_of_few_cells_are_cut_within_them(mesh):
    points = evaluation_points(mesh, 3)
    grid = grid_of_points(mesh, points, POINT_CELL * mesh.longest)
    work = work_of_cells(mesh, grid, 2 * mesh.longest, triangle_operations(mesh, 3, mesh.longest))
    assert (work > 0).all() and (np.diff(consecutive(grid, work, 4)) > 0).all()


def test_fewer_points_than_parts_leave_some_empty():
    mesh = structured(1)
    grid = grid_of_points(mesh, np.array([[0.1, 0.1], [0.9, 0.9]]))
    bounds = consecutive(grid, np.ones(len(grid.starts) - 1), 5)
    assert bounds[0] == 0 and bounds[-1] == 2 and (np.diff(bounds) >= 0).all() and (np.diff(bounds) == 0).any()


def test_shares_of_patches_are_all_triangles_once():
    mesh, degree = hexagonal(8), 1
    points = evaluation_points(mesh, degree)
    grid = grid_of_points(mesh, points)
    whole = patches_of(mesh, grid, 0.1, parts_of(mesh, 13))
    shares = [patches_of(mesh, grid, 0.1, parts_of(mesh, 13), (at, 4)) for at in range(4)]
    assert [len(share.starts) - 1 for share in shares] == [3, 3, 3, 4]
    np.testing.assert_array_equal(np.concatenate([share.order for share in shares]), whole.order)
    assert sum(share.copies for share in shares) == whole.copies
    with pytest.raises(ValueError, match="2 patches for 4 shares"):
        patches_of(mesh, grid, 0.1, parts_of(mesh, 2), (0, 4))


def test_names_tell_everything_apart():
    every = device_filters({}, CHOICES, 8)
    assert len({runnable.name for runnable in every}) == len(every) == 9
    assert all(isinstance(runnable, DistributedFilter) for runnable in every)
