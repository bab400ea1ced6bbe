"""A dynamic matrix on the CPU's device against a model: any operations in any order, and the edges of each."""

from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.sparse.dynamic import host_layout, operations
from repro.sparse.dynamic import matrix as dynamic_matrix
from repro.sparse.dynamic.kernels import MAX_MEDIUM_BATCH, MAX_SMALL_BATCH
from repro.sparse.dynamic.matrix import NoRoom
from repro.sparse.dynamic.storage import Storage
from support.device_memory import fill_after
from support.dynamic_matrices import assert_equal, plus, random_matrix
from support.insertion_batches import assert_disjoint

pytestmark = pytest.mark.medium

# any operations in any order


class Operations(RuleBasedStateMachine):
    """The matrix, and a dictionary of lists: the values of each place one by one."""

    on_cpu = make_batch = None  # set by the test

    @initialize(
        rows=st.integers(1, 40),
        columns=st.integers(1, 30),
        segments=st.integers(1, 4),
        slack=st.integers(0, 5),
        width=st.integers(0, 3),
        spare=st.integers(0, 60),
        density=st.sampled_from([0.0, 0.1, 0.5]),
    )
    def build(self, rows, columns, segments, slack, width, spare, density):
        matrix = random_matrix(rows, columns, density)
        needed = int(np.maximum(np.diff(matrix.indptr), width).sum())
        self.matrix = self.on_cpu(host_layout.lay_out(matrix, segments, max(1, needed + spare), width), slack)
        self.places = {}
        for row, column, value in zip(*matrix.nonzero(), matrix.data, strict=True):
            self.places[int(row), int(column)] = [value]
        self.shape = matrix.shape

    def draw(self, data, largest=50):
        rows, columns = self.shape
        m = data.draw(st.integers(0, largest), "entries")
        places = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
        drawn = data.draw(st.lists(places, min_size=m, max_size=m))
        values = np.arange(1, m + 1) / 8  # sums of these are exact
        return [row for row, _ in drawn], [column for _, column in drawn], values

    @rule(data=st.data(), grouped=st.booleans())
    def insert(self, data, grouped):
        rows, columns, values = self.draw(data)
        if grouped:
            order = np.argsort(rows, kind="stable").astype(int)
            rows, columns, values = np.array(rows)[order], np.array(columns)[order], values[order]
        self.matrix.insert(self.make_batch(rows, columns, values, grouped))
        for row, column, value in zip(rows, columns, values, strict=True):
            self.places.setdefault((int(row), int(column)), []).append(value)

    @rule(data=st.data(), existing=st.sampled_from(["replace", "add"]), grow=st.booleans())
    def insert_unique(self, data, existing, grow):
        rows, columns, values = self.draw(data)
        self.matrix.insert(self.make_batch(rows, columns, values), existing, grow)
        there = set(self.places)
        for place, value in zip(zip(rows, columns, strict=True), values, strict=True):
            if not grow and place not in there:
                continue
            before = self.places.setdefault(place, [])
            if existing == "add":
                before[:1] = [sum(before[:1]) + value]
            else:
                self.places[place] = [value, *(0.0 for _ in before[1:])]

    @rule(data=st.data())
    def delete(self, data):
        rows, columns, _ = self.draw(data)
        self.matrix.delete(self.make_batch(rows, columns))
        for place in zip(rows, columns, strict=True):
            self.places.pop(place, None)

    @rule(slack=st.integers(0, 3))
    def defragment(self, slack):
        self.matrix.defragment(slack)
        assert (self.matrix.storage.download().fragments <= 1).all()

    @precondition(lambda self: self.matrix.storage.segments > 1)
    @rule()
    def tidy(self):
        self.matrix.tidy()

    @rule()
    def compare(self):
        entries = [(row, column, sum(values)) for (row, column), values in self.places.items()]
        rows, columns, values = map(np.array, zip(*entries, strict=True)) if entries else ([], [], [])
        assert_equal(self.matrix.to_csr(), sp.csr_array(sp.coo_array((values, (rows, columns)), shape=self.shape)))
        assert self.matrix.nnz == sum(map(len, self.places.values()))
        arrays = self.matrix.storage.download()
        assert_equal(arrays.to_csr(), self.matrix.to_csr())
        assert_disjoint(arrays)

    def teardown(self):
        if hasattr(self, "matrix"):
            self.compare()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("small", [MAX_SMALL_BATCH, 2])
