"""The identity of a variant: its text and its columns say the same, and all there is to say."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.codegen.build_cache import Module
from repro.codegen.targets import get_target
from repro.config.models import StudySettings
from repro.entries import entries
from repro.errors import ReproError
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import LOADS, Layout, Schedule, VariantId, fitting, schedules
from repro.sparse.ordering import UNKNOWNS
from repro.studies.compound_spmv.study import STUDY, CompoundRow, _schedule, layouts_to_try
from repro.words import SPACES

ALL = StudySettings(space="extended")


def variants_of(target, entry):
    """Return all variants of all spaces, and those of renumbered unknowns."""
    ids = []
    for space in SPACES:
        for layout in layouts_to_try(ALL, space, entry):
            orderings = UNKNOWNS[1:] if layout.ordering == "natural" else ()
            stored = [layout, *(replace(layout, ordering=ordering) for ordering in orderings)]
            ids += [VariantId(one, schedule) for schedule in schedules(target, space, layout) for one in stored]
    return ids


def from_columns(columns):
    """Make a variant of the columns of its row; of its layout's text alone the order in which rows are stored."""
    ordering = Layout.parse(columns["layout"]).ordering
    layout = Layout(columns["outer"], columns["inner"], columns["vector"], ordering)
    shape = (columns[name] for name in ("n_t", "n_b", "width", "unroll", "load", "ahead", "rolled"))
    return VariantId(layout, Schedule(columns["schedule"], *shape))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["sm_90", "cpu"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_text_and_columns_say_every_parameter(target, entry):
    limits = get_target(target)
    ids = variants_of(limits, entry)
    assert len({str(id) for id in ids}) == len(set(ids)) == len(ids) > 1000
    assert {id.schedule.load for id in ids} == set(LOADS) - (set() if target == "sm_90" else {"el"})
    of_pairs = {"f"} if entries()[entry].members else set()
    assert {id.schedule.prefetch for id in ids} == {"", "p", "a"} | of_pairs
    for id in ids:
        assert VariantId.parse(str(id)) == id
        assert from_columns(id.columns) == id
        assert id.columns["layout"] == str(id.layout)
        assert fitting(id, limits) is id
        assert id.columns.keys() <= STUDY.columns.keys()
        assert all(isinstance(value, STUDY.columns[name]) for name, value in id.columns.items())


def test_a_variants_row_has_the_columns_of_its_identity():
    id = VariantId.parse("Sl-8-AoSoA-Padded@rcm/direct-256-4-w4-u2-cs")
    columns = Variant(id, Module("ok", "", "", ()), Path(), "extended").columns
    assert id.columns.items() <= columns.items()
    assert id.columns == {
        "layout": "Sl-8-AoSoA-Padded@rcm", "ordering": "rcm", "outer": "Sl-8", "inner": "AoSoA", "vector": "Padded",
        "clustered": False, "schedule": "direct", "n_t": 256, "n_b": 4, "width": 4, "unroll": 2, "load": "cs",
        "ahead": "", "rolled": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CSR-AoS-AoS", "unknown schedule"),
        ("CSR-AoS-AoS/", "unknown schedule"),
        ("CSR-AoS-AoS/static-256", "unknown schedule"),
        ("CSR-AoS-AoS/magic-256-4", "unknown schedule"),
        ("CSR-AoS-AoS/static-256-4-u2-w2", "unknown schedule"),
        ("CSR-AoSoA-AoS/direct-256-4-ca", "unknown schedule"),
        ("CSR-AoS-AoS/static-256-4 ", "unknown schedule"),
        ("CSR-AoS-AoS/static-256-4-cs", "only tiles"),
        ("COO/static-256-4", "unknown layout"),
        ("CSR-AoSoA-AoS/direct-256-4-rolled", "not unrolled"),
        ("CSR-AoS-AoS/static-256-4-w2-rolled", "not unrolled"),
        ("/static-256-4", "unknown layout"),
    ],
)
def test_what_is_no_variant_is_one_message(text, message):
    with pytest.raises(ReproError, match=message) as refused:
        VariantId.parse(text)
    assert refused.value.expected and refused.value.actual is not None


@pytest.mark.parametrize(
    "schedule", ["static-48-4", "static-2048-1", "static-1024-3", "static-32-33", "static-256-4-w3", "static-0-1"]
)
def test_what_a_target_cannot_hold_is_one_message(schedule):
    with pytest.raises(ReproError, match="does not support"):
        fitting(VariantId.parse(f"CSR-AoS-AoS/{schedule}"), get_target("sm_90"))


def test_each_field_of_a_schedule_has_a_column_and_a_line_in_the_glossary():
    glossary = (Path(__file__).parents[3] / "docs/glossary.md").read_text()
    said = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \| (?:`|the )", glossary, re.M))
    columns = dict(Schedule.column_names())
    kind = columns.pop("kind")
    assert said == columns
    assert {kind, *columns.values()} <= set(CompoundRow.__annotations__)


def test_tunings_that_fix_a_schedule_compare_all_its_fields():
    layout, plain = Layout.parse("CSR-AoSoA-AoS"), Schedule("direct", 64, 4)
    others = {"kind": "chunk", "block_size": 128, "blocks_per_sm": 8, "width": 2, "in_flight": 2, "load": "cg"}
    others |= {"prefetch": "p", "rolled": True}
    assert set(others) == set(Schedule.column_names())
    fixed = [
        _schedule(SimpleNamespace(own=VariantId(layout, schedule).columns))
        for schedule in (plain, *(replace(plain, **{name: value}) for name, value in others.items()))
    ]
    assert all(one != other for one, other in combinations(fixed, 2))
