from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.config.models import Config, Fetch
from repro.errors import ReproError
from repro.problems.builder import build
from repro.problems.repositories import look_up

pytestmark = pytest.mark.usefixtures("no_mirror")

# stands in for the package's two names that are used, with an index of three matrices
PACKAGE = """
class Matrix:
    def __init__(self, id, group, name):
        self.id, self.group, self.name = id, group, name
        self.rows = self.cols = 3
        self.nnz, self.dtype, self.kind = 5, "real", "toy problem"

    def url(self, format):
        return f"{ROOT}/{format}/{self.group}/{self.name}.tar.gz"

MATRICES = [Matrix(1, "Moved", "toy"), Matrix(2, "A", "twin"), Matrix(3, "B", "twin"), Matrix(4, "A", "toy_b")]

def search(name, limit):
    return [m for m in MATRICES if name in m.name][:limit]
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fetch]:
    """Put a module of the package's name before the real one, for the process that asks the index."""

    def install(source: str, root: str = "http://127.0.0.1:9") -> Fetch:
        (tmp_path / "fake").mkdir()
        (tmp_path / "fake/ssgetpy.py").write_text(f"ROOT = {root!r}\n{source}")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
        return Fetch(cache=str(tmp_path / "cache"), timeout=5)

    return install


def test_the_index_decides_the_group(fake: Callable[..., Fetch]) -> None:
    settings = fake(PACKAGE)
    entry = look_up("Guessed", "toy", settings)
    assert entry["group"] == "Moved"
    assert entry["url"] == "http://127.0.0.1:9/MM/Moved/toy.tar.gz"
    assert look_up("B", "twin", settings)["id"] == 3


@pytest.mark.parametrize(("matrix", "found"), [("nothing", "none"), ("twin", "A, B")])
def test_a_matrix_that_the_index_does_not_settle(fake: Callable[..., Fetch], matrix: str, found: str) -> None:
    with pytest.raises(ReproError, match=f"Guessed/{matrix}\n  actual: {found}"):
        look_up("Guessed", matrix, fake(PACKAGE))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise OSError('no route')", "OSError: no route"),
        ("try:\n    1 / 0\nexcept Exception:\n    raise RuntimeError('outer')", "ZeroDivisionError: division by zero"),
        ("import time\ntime.sleep(20)", "no answer in 0.5 s"),
        ("print('garbage')" + PACKAGE, "Invalid JSON: expected value"),
    ],
    ids=["offline", "chained", "hanging", "garbage"],
)
def test_an_index_that_cannot_be_read(fake: Callable[..., Fetch], source: str, reason: str) -> None:
    settings = fake(source).model_copy(update={"timeout": 0.5 if "sleep" in source else 5})
    with pytest.raises(ReproError, match=f"could not be read\n  actual: {reason}"):
        look_up("A", "toy", settings)


def test_the_index_entry_is_in_the_origin(
    fake: Callable[..., Fetch], server: Any, make_config: Callable[..., Config], tmp_path: Path
) -> None:
    from test_fetch import MTX, tar_gz

    fake(PACKAGE, server.url)
    server.files["MM/Moved/toy.tar.gz"] = tar_gz(toy__toy=MTX, toy__toy_b=MTX.replace(b"2.0", b"9.0"))
    registry = tmp_path / "problems.yaml"
    registry.write_text(
        "problems: [{name: toy, source: suitesparse, entry: real, group: Guessed, matrix: toy,"
        " published: {rows: 3, nonzeros: 5}}]"
    )
    config = make_config(registry=str(registry), fetch={"timeout": 5})
    for _ in range(2):  # the second one is from the download folder
        problem = build("toy", config)
        assert problem.values[0, 0] == 2
        assert problem.origin["index"]["id"] == 1
        assert problem.origin["index"]["kind"] == "toy problem"
        assert problem.origin["address"] == f"{server.url}/MM/Moved/toy.tar.gz"
        assert problem.origin["checksum"]["state"] == "unpinned"
    assert len(server.hits) == 1
