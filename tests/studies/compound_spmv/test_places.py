"""Where a format's entries lie, and their members in tiles: as the host packs them and as the device looks for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import Undefined

from repro.codegen.templates import _environment
from repro.entries import entries, get_entry
from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import get_outer, outer_formats
from repro.sparse.compound.variants import TILE, Layout, chunks, tile


def macros(templates: Path, name: str, **constants: Any) -> Any:
    """Return the macros of a template."""
    environment = _environment(templates, templates.absolute()).overlay(undefined=Undefined)
    return environment.get_template(name).make_module(constants)


def evaluate(expression: str, **names: Any) -> int:
    """Evaluate a C expression of integers that are not negative."""
    on_one_line = " ".join(expression.split())
    return int(eval(on_one_line.replace("(size_t)", "").replace("/", "//"), names))


def row_range(declarations: str, **names: Any) -> range:
    """Evaluate C declarations of `first`, `end` and `slot_stride`."""
    for name, value in re.findall(r"(\w+) = (.+?)(?:, (?=\w+ = )|;)", declarations):
        names[name] = evaluate(value, **names)
    missing = {"first", "end", "slot_stride"} - names.keys()
    assert not missing, f"row_range() does not declare {', '.join(sorted(missing))}"
    return range(names["first"], names["end"], names["slot_stride"])


@pytest.mark.parametrize("warp", [1, 32])
@pytest.mark.parametrize("name", outer_formats())
def test_kernels_look_where_the_host_puts_entries(
    templates: Path, small_problem: Callable[..., Matrix], name: str, warp: int
) -> None:
    problem, outer = small_problem("real"), get_outer(name)
    device = macros(templates, f"sparse/compound/{outer.template}.j2", **outer.constants)
    place = outer.locate(problem, warp)
    slots, _ = outer.count(problem.row_lengths, warp)
    arguments = {"n": problem.n, "slots": slots, "stride": place.stride, "index": place.index.tolist()}
    rows = [
        row_range(device.row_range(), row=row, **arguments)
        for row in range(evaluate(device.padded_rows(), **arguments))
    ]
    lengths = problem.row_lengths.tolist()
    position = [slot for row, length in zip(rows, lengths, strict=False) for slot in row[:length]]
    assert position == place.position.tolist(), "row_range() and `locate` have other slots for a row's entries"
    if outer.padded:
        read = sorted(slot for row in rows for slot in row)
        assert read == list(range(slots)), f"`count` says {slots} slots, and the rows of row_range() have {len(read)}"
    else:
        assert [len(row) for row in rows] == lengths, "row_range() reads padding"
    size = evaluate(device.index_size(), **arguments)
    assert size == len(place.index), f"index_size() is {size}, and `locate` has an index of {len(place.index)}"
    assert {row.step for row in rows} == {place.step}, "slot_stride is not the `step` of `locate`"


@pytest.mark.parametrize("scalar_bytes", [4, 8])
@pytest.mark.parametrize("name", [name for name, entry in entries().items() if entry.members])
def test_the_device_puts_members_where_the_host_does(templates: Path, name: str, scalar_bytes: int) -> None:
    entry = get_entry(name)
    members = [
        {"offset": offset, "chunk": {"first": first, "size": size}}
        for first, size in chunks(len(entry.members), scalar_bytes)
        for offset in range(first, first + size)
    ]
    places = macros(
        templates,
        "export/index_maps.j2",
        dialect="cuda",
        entry=entry,
        members=members,
        layout=Layout("CSR", "AoSoA", "AoS"),
        tile=TILE,
    )
    slots = 3 * TILE
    stored = np.arange(slots * len(members), dtype=f"i{scalar_bytes}").reshape(slots, len(members))
    tiles = tile(stored)
    for member in members:
        numbers = [tiles[evaluate(places.in_matrix(member), slot=slot)] for slot in range(slots)]
        assert numbers == stored[:, member["offset"]].tolist()
