"""`repro export`, and the folder that it makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from repro.cli import app
from repro.errors import ReproError
from repro.export.bundle import write_folder, write_matrix
from repro.problems.matrix import Matrix

REPOSITORY = Path(__file__).parents[2]
BY_NAME = ("--precision", "double", "--entry", "complex", "--variant", "Sl-32-SoA-AoS/static-256-4")


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setitem(app._state, "debug", False)


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        app.run(["export", *map(str, words)])
    return int(stopped.value.code or 0)


def test_a_named_variant_needs_no_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "kernel"
    assert run(*BY_NAME, "--to", folder) == 0
    names = {"complex_double.h", "complex_double.cu", "CMakeLists.txt", "example.cpp", "README.md"}
    assert {path.name for path in folder.iterdir()} == names
    assert capsys.readouterr().out.splitlines()[0] == f"wrote {folder / 'complex_double.h'}"
    assert "| chosen | by its name, with `--variant`" in (folder / "README.md").read_text()
    assert "namespace complex_double {" in (folder / "complex_double.cu").read_text()


def test_the_name_can_be_chosen(tmp_path: Path) -> None:
    assert run(*BY_NAME, "--to", tmp_path / "kernel", "--name", "helmholtz") == 0
    assert "add_library(helmholtz STATIC helmholtz.cu)" in (tmp_path / "kernel/CMakeLists.txt").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--precision", "single"], "nothing to export"),
        (["bunny", "--precision", "single", "--entry", "real"], "the campaign determines the entry; omit --entry"),
        (["bunny", "--precision", "single", "--campaign", "no-such"], "no such campaign"),
        (["--precision", "single", "--variant", "CSR-AoS-AoS/static-32-1"], "needs an entry"),
        (["--variant", "CSR-AoS-AoS/static-32-1", "--entry", "real"], "needs a precision"),
        ([*BY_NAME, "--target", "cpu"], "only kernels for GPUs"),
        ([*BY_NAME, "--target", "sm_11"], "unknown target"),
        ([*BY_NAME, "--entry", "octonion"], "unknown entry"),
        ([*BY_NAME, "--matrix"], "--matrix needs a problem"),
        ([*BY_NAME, "no-such", "--matrix"], "no-such.npz"),
    ],
)
def test_what_is_wrong_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(*words, "--to", tmp_path / "kernel") == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_problems_matrix_comes_along(tmp_path: Path, capsys: pytest.CaptureFixture[str], small_problem) -> None:
    for entry in ("complex", "real"):
        small_problem(entry).save(tmp_path / f"toy/problems/{entry}.npz")
    words = [*BY_NAME, "--results", tmp_path, "--campaign", "toy", "--matrix", "--to", tmp_path / "kernel"]
    assert run("real", *words) == 1
    assert "a different entry" in capsys.readouterr().err
    assert run("complex", *words) == 0
    assert (tmp_path / "kernel/complex_double.matrix").read_bytes().startswith(b"sparse-repro CSR complex double\n")


def test_a_rectangular_matrix_comes_along_with_layouts_that_take_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = np.arange(4, dtype=np.int32)
    Matrix("wide", "complex", 3, numbers, numbers[:3], np.ones((3, 2)), 5).save(tmp_path / "toy/problems/wide.npz")
    words = ["wide", "--results", tmp_path, "--campaign", "toy", "--matrix"]
    named = ["--entry", "complex", "--precision", "double", "--variant"]
    assert run(*words, *named, "CSR-AoS-SoA/static-64-1", "--to", tmp_path / "no") == 1
    assert "the layout needs a square matrix" in capsys.readouterr().err
    assert run(*words, *named, "CSR-AoS-AoS/static-64-1", "--to", tmp_path / "kernel") == 0
    line, rest = (tmp_path / "kernel/complex_double.matrix").read_bytes().split(b"\n", 1)
    assert line == b"sparse-repro CSR complex double rectangular"
    assert np.frombuffer(rest, "<i8", 3).tolist() == [3, 3, 5]


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("")
    assert run(*BY_NAME, "--to", tmp_path) == 1
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        raise ReproError("no")

    with pytest.raises(ReproError):
        write_folder(tmp_path / "half", {"a": "text"}, {"b": fails})
    assert not list(tmp_path.iterdir())


def test_a_matrix_file_is_read_back(tmp_path: Path, small_problem) -> None:
    problem = small_problem("block3")
    write_matrix(problem, "single", tmp_path / "m")
    line, rest = (tmp_path / "m").read_bytes().split(b"\n", 1)
    assert line == b"sparse-repro CSR block3 single"
    sizes = 16 + 4 * (problem.n + 1 + problem.nnz)
    assert np.frombuffer(rest, "<i8", 2).tolist() == [problem.n, problem.nnz]
    np.testing.assert_array_equal(np.frombuffer(rest[16:sizes], "<i4"), [*problem.indptr, *problem.indices])
    np.testing.assert_array_equal(np.frombuffer(rest[sizes:], "<f4"), problem.values.astype("f4").ravel())
