"""Fields in files of a user's own: what is read, what is mended and said, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pydantic
import pytest

from repro.bench.records import read_problem
from repro.campaign.problem_files import record_unavailable
from repro.cli.campaign import LISTS, ListTopic
from repro.config.models import FieldFile, Limits, OwnProblem, StudySettings
from repro.errors import ReproError
from repro.galerkin import evaluate, exact_for
from repro.problems.builder import build
from repro.problems.field import Field
from repro.problems.generated_fields import generate_field
from repro.problems.own_problems import planned, read_field
from repro.problems.problem import Unavailable, load_problem
from repro.problems.registry import load_registry

PLANE = generate_field("delaunay", triangles=30, variance="high", degree=2)
SPACE = generate_field("cubes", cubes=2, degree=1)
LINEAR = generate_field("structured", squares=2, degree=1)


@pytest.fixture
def _without_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read here, which is quicker."""
    monkeypatch.setattr("repro.problems.meshes.read_isolated", lambda read, *_, **__: read())


pytestmark = pytest.mark.usefixtures("_without_a_fork")


def lifted(vertices: np.ndarray, z: float = 0.0) -> np.ndarray:
    return np.column_stack([vertices, np.full(len(vertices), z)]) if vertices.shape[1] == 2 else vertices


def write(path: Path, field: Field, name: str = "modes_dubiner", z: float = 0.0, **changes: np.ndarray) -> FieldFile:
    """Write a field, with other vertices, cells or modes where they are given."""
    kind = "tetra" if field.dimension == 3 else "triangle"
    vertices, cells = changes.get("vertices", field.vertices), changes.get("cells", field.cells)
    mesh = meshio.Mesh(lifted(vertices, z), [(kind, cells)], cell_data={name: [changes.get("modes", field.modes)]})
    mesh.write(path)
    return FieldFile(path=str(path))


def values_of(field: Field, points: np.ndarray) -> np.ndarray:
    """Return the field at places of space, each in the first cell that has it, found by brute force."""
    corners = field.vertices[field.cells]
    local = np.linalg.solve(
        (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1)[:, None], (points - corners[:, :1])[..., None]
    )[..., 0]
    inside = (local.min(axis=2) > 0) & (local.sum(axis=2) < 1)
    cell = inside.argmax(axis=0)
    assert inside.any(axis=0).all()
    rows = np.stack([evaluate(field.basis, local[c, [i]], field.degree)[0] for i, c in enumerate(cell)])
    values: np.ndarray = (rows * field.modes[cell]).sum(axis=1)
    return values


# What is read ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [PLANE, SPACE, LINEAR], ids=lambda field: field.name)
@pytest.mark.parametrize("suffix", [".vtu", ".vtk"])
def test_a_written_field_is_read_as_it_was(field: Field, suffix: str, tmp_path: Path) -> None:
    read = read_field(write(tmp_path / f"a{suffix}", field)).validate()
    for name, array in field.arrays().items():
        np.testing.assert_array_equal(read.arrays()[name], array, strict=True)
    assert read.traits() == field.traits()
    assert read.origin["notes"] == []
    assert read.origin["counts"] == {"vertices": len(field.vertices), "cells": len(field.cells)}
    assert (read.origin["modes"], read.origin["checksum"]["state"]) == ("modes_dubiner", "own")


def test_a_packed_file_is_read_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    write(tmp_path / "a.vtu", PLANE)
    (tmp_path / "b.vtu.gz").write_bytes(gzip.compress((tmp_path / "a.vtu").read_bytes()))
    read = read_field(FieldFile(path=str(tmp_path / "b.vtu.gz")))
    np.testing.assert_array_equal(read.modes, PLANE.modes)
    (tmp_path / "b.vtu").write_bytes((tmp_path / "a.vtu").read_bytes()[:700])
    with pytest.raises(ReproError, match="truncated"):
        read_field(FieldFile(path=str(tmp_path / "b.vtu")))


def test_the_configuration_may_name_modes_and_basis(tmp_path: Path) -> None:
    said = write(tmp_path / "a.vtu", PLANE, name="density")
    read = read_field(said.model_copy(update={"modes": "density", "basis": "monomial", "periodic": False}))
    assert (read.basis, read.periodic, read.degree) == ("monomial", False, 2)


def test_one_number_a_cell_is_a_field_of_degree_0(tmp_path: Path) -> None:
    read = read_field(write(tmp_path / "a.vtu", PLANE, modes=PLANE.modes[:, 0]))
    assert (read.degree, read.modes.shape) == (0, (len(PLANE.cells), 1))


