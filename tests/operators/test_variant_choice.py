"""The fastest of a few variants, within a budget."""

import io
import pickle
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.codegen.targets import TARGETS, get_target
from repro.errors import ReproError
from repro.operators import variant_choice
from repro.operators.product import MatrixSource
from repro.operators.variant_choice import CPU_QUICK, find_fastest
from repro.problems.matrix import Matrix
from repro.sparse.compound import defaults, device_packing
from repro.sparse.compound.variants import ROUTINES, VariantId, fitting
from support.matrices import draw

DEVICE = "opencl:0"
DEFAULT = "CSR-AoS-AoS/direct-64-3"


@pytest.fixture
def matrix():
    half = sp.random_array((60, 60), density=0.05, rng=np.random.default_rng(2))
    return sp.csr_array(half + sp.eye_array(60))


class FakeTime:
    """A clock that work moves on."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(variant_choice, "perf_counter", lambda: self.now)


class Trials:
    """Products that are made and timed without a device: each takes so many seconds to make and per product."""

    def __init__(self, monkeypatch, clock, making=0.5, compiling=0.0, seconds=None, refused=()):
        self.clock, self.making, self.seconds, self.refused = clock, making, seconds or {}, refused
        self.made, self.released = [], []
        monkeypatch.setattr(variant_choice, "Product", self.make)
        monkeypatch.setattr(variant_choice, "_seconds", self.time)
        for name in ("compiled", "load_routine"):
            monkeypatch.setattr(variant_choice, name, lambda *_: self.pass_time(compiling))

    def pass_time(self, seconds):
        self.clock.now += seconds

    def make(self, runtime, matrix, precision, id):
        name = str(id)
        self.pass_time(self.making)
        if name in self.refused:
            raise ReproError("too large for 32-bit indices")
        self.made.append(name)
        return SimpleNamespace(id=id, release=lambda: self.released.append(name))

    def time(self, product, fastest):
        return self.seconds.get(str(product.id), 1.0)


@pytest.fixture
def problem(matrix):
    return Matrix("a", "real", 60, matrix.indptr, matrix.indices, matrix.data[:, None])


def found(problem, trials, budget, target="cpu"):
    device = SimpleNamespace(target=get_target(target), sm_count=132, l2_bytes=50 << 20)
    runtime = SimpleNamespace(device=device, after=nullcontext)
    product, timed = find_fastest(runtime, MatrixSource(problem), "double", budget)
    return SimpleNamespace(product=product, timed=timed)


def test_the_fastest_is_kept_and_the_others_are_released(monkeypatch, problem):
    trials = Trials(monkeypatch, FakeTime(monkeypatch), seconds={CPU_QUICK[0]: 0.5, CPU_QUICK[1]: 0.25})
    fastest = found(problem, trials, 100.0)
    assert str(fastest.product.id) == CPU_QUICK[1]
    assert fastest.timed == {DEFAULT: 1.0, CPU_QUICK[0]: 0.5, CPU_QUICK[1]: 0.25, CPU_QUICK[2]: 1.0}
    assert sorted(trials.released) == sorted({*trials.made} - {CPU_QUICK[1]})


@pytest.mark.parametrize(("budget", "count"), [(0.0, 1), (0.9, 1), (1.0, 2), (1.6, 3), (2.0, 4), (1000.0, 4)])
def test_candidates_are_tried_as_long_as_they_are_expected_to_end_within_the_budget(
    monkeypatch, problem, budget, count
):
    trials = Trials(monkeypatch, FakeTime(monkeypatch), making=0.5)
    assert len(found(problem, trials, budget).timed) == len(trials.made) == count


def test_compiling_does_not_count(monkeypatch, problem):
    trials = Trials(monkeypatch, FakeTime(monkeypatch), making=0.5, compiling=30.0)
    assert len(found(problem, trials, 2.0).timed) == 4


def test_a_candidate_that_there_is_no_room_for_is_left_out(monkeypatch, problem):
    trials = Trials(monkeypatch, FakeTime(monkeypatch), refused=CPU_QUICK[:2])
    assert list(found(problem, trials, 100.0).timed) == [DEFAULT, CPU_QUICK[2]]
    trials = Trials(monkeypatch, FakeTime(monkeypatch), refused=(DEFAULT,))
    assert list(found(problem, trials, 100.0).timed) == [*CPU_QUICK]


def test_where_no_candidate_fits_the_default_says_why(matrix, monkeypatch):
    def check(*_):
        raise ReproError("too large for 32-bit indices")

    monkeypatch.setattr(device_packing, "check_slots", check)
    with pytest.raises(ReproError, match="too large for 32-bit"):
        repro.operator(matrix, "now", device=DEVICE)


def test_mostly_padded_candidates_are_not_packed(monkeypatch):
    lengths = np.ones(5000, np.int64)
    lengths[0] = 5000
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.concatenate([np.arange(5000), np.arange(1, 5000)]).astype(np.int32)
    arrow = Matrix("arrow", "real", 5000, indptr, indices, np.ones((len(indices), 1)))
    trials = Trials(monkeypatch, FakeTime(monkeypatch))
    assert list(found(arrow, trials, 100.0).timed) == [DEFAULT]


@pytest.mark.parametrize("budget", [1e-9, 1000.0])
def test_on_a_gpu_rows_are_ordered_only_within_the_budget(monkeypatch, problem, budget):
    trials = Trials(monkeypatch, FakeTime(monkeypatch), making=0.0)
    tried = found(problem, trials, budget, "sm_90").timed
    assert budget > 1 or not any("@clustered" in name or "Pairs" in name for name in tried)
    assert list(tried)[:3] == ["CSR-AoSoA-AoS/direct-128-8-w2-u2", *ROUTINES]
    names = set(map(str, variant_choice.recorded()[0]))
    assert 3 < len(tried) <= 3 + variant_choice.MOST_TRIED and set(list(tried)[3:]) <= names


@pytest.mark.parametrize("part", ["Sl-32", "@clustered", "cs"])
def test_a_kind_of_variants_that_is_much_faster_is_found(monkeypatch, problem, part):
    names = [*map(str, variant_choice.recorded()[0])]
    seconds = {name: 0.8 for name in names if part in name}
    fastest = found(problem, Trials(monkeypatch, FakeTime(monkeypatch), making=0.0, seconds=seconds), 1e3, "sm_90")
    assert part in str(fastest.product.id)


def test_nothing_more_is_timed_where_nothing_is_hoped_for(monkeypatch, problem):
    """The default is as much faster than all others as no record knows."""
    seconds = {"CSR-AoSoA-AoS/direct-128-8-w2-u2": 1e-9}
    tried = found(problem, Trials(monkeypatch, FakeTime(monkeypatch), seconds=seconds), 1000.0, "sm_90").timed
    assert len(tried) < 3 + variant_choice.MOST_TRIED


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_progress_is_written_to_a_terminal_only(monkeypatch, problem, stream):
    stderr = stream()
    monkeypatch.setattr("sys.stderr", stderr)
    found(problem, Trials(monkeypatch, FakeTime(monkeypatch)), 1.0)
    written = stderr.getvalue()
    assert bool(written) == stderr.isatty()
    if written:
        lines = written.split("\r\x1b[K")
        assert "timing default: 0 done, 0.0 of 1 s" in lines
        assert f"timing {CPU_QUICK[0]}: 1 done, 0.5 of 1 s" in lines
        assert not lines[-1], "the line is cleared at the end"


def test_launches_are_bounded_by_the_first_ones_time(monkeypatch):
    clock, asked = FakeTime(monkeypatch), []

    def launches_for(seconds, fastest=np.inf):
        device = SimpleNamespace(
            synchronize=lambda: None, time_graph=lambda launch, *counts: asked.append(counts) or [1]
        )
        vectors = SimpleNamespace(zeros=lambda: SimpleNamespace(buffer=None))

        def launch():
            clock.now += seconds

        product = SimpleNamespace(
            runtime=SimpleNamespace(device=device, after=nullcontext), x_vectors=vectors, y_vectors=vectors,
            bind=lambda x, y: launch,
        )  # fmt: skip
        variant_choice._seconds(product, fastest)
        return asked.pop() if asked else None

    assert launches_for(1e-6) == (variant_choice.LAUNCHES, variant_choice.REPLAYS)
    assert launches_for(0.004) == (2, variant_choice.REPLAYS)
    assert launches_for(0.02) == (1, 2)
    assert launches_for(3.0) == (1, 1)
    assert launches_for(0.02, fastest=0.014) == (1, 2)
    assert launches_for(0.02, fastest=0.013) is None, "it is slower than twice the fastest"


@pytest.mark.medium
def test_the_operator_says_what_was_timed(matrix):
    x = draw(60, float)
    with repro.operator(matrix, "now", device=DEVICE, budget=60) as A:
        np.testing.assert_allclose(A @ x, matrix @ x, atol=1e-12)
        assert A.name in A.timed and set(A.timed) == {DEFAULT, *CPU_QUICK}
        assert min(A.timed, key=A.timed.get) == A.name and min(A.timed.values()) > 0
        assert f"{A.name}, fastest of 4 timed on" in repr(A)
    with repro.operator(matrix, "now", device=DEVICE, budget=0) as A:
        assert list(A.timed) == [DEFAULT] == [A.name]
    with repro.operator(matrix, device=DEVICE) as A:
        assert A.timed == {} and "timed" not in repr(A)


@pytest.mark.medium
def test_a_transpose_has_the_default_for_its_own_rows_unless_a_variant_was_named(monkeypatch):
    monkeypatch.setattr(defaults, "LONG_ON_CPU", 50)
    tall = sp.csr_array(np.eye(200)[:, :1] + np.arange(200.0)[:, None] @ np.array([[1.0, 0, 0]]))
    split = "CSR-AoS-AoS/split-64-3-u8"
    y = np.arange(200.0)
    for tuned, name, transposed in (("default", DEFAULT, split), (DEFAULT, DEFAULT, DEFAULT)):
        with repro.operator(tall, tuned, device=DEVICE) as A:
            assert (A.name, A.T.name, A.T.T.name) == (name, transposed, name)
            np.testing.assert_allclose(A.T @ y, tall.T @ y)
            again = pickle.loads(pickle.dumps(A))
            assert (again.name, again.T.name) == (name, transposed)
    with repro.operator(tall.T, device=DEVICE) as wide:
        assert (wide.name, wide.T.name) == (split, DEFAULT)
        np.testing.assert_allclose(wide @ np.column_stack([y, -y]), tall.T @ np.column_stack([y, -y]))


@pytest.mark.parametrize("budget", [-1, float("nan"), "2", None, True])
def test_a_budget_that_is_none_is_one_message(matrix, budget):
    with pytest.raises(ReproError, match=r"not a valid number(.|\n)*budget"):
        repro.operator(matrix, "now", device=DEVICE, budget=budget)


def test_the_candidates_are_variants_of_their_targets():
    for id in variant_choice.recorded()[0]:
        for target in (target for target in TARGETS.values() if target.dialect == "cuda"):
            fitting(id, target)
    for name in CPU_QUICK:
        fitting(VariantId.parse(name), get_target("cpu"))
