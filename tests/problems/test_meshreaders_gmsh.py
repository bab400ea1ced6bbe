"""Gmsh's files: versions, text and binary, groups, partitions, parameters; the same mesh gives the same cells."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import meshio
import numpy as np
import pytest

from repro.problems.meshes import read_surface, read_tetrahedra, tetrahedron_volumes
from support.mesh_shapes import TETRAHEDRA, VERTICES, area, refused, volume

pytestmark = pytest.mark.usefixtures("read_here")
CELLS = np.where((tetrahedron_volumes(VERTICES, TETRAHEDRA) > 0)[:, None], TETRAHEDRA, TETRAHEDRA[:, [0, 1, 3, 2]])
CUBE = (1.0, 6, ())
#: Numbers of the nodes, which neither begin with 1 nor follow each other.
NUMBERS = np.array([7, 9, 3, 12, 40, 41, 5, 100])
ORDERED = np.argsort(NUMBERS)
#: Each tetrahedron's entity, and the groups that entities are in.
ENTITIES = [1, 1, 1, 2, 2, 2]
GROUPS = {1: [10, 11], 2: [10]}


def listed(version: str, groups: bool = True, order: str = "", parametric: bool = False) -> bytes:
    """Write version 1 or 2: an element for each group that it is in."""
    rows = []
    for cell, entity in zip(CELLS, ENTITIES, strict=True):
        rows += [(4, group, entity, *NUMBERS[cell]) for group in (GROUPS[entity] if groups else [0])]
    rows.append((2, 0, 1, *NUMBERS[CELLS[0, :3]]))
    if not order:
        head, old = "", version == "1"
        if not old:
            head = f'$MeshFormat\n{version} 0 8\n$EndMeshFormat\n$PhysicalNames\n1\n3 10 "a b"\n$EndPhysicalNames\n'
        beside = " 3 1" if parametric else ""
        names = ("NOD", "ENDNOD", "ELM", "ENDELM") if old else ("Nodes", "EndNodes", "Elements", "EndElements")
        if parametric and not old:
            names = ("ParametricNodes", "EndParametricNodes", *names[2:])
        nodes = "".join(f"{n} {x} {y} {z}{beside}\n" for n, (x, y, z) in zip(NUMBERS, VERTICES, strict=True))
        elements = "".join(
            f"{i} {kind} {group} {entity} {len(of)} {' '.join(map(str, of))}\n"
            if old
            else f"{i} {kind} 2 {group} {entity} {' '.join(map(str, of))}\n"
            for i, (kind, group, entity, *of) in enumerate(rows, 1)
        )
        text = f"{head}${names[0]}\n8\n{nodes}${names[1]}\n${names[2]}\n{len(rows)}\n{elements}${names[3]}\n"
        return text.encode()
    pack = lambda form, *of: struct.pack(order + form, *of)  # noqa: E731
    parts = [f"$MeshFormat\n{version} 1 8\n".encode(), pack("i", 1), b"\n$EndMeshFormat\n"]
    name = b"ParametricNodes" if parametric else b"Nodes"
    parts.append(b"$" + name + b"\n8\n")
    for i, (n, xyz) in enumerate(zip(NUMBERS, VERTICES, strict=True)):
        parts.append(pack("i3d", n, *xyz))
        if parametric:
            dimension = i % 4
            parts.append(pack("ii", dimension, 1) + pack("d" * (dimension % 3), *[0.5] * (dimension % 3)))
    parts.append(b"\n$End" + name + b"\n$Elements\n%d\n" % len(rows))
    for i, (kind, group, entity, *of) in enumerate(rows, 1):
        parts.append(pack("3i", kind, 1, 2) + pack(f"{3 + len(of)}i", i, group, entity, *of))
    return b"".join([*parts, b"\n$EndElements\n"])


def by_entities(version: str, order: str = "", size: int = 8, parametric: bool = False, twice: bool = False) -> bytes:
    """Write version 4.0 or 4.1: nodes and elements by the entities that they lie in."""
    later = version == "4.1"
    integer, number = ("Q" if size == 8 else "I", "i")
    parts: list[bytes] = []

    def put(form: str, *of: float) -> None:
        parts.append(struct.pack(order + form, *of) if order else " ".join(map(str, of)).encode() + b"\n")

    parts.append(f"$MeshFormat\n{version} {int(bool(order))} {size}\n".encode())
    if order:
        parts.append(struct.pack(order + "i", 1) + b"\n")
    parts.append(b"$EndMeshFormat\n$Nodes\n")
    put(integer * (4 if later else 2), 2, 8, *((3, 100) if later else ()))
    for dimension, part in ((2, ORDERED[:3]), (3, ORDERED[3:])):
        put("3i", *((dimension, 1) if later else (1, dimension)), int(parametric))
        put(integer, len(part))
        more = [0.5] * dimension if parametric else []
        if later:
            for i in part:
                put(integer, NUMBERS[i])
        for i in part:
            row = [*VERTICES[i], *more]
            put(f"{len(row)}d", *row) if later else put(f"i{len(row)}d", NUMBERS[i], *row)
    parts.append(b"\n$EndNodes\n$Elements\n")
    blocks = [(2, 1, 2, CELLS[:1, :3]), (3, 1, 4, CELLS[:3]), (3, 2, 4, CELLS[3:])]
    blocks += [(3, 3, 4, CELLS[:3])] if twice else []
    count = sum(len(of) for *_, of in blocks)
    put(integer * (4 if later else 2), len(blocks), count, *((1, count) if later else ()))
    index = integer if later else number
    for dimension, entity, kind, cells in blocks:
        put("3i", *((dimension, entity) if later else (entity, dimension)), kind)
        put(integer, len(cells))
        first = 2 if dimension == 3 and entity in (1, 3) else 5 if dimension == 3 else 1
        for i, cell in enumerate(cells):
            put(index * (1 + len(cell)), first + i, *NUMBERS[cell])
    return b"".join([*parts, b"\n$EndElements\n"])


FILES = {
    **{f"{version}{'' if groups else ', no groups'}": listed(version, groups)
       for version in ("1", "2", "2.1", "2.2") for groups in (True, False)},
    **{f"{version}, parametric": listed(version, parametric=True) for version in ("1", "2.2")},
    **{f"2.2 {order}{' parametric' * of}": listed("2.2", True, order, of) for order in "<>" for of in (False, True)},
    **{f"{version} {order}{' parametric' * of}": by_entities(version, order, 8, of)
       for version in ("4", "4.0", "4.1") for order in ("", "<", ">") for of in (False, True)},
    "4.1, numbers of 4 bytes": by_entities("4.1", "<", 4),
    **{f"{version}, an element in two blocks": by_entities(version, twice=True) for version in ("4.0", "4.1")},
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_all_versions_give_the_same_mesh(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.msh").write_bytes(FILES[name])
    vertices, cells, notes = read_tetrahedra(tmp_path / "a.msh")
    np.testing.assert_array_equal(vertices, VERTICES[ORDERED])
    np.testing.assert_array_equal(vertices[cells], VERTICES[CELLS])
    assert notes == ()
    assert area(tmp_path / "a.msh")[1] == 1


SECTIONS = "$Comments\n$Nodes\n1\n$EndComments\n$Periodic\n1\n0 1 1\n1\n1 1\n$EndPeriodic\n"
DATA = '$NodeData\n1\n"a"\n1\n0.0\n3\n0\n1\n1\n7 1.5\n$EndNodeData\n'


@pytest.mark.parametrize("name", ["1", "2.2", "4.0 ", "4.1 "])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"  \n"),
        lambda text: b"\n" + text.replace(b"\n$", b"\n\n$"),
        lambda text: SECTIONS.encode() + text + DATA.encode(),
        lambda text: text.rstrip(),
        lambda text: text.replace(b"12 ", b"+12 "),
    ],
)
def test_text_may_look_otherwise(tmp_path: Path, name: str, change) -> None:
    (tmp_path / "a.msh").write_bytes(change(FILES[name]))
    assert volume(tmp_path / "a.msh") == CUBE


@pytest.mark.wording
def test_real_duplicates_are_kept_and_noted(tmp_path: Path) -> None:
    text = listed("2.2", groups=False).decode()
    row = f"9 4 2 0 1 {' '.join(map(str, NUMBERS[CELLS[0]]))}\n"
    text = text.replace("$Elements\n7\n", "$Elements\n8\n").replace("$EndElements", f"{row}$EndElements")
    (tmp_path / "a.msh").write_text(text)
    assert volume(tmp_path / "a.msh")[2] == ("1 duplicate tetrahedra kept, the first is number 6 (counted from 0)",)


@pytest.mark.parametrize(
    ("kind", "size", "called"),
    [(5, 8, "hexahedron"), (6, 6, "wedge"), (7, 5, "pyramid"), (11, 10, "tetra10"), (31, 56, "tetra56")],
)
@pytest.mark.parametrize("version", ["2.2", "4.1"])
def test_other_volumes_are_named(tmp_path: Path, version: str, kind: int, size: int, called: str) -> None:
    nodes = " ".join(str(NUMBERS[i % 8]) for i in range(size))
    if version == "2.2":
        text = listed("2.2", groups=False).decode().replace("$Elements\n7\n", "$Elements\n8\n")
        text = text.replace("$EndElements", f"9 {kind} 2 0 1 {nodes}\n$EndElements")
    else:
        text = by_entities("4.1").decode().replace("$Elements\n3 7 1 7", "$Elements\n4 8 1 8")
        text = text.replace("\n$EndElements", f"\n3 9 {kind}\n1\n9 {nodes}\n$EndElements")
    (tmp_path / "a.msh").write_text(text)
    refused(read_tetrahedra, tmp_path / "a.msh", rf"elements other than linear tetrahedra[\s\S]*1 {called}")


TEXT = listed("2.2", groups=False).decode()
LATER = by_entities("4.1").decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated"),
        ("$MeshFormat\n4.1", "truncated"),
        (TEXT.replace("2.2 0 8", "3 0 8"), r"unsupported version of Gmsh's format[\s\S]*msh41"),
        (TEXT.replace("2.2 0 8", "4.2 0 8"), "unsupported version of Gmsh's format"),
        (TEXT.replace("2.2 0 8", "2.2 0 16"), "unknown size of numbers"),
        (TEXT.replace("2.2 0 8", "2.2 2 8"), "unknown kind of mesh file"),
        (TEXT.partition("$EndMeshFormat\n")[2], "states no version"),
        (TEXT.replace("$Nodes\n8\n", "$Nodes\n9\n"), r"not a number[\s\S]*EndNodes"),
        (TEXT.replace("$Nodes\n8\n", "$Nodes\n7\n"), "longer than stated"),
        (TEXT.replace("$Nodes\n8\n", "$Nodes\nx\n"), "number of nodes"),
        (TEXT.replace("$Elements\n7\n", "$Elements\n8\n"), r"expected: 8 elements[\s\S]*actual: 7"),
        (TEXT.replace("$Elements\n7\n", "$Elements\n6\n"), r"expected: 6 elements[\s\S]*actual: 7"),
        (TEXT.replace("1 4 2 0 1 7", "1 999 2 0 1 7"), r"elements of an unsupported type[\s\S]*type 999"),
        (TEXT.replace("1 4 2 0 1 7", "1 4 2 0 1 8"), "vertices that do not exist"),
        (TEXT.replace("\n9 ", "\n7 "), r"two nodes of the mesh have the same number[\s\S]*first is 7"),
        (TEXT.replace("\n9 ", "\n9.5 "), "not an integer"),
        (TEXT.replace("$EndElements", ""), "truncated"),
        (TEXT.partition("$Elements")[0], "truncated"),
        (TEXT.replace("$EndNodes", "$EndNodes\n7"), "text between two sections"),
        (TEXT.replace("\n41 1.0", "\n41 nan"), "NaN, infinite or too large"),
        (LATER.replace("$Nodes\n2 8 ", "$Nodes\n2 9 "), r"expected: 9 nodes[\s\S]*actual: 8"),
        (LATER.replace("$Nodes\n2 8 ", "$Nodes\n-2 8 "), "number of nodes"),
        (LATER.replace("$Elements\n3 7 ", "$Elements\n3 8 "), r"expected: 8 elements"),
        (LATER.replace("$Elements\n3 7 ", "$Elements\n2 7 "), r"of its entities is wrong|longer than stated"),
        (LATER.replace("2 1 0\n3\n", "2 1 0\n99999999999\n", 1), "truncated"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.msh").write_text(text)
    refused(read_tetrahedra, tmp_path / "a.msh", message)


@pytest.mark.parametrize("name", ["2.2 <", "2.2 < parametric", "4.1 <", "4.1 >", "4.0 <"])
def test_binary_files_cut_off_are_refused(tmp_path: Path, name: str) -> None:
    path, whole = tmp_path / "a.msh", FILES[name]
    for length in range(0, len(whole) - len("$EndElements\n"), 61):
        path.write_bytes(whole[:length])
        refused(read_tetrahedra, path, "mesh|file")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two boxes side by side, by Gmsh itself, in all forms that it writes."""
    gmsh = pytest.importorskip("gmsh")
    folder = tmp_path_factory.mktemp("gmsh")
    for groups, parts in product(("none", "overlapping", "one"), (0, 3)):
        gmsh.initialize(interruptible=False)
        try:
            for name, value in (("General.Terminal", 0), ("Mesh.MeshSizeMin", 0.6), ("Mesh.MeshSizeMax", 0.6),
                                ("Mesh.PartitionCreateGhostCells", 1)):  # fmt: skip
                gmsh.option.setNumber(name, value)
            boxes = [(3, gmsh.model.occ.addBox(x, 0, 0, 1, 1, 1)) for x in (0, 1)]
            gmsh.model.occ.fragment(boxes[:1], boxes[1:])
            gmsh.model.occ.synchronize()
            gmsh.model.mesh.generate(3)
            if groups == "overlapping":
                for tags in ([1, 2], [1], [-2]):
                    gmsh.model.addPhysicalGroup(3, tags)
                gmsh.model.addPhysicalGroup(2, [1, 2, 3])
                gmsh.model.addPhysicalGroup(2, [3, 4])
            if groups == "one":
                gmsh.model.addPhysicalGroup(3, [1])
            if parts:
                gmsh.model.mesh.partition(parts)
            for version, binary, everything, parameters in product((1, 2.2, 4.0, 4.1), (0, 1), (0, 1), (0, 1)):
                if binary and version in (1, 4.0):
                    continue
                for name, value in (("MshFileVersion", version), ("Binary", binary), ("SaveAll", everything),
                                    ("SaveParametric", parameters)):  # fmt: skip
                    gmsh.option.setNumber(f"Mesh.{name}", value)
                gmsh.write(str(folder / f"{groups}-{parts}-{everything}-{version}-{binary}-{parameters}.msh"))
        finally:
            gmsh.finalize()
    return folder


