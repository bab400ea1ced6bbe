"""Readers of meshes: every format, packed and not, tetrahedra of either order of vertices, and what is refused."""

from __future__ import annotations

import gzip
import lzma
import os
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import meshio
import numpy as np
import pytest
import scipy.sparse as sp
from skfem import Basis, ElementTetP1, ElementVector, MeshTet
from skfem.models.elasticity import lame_parameters, linear_elasticity

from repro.errors import ReproError
from repro.problems.assembly import elastic_body
from repro.problems.meshes import FORMATS, read_surface, read_tetrahedra, tetrahedron_volumes
from repro.problems.own_problems import companions

TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
TETS = np.array([[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]])
TETS = np.where((tetrahedron_volumes(CUBE, TETS) > 0)[:, None], TETS, TETS[:, [0, 1, 3, 2]])


#: Modules of meshio by suffix.
WRITERS = {
    **{f".{name}": name for name in ("ply", "obj", "off", "stl", "vtk", "vtu")},
    **{".msh": "gmsh", ".node": "tetgen", ".ele": "tetgen", ".mesh": "medit", ".meshb": "medit"},
}
BINARY = (".ply", ".stl", ".msh", ".vtk", ".vtu")


pytestmark = pytest.mark.usefixtures("read_here")


def write(path: Path, points: np.ndarray, kind: str, cells: np.ndarray, binary: bool = False) -> Path:
    options = {"binary": binary} if path.suffix in BINARY else {}
    getattr(meshio, WRITERS[path.suffix]).write(path, meshio.Mesh(points, [(kind, cells)]), **options)
    return path


def ascii_ply(points: np.ndarray, faces: list[list[int]], face_property: str = "vertex_indices") -> str:
    rows = [" ".join(map(str, [*point, 0.85, 0.5])) for point in points]
    rows += [" ".join(map(str, [len(face), *face])) for face in faces]
    properties = "".join(f"property float {name}\n" for name in ("x", "y", "z", "confidence", "intensity"))
    return (
        f"ply\nformat ascii 1.0\ncomment zipper output\nelement vertex {len(points)}\n{properties}"
        f"element face {len(faces)}\nproperty list uchar int {face_property}\nend_header\n" + "\n".join(rows) + "\n"
    )


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".off", ".stl", ".msh", ".mesh", ".vtk", ".vtu"])
def test_every_surface_format_gives_the_same_mesh(tmp_path: Path, suffix: str) -> None:
    vertices, faces, notes = read_surface(write(tmp_path / f"a{suffix}", TETRAHEDRON, "triangle", FACES))
    assert vertices.dtype == np.float64 and faces.dtype == np.int64
    # STL has no vertex order of its own
    np.testing.assert_array_equal(vertices[faces], TETRAHEDRON[FACES])
    assert len(vertices) == 4 and notes == ()


@pytest.mark.parametrize("suffix", [".msh", ".mesh", ".node", ".ele", ".vtk", ".vtu"])
def test_every_volume_format_gives_the_same_mesh(tmp_path: Path, suffix: str) -> None:
    vertices, tets, notes = read_tetrahedra(write(tmp_path / f"a{suffix}", CUBE, "tetra", TETS))
    np.testing.assert_array_equal(vertices, CUBE)
    np.testing.assert_array_equal(tets, TETS)
    assert notes == ()


def test_every_listed_format_has_a_reader() -> None:
    assert all(callable(getattr(import_module(module), name)) for module, name in FORMATS.values())