def test_any_operations_in_any_order(on_cpu, make_batch, monkeypatch, small):
    """Also if all but the smallest batches are shared out to several blocks."""
    monkeypatch.setattr(operations, "MAX_SMALL_BATCH", small)
    Operations.on_cpu, Operations.make_batch = staticmethod(on_cpu), staticmethod(make_batch)
    run_state_machine_as_test(
        Operations,
        settings=settings(
            max_examples=40, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


# insertion


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    "m", [1, 2, 100, MAX_SMALL_BATCH, MAX_SMALL_BATCH + 1, 3 * MAX_SMALL_BATCH + 5, MAX_MEDIUM_BATCH + 1]
)
@pytest.mark.parametrize("segments", [1, 2, 3, 4])
def test_a_batch_in_any_order_is_inserted(on_cpu, make_batch, m, segments):
    random, matrix = np.random.default_rng(m), random_matrix(300, 200)
    dynamic = on_cpu(host_layout.lay_out(matrix, segments, matrix.nnz + 500))
    for _ in range(3):
        rows, columns, values = random.integers(0, 300, m), random.integers(0, 200, m), random.random(m)
        dynamic.insert(make_batch(rows, columns, values))
        matrix = plus(matrix, rows, columns, values)
        assert_equal(dynamic.to_csr(), matrix)


def test_entries_of_a_row_stay_in_the_order_of_the_batch(on_cpu, make_batch):
    for m in (50, MAX_SMALL_BATCH + 50, MAX_MEDIUM_BATCH + 50):
        dynamic = on_cpu(host_layout.lay_out(sp.csr_array((4, m)), 4, 5 * m))
        dynamic.insert(make_batch(np.arange(m) % 4, np.arange(m), np.arange(m)))
        grown = dynamic.to_csr()
        for row, (start, end) in enumerate(zip(grown.indptr[:-1], grown.indptr[1:], strict=True)):
            np.testing.assert_array_equal(grown.indices[start:end], np.arange(row, m, 4))


def test_insertion_does_what_its_model_on_the_host_does(on_cpu, make_batch):
    matrix = random_matrix(50, 40)
    arrays = host_layout.lay_out(matrix, 3, matrix.nnz + 150)
    dynamic = on_cpu(arrays, slack=2)
    random = np.random.default_rng(2)
    rows, columns, values = random.integers(0, 50, 60), random.integers(0, 40, 60), random.random(60)
    dynamic.operations.insertion(make_batch(rows, columns, values), 2).launch()
    expected, left = host_layout.insert(arrays, rows, columns, values, 2)
    after = dynamic.storage.download()
    np.testing.assert_array_equal(after.sizes, expected.sizes)
    np.testing.assert_array_equal(after.segment_capacity, expected.segment_capacity)
    assert after.pointer == expected.pointer
    assert not left.any() and dynamic.storage.report().unplaced == 0
    assert_equal(after.to_csr(), expected.to_csr())


@pytest.mark.parametrize("m", [40, MAX_SMALL_BATCH + 40, MAX_MEDIUM_BATCH + 40])
def test_rows_that_find_no_slot_or_no_room_take_nothing_and_are_named(on_cpu, make_batch, m):
    matrix = sp.csr_array(np.eye(8))
    full = on_cpu(host_layout.lay_out(matrix, 1, 10 * m))
    full.operations.insertion(make_batch(np.arange(m) % 8, np.zeros(m), np.ones(m)), 1).launch()
    report = full.storage.report()
    assert (report.full, report.rows_without_room, report.unplaced, report.finished) == (8, 0, m, True)
    np.testing.assert_array_equal(full.storage.download().sizes, 1)
    beyond = on_cpu(host_layout.lay_out(matrix, 4, 10))
    beyond.operations.insertion(make_batch(np.arange(m) % 8, np.zeros(m), np.ones(m)), 1).launch()
    report = beyond.storage.report()
    assert (report.full, report.rows_without_room, report.unplaced) == (0, 8, m)
    assert report.pointer == 10  # what was asked for in vain is given up
    np.testing.assert_array_equal(beyond.storage.download().sizes, 1)


@pytest.mark.parametrize("segments", [1, 4])
def test_what_found_no_room_is_inserted_after_the_matrix_was_brought_together(on_cpu, make_batch, segments):
    matrix = sp.csr_array(np.eye(8))
    dynamic = on_cpu(host_layout.lay_out(matrix, segments, 10))
    inserted = dynamic.insert(make_batch(np.arange(40) % 8, np.arange(40) % 5, np.ones(40)))
    assert inserted.moved == 40 and inserted.grown > 30
    assert_equal(dynamic.to_csr(), plus(matrix, np.arange(40) % 8, np.arange(40) % 5, np.ones(40)))


def test_the_limit_of_segments_can_be_reached_in_the_middle_of_a_batch_by_several_rows(on_cpu, make_batch):
    dynamic = on_cpu(host_layout.lay_out(sp.csr_array((6, 9)), 2, 1000, width=1), slack=0)
    for _ in range(3):
        dynamic.insert(make_batch([0, 1, 2, 0, 1], [1, 1, 1, 2, 2], np.ones(5)))
    assert dynamic.nnz == 15


def test_nothing_is_lost_where_no_room_can_be_made(on_cpu, make_batch, monkeypatch):
    matrix = sp.csr_array(np.eye(4))
    dynamic = on_cpu(host_layout.lay_out(matrix, 2, 8), slack=0)

    def refuse(*arguments):
        raise OutOfDeviceMemory("no more")

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "empty", refuse)
        with pytest.raises(NoRoom, match="4 of them found none") as failure:
            dynamic.insert(make_batch([0, 1, 1, 1, 1], [1, 0, 1, 2, 3], np.ones(5)))
        with pytest.raises(ReproError, match="not enough memory to defragment the matrix"):
            dynamic.defragment()
    np.testing.assert_array_equal(failure.value.left, [1, 2, 3, 4])
    assert dynamic.nnz == 5
    dynamic.insert(make_batch([1, 1, 1, 1], [0, 1, 2, 3], np.ones(4)))
    assert dynamic.nnz == 9


