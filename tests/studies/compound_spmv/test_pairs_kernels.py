"""Kernels of pairs: on the CPU, as CUDA on the CPU, and compiled for an H200."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen import nvcc
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU, STATIC_SHARED, get_target
from repro.entries import entries, get_entry
from repro.errors import ReproError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import kernel_name, render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import (
    INNER,
    TILE_ROWS,
    VECTOR,
    Layout,
    Schedule,
    VariantId,
    extended_layouts,
    extended_space,
)
from repro.sparse.ordering import UNKNOWNS
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.emulated_workspace import emulated
from support.symmetric_problems import KINDS, disturbed, symmetric_problem, without_entry

pytestmark = pytest.mark.medium

PRECISIONS = ("single", "double")
EFFORT = SamplingPlan(3)
SM_90 = get_target("sm_90")
PAIRS_64 = Layout("Pairs-64", "AoSoA", "AoS")
ONE = Schedule("direct", 64, 1, in_flight=2)
#: What the shapes of a matrix can be; the rest are matrices of several tiles, the last partly filled, with empty rows.
SHAPES = {
    "one tile": {"n": 64},
    "less than a slice": {"n": 5},
    "two rows": {"n": 2},
    "no diagonal": {"n": 150, "diagonal": False},
    "a row longer than a tile": {"n": 200, "hub": 40},
    "one row more than tiles": {"n": 129},
}


def variants(
    folder: Path, templates: Path, entry: str, precision: str, layout: Layout, schedules: list[Schedule]
) -> list[Variant]:
    source = render_module(templates, entry, precision, layout, schedules, CPU, "tests")
    module = compile_module(source, CPU, folder / f"{layout}.json")
    return [Variant(VariantId(layout, schedule), module, folder, "extended") for schedule in schedules]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules: what one test has compiled others take."""
    return tmp_path_factory.mktemp("pairs")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_every_kernel_is_right(
    folder: Path, templates: Path, make_bench: Callable[..., Bench], entry: str, kind: str, precision: str
) -> None:
    """All schedules of the space on the CPU, and every order of members under one.

    In one precision every second schedule has rows as they come and the others have clusters, in the other they change.
    """
    bench = make_bench(symmetric_problem(entry, kind), precision)
    searched = [layout for layout in extended_layouts(get_entry(entry)) if layout.outer == "Pairs-64"]
    assert {layout.ordering for layout in searched} == {"natural", "clustered"}
    found = []
    for layout in searched:
        first = (layout.ordering == "clustered") != (precision == "double")
        found += variants(folder, templates, entry, precision, layout, extended_space(CPU, layout)[first::2])
    assert {variant.id.schedule for variant in found} == set(extended_space(CPU, searched[0]))
    found += [found[0].reordered(ordering) for ordering in UNKNOWNS[1:]]
    for inner, vector in zip(INNER, VECTOR, strict=True):
        found += variants(folder, templates, entry, precision, Layout("Pairs-64", inner, vector), [ONE])
    rows = [bench.try_once(variant, "search", EFFORT) for variant in found]
    bench.release()
    assert not [(row.name, row.status, row.message) for row in rows if row.status != "ok"]
    assert all(0 < row.error <= 1 for row in rows)
    assert {row["ordering"] for row in rows} == set(UNKNOWNS)
    assert all(0 < row["matrix_bytes"] < row.bytes for row in rows)


@pytest.mark.parametrize("shape", SHAPES)
def test_matrices_of_all_shapes(folder: Path, templates: Path, make_bench: Callable[..., Bench], shape: str) -> None:
    problem = symmetric_problem("complex", HERMITIAN, **SHAPES[shape])
    bench = make_bench(problem)
    found = [
        *variants(folder, templates, "complex", "double", PAIRS_64, [ONE]),
        *variants(folder, templates, "complex", "double", Layout.parse(f"{PAIRS_64}@clustered"), [ONE]),
    ]
    rows = [bench.try_once(variant, "search", EFFORT) for variant in found]
    bench.release()
    assert [row.status for row in rows] == ["ok", "ok"], [row.message for row in rows]


def test_rows_are_clustered_once_and_the_seconds_are_said(
    folder: Path, templates: Path, make_bench: Callable[..., Bench]
) -> None:
    bench = make_bench(symmetric_problem("real", SYMMETRIC, 1234))
    said: list[str] = []
    rows = []
    bench.workspace.say = said.append
    for layout, schedule in (("Pairs-64", ONE), ("Sl-4", Schedule("direct", 64, 1, width=4))):
        clustered = Layout(layout, "AoSoA", "AoS", "clustered")
        (variant,) = variants(folder, templates, "real", "double", clustered, [schedule])
        rows.append(bench.try_once(variant, "search", EFFORT))
    clustering = bench.workspace._cached["row order", "bisected"][1]
    bench.release()
    assert [row.status for row in rows] == ["ok", "ok"]
    assert all(row.packing > clustering > 0 for row in rows)  # the second packing took what the first found out
    (line,) = said
    assert re.fullmatch(r"found the order bisected of 1,234 rows in \d+\.\d s", line)


@pytest.mark.parametrize("break_it", [without_entry, disturbed])
def test_what_is_not_symmetric_is_not_tried(
    folder: Path,
    templates: Path,
    make_bench: Callable[..., Bench],
    break_it: Callable[[Matrix], Matrix],
) -> None:
    bench = make_bench(break_it(symmetric_problem("quaternion", HERMITIAN)))
    for layout in (PAIRS_64, Layout.parse(f"{PAIRS_64}@clustered")):
        (variant,) = variants(folder, templates, "quaternion", "double", layout, [ONE])
        row = bench.try_once(variant, "search", EFFORT)
        assert (row.status, row.message.split(":")[0]) == ("unsupported", "not symmetric")
    bench.release()


