"""Texts of ways to filter: each says its way and every size, and nothing else is read as one."""

from __future__ import annotations

import pytest

from repro.codegen.targets import CPU, get_target
from repro.errors import ReproError
from repro.studies.dg_postprocessing.ids import FilterId, filter_ids


@pytest.mark.parametrize("target", [get_target("sm_90"), CPU], ids=lambda target: target.name)
def test_a_text_says_everything_of_a_way(target):
    ways = [*filter_ids(target, "extended")]
    assert len({str(way) for way in ways}) == len({way.point for way in ways}) == len(set(ways))
    for way in ways:
        assert FilterId.parse(str(way)) == way
        assert FilterId.parse(str(way)) == way


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
    with pytest.raises(ReproError, match="no way to filter"):
        FilterId.parse(text)