@pytest.mark.parametrize("existing", [None, "add"])
def test_a_full_device_leaves_a_sound_matrix_and_says_what_is_not_in_it(
    on_cpu, make_batch, device, monkeypatch, existing
):
    monkeypatch.setattr(operations, "MAX_SMALL_BATCH", 10)
    monkeypatch.setattr(operations, "MAX_MEDIUM_BATCH", 10)
    matrix = random_matrix(60, 40, 0.3)
    rows, columns, values = np.arange(500) % 60, np.arange(500) % 37, 1.0 + np.arange(500)
    outcomes = set()
    for nth in range(30):
        dynamic, left = on_cpu(host_layout.lay_out(matrix, 2, matrix.nnz + 40), slack=0), np.arange(500)
        batch = make_batch(rows, columns, values)
        with monkeypatch.context() as patched:
            fill_after(patched, device, nth)
            try:
                outcome = dynamic.insert(batch, existing)
                left = left[:0]
            except ReproError as failure:
                outcome = failure
                left = getattr(failure, "left", left)
            with suppress(OutOfDeviceMemory):
                assert dynamic.nnz >= matrix.nnz
        outcomes.add(type(outcome).__name__)
        dynamic.insert(make_batch(rows[left], columns[left], values[left]), existing)
        assert_equal(dynamic.to_csr(), plus(matrix, rows, columns, values))
    assert outcomes == {"ReproError", "NoRoom", "Inserted"}


def test_a_batch_of_one_and_of_none(on_cpu, make_batch):
    dynamic = on_cpu(host_layout.lay_out(sp.csr_array((3, 3)), 4, 20))
    dynamic.insert(make_batch([], [], []))
    dynamic.delete(make_batch([], []))
    assert dynamic.nnz == 0
    dynamic.insert(make_batch([2], [1], [5.0]))
    np.testing.assert_array_equal(dynamic.to_csr().toarray(), [[0, 0, 0], [0, 0, 0], [0, 5, 0]])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1), (3, 1000), (1000, 3)])
