"""Updates as published, algorithms 4, 5 and 7 of the paper, on the CPU."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.targets import CPU, get_target
from repro.errors import Unsupported
from repro.sparse.device_primitives import LOOP_BLOCKS_PER_SM
from repro.sparse.dynamic.host_layout import SEGMENTS
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import BLOCK_SIZE
from repro.studies.dynamic_csr.kernels import render_key
from repro.studies.dynamic_csr.runnables_published import (
    FIFTH,
    PERIOD,
    READINGS,
    SLACK_0,
    SLACK_4,
    TEXT,
    PublishedDefragmentation,
    PublishedUpdate,
)
from repro.studies.dynamic_csr.runnables_updates import DynamicUpdate
from repro.studies.dynamic_csr.study import ORDERS, suite
from repro.words import EXTENDED, PAPER, PAPER_TUNED
from support.update_problems import PROBLEMS, RANDOM, check_twice, drawn, growing

pytest_plugins = ("support.rival_fixtures",)

precisions = pytest.mark.parametrize("precision", ["single", "double"])
SINGLE_BATCHES = growing(RANDOM, [drawn(150, 90, 40, seed) for seed in range(12)])
PROBLEMS_AND_MORE = {
    **PROBLEMS,
    "zeros": growing(RANDOM, [([0, 0, 149, 3], [1, 1, 0, 2], [0.0, -0.0, 0.0, 2.0])]),
    "twelve batches": SINGLE_BATCHES,
}


@pytest.mark.sampled(60)
@precisions
@pytest.mark.parametrize("name", PROBLEMS_AND_MORE)
@pytest.mark.parametrize(
    ("what", "order", "reading"),
    [(what, order, reading) for what in ("insert", "stream") for order in ORDERS for reading in READINGS[what]]
    + [("iterate", "sorted", reading) for reading in READINGS["iterate"]],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_update_leaves_the_grown_matrix(rivals_built, work_on, what, order, reading, name, precision):
    update = PublishedUpdate(rivals_built[precision], what, order, reading=reading)
    assert check_twice(update, work_on(PROBLEMS_AND_MORE[name], precision)) <= 1
    assert update.name == f"dcsr-published/{what}/{order}/{reading.name}"
    columns = update.columns
    expected = {"what": what, "format": "dcsr", "order": order, "mode": "add", "space": PAPER, "width": reading.width}
    assert {key: columns[key] for key in expected} == expected
    assert columns["reading"] == reading.name
    assert columns["slack"] == reading.slack or reading.slack is None


@precisions
@pytest.mark.parametrize("which", [0, 1])
def test_a_batch_of_its_own(rivals_built, work_on, which, precision):
    for order in ORDERS:
        update = PublishedUpdate(rivals_built[precision], "batch", order, which)
        assert check_twice(update, work_on(PROBLEMS["several batches"], precision)) <= 1


@precisions
@pytest.mark.parametrize("name", PROBLEMS_AND_MORE)
def test_a_defragmentation_leaves_one_segment_a_row(rivals_built, work_on, name, precision):
    defragmentation = PublishedDefragmentation(rivals_built[precision])
    assert check_twice(defragmentation, work_on(PROBLEMS_AND_MORE[name], precision)) <= 1
    assert (defragmentation.columns["space"], defragmentation.columns["width"]) == (PAPER, TEXT.width)


def _left(update, workspace, monkeypatch):
    """Return the arrays that an update leaves on the device."""
    found = []
    download = Storage.download
    monkeypatch.setattr(Storage, "download", lambda storage: found.append(download(storage)) or found[-1])
    update.prepare(workspace)
    update.before()
    update.launch()
    update.result()
    update.release()
    return found[-1]


def test_a_row_without_segments_gets_its_first_in_the_second_slot(rivals_built, work_on, monkeypatch):
    """As in the listing; a segment is as long as what is missing, and the slack."""
    problem = growing(sp.csr_array(([1.0] * 6, ([0] * 6, range(6))), shape=(2, 6)), [([0, 0, 1], [0, 0, 5], [1.0] * 3)])
    arrays = _left(PublishedUpdate(rivals_built["double"], "insert"), work_on(problem), monkeypatch)
    slack = 6 // 2
    assert arrays.segment_capacity[:2].tolist() == [[6, 0], [2 + slack, 1 + slack]]
    assert arrays.sizes.tolist() == [8, 1]
    assert arrays.pointer == 6 + (2 + slack) + (1 + slack)


def test_new_entries_fill_the_tail_before_the_new_segment(rivals_built, work_on, monkeypatch):
    problem = growing(
        sp.csr_array(([1.0, 1.0], ([0, 0], [0, 1])), shape=(1, 9)),
        [([0], [2], [1.0]), ([0] * 5, [3, 4, 5, 6, 7], [1.0] * 5)],
    )
    for reading in (TEXT, SLACK_4, SLACK_0):
        arrays = _left(PublishedUpdate(rivals_built["double"], reading=reading), work_on(problem), monkeypatch)
        slack = 2 if reading.slack is None else reading.slack
        second = 1 + slack
        assert arrays.segment_capacity[:3, 0].tolist() == [2, second, max(0, 5 - slack) and 5 - slack + slack]
        assert arrays.to_csr().indices.tolist() == list(range(8))


def _filled(batches):
    """Return a problem each of whose batches asks for a segment of the first row."""
    entries = [([0] * 8, 8 * i + np.arange(8) + 1, np.ones(8)) for i in range(batches)]
    return growing(sp.csr_array(np.eye(3, 90)), entries)


def test_a_full_chain_brings_the_rows_together_before_the_next_batch(rivals_built, work_on):
    update = PublishedUpdate(rivals_built["double"])
    for batches, times in ((SEGMENTS - 1, 0), (SEGMENTS, 1), (2 * SEGMENTS, 2)):
        assert check_twice(update, work_on(_filled(batches))) <= 1
        assert update.columns["defragmentations"] == times


def test_rows_are_brought_together_behind_every_fifth_batch(rivals_built, work_on):
    for reading, times in ((TEXT, 0), (FIFTH, 2)):
        update = PublishedUpdate(rivals_built["double"], "iterate", "sorted", reading=reading)
        base = sp.csr_array(np.ones((9, 40)))
        batches = [drawn(9, 40, 5, seed) for seed in range(2 * PERIOD + 2)]
        assert check_twice(update, work_on(growing(base, batches))) <= 1
        assert update.columns["defragmentations"] == times


def test_there_has_to_be_a_batch(rivals_built, work_on):
    with pytest.raises(Unsupported, match="no batch"):
        PublishedUpdate(rivals_built["double"]).prepare(work_on(growing(RANDOM, [])))


@pytest.mark.parametrize("target", [get_target("sm_90"), CPU], ids=["sm_90", "cpu"])
@precisions
def test_a_vector_of_threads_has_a_row_and_takes_one_atomic_step_for_its_segment(templates, target, precision):
    source = render_key(templates, f"{precision}/published", target)
    for reading in (TEXT, SLACK_4):
        kernel = source[source.index(f" insert_w{reading.width}(") :]
        kernel = re.sub(r"//.*", "", kernel[: kernel.index("\n}\n")])
        assert f"KERNEL({BLOCK_SIZE[target.dialect]}, 1) insert_w{reading.width}(" in source
        assert f"THREAD % {reading.width};" in kernel
        # one for the segment, one that counts what is refused
        assert len(re.findall(r"ATOMIC", kernel)) == 2
        assert "if (lane == 0 && length > end - place)" in kernel
        assert "sizes[row] = size + length;" in kernel


def test_a_launch_has_a_vector_for_each_row(rivals_built, work_on, monkeypatch):
    workspace = work_on(SINGLE_BATCHES)
    grids = []
    device = workspace.devices[0]
    bind = device.bind
    monkeypatch.setattr(
        device, "bind", lambda kernel, grid, block, args: grids.append((grid, block)) or bind(kernel, grid, block, args)
    )
    update = PublishedUpdate(rivals_built["double"], "insert")
    update.prepare(workspace)
    block, most = BLOCK_SIZE["opencl"], device.sm_count * LOOP_BLOCKS_PER_SM["opencl"]
    assert grids.count((min(-(-150 * TEXT.width // block), most), block)) >= SINGLE_BATCHES.batches
    update.release()


def test_rows_say_the_space_that_they_are_of():
    for group in suite({}, SINGLE_BATCHES):
        for runnable in group:
            space = runnable.columns.get("space")
            published = runnable.name.startswith("dcsr-published")
            assert space == (PAPER if published else EXTENDED if runnable.kind == "variant" else None)


def test_what_is_published_is_of_the_papers_space_alone():
    names = [runnable.name for group in suite({}, SINGLE_BATCHES, spaces=[PAPER_TUNED, EXTENDED]) for runnable in group]
    assert not any(name.startswith("dcsr-published") for name in names)
    assert "dcsr/stream/sorted/add" in names
    assert isinstance(next(iter(suite({}, SINGLE_BATCHES, spaces=[EXTENDED])))[0], DynamicUpdate)