def ordered(vertices: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a mesh with vertices in the order of their coordinates, and cells in that of their vertices."""
    order = np.lexsort(vertices.round(9).T)
    cells = np.sort(np.argsort(order)[cells], axis=1)
    return vertices[order], cells[np.lexsort(cells.T)]


@pytest.mark.parametrize("everything", [0, 1])
@pytest.mark.parametrize("parts", [0, 3])
@pytest.mark.parametrize("groups", ["none", "overlapping", "one"])
def test_what_gmsh_writes(written: Path, groups: str, parts: int, everything: int) -> None:
    paths = sorted(written.glob(f"{groups}-{parts}-{everything}-*.msh"))
    assert len(paths) == 12
    found = [read_tetrahedra(path) for path in paths]
    half = groups == "one" and not everything
    first = ordered(*found[0][:2]) if parts else found[0]
    for path, (vertices, cells, _) in zip(paths, found, strict=True):
        assert tetrahedron_volumes(vertices, cells).sum() == pytest.approx(1 if half else 2)
        # versions 1 and 2 number nodes and elements of partitions anew
        points, tets = ordered(vertices, cells) if parts else (vertices, cells)
        np.testing.assert_allclose(points, first[0], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(tets, first[1], str(path))
    if not half:
        surfaces = [read_surface(path) for path in paths]
        assert {len(faces) for _, faces, _ in surfaces} == {len(surfaces[0][1])}


def test_the_same_cells_as_meshio_where_it_reads(written: Path) -> None:
    compared = 0
    for path in written.glob("none-0-*-0.msh"):
        try:
            theirs = meshio.gmsh.read(path)
        except Exception:
            continue
        points, cells, _ = read_tetrahedra(path)
        tets = np.concatenate([of.data for of in theirs.cells if of.type == "tetra"])
        np.testing.assert_array_equal(points[cells], theirs.points[tets])
        compared += 1
    assert compared >= 4


def test_the_borders_of_partitions_are_no_surface(written: Path) -> None:
    whole = [read_surface(written / f"none-{parts}-1-4.1-0-0.msh") for parts in (0, 3)]
    assert len(whole[0][1]) == len(whole[1][1])


def test_names_with_the_word_of_another_section(tmp_path: Path) -> None:
    text = re.sub('"a b"', '"$Nodes"', TEXT)
    (tmp_path / "a.msh").write_text(text)
    assert volume(tmp_path / "a.msh") == CUBE