@pytest.mark.parametrize("suffix", [".avs", ".bdf", ".dato", ".inp", ".mdpa", ".tec", ".vol"])
def test_meshio_reads_what_we_do_not(tmp_path: Path, suffix: str) -> None:
    format = FORMATS[suffix][0].removeprefix("meshio.")
    path = tmp_path / f"surface{suffix}"
    meshio.Mesh(TETRAHEDRON, [("triangle", FACES)]).write(path, file_format=format)
    np.testing.assert_array_equal(read_surface(path)[1], FACES)
    path = tmp_path / f"volume{suffix}"
    meshio.Mesh(CUBE, [("tetra", TETS)]).write(path, file_format=format)
    vertices, tets, _ = read_tetrahedra(path)
    np.testing.assert_allclose(vertices, CUBE)
    np.testing.assert_array_equal(tets, TETS)
    packed = tmp_path / f"packed{suffix}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(read_tetrahedra(packed)[1], TETS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no vertices"),
        ("*NODE\n1, 0, 0\n", "no vertices in three dimensions"),
        ("*NODE\n1, 0, 0, x\n", "damaged in an unforeseen way"),
        ("*NODE\n1, 0, 0, 0\n2, 1, 0, 0\n3, 0, 1, 0\n4, 0, 0, 1\n*ELEMENT, TYPE=C3D4\n1, 1, 2, 3, 9\n", "damaged"),
        ("*NODE\n1, 0, 0, 0\n2, 1, 0, 0\n3, 0, 1, 0\n4, 0, 0, nan\n*ELEMENT, TYPE=C3D4\n1, 1, 2, 3, 4\n", "NaN"),
        ("*NODE\n1, 0, 0, 0\n2, 1, 0, 0\n3, 0, 1, 0\n4, 1, 1, 0\n*ELEMENT, TYPE=C3D4\n1, 1, 2, 3, 4\n", "degenerate"),
        ("*NODE\n1, 0, 0, 0\n*ELEMENT, TYPE=C3D8\n1, 1, 1, 1, 1, 1, 1, 1, 1\n", "other than linear tetrahedra"),
        ("*INCLUDE, INPUT=/etc/passwd\n", "mesh"),
    ],
)
def test_what_meshio_reads_is_checked_as_ours(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.inp"
    path.write_text(text)
    with pytest.raises(ReproError, match=said) as error:
        read_tetrahedra(path)
    assert "a.inp" in str(error.value) and "root:" not in str(error.value)


@pytest.mark.skipif(find_spec("h5py") is not None, reason="h5py is there")
def test_a_missing_package_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.med"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(ReproError, match="a package is missing that reads this format") as error:
        read_tetrahedra(path)
    assert "pip install h5py" in str(error.value)


@pytest.mark.parametrize(("suffix", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_packed_files_are_unpacked(tmp_path: Path, suffix: str, opener) -> None:
    plain = write(tmp_path / "a.ply", TETRAHEDRON, "triangle", FACES)
    packed = tmp_path / f"b.ply{suffix}"
    with opener(packed, "wb") as file:
        file.write(plain.read_bytes())
    np.testing.assert_array_equal(read_surface(packed)[1], FACES)


@pytest.mark.parametrize("given", ["m.v1.node", "m.v1.ele.gz"])
def test_tetgen_finds_the_other_file_in_another_packing(tmp_path: Path, given: str) -> None:
    write(tmp_path / "m.v1.node", CUBE, "tetra", TETS)
    ele = tmp_path / "m.v1.ele"
    (tmp_path / "m.v1.ele.gz").write_bytes(gzip.compress(ele.read_bytes()))
    ele.unlink()
    np.testing.assert_array_equal(read_tetrahedra(tmp_path / given)[1], TETS)


@pytest.mark.wording
def test_tetgen_names_the_missing_file(tmp_path: Path) -> None:
    write(tmp_path / "m.node", CUBE, "tetra", TETS)
    (tmp_path / "m.ele").unlink()
    with pytest.raises(ReproError, match=r"one of m\.ele, m\.ele\.gz, m\.ele\.xz beside it"):
        read_tetrahedra(tmp_path / "m.node")


@pytest.mark.parametrize("face_property", ["vertex_indices", "vertex_index"])
def test_stanford_ply_with_further_properties(tmp_path: Path, face_property: str) -> None:
    path = tmp_path / "a.ply"
    path.write_text(ascii_ply(TETRAHEDRON, FACES.tolist(), face_property))
    vertices, faces, _ = read_surface(path)
    np.testing.assert_array_equal(vertices, TETRAHEDRON)
    np.testing.assert_array_equal(faces, FACES)


def test_polygons_are_cut_into_triangles(tmp_path: Path) -> None:
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 2 1 0\nv 1 2 0\nv 0 1 0\nv 0 0 1\nf 1/1 2/2 3/3 4/4 5/5\nf 1 2 6\n")
    _, faces, notes = read_surface(path)
    np.testing.assert_array_equal(faces, [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 1, 5]])
    assert notes == ("1 polygons cut into triangles",)


def test_unreferenced_vertices_are_dropped_in_order(tmp_path: Path) -> None:
    points = np.insert(TETRAHEDRON, [0, 2], [[9, 9, 9], [np.nan] * 3], axis=0)
    moved = np.array([1, 2, 4, 5])
    vertices, faces, notes = read_surface(write(tmp_path / "a.ply", points, "triangle", moved[FACES]))
    np.testing.assert_array_equal(vertices, TETRAHEDRON)
    np.testing.assert_array_equal(faces, FACES)
    assert notes == ("2 unreferenced vertices dropped",)


def test_duplicate_faces_and_non_manifold_edges_are_noted(tmp_path: Path) -> None:
    faces = np.vstack([FACES, FACES[:1, ::-1], [[0, 1, 4]]])
    points = np.vstack([TETRAHEDRON, [[1, -1, -1]]])
    _, kept, notes = read_surface(write(tmp_path / "a.ply", points, "triangle", faces))
    assert len(kept) == 6
    # edge (0, 1) has the faces 0, 1, 4, 5; edges (0, 2) and (1, 2) have three
    assert notes == ("1 duplicate faces kept", "3 non-manifold edges (of more than two faces) kept")


def test_left_handed_tetrahedra_are_turned_when_all_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.msh", CUBE, "tetra", TETS[:, [0, 1, 3, 2]])
    vertices, tets, notes = read_tetrahedra(path)
    assert (tetrahedron_volumes(vertices, tets) > 0).all()
    assert "left-handed" in notes[0]


def test_tetrahedra_of_either_order_of_vertices_are_the_same_mesh(tmp_path: Path) -> None:
    mixed = TETS.copy()
    mixed[[2, 4]] = mixed[[2, 4]][:, [1, 0, 2, 3]]
    vertices, tets, notes = read_tetrahedra(write(tmp_path / "a.vtu", CUBE, "tetra", mixed))
    assert notes == ("2 of 6 tetrahedra were numbered left-handed; two vertices of each exchanged",)
    assert tetrahedron_volumes(vertices, tets) == pytest.approx(np.full(6, 1 / 6))
    np.testing.assert_array_equal(np.sort(tets, axis=1), np.sort(TETS, axis=1))
    untouched = [0, 1, 3, 5]
    np.testing.assert_array_equal(tets[untouched], TETS[untouched])


def test_a_mesh_of_scikit_fem_makes_the_stiffness_matrix_of_its_geometry(tmp_path: Path) -> None:
    mesh = MeshTet().refined(1)
    points, cells = np.ascontiguousarray(mesh.p.T), np.ascontiguousarray(mesh.t.T).astype(np.int64)
    left_handed = tetrahedron_volumes(points, cells) < 0
    assert 0 < np.count_nonzero(left_handed) < len(cells)
    vertices, tets, notes = read_tetrahedra(write(tmp_path / "part.msh", points, "tetra", cells))
    assert f"{np.count_nonzero(left_handed)} of {len(cells)} tetrahedra" in notes[0]
    basis = Basis(mesh, ElementVector(ElementTetP1()))
    expected = linear_elasticity(*lame_parameters(1.0, 0.3)).assemble(basis)
    body = elastic_body(vertices, tets)
    stiffness = sp.bsr_array((body.values.reshape(-1, 3, 3), body.indices, body.indptr))
    assert abs(stiffness.tocsr() - expected).max() < 1e-12


def test_a_folded_mesh_is_refused_with_its_first_pair_of_cells(tmp_path: Path) -> None:
    folded = np.array([*CUBE, [2.0, 0.3, 0.4]])  # the last cell, behind the face x = 1, is drawn through it
    tets = np.vstack([TETS, [[4, 6, 7, 8]]])
    tets[6] = tets[6] if tetrahedron_volumes(folded, tets)[6] > 0 else tets[6][[0, 1, 3, 2]]
    read_tetrahedra(write(tmp_path / "a.vtu", folded, "tetra", tets))
    folded[8, 0] = 0.5
    path = write(tmp_path / "b.vtu", folded, "tetra", tets)
    with pytest.raises(ReproError, match=r"(?s)folded.*1 pairs.*number 3 and 6 \(counted from 0\)"):
        read_tetrahedra(path)


def test_overlaps_of_one_order_of_vertices_and_duplicates_are_noted(tmp_path: Path) -> None:
    points = np.vstack([TETRAHEDRON, [[0.2, 0.2, 2]]])
    _, tets, notes = read_tetrahedra(write(tmp_path / "a.vtu", points, "tetra", np.array([[0, 1, 2, 3], [0, 1, 2, 4]])))
    assert len(tets) == 2
    assert notes == ("1 pairs of tetrahedra overlap at a common face, the first are number 0 and 1 (counted from 0)",)
    twice = np.vstack([TETS, TETS[[3]][:, [1, 0, 2, 3]]])
    _, tets, notes = read_tetrahedra(write(tmp_path / "b.vtu", CUBE, "tetra", twice))
    assert len(tets) == 7
    assert len(notes) == 2 and "1 of 7" in notes[0] and "1 duplicate tetrahedra kept" in notes[1]


@pytest.mark.wording
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_flat_elements_are_refused_at_any_scale(tmp_path: Path, scale: float) -> None:
    flat = np.vstack([TETS, [[0, 1, 2, 3]]])
    with pytest.raises(ReproError, match=r"(?s)degenerate tetrahedra.*1 of 7.*number 6"):
        read_tetrahedra(write(tmp_path / "a.msh", scale * CUBE, "tetra", flat))
    points = np.vstack([TETRAHEDRON, [[0.5, 0, 0]]])
    faces = np.insert(FACES, 1, [[0, 4, 1], [2, 2, 3]], axis=0)
    with pytest.raises(ReproError, match=r"(?s)degenerate triangles.*2 of 6.*number 1"):
        read_surface(write(tmp_path / "a.ply", scale * points, "triangle", faces))
    read_tetrahedra(write(tmp_path / "b.msh", scale * CUBE, "tetra", TETS))
    read_surface(write(tmp_path / "b.ply", scale * TETRAHEDRON, "triangle", FACES))


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="no such file"):
        read_surface(tmp_path / "none.ply")
    path = tmp_path / "a.3ds.gz"
    path.touch()
    with pytest.raises(ReproError, match=r"(?s)unknown mesh format.*\.ply .*\.vtk"):
        read_surface(path)


def test_wrong_elements_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match=r"(?s)no triangles.*actual: 6 tetra"):
        read_surface(write(tmp_path / "a.msh", CUBE, "tetra", TETS))
    with pytest.raises(ReproError, match=r"(?s)no tetrahedra.*actual: 4 triangle"):
        read_tetrahedra(write(tmp_path / "a.ply", TETRAHEDRON, "triangle", FACES))
    (tmp_path / "a.obj").write_text("v 0 0 0\n")
    with pytest.raises(ReproError, match="no elements"):
        read_surface(tmp_path / "a.obj")


