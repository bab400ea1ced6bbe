"""Meshes that a recipe made before: written, found in a mirror, checked, and made anew where they do not do."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems import generators, recipes
from repro.problems.files import mesh_checksum
from repro.problems.meshes import read_surface, read_tetrahedra
from repro.problems.recipes import Made
from repro.problems.registry import Recipe
from repro.problems.repositories import obtain_recipe, write_mesh

VERTICES, TETS = generators.lattice_box((2, 3, 4))
SHA256 = mesh_checksum(VERTICES, TETS)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    monkeypatch.setenv("REPRO_MIRROR", str(tmp_path / "mirror"))
    return Fetch(cache=str(tmp_path / "cache"), retries=0)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recipe]:
    """A recipe that makes another mesh than the one above; or fails."""

    def make(_: recipes.SurfaceSource) -> Made:
        return Made(*generators.lattice_box((1, 1, 1)), ("made just now",))

    def fail(_: recipes.SurfaceSource) -> Made:
        raise ReproError("rebuilding needs gmsh", todo="install it")

    def register(*, fails: bool = False, **fields: Any) -> Recipe:
        monkeypatch.setitem(recipes._RECIPES, "toy", recipes.MeshRecipe("toy", fail if fails else make))
        return Recipe(source="recipe", name="fem/toy", recipe="toy", **fields)

    return register


@pytest.mark.parametrize("suffix", [".meshb", ".meshb.gz", ".meshb.xz"])
def test_a_written_mesh_is_read_back_as_it_was(tmp_path: Path, suffix: str) -> None:
    shuffled = np.random.default_rng(1).permutation(TETS)
    path = tmp_path / f"folder/toy{suffix}"
    write_mesh(path, VERTICES / 3, shuffled)
    vertices, tets, notes = read_tetrahedra(path)
    assert np.array_equal(vertices, VERTICES / 3)
    assert np.array_equal(tets, shuffled)
    assert notes == ()
    assert [each.name for each in path.parent.iterdir()] == [path.name], "and nothing is left behind"


def test_a_packed_mesh_is_the_same_file_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        for suffix in (".meshb", ".meshb.gz", ".meshb.xz"):
            write_mesh(tmp_path / (name + suffix), VERTICES, TETS)
    plain = (tmp_path / "one.meshb").read_bytes()
    assert gzip.decompress((tmp_path / "one.meshb.gz").read_bytes()) == plain
    assert lzma.decompress((tmp_path / "one.meshb.xz").read_bytes()) == plain
    for suffix in (".meshb", ".meshb.gz", ".meshb.xz"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_a_surface_can_be_written_too(tmp_path: Path) -> None:
    vertices, faces = generators.blob(50)
    write_mesh(tmp_path / "blob.meshb.xz", vertices, faces)
    found = read_surface(tmp_path / "blob.meshb.xz")
    assert np.array_equal(found[0], vertices)
    assert np.array_equal(found[1], faces)


@pytest.mark.parametrize("name", ["toy.ply", "toy.meshb.zip", "meshb"])
def test_another_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        ReproError, match=r"unknown mesh format for writing[\s\S]*\.meshb or \.meshb\.gz or \.meshb\.xz"
    ):
        write_mesh(tmp_path / name, VERTICES, TETS)
    assert not list(tmp_path.iterdir())


@pytest.mark.wording
def test_a_place_for_a_mesh_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReproError, match="cannot write the mesh"):
        write_mesh(tmp_path / "file/toy.meshb", VERTICES, TETS)


@pytest.mark.parametrize("folder", ["mirror", "cache"])
def test_a_ready_made_mesh_comes_before_the_recipe(
    tmp_path: Path, settings: Fetch, toy: Callable[..., Recipe], folder: str
) -> None:
    write_mesh(tmp_path / folder / "recipe/toy.meshb.xz", VERTICES, TETS)
    found = obtain_recipe(toy(checksum=SHA256, made="from a box, by hand", fails=True), settings)
    assert np.array_equal(found.content.cells, TETS)
    place = {"mirror": "mirror", "cache": "put by hand"}[folder]
    assert found.address == f"{place}: recipe/toy.meshb.xz"
    assert found.content.checksum == {"sha256": SHA256, "state": "pinned"}
    assert found.content.notes == ("made before, from a box, by hand", "longest row 15, ELL factor 1.6")


def test_a_ready_made_mesh_without_a_checksum_is_unpinned(
    tmp_path: Path, settings: Fetch, toy: Callable[..., Recipe]
) -> None:
    write_mesh(tmp_path / "mirror/recipe/toy.meshb", VERTICES, TETS)
    found = obtain_recipe(toy(), settings)
    assert found.content.checksum == {"sha256": SHA256, "state": "unpinned"}
    assert found.content.notes == ("longest row 15, ELL factor 1.6",)


def test_another_mesh_in_the_mirror_is_not_taken(
    tmp_path: Path, settings: Fetch, toy: Callable[..., Recipe], caplog: pytest.LogCaptureFixture
) -> None:
    write_mesh(tmp_path / "mirror/recipe/toy.meshb", VERTICES, TETS)
    found = obtain_recipe(toy(checksum="0" * 64), settings)
    assert (found.address, found.content.checksum["state"]) == ("recipe: toy", "rebuilt")
    assert found.content.notes == ("made just now", "longest row 8, ELL factor 1.4")
    assert "recipe/toy.meshb: wrong checksum" in caplog.text


@pytest.mark.wording
def test_the_recorded_mesh_is_recognised(settings: Fetch, toy: Callable[..., Recipe]) -> None:
    sha256 = obtain_recipe(toy(), settings).content.checksum["sha256"]
    assert obtain_recipe(toy(checksum=sha256), settings).content.notes[1] == "the recorded mesh, bit for bit"


def test_a_mesh_that_is_nowhere_and_cannot_be_made(tmp_path: Path, settings: Fetch, toy: Callable[..., Recipe]) -> None:
    write_mesh(tmp_path / "mirror/recipe/toy.meshb.gz", VERTICES, TETS)
    with pytest.raises(ReproError, match="rebuilding needs gmsh") as caught:
        obtain_recipe(toy(fails=True, checksum="0" * 64), settings)
    message = str(caught.value)
    assert f"{tmp_path}/cache/recipe/toy{{.meshb,.meshb.gz,.meshb.xz}}: no such file" in message
    assert "mirror/recipe/toy.meshb.gz: wrong checksum" in message
    assert "install it; or put the file at" in message
    assert "REPRO_MIRROR" in message
