"""The identity of a product: its text and its columns say the same; which are chosen, and which stand beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.codegen.build_cache import Module
from repro.codegen.targets import get_target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.problems.problem import Outline
from repro.sparse.dynamic.schedules import Schedule
from repro.studies.dynamic_csr.ids import DynamicRow, ProductId, product_ids, twins
from repro.studies.dynamic_csr.kernels import render_key
from repro.studies.dynamic_csr.runnables_products import ProductVariant
from repro.studies.dynamic_csr.study import STUDY
from repro.words import SPACES


def from_columns(columns):
    """Make an identity of nothing but the columns of its row."""
    numbers = (columns[name] or 0 for name in ("width", "per_thread", "unroll"))
    schedule = Schedule(columns["schedule"], *numbers, columns["load"], columns["exact"])
    return ProductId(columns["format"], columns["state"], schedule)


@pytest.mark.parametrize("target", ["sm_90", "cpu"])
@pytest.mark.parametrize("space", SPACES)
def test_text_and_columns_say_every_parameter(target, space):
    ids = product_ids(get_target(target), space, 40.0)
    assert len({str(id) for id in ids}) == len(set(ids)) == len(ids) > 4
    for id in ids:
        assert ProductId.parse(str(id)) == id
        assert from_columns(id.columns) == id
        assert id.columns.keys() <= DynamicRow.own_columns().keys()
        assert id.space == space
        assert id.point.group == f"{id.format}-{id.state}"
        assert all(id in twins(twin) for twin in twins(id))


@pytest.mark.parametrize("target", ["sm_90", "cpu"])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_module_has_every_kernel(templates, target, precision):
    source = render_key(templates, f"{precision}/product", get_target(target))
    for id in (id for space in SPACES for id in product_ids(get_target(target), space, 40.0)):
        schedule = id.schedule
        form = "csr" if id.state is None else "exact" if schedule.exact else "dcsr"
        kernel = {"streams": "bin_block", "adaptive": f"bins_{form}", "chunks": f"chunks_{form}"}.get(
            schedule.kind, f"{schedule.kind}_{form}_w{schedule.width}"
        )
        assert f" {kernel}_u{schedule.in_flight}_{schedule.load}(" in source


def test_the_papers_space_has_four_threads_its_tuning_every_number_and_ours_what_may_make_sense():
    def widths(space, mean):
        return {id.schedule.width for id in product_ids(get_target("sm_90"), space, mean)} - {0}

    assert widths("paper", 3.0) == widths("paper", 3000.0) == {4}
    assert widths("paper_tuned", 3.0) == widths("paper_tuned", 3000.0) == {1, 2, 8, 16, 32}
    assert widths("extended", 3.0) == {1, 2, 4}
    assert widths("extended", 3000.0) == set()
    assert widths("extended", 100.0) == {4, 8, 16, 32}


def test_a_variants_row_has_the_columns_of_its_identity():
    id = ProductId.parse("dcsr-defragmented/vector-w8-u2-cs-exact")
    columns = ProductVariant(id, Module("ok", "", "", ()), Path()).columns
    assert id.columns.items() <= columns.items()
    assert id.columns == {
        "what": "product", "format": "dcsr", "state": "defragmented", "schedule": "vector", "width": 8,
        "per_thread": None, "unroll": 2, "load": "cs", "exact": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csr", "unknown schedule"),
        ("csr/vector", "unknown schedule"),
        ("csr/vector-w3", "unknown schedule"),
        ("csr/vector-w8-u1", "unknown schedule"),
        ("csr/vector-w8-exact", "unknown product"),
        ("csr/streams", "unknown product"),
        ("dcsr-fragmented/chunks-u4-exact", "unknown product"),
        ("dcsr-fragmented/vector-w8-exact", "unknown product"),
        ("dcsr-sorted/vector-w8", "unknown product"),
        ("dcsr-sorted/streams-exact", "unknown schedule"),
        ("dcsr/vector-w8", "unknown format or state"),
        ("ell/vector-w8", "unknown format or state"),
    ],
)
def test_what_is_no_product_is_one_message(text, message):
    with pytest.raises(ReproError, match=message) as refused:
        ProductId.parse(text)
    assert refused.value.expected and refused.value.actual is not None


def test_the_twins_of_a_variant_have_its_schedule():
    assert [str(twin) for twin in twins(ProductId.parse("csr/vector-w8-u2"))] == [
        "dcsr-fragmented/vector-w8-u2", "dcsr-defragmented/vector-w8-u2", "dcsr-defragmented/vector-w8-u2-exact",
    ]  # fmt: skip
    assert [str(twin) for twin in twins(ProductId.parse("csr/chunks-u4"))] == ["dcsr-defragmented/chunks-u4-exact"]
    assert [str(twin) for twin in twins(ProductId.parse("dcsr-sorted/adaptive-e2-u2"))] == [
        "dcsr-fragmented/adaptive-e2-u2", "dcsr-defragmented/adaptive-e2-u2", "dcsr-defragmented/adaptive-e2-u2-exact",
        "dcsr-sorted/adaptive-e2-u2-exact",
    ]  # fmt: skip


def test_products_as_published_have_four_threads_a_row_or_the_papers_bins():
    published = {str(id) for id in product_ids(get_target("sm_90"), "paper", 40.0)}
    assert published == {
        "csr/vector-w4", "dcsr-fragmented/vector-w4", "dcsr-defragmented/vector-w4", "dcsr-fragmented/streams",
        "dcsr-defragmented/streams", "dcsr-sorted/streams",
    }  # fmt: skip
    assert ProductId.parse("csr/vector-w8").space == "paper_tuned"
    assert ProductId.parse("csr/vector-w4-u2").space == ProductId.parse("dcsr-sorted/streams-u2").space == "extended"


@pytest.mark.parametrize(
    ("space", "tunings"),
    [
        ("paper", ["csr"]),
        ("extended", ["csr", "tuned_csr"]),
        (("paper_tuned", "extended"), ["tuned_csr"]),
        (("extended",), ["ours-csr"]),
    ],
)
def test_a_complete_case_has_a_winner_in_each_space(space, tunings):
    assert STUDY.tunings(StudySettings(space=space), Outline("graph", "updates", "real")) == tunings