def test_a_plane_may_lie_anywhere(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_field(write(tmp_path / "a.vtu", PLANE, z=3.5)).vertices, PLANE.vertices)


def test_the_domain_may_be_any_box(tmp_path: Path) -> None:
    vertices = PLANE.vertices * [2 * np.pi, 0.5] + [-3.0, 1.0]
    read = read_field(write(tmp_path / "a.vtu", PLANE, vertices=vertices)).validate()
    assert read.describe()["total_volume"] == pytest.approx(np.pi)


def test_a_vertex_may_hang_on_an_edge(tmp_path: Path) -> None:
    """The field has no continuity that it could break."""
    vertices = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]])
    cells = np.array([[0, 1, 4], [1, 2, 4], [0, 2, 3]])
    assert (
        len(read_field(write(tmp_path / "a.vtu", LINEAR, vertices=vertices, cells=cells, modes=np.eye(3))).cells) == 3
    )


def test_a_border_beside_the_tetrahedra_is_ignored(tmp_path: Path) -> None:
    blocks = [("triangle", SPACE.cells[:2, :3]), ("tetra", SPACE.cells)]
    data = {"modes_dubiner": [np.full((2, 4), np.nan), SPACE.modes]}
    meshio.Mesh(SPACE.vertices, blocks, cell_data=data).write(tmp_path / "a.vtu")
    read = read_field(FieldFile(path=str(tmp_path / "a.vtu")))
    np.testing.assert_array_equal(read.cells, SPACE.cells)
    np.testing.assert_array_equal(read.modes, SPACE.modes)


# What is mended or said -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [PLANE, SPACE], ids=lambda field: field.name)
def test_clockwise_cells_are_turned_with_their_modes_and_counted(field: Field, tmp_path: Path) -> None:
    cells, modes = field.cells.copy(), field.modes.copy()
    cells[1::3, -2:] = cells[1::3, -2:][:, ::-1]
    # the modes of a cell belong to the order of its corners: those of the file are of the exchanged one
    points = exact_for(2 * field.degree, field.dimension).points
    order = [0, 2, 1] if field.dimension == 3 else [1, 0]
    functions, exchanged = (evaluate("dubiner", p, field.degree) for p in (points, points[:, order]))
    modes[1::3] = np.linalg.lstsq(functions, exchanged @ modes[1::3].T, rcond=None)[0].T
    assert np.abs(modes - field.modes).max() > 1e-3
    read = read_field(write(tmp_path / "a.vtu", field, cells=cells, modes=modes)).validate()
    count, order = len(cells[1::3]), "left-handed" if field.dimension == 3 else "clockwise"
    assert read.origin["notes"] == [f"{count} cells were numbered {order}; two vertices of each exchanged"]
    np.testing.assert_array_equal(read.cells, field.cells)
    np.testing.assert_allclose(read.modes, field.modes, atol=1e-13)
    places = np.random.default_rng(2).random((20, field.dimension))
    np.testing.assert_allclose(values_of(read, places), values_of(field, places), atol=1e-12)


def test_vertices_of_each_cell_for_itself_are_no_fault(tmp_path: Path) -> None:
    corners = PLANE.vertices[PLANE.cells].reshape(-1, 2)
    apart = np.arange(len(corners)).reshape(-1, 3)
    read = read_field(write(tmp_path / "a.vtu", PLANE, vertices=corners, cells=apart))
    again = len(corners) - len(PLANE.vertices)
    assert read.origin["notes"] == [f"{again} vertices at the place of another kept"]
    assert read.validate().describe()["total_volume"] == pytest.approx(1)


def test_vertices_that_no_cell_uses_do_not_widen_the_domain(tmp_path: Path) -> None:
    vertices = np.concatenate([[[9.0, np.nan]], PLANE.vertices])
    read = read_field(write(tmp_path / "a.vtu", PLANE, vertices=vertices, cells=PLANE.cells + 1))
    assert read.origin["notes"] == ["1 unreferenced vertex dropped"]
    np.testing.assert_array_equal(read.cells, PLANE.cells)


# What is refused ------------------------------------------------------------------------------------------------------


def moved(i: int, *place: float) -> np.ndarray:
    vertices = LINEAR.vertices.copy()
    vertices[i] = place
    return vertices


def with_mode(value: float) -> np.ndarray:
    modes = LINEAR.modes.copy()
    modes[3, 1] = value
    return modes


