"""Updates, defragmentation and conversions of a dynamic matrix on the CPU, against SciPy; and all that a case times."""

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp

from repro.config.models import StudySettings
from repro.errors import IncorrectError, ReproError, Unsupported
from repro.sparse.device_primitives import RunnableContext
from repro.sparse.dynamic.host_layout import SEGMENTS, lay_out
from repro.studies.dynamic_csr.operands import grow
from repro.studies.dynamic_csr.runnables_baselines import GEAM
from repro.studies.dynamic_csr.runnables_updates import (
    Defragmentation,
    DynamicConversion,
    DynamicUpdate,
    guarded_storage,
    read_exact,
)
from repro.studies.dynamic_csr.study import DYNAMIC_PAIRS, MODES, OPERATIONS, ORDERS, STUDY, suite
from repro.words import EXTENDED
from support.update_problems import PROBLEMS, RANDOM, cases, check_twice, drawn, growing, problems

pytest_plugins = ("support.rival_fixtures",)

orders = pytest.mark.parametrize("order", ORDERS)
modes = pytest.mark.parametrize("mode", MODES)
#: Three entries on the diagonal, and one beside the first: that row has two segments.
SMALL = growing(sp.csr_array(np.eye(3)), [([0], [1], [2.0])])


@pytest.mark.sampled(40)
@cases
@modes
@orders
@pytest.mark.parametrize("what", ["insert", "iterate", "stream"])
def test_an_update_leaves_the_grown_matrix(rivals_built, work_on, what, order, mode, problem, precision):
    update = DynamicUpdate(rivals_built[precision], what, order, mode=mode)
    assert check_twice(update, work_on(problem, precision)) <= 1
    assert update.name == f"dcsr/{what}/{order}/{mode}"
    expected = {"what": what, "format": "dcsr", "order": order, "mode": mode, "segments": SEGMENTS}
    assert {name: update.columns[name] for name in expected} == expected


def test_products_see_what_comes_behind_the_parts_that_a_long_row_was_dealt_in(rivals_built, work_on):
    columns = np.arange(600)
    base = sp.csr_array((np.ones(600), (np.zeros(600, int), columns)), shape=(4, 2000))
    many = [0] * 900, np.arange(900) + 700, np.arange(900.0)
    workspace = work_on(growing(base, [many, ([0, 2], [5, 6], [3.0, 4.0])]))
    assert check_twice(DynamicUpdate(rivals_built["double"], "iterate", "sorted"), workspace) <= 1


@problems
@modes
@orders
def test_a_batch_of_its_own_leaves_the_matrix_with_that_one(rivals_built, work_on, order, mode, problem):
    workspace = work_on(problem)
    for which in range(problem.batches):
        update = DynamicUpdate(rivals_built["double"], "batch", order, which, mode)
        assert update.name == f"dcsr/batch-{which}/{order}/{mode}"
        assert check_twice(update, workspace) <= 1
        assert update.columns["batch"] == len(problem.batch(which)[0])


@modes
def test_what_is_left_of_places_that_come_twice(rivals_built, work_on, mode):
    problem = PROBLEMS["all of a batch in one place"]
    update = DynamicUpdate(rivals_built["double"], mode=mode)
    update.prepare(work_on(problem))
    update.before()
    update.launch()
    new = 1 - np.count_nonzero(RANDOM[[7], [3]])
    assert update.result().nnz == RANDOM.nnz + (new if mode == "unique" else problem.entries)
    update.release()


@pytest.mark.parametrize(("what", "slack"), [("insert", 1), ("batch", 1), ("stream", 2)])
def test_the_slack_is_the_mean_row_size(rivals_built, work_on, what, slack):
    """Of the rows of a matrix of three entries before its batch, and of seven with it."""
    update = DynamicUpdate(rivals_built["double"], what, batch_index=0 if what == "batch" else None)
    assert update.columns["slack"] is None
    update.prepare(work_on(growing(sp.csr_array(np.eye(3)), [([0, 0, 1, 2], [1, 2, 0, 0], np.ones(4))])))
    assert update.columns["slack"] == slack
    update.release()


@modes
def test_chains_that_are_full_on_the_way_are_unsupported(rivals_built, work_on, mode):
    """The first row has a segment before the batches, and each of them asks for another one."""
    batches = [([0] * 8, 8 * i + np.arange(8) + 1, np.ones(8)) for i in range(SEGMENTS)]
    base = sp.csr_array(np.eye(3, 60))
    update = DynamicUpdate(rivals_built["double"], mode=mode)
    assert check_twice(update, work_on(growing(base, batches[:-1]))) <= 1
    with pytest.raises(Unsupported, match="8 entries of 1 batches found no room"):
        update.prepare(work_on(growing(base, batches)))


def test_there_has_to_be_a_batch_to_insert(rivals_built, work_on):
    workspace = work_on(growing(RANDOM, []))
    with pytest.raises(Unsupported, match="no batch"):
        DynamicUpdate(rivals_built["double"]).prepare(workspace)
    assert check_twice(DynamicUpdate(rivals_built["double"], "stream"), workspace) <= 1


@cases
def test_a_defragmentation_leaves_the_grown_matrix(rivals_built, work_on, problem, precision):
    defragmentation = Defragmentation(rivals_built[precision])
    assert check_twice(defragmentation, work_on(problem, precision)) <= 1
    expected = {"what": "defragment", "format": "dcsr", "state": "fragmented"}
    assert {name: defragmentation.columns[name] for name in expected} == expected


