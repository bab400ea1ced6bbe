"""The identity of a variant of coordinates: its text and its columns say the same, and all there is to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.codegen.build_cache import Module
from repro.codegen.targets import get_target
from repro.errors import ReproError
from repro.studies.compressed_coo.ids import LOADS, SPLITS, Blocking, CoordinateId, blockings
from repro.studies.compressed_coo.runnables import CoordinateVariant
from repro.studies.compressed_coo.study import STUDY


def from_columns(columns):
    """Make a variant of nothing but the columns of its row."""
    return CoordinateId(
        columns["layout"], Blocking(*(columns[name] for name in ("n_t", "per_thread", "chunks", "load")))
    )


@pytest.mark.parametrize("target", ["sm_90", "cpu"])
@pytest.mark.parametrize("layout", SPLITS)
def test_text_and_columns_say_every_parameter(target, layout):
    ids = [CoordinateId(layout, blocking) for blocking in blockings(get_target(target), layout)]
    assert len({str(id) for id in ids}) == len(set(ids)) == len(ids) >= 6
    assert {id.blocking.load for id in ids} == set(LOADS)
    for id in ids:
        assert CoordinateId.parse(str(id)) == id
        assert from_columns(id.columns) == id
        assert {name: type(value) for name, value in id.columns.items()}.items() <= STUDY.columns.items()


def test_a_variants_row_has_the_columns_of_its_identity():
    id = CoordinateId.parse("CCOO-aligned/b128-k8-c2-cs")
    columns = CoordinateVariant(id, Module("ok", "", "", ()), Path()).columns
    assert id.columns.items() <= columns.items()
    expected = {"layout": "CCOO-aligned", "ordering": "natural", "n_t": 128, "per_thread": 8, "chunks": 2, "load": "cs"}
    assert id.columns == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CCOO", "unknown schedule"),
        ("CCOO/b256-k4", "unknown schedule"),
        ("CCOO/b256-k3-c1", "unknown schedule"),
        ("CCOO/b96-k4-c1", "unknown schedule"),
        ("CCOO/b256-k4-c0", "unknown schedule"),
        ("CCOO/b256-k4-c1-ca", "unknown schedule"),
        ("CSR-AoS-AoS/b256-k4-c1", "unknown coordinate layout"),
        ("Pairs@rcm/b256-k4-c1", "unknown coordinate layout"),
        ("Pairs/b32-k4-c1", "one block per tile"),
        ("Pairs@clustered/b256-k4-c2", "one block per tile"),
        ("Pairs/b256-k8-c1", "one block per tile"),
        ("/b256-k4-c1", "unknown coordinate layout"),
    ],
)
def test_what_is_no_variant_is_one_message(text, message):
    with pytest.raises(ReproError, match=message) as refused:
        CoordinateId.parse(text)
    assert refused.value.expected and refused.value.actual is not None