def cells_with(i: int, *corners: int) -> np.ndarray:
    cells = LINEAR.cells.copy()
    cells[i] = corners
    return cells


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"modes": LINEAR.modes[:, :2]}, r"no polynomial degree[\s\S]*1, 3, 6, 10, [\s\S]*actual: 2"),
        ({"modes": with_mode(np.nan)}, r"NaN or infinite modes[\s\S]*at cell 3 "),
        ({"modes": with_mode(-np.inf)}, r"NaN or infinite modes[\s\S]*at cell 3 "),
        ({"vertices": moved(4, np.nan, 0.5)}, r"NaN, infinite or too large coordinates[\s\S]*number 4"),
        ({"vertices": moved(0, -np.inf, 0.0)}, r"NaN, infinite or too large coordinates[\s\S]*number 0"),
        ({"vertices": moved(4, 0.5, 0.0)}, r"degenerate cells[\s\S]*the first is number 0"),
        ({"cells": cells_with(5, 1, 2, 2)}, r"degenerate cells[\s\S]*1 of 8, the first is number 5"),
        ({"cells": cells_with(2, 0, 1, 99)}, r"vertices that do not exist[\s\S]*number 2"),
        ({"vertices": moved(0, -0.5, 0.0)}, r"gaps in the box[\s\S]*of 1.5[\s\S]*periodic: false"),
        ({"cells": LINEAR.cells[1:], "modes": LINEAR.modes[1:]}, r"gaps in the box[\s\S]*actual: 0\.875"),
        (
            {"cells": LINEAR.cells[[*range(8), 2]], "modes": LINEAR.modes[[*range(8), 2]]},
            r"overlap[\s\S]*actual: 1.125",
        ),
    ],
)
def test_fields_that_are_refused(changes: dict[str, np.ndarray], said: str, tmp_path: Path) -> None:
    file = write(tmp_path / "bad.vtu", LINEAR, **changes)
    with pytest.raises(ReproError, match=said) as caught:
        read_field(file).validate()
    assert "bad.vtu" in str(caught.value.where)


def test_gaps_do_not_matter_where_nothing_goes_on_at_the_other_side(tmp_path: Path) -> None:
    file = write(tmp_path / "a.vtu", LINEAR, cells=LINEAR.cells[1:], modes=LINEAR.modes[1:])
    assert len(read_field(file.model_copy(update={"periodic": False})).validate().cells) == 7


@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("modes_legendre", {}, r"unknown basis[\s\S]*dubiner, lagrange, monomial[\s\S]*called modes_legendre"),
        ("density", {}, r"no modes[\s\S]*called modes_<basis>\n  actual: density[\s\S]*`modes:`"),
        ("density", {"modes": "density"}, r"unknown basis[\s\S]*called density[\s\S]*`basis:`"),
        ("modes_dubiner", {"modes": "u"}, r"no modes[\s\S]*cell data called u\n  actual: modes_dubiner"),
    ],
)
def test_modes_that_are_not_named(name: str, said: dict[str, str], message: str, tmp_path: Path) -> None:
    file = write(tmp_path / "a.vtu", LINEAR, name=name)
    with pytest.raises(ReproError, match=message):
        read_field(file.model_copy(update=said))


def test_several_modes_need_a_name(tmp_path: Path) -> None:
    data = {"modes_dubiner": [LINEAR.modes], "modes_monomial": [LINEAR.modes]}
    meshio.Mesh(lifted(LINEAR.vertices), [("triangle", LINEAR.cells)], cell_data=data).write(tmp_path / "a.vtu")
    with pytest.raises(ReproError, match=r"the modes are ambiguous[\s\S]*modes_dubiner, modes_monomial"):
        read_field(FieldFile(path=str(tmp_path / "a.vtu")))
    assert read_field(FieldFile(path=str(tmp_path / "a.vtu"), modes="modes_monomial")).basis == "monomial"


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([("line", [[0, 1]])], r"the mesh has no cells[\s\S]*actual: 1 line"),
        ([("vertex", [[0]]), ("line", [[0, 1]])], r"the mesh has no cells[\s\S]*actual: 1 vertex, 1 line"),
        ([("quad", [[0, 1, 4, 3]]), ("triangle", [[1, 2, 5]])], r"cells other than linear[\s\S]*1 quad, 1 triangle"),
        ([("triangle6", [[0, 1, 2, 3, 4, 5]])], r"cells other than linear[\s\S]*1 triangle6"),
    ],
)
def test_meshes_without_the_right_cells(blocks: list[Any], message: str, tmp_path: Path) -> None:
    data = {"modes_dubiner": [np.ones((len(cells), 3)) for _, cells in blocks]}
    blocks = [(kind, np.array(cells)) for kind, cells in blocks]
    meshio.Mesh(lifted(LINEAR.vertices), blocks, cell_data=data).write(tmp_path / "a.vtu")
    with pytest.raises(ReproError, match=message):
        read_field(FieldFile(path=str(tmp_path / "a.vtu")))


