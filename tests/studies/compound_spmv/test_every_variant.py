"""Every entry × precision × layout is run on the CPU and verified; schedules take turns."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.entries import entries
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import Layout, Schedule, VariantId, all_layouts, extended_layouts, extended_space
from repro.sparse.ordering import UNKNOWNS
from support import guarded_index

SCHEDULES = [Schedule("static", 16, 3), Schedule("static", 64, 1), Schedule("dynamic", 32, 2)]
EFFORT = SamplingPlan(3)
PRECISIONS = ("single", "double")


def variants(folder, templates, entry, precision, layout, schedules=SCHEDULES):
    source = render_module(templates, entry, precision, layout, schedules, CPU, "tests")
    module = compile_module(source, CPU, folder / f"{layout}.json")
    return [Variant(VariantId(layout, schedule), module, folder) for schedule in schedules]


def turn_of(entry, precision):
    return sorted(entries()).index(entry) + (precision == "double")


def shapes_of_ours(layout, entry, precision):
    """Return a quarter of a layout's schedules of all shapes; the next entry, and precision, has the next quarter.

    Where rows are split over blocks, one schedule of this kind is beside them.
    """
    space = extended_space(CPU, layout)
    shapes = {
        (s.width, s.in_flight, s.kind, s.prefetch): s
        for s in space
        if s.kind != "split" and (s.in_flight != 4 or s.width == 4)
    }
    dynamic = Schedule("dynamic", 32, 2, width=max(s.width for s in shapes.values()), in_flight=2)
    turn, found = turn_of(entry, precision), [*shapes.values(), dynamic]
    parts = min(4, len(found))  # slices of 32 rows have fewer shapes
    split = {s.in_flight: s for s in space if s.kind == "split"}
    return [*found[turn % parts :: parts], *[*split.values()][turn % 2 :: 2]]


def test_each_shape_has_its_turn():
    """Every shape of ours in both precisions, and every width with every entry."""
    cases = [(entry, precision) for entry in entries() for precision in PRECISIONS]
    for layout in extended_layouts(entries()["block3"]):
        if layout.stores_pairs:
            continue
        found = {case: shapes_of_ours(layout, *case) for case in cases}
        space = extended_space(CPU, layout)
        for precision in PRECISIONS:
            of_all = [s for (_, other), shapes in found.items() if other == precision for s in shapes]
            assert {(s.width, s.kind) for s in space} <= {(s.width, s.kind) for s in of_all}
            assert {(s.width, s.prefetch) for s in space} <= {(s.width, s.prefetch) for s in of_all}
            assert {(s.in_flight, s.prefetch) for s in space} <= {(s.in_flight, s.prefetch) for s in of_all}
            assert "dynamic" in {s.kind for s in of_all}
        for entry in entries():
            of_entry = [s for precision in PRECISIONS for s in found[entry, precision]]
            assert {s.width for s in of_entry} == {s.width for s in space}
            assert {s.prefetch for s in of_entry} == {s.prefetch for s in space}


@pytest.mark.exhaustive
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("entry", sorted(entries()))
def test_every_layout_and_schedule_kind_is_right(tmp_path, templates, make_bench, small_problem, entry, precision):
    """Static schedules take turns."""
    bench = make_bench(small_problem(entry), precision)
    rows = [
        bench.try_once(variant, "search", EFFORT)
        for number, layout in enumerate(all_layouts(), turn_of(entry, precision))
        for variant in variants(tmp_path, templates, entry, precision, layout, [SCHEDULES[number % 2], SCHEDULES[2]])
    ]
    bench.release()
    assert len(rows) == 2 * len(all_layouts())
    assert {(row["layout"], row["schedule"]) for row in rows} == {
        (str(layout), kind) for layout in all_layouts() for kind in ("static", "dynamic")
    }
    assert Counter(row.status for row in rows) == {"ok": len(rows)}
    assert all(0 <= row.error <= 1 for row in rows)  # sums without products, in the reference's order, are exact
    assert all(row.event_median > 0 for row in rows)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("precision", [pytest.param("single", marks=pytest.mark.exhaustive), "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_every_layout_of_ours_is_right(tmp_path, templates, make_bench, small_problem, entry, precision):
    """Threads to a row, entries in flight and what is asked for ahead take turns; one of each layout is reordered.

    Pairs have tests of their own, on symmetric matrices. The problem has a row that is long enough to be a block's own
    in clustered layouts.
    """
    bench = make_bench(small_problem(entry, n=300), precision)
    found = []
    for layout in extended_layouts(entries()[entry]):
        if layout.stores_pairs:
            continue
        of_layout = variants(tmp_path, templates, entry, precision, layout, shapes_of_ours(layout, entry, precision))
        found += of_layout
        if layout.ordering == "natural":
            found += [of_layout[-1].reordered(ordering) for ordering in UNKNOWNS[1:]]
    rows = [bench.try_once(variant, "search", EFFORT) for variant in found]
    bench.release()
    wrong = [(row.name, row.status, row.message) for row in rows if row.status != "ok"]
    assert not wrong
    assert all(0 <= row.error <= 1 for row in rows)
    assert {row["ordering"] for row in rows} == set(UNKNOWNS)


def test_one_flipped_sign_is_incorrect_and_the_others_are_done(tmp_path, templates, make_bench, small_problem):
    """With `+=` turned to `-=` in CSR's kernels alone, their rows have no time and the other layouts' rows do."""
    flipped = tmp_path / "kernels"
    shutil.copytree(templates, flipped)
    module = flipped / "sparse/entries.j2"
    right = "{{ statement }}"
    wrong = '{{ statement.replace("+=", "-=", 1) if outer == "csr" else statement }}'
    assert right in module.read_text()
    module.write_text(module.read_text().replace(right, wrong))
    bench = make_bench(small_problem("complex"))
    rows = [
        bench.try_once(variant, "search", EFFORT)
        for layout in (Layout.parse("CSR-AoS-AoS"), Layout.parse("ELL-SoA-AoS"))
        for variant in variants(tmp_path, flipped, "complex", "double", layout)
    ]
    bench.release()
    assert Counter((row["layout"], row.status) for row in rows) == {
        ("CSR-AoS-AoS", "incorrect"): 3,
        ("ELL-SoA-AoS", "ok"): 3,
    }
    for row in rows:
        assert (row.event_median is None) == (row.status == "incorrect")
        assert row.status == "ok" or (row.error > 1 and "numbers are wrong" in row.message)


def test_nothing_is_read_past_the_order_of_the_rows(templates, tmp_path):
    script = Path(guarded_index.__file__)
    command = [sys.executable, script, templates, tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
