"""How kernels load the matrix: prefetches, and the share that is kept in L2; pairs have separate tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen import nvcc
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.entries import entries, get_entry
from repro.errors import ReproError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import kernel_name, render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import (
    LOADS,
    Layout,
    Schedule,
    VariantId,
    extended_layouts,
    extended_space,
)
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.emulated_workspace import SM_90, emulated

pytestmark = pytest.mark.medium

OURS = ("CSR", "ELLPACK", "Sl-4", "Sl-8", "CSR@clustered", "Sl-4@clustered")
#: All there is of loads; long rows and short ones, one thread to a row and a warp.
SHAPES = ("p", "u2-cs-p", "w4-u2-cg-p", "w32-p", "a", "w2-u2-a", "w8-a", "el", "w2-u2-el", "w4-u2-el-p")


def layout_of(outer: str) -> Layout:
    name, _, ordering = outer.partition("@")
    return Layout(name, "AoSoA", "AoS", ordering or "natural")


def is_new(schedule: Schedule) -> bool:
    """Return whether a schedule is none of those that were recorded in `h200`."""
    return schedule.load == "el" or bool(schedule.prefetch)


@pytest.mark.sampled(2)
@needs_compiler
@pytest.mark.parametrize(("outer", "shape"), [(OURS[(i + j) % 6], SHAPES[i]) for i in range(10) for j in (0, 3)])
def test_as_cuda_on_the_cpu(
    built_folder: Path,
    templates: Path,
    small_problem: Callable[..., Matrix],
    monkeypatch: pytest.MonkeyPatch,
    outer: str,
    shape: str,
) -> None:
    """Entries, precisions and kinds of schedules take turns; a row is long enough to be a block's own."""
    monkeypatch.setattr(EmulatedCuda, "l2_bytes", 1024)
    turn = OURS.index(outer) + SHAPES.index(shape)
    entry = sorted(entries())[turn % len(entries())]
    kind = ("direct-64-2", "chunk-64-1", "static-64-2", "dynamic-64-1")[turn % 4]
    id = VariantId.parse(f"{layout_of(outer)}/{kind}-{shape}")
    precision = ("single", "double")[turn // 2 % 2]
    errors = emulated(small_problem(entry, n=200), precision, id, templates, built_folder)
    assert errors.max() <= 1  # and no NaN


@needs_compiler
def test_copies_are_waited_for(
    tmp_path: Path, templates: Path, small_problem: Callable[..., Matrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the wait the emulated kernel reads what was in shared memory before, and the result is wrong."""
    id, problem = VariantId.parse("Sl-4-AoSoA-AoS/direct-64-2-w2-a"), small_problem("block3", n=200)
    assert emulated(problem, "double", id, templates, tmp_path).max() <= 1
    source = "support.emulated_workspace.render_module"
    monkeypatch.setattr(source, lambda *given: render_module(*given).replace("AWAIT_COPIES(1);", ""))
    assert not emulated(problem, "double", id, templates, tmp_path).max() <= 1


def test_what_the_cpu_has_no_word_for_is_a_plain_load(
    tmp_path: Path, templates: Path, make_bench: Callable[..., Bench], small_problem: Callable[..., Matrix]
) -> None:
    """Loads that keep a share in L2 are in no space of the CPU, and can be named there."""
    layout = layout_of("Sl-4")
    assert "el" not in {schedule.load for schedule in extended_space(CPU, layout)}
    schedules = [Schedule("direct", 64, 1, 2, 2, "el"), Schedule("chunk", 64, 1, 4, 1, "el", "p")]
    source = render_module(templates, "block3", "double", layout, schedules, CPU, "tests")
    module = compile_module(source, CPU, tmp_path / "m.json")
    bench = make_bench(small_problem("block3"))
    found = [Variant(VariantId(layout, schedule), module, tmp_path, "extended") for schedule in schedules]
    rows = [bench.try_once(variant, "search", SamplingPlan(3)) for variant in found]
    bench.release()
    assert Counter(row.status for row in rows) == {"ok": 2}, [row.message for row in rows]
    assert {row["load"] for row in rows} == {"el"}


@needs_compiler
def test_a_matrix_that_l2_holds_is_not_kept_in_parts(
    built_folder: Path, templates: Path, small_problem: Callable[..., Matrix]
) -> None:
    id = VariantId.parse("Sl-4-AoSoA-AoS/direct-64-2-w2-el")
    with pytest.raises(Unsupported, match="all of it"):
        emulated(small_problem("real", n=200), "double", id, templates, built_folder)


@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("entry", ["block3", "pattern"])
def test_compiled_for_an_h200_nothing_spills(tmp_path: Path, templates: Path, entry: str) -> None:
    layout = layout_of("Sl-4")
    schedules = [schedule for schedule in extended_space(SM_90, layout) if is_new(schedule) and schedule.width == 8]
    assert {schedule.prefetch for schedule in schedules} == {"", "p", "a"}, "f is of pairs alone"
    source = render_module(templates, entry, "double", layout, schedules, SM_90, "tests")
    module = compile_module(source, SM_90, tmp_path / "m")
    assert module.resources, module.message
    assert {module.resources[kernel_name(schedule, SM_90)]["spills"] for schedule in schedules} == {0}


@pytest.mark.parametrize("entry", sorted(entries()))
def test_spaces_stay_small(entry: str) -> None:
    """A search of all variants has to end: ways to load make a layout's variants no more than 1.6 times as many."""
    for layout in extended_layouts(get_entry(entry)):
        space = extended_space(SM_90, layout)
        before = [schedule for schedule in space if not is_new(schedule)]
        assert len(set(space)) == len(space) <= 1.6 * len(before)
        of_slices = layout.outer == "Sl-32" or layout.ordering == "sigma"
        lacking = {"cg"} if layout.stores_pairs else {"el"} if of_slices else set()
        assert {schedule.load for schedule in space} == set(LOADS) - lacking
        assert any(schedule.prefetch == "f" for schedule in space) == layout.stores_pairs
        if not layout.stores_pairs:  # those of `h200` are all there
            assert {schedule.load for schedule in before} == {"ca", "cg", "cs"}
            alike = [schedule for schedule in before if schedule.kind != "split"]
            assert all(replace(schedule, load=load) in alike for schedule in alike for load in ("ca", "cg", "cs"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CSR-AoSoA-AoS/direct-64-16-w4-f", "for pairs alone"),
        ("CSR-AoSoA-AoS/direct-64-16-w4-cs-a", "for pairs alone"),
        ("CSR-AoS-AoS/static-256-4-p", "only tiles"),
        ("CSR-SoA-AoS/static-256-4-a", "only tiles"),
        ("CSR-AoSoA-AoS/direct-64-16-w4-p-cs", "unknown schedule"),
        ("CSR-AoSoA-AoS/direct-64-16-w4-p-a", "unknown schedule"),
    ],
)
def test_what_there_is_not_is_one_message(text: str, message: str) -> None:
    with pytest.raises(ReproError, match=re.escape(message)):
        VariantId.parse(text)
