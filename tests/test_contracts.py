"""What everything that is registered keeps to: run over all entries, layouts, baselines and generated problems."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.bench.timing import SamplingPlan
from repro.codegen.targets import CPU, INDEX_BYTES, get_target
from repro.entries import entries, get_entry
from repro.problems.assembly import fold_blocks
from repro.problems.generators import KINDS, generate
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.outer import get_outer, outer_formats
from repro.sparse.compound.packing import pack
from repro.sparse.compound.variants import Layout, Schedule, all_layouts
from repro.sparse.elementwise import pack_vector
from repro.sparse.library import for_problem
from repro.sparse.operands import expand

PRECISIONS = ("single", "double")
# Generated problems take their parameters from here: as small as their checks let them be
SMALL = {"cells": [10, 10, 10], "points": [4, 3, 2], "rings": 24, "segments": 24, "rows": 60, "refinements": 2}
SMALL_HUBS = [3, 3]


# entries


def run_statements(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return c after the entry's C statements, run as Python."""
    entry = get_entry(name)

    class Members:
        def __init__(self, names, values):
            self.__dict__.update(zip(names, values, strict=True))

    scope = {
        "a": Members(entry.members, a),
        "b": Members(entry.vector_members, b),
        "c": Members(entry.vector_members, c),
    }
    for statement in entry.mac:
        exec(statement, scope)
    return np.array([getattr(scope["c"], member) for member in entry.vector_members])


@pytest.mark.parametrize("name", entries())
def test_an_entrys_statements_add_what_its_expansion_multiplies(name):
    entry, random = get_entry(name), np.random.default_rng(1)
    for _ in range(5):
        a, b, c = (random.normal(size=count) for count in (len(entry.members), entry.size, entry.size))
        block = entry.expand(a[None])
        assert block.shape == (1, entry.size, entry.size)
        np.testing.assert_allclose(run_statements(name, a, b, c), c + block[0] @ b, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if entry.members])
def test_an_entrys_expansion_is_linear_and_loses_nothing(name):
    entry, random = get_entry(name), np.random.default_rng(2)
    a, b = random.normal(size=(2, 7, len(entry.members)))
    np.testing.assert_allclose(entry.expand(2 * a - b), 2 * entry.expand(a) - entry.expand(b), atol=1e-12)
    basis = entry.expand(np.eye(len(entry.members))).reshape(len(entry.members), -1)
    assert np.linalg.matrix_rank(basis) == len(entry.members)


@pytest.mark.parametrize("name", sorted(set(entries()) - {"complex"}))
def test_a_real_matrix_of_an_entrys_blocks_folds_to_the_entry(small_problem, name):
    problem = small_problem(name)
    blocks = expand(problem, problem.values)
    folded = fold_blocks(sp.csr_array(blocks), name, "toy")
    np.testing.assert_array_equal(folded.values, problem.values)
    np.testing.assert_array_equal(folded.indices, problem.indices)


# layouts


def multiply_slots(problem: Matrix, layout: Layout, warp: int, x: np.ndarray) -> np.ndarray:
    """Multiply slot by slot: every stored value times x at its stored column, added to the row the slot belongs to."""
    entry = get_entry(problem.entry)
    packed = pack(problem, problem.values, layout, warp)
    columns, values = packed.arrays["columns"], packed.arrays["values"]
    members = len(entry.members)
    values = values.reshape((packed.slots, members) if layout.inner == "AoS" else (members, packed.slots))
    values = values if layout.inner == "AoS" else values.T
    products = np.einsum("sij,sj->si", entry.expand(values), x[columns])
    products[columns < 0] = 0
    position = get_outer(layout.outer).locate(problem, warp).position
    assert not np.delete(products, position, axis=0).any(), "padding has a value"
    y = np.zeros((problem.n, entry.size))
    np.add.at(y, np.repeat(np.arange(problem.n), problem.row_lengths), products[position])
    return y


@pytest.mark.parametrize("entry", entries())
@pytest.mark.parametrize("layout", all_layouts(), ids=str)
def test_a_layout_holds_the_matrix(small_problem, layout, entry):
    problem = small_problem(entry)
    x = np.random.default_rng(3).normal(size=(problem.n, get_entry(entry).size))
    expected = expand(problem, problem.values) @ x.ravel()
    np.testing.assert_allclose(multiply_slots(problem, layout, 32, x).ravel(), expected, atol=1e-10)
    np.testing.assert_array_equal(np.sort(pack_vector(x, layout.vector)), np.sort(x.ravel()))
    assert Layout.parse(str(layout)) == layout