def test_the_bytes_that_a_defragmentation_moves(rivals_built, work_on):
    defragmentation = Defragmentation(rivals_built["double"])
    defragmentation.prepare(work_on(SMALL))
    # four entries read and written; four pairs in use, and those of all slots; sizes read and written
    assert defragmentation.bytes_moved == 2 * 4 * 12 + 8 * 4 + 8 * SEGMENTS * 3 + 2 * 4 * 3
    defragmentation.release()


@cases
@pytest.mark.parametrize(("source", "target"), DYNAMIC_PAIRS)
def test_a_conversion_leaves_the_matrix(rivals_built, work_on, source, target, problem, precision):
    conversion = DynamicConversion(rivals_built[precision], source, target)
    assert check_twice(conversion, work_on(problem, precision)) <= 1
    assert conversion.name == f"convert/{source}-{target}"
    assert conversion.columns == {"what": "convert", "format": source, "to_format": target, "space": EXTENDED}


@pytest.mark.parametrize("make", [Defragmentation, lambda built: DynamicConversion(built, "dcsr", "csr")])
def test_what_was_not_launched_is_incorrect(rivals_built, work_on, make):
    runnable = make(rivals_built["double"])
    runnable.prepare(work_on(SMALL))
    with pytest.raises(IncorrectError, match="room"):
        runnable.result()
    runnable.release()


def test_one_segment_a_row_without_room_is_asked_for(rivals_built, work_on):
    """With less than an entry a row there is no slack, so that segments are all that is wrong with the first matrix."""
    workspace = work_on(growing(sp.csr_array(([1.0], ([0], [0])), shape=(3, 3)), [([0], [1], [2.0])]))
    grown = workspace.operands.grown
    fragmented, roomy, right = grow(workspace.operands), lay_out(grown, slack=1), lay_out(grown)
    assert (fragmented.fragments.max(), fragmented.pointer) == (2, grown.nnz)
    with ExitStack() as held:
        work = RunnableContext(workspace, rivals_built["double"], held)
        for arrays in (fragmented, roomy):
            with pytest.raises(IncorrectError, match="more than one segment, or room"):
                read_exact(guarded_storage(work, arrays), grown.nnz)
        assert abs(read_exact(guarded_storage(work, right), grown.nnz) - grown).max() == 0


def _streams(order):
    published = (f"dcsr-published/stream/{order}/{reading}" for reading in ("text", "slack-4", "slack-0"))
    dynamic = [f"dcsr/stream/{order}/add", f"dcsr/stream/{order}/unique"]
    return [*dynamic, *published, f"hyb/stream/{order}", f"coo/stream/{order}"]


def _updates(what, order):
    dynamic = [f"dcsr/{what}/{order}/add", f"dcsr/{what}/{order}/unique", f"dcsr-published/{what}/{order}/text"]
    return [*dynamic, *(f"{format}/{what}/{order}" for format in ("hyb", "coo", "csr"))]


ALWAYS = [
    [
        "convert/csr-csr", "convert/coo-csr", "convert/coo-hyb", "convert/csr-hyb",
        "convert/coo-dcsr", "convert/csr-dcsr", "convert/dcsr-csr", "dcsr/defragment", "dcsr-published/defragment",
        "hyb/sort",
    ],
    ["scan/ours", "sort/ours", "scan/cub/DeviceScan", "sort/cub/DeviceRadixSort"],
]  # fmt: skip
STREAMS = [_streams("sorted"), _streams("any")]
INSERTS = [
    [*_updates("insert", "sorted"), f"cusparse/{GEAM}/insert"],
    _updates("insert", "any"),
    [
        "dcsr/iterate/sorted/add",
        *(f"dcsr-published/iterate/sorted/{reading}" for reading in ("text", "fifth", "slack-4", "slack-0")),
        "hyb/iterate/sorted",
        "csr/iterate/sorted",
        f"cusparse/{GEAM}/iterate",
    ],
]
BATCHES = [
    [*_updates(f"batch-{which}", order), *([f"cusparse/{GEAM}/batch-{which}"] if order == "sorted" else [])]
    for which in range(2)
    for order in ("sorted", "any")
]


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ((), [*STREAMS, *ALWAYS]),
        ((5,), [*STREAMS, *INSERTS, *ALWAYS]),
        ((5, 5), [*STREAMS, *INSERTS, *ALWAYS]),
        ((5, 6), [*STREAMS, *BATCHES, *ALWAYS]),
    ],
    ids=["no batch", "one", "of one size", "of two sizes"],
)
def test_groups_that_are_timed(counts, groups):
    problem = growing(RANDOM, [drawn(150, 90, count) for count in counts])
    timed = [[runnable.name for runnable in group] for group in suite({}, problem)]
    assert timed == groups
    names = [name for group in timed for name in group]
    assert len(set(names)) == len(names)


def test_parts_that_are_left_out_are_not_timed():
    problem = growing(RANDOM, [drawn(150, 90, 5)])
    assert [[r.name for r in group] for group in suite({}, problem, ("conversions", "primitives"))] == ALWAYS
    assert list(suite({}, problem, ("devices",))) == []


def test_operations_are_timed_in_the_highest_precision_alone():
    both, single = (StudySettings(precisions=precisions) for precisions in (("double", "single"), ("single",)))
    assert STUDY.parts_of(both, "double") == STUDY.parts_of(single, "single") == (*OPERATIONS, "devices")
    assert STUDY.parts_of(both, "single") == ("devices",)
    assert STUDY.parts_of(StudySettings(parts=("devices", "updates")), "double") == ("updates", "devices")
    with pytest.raises(ReproError, match="updates, conversions, primitives, devices"):
        STUDY.check(StudySettings(parts=("update",)), [])