@pytest.mark.wording
@pytest.mark.parametrize("index", [9, -2])
def test_vertices_that_do_not_exist(tmp_path: Path, index: int) -> None:
    faces = FACES.copy()
    faces[2, 1] = index
    with pytest.raises(ReproError, match=r"(?s)do not exist.*1 elements.*number 2"):
        read_surface(write(tmp_path / "a.ply", TETRAHEDRON, "triangle", faces))


def test_a_whole_file_of_another_program_is_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.msh"
    meshio.write(path, meshio.Mesh(CUBE, [("tetra", TETS)]))  # Fluent's format, by the suffix alone
    with pytest.raises(ReproError, match=r'(?s)not Gmsh\'s.*begins with \(1 "meshio.*--output-format gmsh'):
        read_tetrahedra(path)
    path.write_text("$MeshFormat\n4.1")
    with pytest.raises(ReproError, match="truncated"):
        read_tetrahedra(path)


def test_vertices_that_are_not_finite(tmp_path: Path) -> None:
    points = TETRAHEDRON.copy()
    points[3, 0] = np.inf
    with pytest.raises(ReproError, match=r"(?s)NaN, infinite.*number 3"):
        read_surface(write(tmp_path / "a.ply", points, "triangle", FACES))


@pytest.mark.parametrize(
    ("suffix", "packing", "binary"),
    [
        *((suffix, "", False) for suffix in (".ply", ".off", ".stl", ".msh", ".ele", ".mesh", ".vtk", ".vtu")),
        *((suffix, "", True) for suffix in BINARY),
        *((".ply", packing, binary) for packing in (".gz", ".xz") for binary in (False, True)),
    ],
)
def test_a_file_cut_off_anywhere_is_refused_or_complete(
    tmp_path: Path, suffix: str, packing: str, binary: bool
) -> None:
    """No cut may give a smaller mesh in silence, nor wait for ever; cuts in what trails the mesh may give it."""
    read, points, kind, elements = (
        (read_surface, TETRAHEDRON, "triangle", FACES)
        if suffix in (".ply", ".off", ".stl")
        else (read_tetrahedra, CUBE, "tetra", TETS)
    )
    content = write(tmp_path / f"whole{suffix}", points, kind, elements, binary).read_bytes()
    if packing:
        content = {".gz": gzip.compress, ".xz": lzma.compress}[packing](content)
    if suffix == ".ele":
        (tmp_path / "whole.node").rename(tmp_path / "cut.node")
    cut = tmp_path / f"cut{suffix}{packing}"
    refused = 0
    lengths = range(0, len(content), max(1, len(content) // 120))
    for length in lengths:
        cut.write_bytes(content[:length])
        try:
            found = read(cut)[1]
        except ReproError:
            refused += 1
        else:
            assert len(found) == len(elements), length
    assert refused > 0.6 * len(lengths)


def test_no_temporary_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "a.ply.gz"
    path.write_bytes(gzip.compress(ascii_ply(TETRAHEDRON, FACES.tolist()).encode()))
    read_surface(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReproError, match="truncated or corrupt"):
        read_surface(path)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(("kind", "size"), [("hexahedron", 8), ("wedge", 6), ("pyramid", 5), ("tetra10", 10)])
def test_volumes_that_are_not_read_are_named(tmp_path: Path, kind: str, size: int) -> None:
    """Without them the body would have a hole, of which all that was said were vertices that nothing uses."""
    points = np.vstack([CUBE, CUBE + np.array([3.0, 0, 0]), CUBE + np.array([6.0, 0, 0])])
    cells = [("tetra", TETS), (kind, np.arange(8, 8 + size)[None]), ("triangle", [[0, 1, 2]])]
    path = tmp_path / "a.vtu"
    meshio.vtu.write(path, meshio.Mesh(points, cells))
    with pytest.raises(ReproError, match="elements other than linear tetrahedra") as told:
        read_tetrahedra(path)
    assert set(str(told.value.actual).split(", ")) == {f"1 {kind}", "6 tetra", "1 triangle"}
    assert "linear tetrahedra" in str(told.value.todo)
    assert len(read_surface(path)[1]) == 1


@pytest.mark.parametrize(
    ("kind", "size", "read", "what"),
    [("tetra10", 10, read_tetrahedra, "tetrahedra"), ("tetra35", 35, read_tetrahedra, "tetrahedra"),
     ("triangle6", 6, read_surface, "triangles")],
)  # fmt: skip
def test_meshes_of_higher_order_are_told_what_is_read(tmp_path: Path, kind: str, size: int, read, what: str) -> None:
    path = tmp_path / "a.msh"
    points = np.random.default_rng(1).random((size, 3))
    meshio.gmsh.write(path, meshio.Mesh(points, [(kind, np.arange(size)[None])]))
    with pytest.raises(ReproError, match=f"(?s)elements other than linear {what}.*actual: 1 {kind}") as told:
        read(path)
    assert f"linear {what} (order 1" in str(told.value.todo)


@pytest.mark.wording
def test_duplicate_tetrahedra_are_noted(tmp_path: Path) -> None:
    twice = np.vstack([TETS, TETS[[2]][:, [1, 2, 0, 3]], TETS[[4]]])
    notes = read_tetrahedra(write(tmp_path / "a.msh", CUBE, "tetra", twice))[2]
    assert notes == ("2 duplicate tetrahedra kept, the first is number 6 (counted from 0)",)


@pytest.mark.parametrize("version", ["0", "1", "2"])
@pytest.mark.parametrize("before", ["", "# by hand\n\n  "])
def test_all_digits_of_a_medit_file_are_read(tmp_path: Path, version: str, before: str) -> None:
    """Of version 1, which is for programs in single precision, meshio keeps 24 bits; a thin cell feels it."""
    rows = ["0 0 0", "1 0 0", "0.33333333333333331 1 0", "0.1234567890123456 0.1 1.0000000001e-4"]
    text = f"{before}MeshVersionFormatted {version}\nDimension 3\nVertices\n4\n" + "".join(f"{r} 0\n" for r in rows)
    path = tmp_path / "a.mesh"
    path.write_text(text + "Tetrahedra\n1\n1 2 3 4 0\nEnd\n")
    assert read_tetrahedra(path)[0].tolist() == [[float(x) for x in row.split()] for row in rows]


@pytest.mark.parametrize(
    ("name", "beside", "read"),
    [
        ("a.node", ["a.ele.gz", "a.ele.xz"], ["a.node", "a.ele.gz"]),
        ("a.v1.ele.xz", ["a.v1.node", "a.node"], ["a.v1.ele.xz", "a.v1.node"]),
        ("a.ele", [], ["a.ele"]),
        ("a.ply.gz", ["a.node", "a.ele"], ["a.ply.gz"]),
        ("a.mtx", [], ["a.mtx"]),
    ],
)
def test_all_files_that_a_mesh_is_read_from_are_known(
    tmp_path: Path, name: str, beside: list[str], read: list[str]
) -> None:
    for other in (name, *beside):
        (tmp_path / other).touch()
    assert companions(tmp_path / name) == tuple(tmp_path / other for other in read)


needs_mirror = pytest.mark.skipif("REPRO_MIRROR" not in os.environ, reason="REPRO_MIRROR is not set")


@pytest.mark.mirror
@needs_mirror
@pytest.mark.parametrize(
    ("name", "vertices", "faces", "note"),
    [
        ("bun_zipper.ply.gz", 34_834, 69_451, "1113 unreferenced"),
        ("dragon_vrip_res3.ply.gz", 22_982, 47_794, "duplicate faces"),
    ],
)
def test_stanford_files(name: str, vertices: int, faces: int, note: str) -> None:
    found = read_surface(Path(os.environ["REPRO_MIRROR"], "stanford", name))
    assert (len(found[0]), len(found[1])) == (vertices, faces)
    assert re.search(note, "; ".join(found[2]))


@pytest.mark.mirror
@needs_mirror
@pytest.mark.parametrize(
    ("name", "vertices", "tetrahedra"),
    [
        ("ipc_Armadillo13K.msh.gz", 13_230, 54_985),
        ("admm_bunny_closed.node.gz", 13_897, 49_939),
        ("pbd_armadillo_4k.ele.gz", 1_180, 3_717),
    ],
)
def test_tetrahedral_files(name: str, vertices: int, tetrahedra: int) -> None:
    found = read_tetrahedra(Path(os.environ["REPRO_MIRROR"], "tetmesh", name))
    assert (len(found[0]), len(found[1])) == (vertices, tetrahedra)
