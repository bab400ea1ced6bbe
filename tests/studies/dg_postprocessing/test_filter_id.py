"""Texts of ways to filter: each says its way and every size, and nothing else is read as one."""

from __future__ import annotations

import pytest

from repro.codegen.targets import CPU, get_target
from repro.errors import ReproError
from repro.studies.dg_postprocessing.ids import FilterId, filter_ids
from repro.words import EXTENDED, PAPER, PAPER_TUNED, SPACES


@pytest.mark.parametrize("target", [get_target("sm_90"), CPU], ids=lambda target: target.name)
def test_a_text_says_everything_of_a_way(target):
    ways = [*filter_ids(target, SPACES)]
    assert len({str(way) for way in ways}) == len({way.point for way in ways}) == len(set(ways))
    for way in ways:
        assert FilterId.parse(str(way)) == way
        assert FilterId.parse(str(way)) == way


@pytest.mark.parametrize("target", [get_target("sm_90"), CPU], ids=lambda target: target.name)
def test_both_published_methods_have_equal_choices_in_each_space(target):
    def choices(method, space):
        return {(id.threads, id.cell, id.blocks) for id in filter_ids(target, [space]) if id.method == method}

    assert choices("point", PAPER_TUNED) == choices("element", PAPER_TUNED) != set()
    assert not choices("point", EXTENDED) | choices("element", EXTENDED)
    # to the letter: one block, the text's cell of each method, and all threads that the tuned ones have
    threads = {n_t for n_t, _, _ in choices("point", PAPER_TUNED)}
    assert choices("point", PAPER) == {(n_t, 1.0, 1) for n_t in threads}
    assert choices("element", PAPER) == {(n_t, 0.5, 1) for n_t in threads}


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("point-t64-c1-b1", PAPER), ("element-t256-c0.5-b1", PAPER), ("point-t64-c0.5-b1", PAPER_TUNED),
        ("element-t64-c1-b1", PAPER_TUNED), ("point-t64-c1-b32", PAPER_TUNED), ("element-t128-c0.5-b4", PAPER_TUNED),
        ("edges-t64-c1-b16", EXTENDED), ("edges-t64-c1-b1", EXTENDED), ("atomic-t128-c0.5-b4", EXTENDED),
        ("atomic-t128-c0.5-b1", EXTENDED),
    ],
)  # fmt: skip
def test_an_id_is_in_one_space(text, space):
    assert FilterId.parse(text).space == space


def test_spaces_are_searched_alone_or_together():
    target = get_target("sm_90")
    ours = {id.method for id in filter_ids(target, [EXTENDED])}
    assert ours == {"edges", "atomic"}
    assert len([*filter_ids(target, SPACES)]) == sum(len([*filter_ids(target, [space])]) for space in SPACES)
    assert {id.method for id in filter_ids(target, [PAPER, EXTENDED]) if id.blocks > 1} == ours


@pytest.mark.wording
@pytest.mark.parametrize(
    "text",
    [
        "", "edges", "lines-t64-c0.5-b16", "edges-t0-c0.5-b16", "edges-t64-c0-b16", "edges-t64-c0.5-b0",
        "edges-t64-c0.5.1-b16", "edges-t64-c.-b16", "edges-t64-c0.50-b16", "edges-t064-c0.5-b16",
        "edges-t64-c0.5-b16 ", "edges-t64-c0.5-b-1",
    ],
)  # fmt: skip
def test_what_is_no_way_is_refused(text):
    with pytest.raises(ReproError, match="unknown way to filter"):
        FilterId.parse(text)