def test_a_tile_that_does_not_fit_into_shared_memory_is_not_tried(
    folder: Path, templates: Path, make_bench: Callable[..., Bench]
) -> None:
    bench = make_bench(symmetric_problem("block3", SYMMETRIC, 3000, hub=40))
    (variant,) = variants(folder, templates, "block3", "double", PAIRS_64, [ONE])
    row = bench.try_once(variant, "search", EFFORT)
    bench.release()
    assert row.status == "unsupported"
    assert f"which has room for {(STATIC_SHARED - 128) // 24}" in row.message


@pytest.mark.sampled(5)
@needs_compiler
@pytest.mark.parametrize("shape", ["", "-u4-cs", "-w2-u2-cg", "-w4", "-u2-el", "-w2-cs-p", "-u2-p", "-u2-cs-a"])
@pytest.mark.parametrize("outer", TILE_ROWS)
def test_as_cuda_on_the_cpu(
    built_folder: Path, templates: Path, monkeypatch: pytest.MonkeyPatch, outer: str, shape: str
) -> None:
    """Entries, precisions and orders of the rows take turns; L2 is too small for the matrix."""
    monkeypatch.setattr(EmulatedCuda, "l2_bytes", 1024)
    turn = 4 * list(TILE_ROWS).index(outer) + len(shape)
    width = int((re.findall(r"w(\d)", shape) or ["1"])[0])
    entry, kind = KINDS[turn % len(KINDS)]
    layout = Layout(outer, "AoSoA", "AoS", ("natural", "clustered")[turn % 2])
    id = VariantId.parse(f"{layout}/direct-{TILE_ROWS[outer] * width}-1{shape}")
    errors = emulated(symmetric_problem(entry, kind, 270), PRECISIONS[turn // 2 % 2], id, templates, built_folder)
    assert errors.max() <= 1  # and no NaN


@pytest.mark.sampled(8)
@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    "schedule",
    [
        "direct-128-4-w2-u2",
        "direct-64-4-u2-p",
        "direct-64-4-a",
        "direct-64-4-u4-f",
        "direct-128-4-w2-f",
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_as_cuda_on_the_cpu(built_folder: Path, templates: Path, shape: str, schedule: str) -> None:
    problem = symmetric_problem("block3", SYMMETRIC, **SHAPES[shape])
    id = VariantId.parse(f"Pairs-64-AoSoA-AoS/{schedule}")
    assert emulated(problem, "double", id, templates, built_folder).max() <= 1


@pytest.mark.sampled(2)
@needs_compiler
@pytest.mark.parametrize("vector", VECTOR)
@pytest.mark.parametrize("entry", ["block3", "complex"])
def test_x_is_copied_in_every_order_of_its_members(
    built_folder: Path, templates: Path, entry: str, vector: str
) -> None:
    """In single precision, too, where an entry of three numbers has no wider part than one."""
    problem = symmetric_problem(entry, SYMMETRIC, 150)
    id = VariantId.parse(f"Pairs-64-AoSoA-{vector}/direct-128-4-w2-a")
    for precision in PRECISIONS:
        assert emulated(problem, precision, id, templates, built_folder).max() <= 1


@needs_compiler
def test_a_matrix_that_l2_holds_is_not_kept_in_parts(built_folder: Path, templates: Path) -> None:
    problem = symmetric_problem("real", SYMMETRIC, 150)
    with pytest.raises(Unsupported, match="all of it"):
        emulated(problem, "double", VariantId.parse("Pairs-64-AoSoA-AoS/direct-64-4-el"), templates, built_folder)


@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
def test_compiled_for_an_h200_nothing_spills(tmp_path: Path, templates: Path) -> None:
    layout = Layout.parse("Pairs-128-AoSoA-AoS@clustered")
    schedules = [
        Schedule("direct", 128, 4, 1, 4, "cs"),
        Schedule("direct", 256, 2, 2, 2),
        *(
            schedule
            for schedule in extended_space(SM_90, layout)
            if schedule.block_size * schedule.blocks_per_sm == 512
        ),
    ]
    assert {schedule.prefetch for schedule in schedules} == {"", "p", "a", "f"}
    module = compile_module(
        render_module(templates, "block3", "double", layout, schedules, SM_90, "tests"), SM_90, tmp_path / "m"
    )
    assert module.resources, module.message
    for schedule in schedules:
        assert module.resources[kernel_name(schedule, SM_90)]["spills"] == 0


@pytest.mark.wording
@pytest.mark.parametrize(
    "schedule", ["static-64-1", "direct-128-1", "direct-64-1-w2", "chunk-64-1", "dynamic-64-1", "direct-32-1"]
)
def test_schedules_that_are_not_a_tile_a_block_are_refused(schedule: str) -> None:
    with pytest.raises(ReproError, match="pairs use one block per tile"):
        VariantId.parse(f"Pairs-64-AoSoA-AoS/{schedule}")


def test_a_matrix_without_values_has_no_pairs(templates: Path) -> None:
    assert not any(layout.stores_pairs for layout in extended_layouts(entries()["pattern"]))
    with pytest.raises(ReproError, match="a matrix without values has no pairs"):
        render_module(templates, "pattern", "double", PAIRS_64, [ONE], CPU, "tests")
