"""Problems that grow: how batches are drawn, from the registry's word to the built problem."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.campaign.problem_files import build_problem, record_unavailable
from repro.config.models import Config, OwnProblem, UpdateBatches
from repro.errors import ReproError
from repro.problems.assembly import Assembled
from repro.problems.builder import build
from repro.problems.generators import generate
from repro.problems.matrix import Updates, draw_batches

Make = Callable[..., Config]
GRAPH = generate("graph", size=[2000, 16_000], longest=600, overflow=6000, family="social")


def drawn(wished: UpdateBatches, matrix: Assembled = GRAPH, seed: int = 1) -> dict[str, np.ndarray]:
    return draw_batches(matrix, wished, seed, "toy")


def test_shares_and_sizes() -> None:
    shared = drawn(UpdateBatches(batches=50, share=0.002))
    assert shared["batch_pointers"].tolist() == list(range(0, 50 * 32 + 1, 32))
    assert drawn(UpdateBatches(batches=3, share=1e-9))["batch_pointers"].tolist() == [0, 1, 2, 3]
    sized = drawn(UpdateBatches(sizes=(1, 0, 100)))
    assert sized["batch_pointers"].tolist() == [0, 1, 1, 101]
    assert {name: array.dtype for name, array in sized.items()} == {
        "batch_pointers": np.int64, "batch_rows": np.int32, "batch_columns": np.int32, "batch_values": np.float64
    }  # fmt: skip


def test_rows_ascend_in_each_batch_where_it_is_said() -> None:
    loose, sorted_ = (drawn(UpdateBatches(sizes=(500, 700), order=order)) for order in ("any", "sorted"))
    for begin, end in ((0, 500), (500, 1200)):
        assert (np.diff(sorted_["batch_rows"][begin:end]) >= 0).all()
        assert (np.diff(loose["batch_rows"][begin:end]) < 0).any()
        entries = [
            sorted(zip(*(d[f"batch_{part}"][begin:end] for part in ("rows", "columns", "values")), strict=True))
            for d in (loose, sorted_)
        ]
        assert entries[0] == entries[1]


def test_rows_by_degree_are_as_frequent_as_they_are_long() -> None:
    lengths = np.diff(GRAPH.indptr)
    counts = {
        rows: np.bincount(drawn(UpdateBatches(sizes=(200_000,), rows=rows))["batch_rows"], minlength=GRAPH.n)
        for rows in ("uniform", "degree")
    }
    assert np.corrcoef(lengths, counts["degree"])[0, 1] > 0.98
    assert abs(np.corrcoef(lengths, counts["uniform"])[0, 1]) < 0.1
    assert counts["uniform"].max() < 200


def test_another_seed_draws_others_and_the_same_the_same() -> None:
    one, again, other = (drawn(UpdateBatches(sizes=(50,)), seed=seed)["batch_columns"] for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_what_cannot_be_drawn() -> None:
    pointers = np.zeros(4, np.int32)
    blank = Assembled(3, pointers, np.empty(0, np.int32), np.empty((0, 1)))
    none = Assembled(0, pointers[:1], np.empty(0, np.int32), np.empty((0, 1)), columns=5)
    assert len(drawn(UpdateBatches(sizes=(4,)), blank)["batch_rows"]) == 4
    assert len(drawn(UpdateBatches(sizes=(0,)), none)["batch_rows"]) == 0
    for matrix, wished in (
        (blank, UpdateBatches(sizes=(4,), rows="degree")),
        (none, UpdateBatches(sizes=(1,))),
        (GRAPH, UpdateBatches(sizes=(2**30, 2**30))),
    ):
        with pytest.raises(ReproError, match="cannot be drawn\n  where: toy: updates"):
            drawn(wished, matrix)


def test_a_registered_problem_that_grows(make_config: Make) -> None:
    problem = build("tiny/web", make_config())
    assert isinstance(problem, Updates)
    assert (problem.n, problem.base.nnz, problem.batches, problem.entries) == (600, 4800, 5, 5 * 96)
    assert problem.origin["updates"] == {
        "batches": 5, "share": 0.02, "rows": "uniform", "order": "sorted", "seed": 1
    }  # fmt: skip
    assert build("tiny/web", make_config(seed=2)).origin["updates"]["seed"] == 2
    assert problem.checksum() == build("tiny/web", make_config()).checksum()
    sweep = build("tiny/sweep", make_config())
    assert isinstance(sweep, Updates)
    assert np.diff(sweep.batch_pointers).tolist() == [1, 0, 40, 400]
    assert sweep.origin["updates"] == {"sizes": [1, 0, 40, 400], "rows": "degree", "order": "any", "seed": 1}


def test_a_pattern_of_ones_own_that_grows_is_of_ones(tmp_path: Path, make_config: Make) -> None:
    (tmp_path / "mine.mtx").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n")
    own = OwnProblem(path=str(tmp_path / "mine.mtx"), updates=UpdateBatches(sizes=(2, 3)))
    problem = build(own, make_config())
    assert isinstance(problem, Updates)
    assert problem.values.tolist() == [[1], [1], [1]]
    assert problem.entries == 5
    with pytest.raises(ValueError, match="updates are of real matrices, and the entry is pattern"):
        OwnProblem(path="mine.mtx", entry="pattern", updates=UpdateBatches(sizes=(1,)))


@pytest.fixture
def collected(tmp_path: Path, make_config: Make) -> Callable[[str], Config]:
    """A configuration with one problem of the collection, the item's keys given; its file is put by hand."""
    (tmp_path / "cache/suitesparse/G").mkdir(parents=True)
    (tmp_path / "cache/suitesparse/G/toy.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 2\n3 3\n"
    )

    def configure(keys: str) -> Config:
        (tmp_path / "problems.yaml").write_text(
            f"problems: [{{name: toy, source: suitesparse, entry: real, group: G, matrix: toy, {keys}}}]\n"
        )
        return make_config(registry=str(tmp_path / "problems.yaml"))

    return configure


@pytest.mark.usefixtures("no_mirror")
def test_the_stored_triangle_of_a_matrix_of_the_collection(collected: Callable[[str], Config]) -> None:
    keys = "stored: lower, published: {rows: 3, nonzeros: 3}, updates: {batches: 2, share: 0.5}"
    problem = build("toy", collected(keys))
    assert isinstance(problem, Updates)
    assert problem.indptr.tolist() == [0, 0, 1, 3]
    assert (problem.values == 1).all()
    assert any("the lower triangle alone" in note for note in problem.origin["notes"])


@pytest.mark.usefixtures("no_mirror")
def test_the_record_of_what_grows_and_of_what_cannot_be_had(collected: Callable[[str], Config], tmp_path: Path) -> None:
    config, record = collected("updates: {sizes: [2]}"), tmp_path / "toy.json"
    build_problem("toy", config, tmp_path / "toy.npz", record)
    said: dict[str, Any] = json.loads(record.read_text())
    assert (said["kind"], said["n"], said["nnz"], said["entries"]) == ("updates", 3, 5, 2)
    record_unavailable("toy", config, "no network", tmp_path / "toy.npz", record)
    said = json.loads(record.read_text())
    assert (said["kind"], said["entry"], said["reason"]) == ("updates", None, "no network")
