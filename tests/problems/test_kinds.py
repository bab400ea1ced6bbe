"""The kinds of problems: what a file keeps of them, and what is said of each."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from repro.campaign.problem_files import record_of
from repro.cli import problems as commands
from repro.errors import ReproError
from repro.problems.field import Field
from repro.problems.matrix import Matrix, Updates
from repro.problems.problem import SCHEMA, Problem, Unavailable, load_problem, save_unavailable
from support.non_files import IN_PLACE_OF_A_FILE, put
from support.sound_problems import (
    BARE,
    BLANK,
    EMPTY,
    SOUND,
    SQUARE,
    TETRAHEDRON,
    TRIANGLES,
    UPDATES,
    WIDE,
    column,
    floats,
    ints,
)

each_problem = pytest.mark.parametrize("problem", SOUND, ids=lambda problem: problem.name)


@each_problem
def test_a_problem_prints_as_one_line_without_its_arrays(problem: Problem) -> None:
    assert repr(problem).startswith(f"<{type(problem).__name__} {problem.name}: ")
    assert "array(" not in repr(problem) and "\n" not in repr(problem)


# The file -------------------------------------------------------------------------------------------------------------


@each_problem
def test_a_file_keeps_all_of_a_problem(problem: Problem, tmp_path: Path) -> None:
    complete = problem.complete()
    complete.save(tmp_path / "deep/toy.npz")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["toy.npz"]
    loaded = load_problem(tmp_path / "deep/toy.npz")
    assert type(loaded) is type(problem)
    assert (loaded.name, loaded.origin, loaded.traits()) == (problem.name, problem.origin, problem.traits())
    assert loaded.statistics == problem.describe()
    assert loaded.arrays().keys() == problem.arrays().keys()
    for name, array in problem.arrays().items():
        np.testing.assert_array_equal(loaded.arrays()[name], array, strict=True)
    assert loaded.checksum() == problem.checksum()


@each_problem
def test_what_records_and_tables_get_is_plain(problem: Problem) -> None:
    for said in (problem.summary(), problem.describe(), dict(problem.traits())):
        assert json.loads(json.dumps(said)) == said
    assert len(problem.info()) >= len(problem.summary())


@each_problem
def test_another_kind_is_refused(problem: Problem, tmp_path: Path) -> None:
    problem.save(tmp_path / "toy.npz")
    for kind in (Matrix, Updates, Field):
        if isinstance(problem, kind):
            assert kind.load(tmp_path / "toy.npz").name == problem.name
        else:
            expected = f"a different kind\n  where: .*\n  expected: {kind.kind}\n  actual: {problem.kind}"
            with pytest.raises(ReproError, match=expected):
                kind.load(tmp_path / "toy.npz")


@pytest.mark.parametrize("kept", [0, 30, 400])
def test_a_damaged_file(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    SQUARE.save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ReproError, match="damaged"):
        load_problem(path)


def rewrite(path: Path, meta: dict[str, Any], **arrays: NDArray[Any]) -> None:
    """Write a problem file anew, with some of what it says changed."""
    with np.load(path) as file:
        said = json.loads(str(file["meta"])) | meta
        content = {name: file[name] for name in file.files} | arrays
    np.savez(path, **{**content, "meta": np.array(json.dumps(said))})


@pytest.mark.parametrize(
    ("meta", "arrays", "said"),
    [
        ({}, {"values": column(1, 2, -3)}, "wrong checksum"),
        ({"traits": {"entry": "real", "n": 3, "columns": 4}}, {}, "wrong checksum"),
        ({"schema": 1}, {}, rf"a different schema[\s\S]*expected: {SCHEMA}\n  actual: 1"),
        ({"kind": "tensor"}, {}, r"unknown kind[\s\S]*actual: tensor"),
        ({"kind": "fetch"}, {}, r"unknown kind[\s\S]*actual: fetch"),
        ({"kind": "field"}, {}, "damaged"),
        ({}, {"extra": ints(1)}, "damaged"),
        ({"name": "../../../toy"}, {}, r"damaged[\s\S]*name: .*not a name for a problem"),
        ({"name": 5}, {}, r"damaged[\s\S]*name: input should be a valid string"),
        ({"kind": ["matrix"]}, {}, r"damaged[\s\S]*kind: input should be a valid string"),
        ({"traits": [1]}, {}, r"damaged[\s\S]*traits: input should be a valid dictionary"),
        ({"statistics": "many"}, {}, r"damaged[\s\S]*statistics: input should be a valid dictionary"),
        ({"status": "fine"}, {}, r"damaged[\s\S]*status: input should be 'ok' or 'unavailable'"),
        ({}, {"values": np.array([object()])}, r"damaged[\s\S]*allow_pickle"),
    ],
)
def test_a_file_that_says_something_else(
    meta: dict[str, Any], arrays: dict[str, NDArray[Any]], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "toy.npz"
    SQUARE.save(path)
    rewrite(path, meta, **arrays)
    with pytest.raises(ReproError, match=said) as caught:
        load_problem(path)
    assert caught.value.where == path


def member(path: Path, name: str, content: bytes, **options: Any) -> None:
    with zipfile.ZipFile(path, "a", **options) as archive:
        archive.writestr(name, content)


@pytest.mark.wording
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b""), "No data left"),
        (lambda path: path.write_bytes(b"\x93NUMPY" + bytes(100)), ""),
        (lambda path: np.save(path.open("wb"), np.ones(3)), ""),
        (lambda path: path.write_bytes(pickle.dumps({"meta": 1})), "allow_pickle|pickled"),
        (lambda path: rewrite(path, {"origin": {"deep": json.loads("[" * 150 + "]" * 150)}}), "nested more than 100"),
        (
            lambda path: member(path, "zeros.npy", bytes(10 << 20), compression=zipfile.ZIP_DEFLATED),
            "unpacks to [0-9,]{10}",
        ),
        (
            lambda path: member(path, "more.npy", b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f8', 'fortran_order': "
                                b"False, 'shape': (1000000000000000000,), }".ljust(117) + b"\n"),
            "",
        ),
        pytest.param(lambda path: member(path, "indices.npy", b""), "two arrays of one name",
                     marks=pytest.mark.filterwarnings("ignore:Duplicate name")),
    ],
    ids=["empty", "header", "array", "pickle", "deep", "bomb", "shape", "twice"],
)  # fmt: skip
def test_a_file_that_is_no_problem_is_one_message(spoil: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    SQUARE.save(path)
    spoil(path)
    with pytest.raises(ReproError, match=rf"the problem file is damaged\n  where: .*toy.npz\n  actual: .*({said})"):
        load_problem(path)


@pytest.mark.wording
@pytest.mark.parametrize("kind", IN_PLACE_OF_A_FILE)
def test_what_is_in_the_place_of_a_problem_is_not_waited_for(tmp_path: Path, at_once: None, kind: str) -> None:
    put(kind, tmp_path / "toy.npz")
    with pytest.raises(ReproError, match=rf"the problem file is damaged[\s\S]*{IN_PLACE_OF_A_FILE[kind]}"):
        load_problem(tmp_path / "toy.npz")


@pytest.mark.wording
def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="no such problem file"):
        load_problem(tmp_path / "none.npz")


@pytest.mark.parametrize(("kind", "entry"), [("matrix", "block3"), ("field", None)])
def test_a_file_may_say_why_there_is_no_problem(kind: str, entry: str | None, tmp_path: Path) -> None:
    save_unavailable(tmp_path / "toy.npz", "toy", kind, entry, "no such address")
    for load in (load_problem, Matrix.load, Field.load):
        with pytest.raises(Unavailable, match=r"toy is unavailable[\s\S]*no such address") as caught:
            load(tmp_path / "toy.npz")
        assert (caught.value.name, caught.value.reason) == ("toy", "no such address")


def test_a_new_kind_is_one_class(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Vector(Problem):
        kind: ClassVar[str] = "vector_of_a_test"
        values: NDArray[np.float64]

        def arrays(self) -> dict[str, NDArray[Any]]:
            return {"values": self.values}

        def traits(self) -> dict[str, Any]:
            return {}

        def validate(self) -> Vector:
            return self

        def describe(self) -> dict[str, Any]:
            return {"largest": float(self.values.max())}

        def summary(self) -> dict[str, Any]:
            return {"length": len(self.values)}

        def info(self) -> list[tuple[str, str]]:
            return [("length", str(len(self.values)))]

    Vector("toy", floats(1, 2)).complete().save(tmp_path / "toy.npz")
    loaded = load_problem(tmp_path / "toy.npz")
    assert isinstance(loaded, Vector)
    assert loaded.statistics == {"largest": 2}
    assert record_of(loaded) == {
        "name": "toy",
        "kind": "vector_of_a_test",
        "status": "ok",
        "length": 2,
        "checksum": loaded.checksum(),
        "origin": {},
        "statistics": {"largest": 2},
        "facts": {},
    }


# What is said of them -------------------------------------------------------------------------------------------------


def test_checksums_of_square_matrices_are_the_recorded_ones() -> None:
    """Campaigns were recorded with these before there were kinds and rectangular matrices."""
    assert SQUARE.checksum() == "55b803a81ce764dd81dfacf03833ae5b207f93d0eeea4a907a8110397d6323c5"
    assert replace(SQUARE, columns=3).checksum() == SQUARE.checksum()
    values = np.array([[1.0, -1], [2.5, 0], [-3, 4]])
    complex_ = Matrix("toy", "complex", 2, ints(0, 1, 3), ints(1, 0, 1), values)
    assert complex_.checksum() == "5e0d747d851d36f59dc2dbd45a8a16eef869d8a36553b6d7c5f17be873c63bec"
    pattern = replace(complex_, entry="pattern", values=np.empty((3, 0)))
    assert pattern.checksum() == "cf44049b550356d382e7ca090227139fe65bff61f15039af1d3ee422b610c590"


@pytest.mark.parametrize(
    ("problem", "other"),
    [
        (SQUARE, WIDE),
        (WIDE, replace(WIDE, columns=8)),
        (SQUARE, replace(SQUARE, values=-SQUARE.values)),
        (UPDATES, replace(UPDATES, columns=6)),
        (UPDATES, replace(UPDATES, batch_pointers=np.array([0, 2, 3, 3], dtype=np.int64))),
        (BLANK, replace(BLANK, batch_pointers=np.zeros(2, dtype=np.int64))),
        (TRIANGLES, replace(TRIANGLES, basis="legendre")),
        (TRIANGLES, replace(TRIANGLES, periodic=False)),
        (TRIANGLES, replace(TRIANGLES, modes=TRIANGLES.modes + 1)),
    ],
)
def test_another_content_has_another_checksum(problem: Problem, other: Problem) -> None:
    assert problem.checksum() != other.checksum()
    assert replace(problem, name="renamed", origin={"note": "x"}).checksum() == problem.checksum()


def test_sizes_of_matrices() -> None:
    assert (SQUARE.shape, SQUARE.square, SQUARE.nnz, SQUARE.row_lengths.tolist()) == ((3, 3), True, 3, [2, 0, 1])
    assert (WIDE.shape, WIDE.square) == ((3, 7), False)
    assert (EMPTY.shape, EMPTY.square, EMPTY.nnz) == ((0, 0), True, 0)
    assert (BARE.shape, BARE.square) == ((2, 0), False)
    assert SQUARE.summary() == {"entry": "real", "n": 3, "nnz": 3}
    assert WIDE.summary() == {"entry": "real", "n": 3, "columns": 7, "nnz": 3}
    assert WIDE.describe()["bandwidth_percent"]["max"] == pytest.approx(100 * 2 / 7)


def test_sizes_of_updates() -> None:
    assert UPDATES.summary() == {"n": 3, "columns": 5, "nnz": 3, "batches": 3, "entries": 3}
    assert UPDATES.base.validate().shape == (3, 5)
    batches = [[part.tolist() for part in UPDATES.batch(i)] for i in range(UPDATES.batches)]
    assert batches == [[[2, 0], [4, 0], [1, 2]], [[], [], []], [[2], [4], [3]]]
    described = UPDATES.describe()
    assert (described["batch_length"]["max"], described["batch_length"]["mean"]) == (2, 1)
    assert (described["updated_rows"], described["nonzeros"]) == (2, 3)
    assert BLANK.summary() == {"n": 0, "columns": 4, "nnz": 0, "batches": 0, "entries": 0}


def test_sizes_of_fields() -> None:
    assert TRIANGLES.summary() == {
        "dimension": 2, "vertices": 5, "cells": 2, "degree": 1, "basis": "dubiner", "modes": 3, "periodic": True,
    }  # fmt: skip
    described = TRIANGLES.describe()
    assert (described["unused_vertices"], described["total_volume"]) == (1, pytest.approx(1))
    assert described["longest_edge"] == pytest.approx(np.sqrt(2))
    described = TETRAHEDRON.describe()
    assert (described["unused_vertices"], described["total_volume"]) == (0, pytest.approx(1 / 6))


@pytest.mark.parametrize(
    ("problem", "rows"),
    [
        (SQUARE, ["kind matrix", "entry real", "rows 3", "non-zeros 3", "empty rows 1", "source test"]),
        (WIDE, ["kind matrix", "entry real", "rows 3", "columns 7", "non-zeros 3"]),
        (EMPTY, ["kind matrix", "rows 0", "non-zeros 0", "ell factor 0"]),
        (
            UPDATES,
            [
                "kind updates",
                "rows 3",
                "columns 5",
                "non-zeros 3",
                "batches 3",
                "entries in batches 3",
                "updated rows 2",
            ],
        ),
        (
            TRIANGLES,
            [
                "kind field",
                "dimension 2",
                "vertices 5",
                "cells 2",
                "degree 1",
                "basis dubiner",
                "modes a cell 3",
                "periodic yes",
                "unused vertices 1",
                "total volume 1",
            ],
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Problem) else "",
)
def test_info(problem: Problem, rows: list[str]) -> None:
    console = Console(width=150)
    with console.capture() as capture:
        console.print(commands.describe(problem.complete(), Path("toy.npz")))
    printed = [" ".join(line.replace("│", " ").split()) for line in capture.get().splitlines()]
    assert printed[0] == f"problem {problem.name}"
    assert not [row for row in ["file toy.npz", f"checksum sha256 {problem.checksum()}", *rows] if row not in printed]
    assert ("columns" in dict(problem.info())) == (problem.name in ("wide", "updates"))
