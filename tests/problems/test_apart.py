"""Reading in a process of its own: what comes back, and what becomes of a crash, a flood and a hang."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems import matrix_market, meshes
from repro.problems.matrix_market import read_matrix
from repro.problems.meshes import read_surface
from repro.problems.subprocess_reader import read_isolated
from support import readers

READER = "the reader of tests"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2\n")
    return tmp_path / "a.mtx"


def test_what_was_read_comes_back_and_may_be_changed(path: Path) -> None:
    matrix = sp.random_array((500, 400), density=0.1, rng=np.random.default_rng(1), format="csr")
    given = (matrix, np.arange(7, dtype=np.int8), np.empty((0, 3)), "text", {"a": np.ones((2, 3), complex)})
    got = read_isolated(partial(readers.give, given), path, Limits(), READER)
    assert (got[0] != matrix).nnz == 0
    for mine, theirs in ((got[1], given[1]), (got[2], given[2]), (got[4]["a"], given[4]["a"])):
        np.testing.assert_array_equal(mine, theirs)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    got[0].data[0] = 17
    got[1][0] = 3
    assert (got[0].data[0], got[1][0], got[3], given[1][0]) == (17, 3, "text", 0)


def test_the_reader_is_another_process(path: Path) -> None:
    assert read_isolated(os.getpid, path, Limits(), READER) != os.getpid()


def test_an_error_comes_back_with_its_parts(path: Path) -> None:
    with pytest.raises(ReproError) as told:
        read_isolated(partial(readers.refuse, path), path, Limits(), READER)
    error = told.value
    assert (error.what, error.where, error.expected, error.actual, error.todo) == (
        "no good", str(path), None, "x", "another",
    )  # fmt: skip


def test_a_bug_keeps_its_traceback(path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Traceback[\s\S]*ZeroDivisionError"):
        read_isolated(readers.divide, path, Limits(), READER)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_crash_is_one_message_with_file_reader_and_signal(path: Path, number: signal.Signals) -> None:
    with pytest.raises(ReproError, match="the process that read the file ended") as told:
        read_isolated(partial(readers.end_by, number), path, Limits(), READER)
    assert told.value.where == path
    assert told.value.actual == f"{READER} was ended by {number.name}"


def test_an_invalid_address_is_one_message(path: Path) -> None:
    with pytest.raises(ReproError, match="SIGSEGV"):
        read_isolated(readers.crash, path, Limits(), READER)


def test_a_reader_that_leaves_without_a_word_is_no_success(path: Path) -> None:
    with pytest.raises(RuntimeError, match="exit code 3"):
        read_isolated(partial(readers.leave, 3), path, Limits(), READER)


@pytest.mark.parametrize(
    ("limits", "limit", "key"),
    [(Limits(), 2 << 30, "limits.memory_ratio"), (Limits(memory=1 << 28), 1 << 28, "limits.memory")],
)
def test_a_flood_is_one_message_with_the_limit_and_its_key(path: Path, limits: Limits, limit: int, key: str) -> None:
    assert read_isolated(partial(readers.take, limit // 2), path, limits, READER) == limit // 2
    with pytest.raises(ReproError, match="too much memory") as told:
        read_isolated(partial(readers.take, 2 * limit), path, limits, READER)
    assert told.value.expected == f"at most {limit:,} bytes ({key})"
    assert f"raise {key}" in str(told.value.todo)


def test_a_large_file_may_take_more(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(10 << 20)
    limits = Limits(memory_ratio=300)
    assert read_isolated(partial(readers.take, 5 << 29), path, limits, READER) == 5 << 29


def test_a_hang_is_one_message_and_no_process_stays(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="takes too long") as told:
        read_isolated(partial(readers.hang, tmp_path / "pid"), path, Limits(seconds=0.5), READER)
    assert told.value.expected == "at most 0.5 s (limits.seconds)"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_nothing_is_left_of_a_crash(path: Path) -> None:
    files = list(Path("/proc/self/fd").iterdir())
    with pytest.raises(ReproError, match="SIGABRT"):
        read_isolated(partial(readers.end_by, signal.SIGABRT), path, Limits(), READER)
    assert len(list(Path("/proc/self/fd").iterdir())) == len(files)


def test_a_matrix_and_a_mesh_are_read_so(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_market, "_read", readers.crash)
    with pytest.raises(ReproError, match="reader of Matrix Market files was ended by SIGSEGV") as told:
        read_matrix(path)
    assert told.value.where == path
    mesh = tmp_path / "a.ply.gz"
    mesh.write_bytes(b"ply\nformat ascii 1.0\nend_header\n")
    monkeypatch.setattr(meshes, "_parse", readers.crash)
    with pytest.raises(ReproError, match=r"the reader of \.ply files was ended by SIGSEGV") as told:
        read_surface(mesh)
    assert told.value.where == mesh