@pytest.mark.wording
def test_a_surface_in_space_is_no_plane(tmp_path: Path) -> None:
    vertices = np.column_stack([LINEAR.vertices, LINEAR.vertices[:, 0] ** 2])
    with pytest.raises(ReproError, match=r"are not in the plane[\s\S]*z from 0 to 1"):
        read_field(write(tmp_path / "a.vtu", LINEAR, vertices=vertices))


@pytest.mark.wording
@pytest.mark.parametrize("name", ["a.ply", "a.mtx", "a.msh", "a.xdmf"])
def test_formats_without_cell_data(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(ReproError, match=r"a field needs a file format with cell data[\s\S]*\.vtu \.vtk, bare"):
        read_field(FieldFile(path=str(tmp_path / name)))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="no such file"):
        read_field(FieldFile(path=str(tmp_path / "a.vtu")))


# In a configuration, and in the registry ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"kind": "field", "entry": "real"}, "no `entry`"),
        ({"kind": "field", "updates": {"sizes": [1]}}, "no `updates`|no `entry` and no `updates`"),
        ({"modes": "u"}, "add `kind: field`"),
        ({"periodic": False}, "add `kind: field`"),
        ({"kind": "field", "basis": "legendre"}, "one of dubiner, lagrange, monomial"),
        ({"kind": "mesh"}, "'field'"),
    ],
)
def test_keys_that_do_not_go_together(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=said):
        OwnProblem(path="a.vtu", **keys)


def test_a_campaign_names_a_field_of_ones_own(make_config: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "vortex.vtu.gz")
    write(tmp_path / "vortex.vtu", PLANE)
    (tmp_path / "vortex.vtu.gz").write_bytes(gzip.compress((tmp_path / "vortex.vtu").read_bytes()))
    own = OwnProblem(path=path, kind="field")
    config = make_config(studies={"compound_spmv": StudySettings(problems=(own,))})
    field = build("vortex", config)
    assert (field.name, field.kind, field.origin["source"], field.origin["address"]) == ("vortex", "field", "own", path)
    assert field.statistics["mean_edge"] < field.statistics["longest_edge"]
    registry = load_registry(Path(config.registry))
    outline = planned(own, registry, Limits())
    assert (outline.name, outline.kind, outline.entry, outline.files) == ("vortex", "field", None, (Path(path),))
    gone = own.model_copy(update={"path": str(tmp_path / "none.vtu")})
    config = make_config(studies={"compound_spmv": StudySettings(problems=(gone,))})
    with pytest.raises(ReproError, match="no such file"):
        build("none", config)
    record_unavailable("none", config, "gone", tmp_path / "a.npz", tmp_path / "a.json")
    assert read_problem(tmp_path / "a.json")["kind"] == "field"
    with pytest.raises(Unavailable):
        load_problem(tmp_path / "a.npz")


def test_a_field_may_be_registered_and_is_listed(make_config: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.vtu", PLANE, name="u")
    registry, config = tmp_path / "problems.yaml", tmp_path / "own.yaml"
    item = f"{{name: my/vortex, source: own_field, path: {tmp_path}/a.vtu, modes: u, basis: lagrange, sets: [mine]}}"
    registry.write_text(f"problems:\n  - {item}\n")
    field = build("my/vortex", make_config(registry=str(registry)))
    assert isinstance(field, Field) and (field.basis, field.origin["source"]) == ("lagrange", "own_field")
    known = load_registry(registry)
    outline = planned(known.find("my/vortex"), known, Limits())
    assert (outline.kind, outline.definition["modes"], "sets" in outline.definition) == ("field", "u", False)
    own = "{path: b.vtu, kind: field}"
    config.write_text(f"registry: {registry}\nstudies: {{compound_spmv: {{problems: [mine, {own}]}}}}\n")
    _, rows = LISTS[ListTopic.problems](config)
    assert [row[:2] for row in rows] == [("my/vortex", "field"), ("b", "field")]