@pytest.mark.parametrize("warp", [1, 32])
@pytest.mark.parametrize("outer", outer_formats())
def test_an_outer_format_counts_what_it_packs(small_problem, outer, warp):
    problem = small_problem("complex")
    place = get_outer(outer).locate(problem, warp)
    slots, index = get_outer(outer).count(problem.row_lengths, warp)
    assert len(place.index) == index, f"`count` says {index} numbers of `index`, `locate` has {len(place.index)}"
    assert len(np.unique(place.position)) == problem.nnz, "two entries share a slot"
    assert place.position.min() >= 0
    assert place.position.max() < slots, f"`count` says {slots} slots, `locate` has slot {place.position.max()}"
    packed = pack(problem, problem.values, Layout(outer, "AoS", "AoS"), warp)
    assert packed.nbytes == slots * (INDEX_BYTES + 2 * 8) + index * INDEX_BYTES
    assert 0 <= packed.arrays["columns"].min() <= packed.arrays["columns"].max() < problem.n
    assert {array.dtype for name, array in packed.arrays.items() if name != "values"} == {np.dtype(np.int32)}


@pytest.mark.parametrize("target", [CPU, get_target("sm_90")], ids=lambda target: target.name)
@pytest.mark.parametrize("entry", entries())
def test_every_layout_renders_for_both_dialects(templates, entry, target):
    schedules = [Schedule("static", 64, 1), Schedule("dynamic", 64, 2)]
    for layout in all_layouts():
        source = render_module(templates, entry, "double", layout, schedules, target, "tests")
        assert source.count("multiply_row(") == 1 + len(schedules)
        assert ("load_matrix_entry" in source) == bool(get_entry(entry).members)
        assert "{{" not in source
        assert "{%" not in source


# baselines


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("entry", entries())
def test_every_baseline_of_the_cpu_is_right(make_bench, small_problem, entry, precision):
    bench = make_bench(small_problem(entry), precision)
    baselines = for_problem(entry, "opencl")
    rows = [bench.try_once(runnable, "search", SamplingPlan(3)) for runnable in baselines]
    bench.release()
    assert baselines
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert (row.kind, row.status) == ("baseline", "ok"), (row.name, row.message)
        assert row.error <= 1
        assert row.event_median > 0
        assert row.bytes > row["matrix_bytes"] > 0


@pytest.mark.parametrize("entry", entries())
def test_every_entry_has_baselines_on_both_devices(entry):
    for backend in ("cuda", "opencl"):
        names = [runnable.name for runnable in for_problem(entry, backend)]
        assert names
        assert len(set(names)) == len(names)


# generated problems


@pytest.mark.parametrize("name", KINDS)
def test_a_generated_problem_is_valid_and_the_same_again(name):
    kind = KINDS[name]
    known = inspect.signature(kind.build).parameters
    assert all(parameter.default is not inspect.Parameter.empty for parameter in known.values())
    parameters = {key: value for key, value in SMALL.items() if key in known}
    if "hubs" in known:
        parameters["hubs"] = SMALL_HUBS
    first, again = generate(name, **parameters), generate(name, **parameters)
    problem = Matrix(name, kind.entry, first.n, first.indptr, first.indices, first.values).validate()
    assert (problem.row_lengths > 0).all()
    rows = np.repeat(np.arange(problem.n, dtype=np.int64), problem.row_lengths)
    assert (np.diff(rows * problem.n + problem.indices) > 0).all(), "columns are not sorted"
    np.testing.assert_array_equal(first.values, again.values)


@pytest.mark.parametrize("folder", ["entries", "sparse/compound/outer"])
def test_no_file_of_a_registering_folder_forgets_to_register(folder):
    """The tests above go through the registries, and would not miss it."""
    files = [path for path in (Path(repro.__file__).parent / folder).glob("*.py") if path.name != "__init__.py"]
    assert files
    assert not [path.name for path in files if "register(" not in path.read_text()]