def test_matrices_of_any_shape(on_cpu, make_batch, shape):
    dynamic = on_cpu(host_layout.lay_out(sp.csr_array(shape), 4, 10))
    assert dynamic.to_csr().shape == shape and dynamic.nnz == 0
    dynamic.defragment()
    if 0 in shape:
        with pytest.raises(ReproError, match="entries are outside the matrix"):
            dynamic.insert(make_batch([0], [0], [1.0]))
    else:
        dynamic.insert(make_batch([shape[0] - 1], [shape[1] - 1], [1.0]))
        assert dynamic.to_csr()[shape[0] - 1, shape[1] - 1] == 1


@pytest.mark.sampled(12)
@pytest.mark.parametrize("m", [1, MAX_SMALL_BATCH + 1, MAX_MEDIUM_BATCH + 1])
@pytest.mark.parametrize(("row", "column"), [(-1, 0), (5, 0), (2**31 - 1, 0), (-(2**31), 0), (0, -1), (0, 7)])
@pytest.mark.parametrize("existing", [None, "replace"])
def test_entries_outside_of_the_matrix_leave_it_as_it_was(on_cpu, make_batch, m, row, column, existing):
    matrix = random_matrix(5, 7, 0.5)
    dynamic = on_cpu(host_layout.lay_out(matrix, 4, 100 + 4 * m))
    rows, columns = np.zeros(m, int), np.zeros(m, int)
    rows[-1], columns[-1] = row, column
    with pytest.raises(ReproError, match="1 entries elsewhere"):
        dynamic.insert(make_batch(rows, columns, np.ones(m)), existing)
    with pytest.raises(ReproError, match="1 entries elsewhere"):
        dynamic.delete(make_batch(rows, columns))
    assert_equal(dynamic.to_csr(), matrix)
    dynamic.insert(make_batch([0], [0], [1.0]), existing)


def test_values_that_are_no_numbers_are_entries(on_cpu, make_batch):
    dynamic = on_cpu(host_layout.lay_out(sp.csr_array((2, 3)), 2, 10))
    dynamic.insert(make_batch([0, 0, 1], [0, 1, 2], [np.nan, np.inf, -np.inf]))
    np.testing.assert_array_equal(dynamic.to_csr().toarray(), [[np.nan, np.inf, 0], [0, 0, -np.inf]])


def test_entries_that_add_up_to_zero_stay(on_cpu, make_batch):
    dynamic = on_cpu(host_layout.lay_out(sp.csr_array((1, 2)), 2, 10))
    dynamic.insert(make_batch([0, 0], [1, 1], [2.0, -2.0]))
    assert dynamic.nnz == 2
    dynamic.defragment()
    assert dynamic.nnz == 2


def test_a_row_longer_than_the_buffer(on_cpu, make_batch):
    dynamic = on_cpu(host_layout.lay_out(sp.csr_array((2, 5000)), 2, 100))
    dynamic.insert(make_batch(np.zeros(5000), np.arange(5000), np.ones(5000)))
    assert dynamic.nnz == 5000 and dynamic.storage.capacity >= 5000


@pytest.mark.parametrize("slack", [0, 1, 50])
def test_no_slack_and_much(on_cpu, make_batch, slack):
    matrix = random_matrix(30, 30)
    dynamic = on_cpu(host_layout.lay_out(matrix, 4, matrix.nnz + 100), slack)
    for turn in range(6):
        rows, columns, values = np.arange(30), (np.arange(30) * 7 + turn) % 30, np.ones(30)
        dynamic.insert(make_batch(rows, columns, values))
        matrix = plus(matrix, rows, columns, values)
        assert_equal(dynamic.to_csr(), matrix)


@pytest.mark.wording
def test_more_entries_than_offsets_can_count_are_refused(on_cpu, make_batch, monkeypatch):
    with pytest.raises(ReproError, match="a dynamic matrix cannot hold so many entries"):
        host_layout.lay_out(sp.csr_array((2, 2)), 4, 2**31)
    dynamic = on_cpu(host_layout.lay_out(sp.csr_array((2, 9)), 4, 10), slack=4)
    monkeypatch.setattr(dynamic_matrix, "MAX_ENTRIES", 12)
    with pytest.raises(ReproError, match="the batch is too large"):
        dynamic.insert(make_batch([0, 0, 0, 0, 1], range(5), np.ones(5)))
