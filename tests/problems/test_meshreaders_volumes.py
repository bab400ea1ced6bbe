"""Readers of volumes: MEDIT as text and binary, and TetGen's two files."""

from __future__ import annotations

import struct
from pathlib import Path

import meshio
import numpy as np
import pytest

from repro.problems.meshes import read_tetrahedra, tetrahedron_volumes
from support.mesh_shapes import TETRAHEDRA, TRIANGLES, VERTICES, area, refused, volume

pytestmark = pytest.mark.usefixtures("read_here")
CELLS = np.where((tetrahedron_volumes(VERTICES, TETRAHEDRA) > 0)[:, None], TETRAHEDRA, TETRAHEDRA[:, [0, 1, 3, 2]])
CUBE = (1.0, 6, ())
HEAD = "MeshVersionFormatted 2\nDimension 3\n"
POINTS = "Vertices\n8\n" + "".join(f"{x:g} {y:g} {z:g} 0\n" for x, y, z in VERTICES)
TETS = "Tetrahedra\n6\n" + "".join(" ".join(str(i + 1) for i in of) + " 1\n" for of in CELLS)
FACES = "Triangles\n12\n" + "".join(" ".join(str(i + 1) for i in of) + " 2\n" for of in TRIANGLES)
#: Sections that mmg, BAMG and others write beside the cells.
BESIDE = (
    "Corners\n1\n1\n", "Ridges\n0\n", "RequiredVertices\n2\n1\n2\n", "RequiredEdges\n0\n", "RequiredTriangles\n1\n1\n",
    "RequiredTetrahedra\n0\n", "Edges\n1\n1 2 0\n", "Normals\n1\n0.5 -1e-3 nan\n", "NormalAtVertices\n1\n1 1\n",
    "Tangents\n1\n1 0 0\n", "TangentAtVertices\n1\n1 1\n", "SubDomainFromGeom\n1\n3 1 1 1\n",
    "SubDomainFromMesh\n1\n3 1 1 1\n", "AngleOfCornerBound 10\n", "MaximalAngleOfCorner\n10.5\n", "Geometry\n\"a b\"\n",
    "VertexOnGeometricVertex\n1\n1 1\n", "Identifier\n\"x\"\n", "ParallelTriangles\n0\n", "QuadrilateralsQ2 0\n",
    "Hexahedra\n0\n", "Triangles\n1\n1 2 4 0\n",
)  # fmt: skip
MEDIT = {
    "plain": HEAD + POINTS + TETS + "End\n",
    "faces": HEAD + POINTS + FACES + TETS + "End\n",
    "cells_first": HEAD + TETS + POINTS + "End\n",
    **{f"version {i}": HEAD.replace("2", str(i), 1) + POINTS + TETS + "End\n" for i in (0, 1, 3, 4)},
    "lines": "MeshVersionFormatted\n2\n\nDimension\n3\n" + POINTS + TETS + "END\n",
    "counts": (HEAD + POINTS + TETS + "end").replace("s\n8", "s 8").replace("a\n6", "a 6"),
    "blanks": (HEAD + POINTS + TETS + "End").replace("\n", "\n\n  "),
    "one_line": (HEAD + POINTS + TETS + "End").replace("\n", " "),
    "crlf": (HEAD + POINTS + TETS + "End\n").replace("\n", "\r\n"),
    "mark": "\ufeff" + HEAD + POINTS + TETS + "End\n",
    "comments": "# caf\u00e9\n" + (HEAD + POINTS + TETS + "End\n").replace("\n", " # Tetrahedra 9\n"),
    "two_sections": HEAD + POINTS + TETS.replace("6\n", "2\n", 1)[: TETS.index("\n", 13) + 1] + "End\n",
    "real_reference": HEAD + POINTS.replace(" 0\n", " 0.0\n") + TETS + "End\n",
    **{of.split()[0]: HEAD + POINTS + of + TETS + of + "End\n" for of in BESIDE},
}  # fmt: skip
rows = TETS.splitlines(keepends=True)[2:]
MEDIT["two_sections"] = (
    HEAD + POINTS + "Tetrahedra 2\n" + "".join(rows[:2]) + "Tetrahedra 4\n" + "".join(rows[2:]) + "End"
)


@pytest.mark.parametrize("name", MEDIT)
def test_medit_as_programs_write_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.mesh").write_bytes(MEDIT[name].encode())
    vertices, cells, notes = read_tetrahedra(tmp_path / "a.mesh")
    np.testing.assert_array_equal(vertices, VERTICES)
    np.testing.assert_array_equal(cells, CELLS)
    assert notes == ()


def test_the_surface_of_a_volume(tmp_path: Path) -> None:
    (tmp_path / "a.mesh").write_text(MEDIT["faces"])
    assert area(tmp_path / "a.mesh") == (6.0, 12, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated"),
        ("MFEM mesh v1.0\n\ndimension\n3\n", r"not MEDIT's[\s\S]*begins with MFEM"),
        (HEAD.replace("3", "2") + POINTS + TETS + "End\n", "three dimensions"),
        (HEAD + POINTS + TETS, r"truncated[\s\S]*End"),
        (HEAD + POINTS + TETS[:-8] + "End" + 9 * " x", r"not a number[\s\S]*'End'"),
        (HEAD + POINTS + TETS[:-8], "truncated"),
        (HEAD + POINTS + TETS + "1 2 3 4 0\nEnd\n", r"has more numbers than stated[\s\S]*'1'"),
        (HEAD + POINTS.replace(" 0\n", "\n") + TETS + "End\n", "not a number"),
        (HEAD + POINTS.replace("8", "-8") + TETS + "End\n", "number of vertices"),
        (HEAD + POINTS.replace("8", "99999999999") + TETS + "End\n", "truncated"),
        (HEAD + POINTS + TETS.replace("1 2 4", "0 2 4") + "End\n", "vertices that do not exist"),
        (HEAD + POINTS + TETS.replace("1 2 4", "1 2 9") + "End\n", "vertices that do not exist"),
        (HEAD + POINTS + TETS.replace("1 2 4", "1 2.5 4") + "End\n", r"whole numbers[\s\S]*'2.5'"),
        (
            HEAD + POINTS + TETS + "Hexahedra\n1\n1 2 3 4 5 6 7 8 0\nEnd\n",
            r"elements other[\s\S]*1 hexahedron, 6 tetra",
        ),
        (HEAD + POINTS + TETS + "Prisms\n1\n1 2 3 4 5 6 0\nEnd\n", r"elements other[\s\S]*1 wedge"),
        (HEAD + POINTS + TETS + "TetrahedraP2\n1\n1 2 3 4 5 6 7 8 1 2 0\nEnd\n", r"elements other[\s\S]*1 tetra10"),
        (HEAD + POINTS + TETS + "TetrahedraP3\n1\n1 2 3 4 5 6 7 8 1 2 0\nEnd\n", r"unsupported[\s\S]*TetrahedraP3"),
        (HEAD + POINTS.replace("1 1 1 0", "1 inf 1 0") + TETS + "End\n", "NaN, infinite or too large"),
    ],
)
def test_medit_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.mesh").write_text(text)
    refused(read_tetrahedra, tmp_path / "a.mesh", message)


def meshb(version: int, order: str = "<", sections: tuple[int, ...] = (3, 13, 4, 6, 8, 54)) -> bytes:
    """Write the binary form: each section says where the next one begins."""
    address, index = "q" if version > 2 else "i", "q" if version == 4 else "i"
    content = struct.pack(order + "ii", 1, version)
    for code in sections:
        body = b""
        match code:
            case 3:
                body = struct.pack(order + "i", 3)
            case 13:
                body = struct.pack(order + index * 2, 1, 1)
            case 4:
                form = f"{order}3{'f' if version == 1 else 'd'}{index}"
                body = struct.pack(order + index, 8) + b"".join(struct.pack(form, *of, 0) for of in VERTICES)
            case 6 | 8:
                cells = np.array(TRIANGLES) if code == 6 else CELLS
                form = f"{order}{cells.shape[1] + 1}{index}"
                body = struct.pack(order + index, len(cells))
                body += b"".join(struct.pack(form, *(of + 1), 0) for of in cells)
        size = struct.calcsize(order + address)
        following = 0 if code == 54 else len(content) + 4 + size + len(body)
        content += struct.pack(order + "i", code) + struct.pack(order + address, following) + body
    return content


@pytest.mark.parametrize("suffix", [".meshb", ".mesh"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_binary_medit_of_all_versions(tmp_path: Path, version: int, order: str, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(meshb(version, order))
    vertices, cells, notes = read_tetrahedra(tmp_path / f"a{suffix}")
    np.testing.assert_array_equal(vertices, VERTICES)
    np.testing.assert_array_equal(cells, CELLS)
    assert notes == ()
    assert area(tmp_path / f"a{suffix}")[:2] == (6.0, 12)


def test_binary_medit_is_the_same_as_meshios(tmp_path: Path) -> None:
    meshio.medit.write(tmp_path / "a.meshb", meshio.Mesh(VERTICES, [("tetra", CELLS.astype(np.int32))]))
    assert volume(tmp_path / "a.meshb") == CUBE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated|no mesh"),
        (meshb(2)[:-9], "truncated"),
        (meshb(2)[:200], "truncated"),
        (meshb(2)[:8], "truncated"),
        (meshb(2).replace(struct.pack("<ii", 1, 2), struct.pack("<ii", 1, 7), 1), "unknown version"),
        (meshb(2, sections=(3, 4, 8)), "truncated"),
    ],
)
def test_binary_medit_that_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.meshb").write_bytes(content)
    refused(read_tetrahedra, tmp_path / "a.meshb", message)


def tetgen(first: int = 1, step: int = 1, attributes: int = 0, marker: int = 0) -> tuple[str, str]:
    beside = " 0.5" * attributes + " -1" * marker
    node = f"8 3 {attributes} {marker}\n" + "".join(
        f"{first + step * i} {x:g} {y:g} {z:g}{beside}\n" for i, (x, y, z) in enumerate(VERTICES)
    )
    ele = f"6 4 {attributes}\n" + "".join(
        f"{first + i} " + " ".join(str(first + step * of) for of in cell) + " 7" * attributes + "\n"
        for i, cell in enumerate(CELLS)
    )
    return node, ele


TETGEN = {
    "from_1": tetgen(),
    "from_0": tetgen(0),
    "from_5_by_3": tetgen(5, 3),
    "attributes": tetgen(1, 1, 2, 1),
    "short_headers": (tetgen()[0].replace("8 3 0 0", "8"), tetgen()[1].replace("6 4 0", "6")),
    "comments": tuple(
        "# Node count\n\n" + of.replace("\n", " # x\n") + "# Generated by tetgen -pq\n" for of in tetgen()
    ),
    "crlf": tuple(of.replace("\n", "\r\n") for of in tetgen()),
    "blanks": tuple(of.replace(" ", "\t   ").replace("\n", "  \n\n") for of in tetgen()),
    "unused": (tetgen()[0].replace("8 3", "9 3") + "9 5 5 5\n", tetgen()[1]),
}


@pytest.mark.parametrize("given", ["a.node", "a.ele"])
@pytest.mark.parametrize("name", TETGEN)
def test_tetgen_as_programs_write_it(tmp_path: Path, name: str, given: str) -> None:
    for suffix, text in zip((".node", ".ele"), TETGEN[name], strict=True):
        (tmp_path / f"a{suffix}").write_text(text)
    vertices, cells, notes = read_tetrahedra(tmp_path / given)
    np.testing.assert_array_equal(vertices, VERTICES)
    np.testing.assert_array_equal(cells, CELLS)
    assert notes == (("1 unreferenced vertex dropped",) if name == "unused" else ())


NODE, ELE = tetgen()


@pytest.mark.parametrize(
    ("node", "ele", "message"),
    [
        ("", ELE, "truncated"),
        (NODE, "", "truncated"),
        (NODE.replace("8 3", "9 3"), ELE, r"truncated[\s\S]*\.node"),
        (NODE, ELE.replace("6 4", "7 4"), r"truncated[\s\S]*\.ele"),
        (NODE.replace("8 3", "7 3"), ELE, r"\.node file is longer than its first line states"),
        (NODE, ELE.replace("6 4", "5 4"), r"\.ele file is longer than its first line states"),
        (NODE.replace("8 3 0 0", "8 3 0 0 0 0"), ELE, "not a header"),
        (NODE.replace("8 3", "x 3"), ELE, "number of vertices"),
        (NODE.replace("\n2 ", "\n1 "), ELE, "two vertices of the mesh have the same number"),
        (NODE.replace("\n2 ", "\n1.5 "), ELE, "not an integer"),
        (NODE, ELE.replace(" 8", " 9"), "vertices that do not exist"),
        (tetgen(0)[0], ELE, "vertices that do not exist"),
        (NODE, "1 10 0\n1 1 2 3 4 5 6 7 8 1 2\n", r"elements other than linear tetrahedra[\s\S]*1 tetra10"),
        (NODE, "1 5 0\n1 1 2 3 4 5\n", "cells of an unsupported kind"),
        (NODE, "0 4 0\n", "no tetrahedra"),
        ("3 2 0 0\n1 0 0\n2 1 0\n3 0 1\n", "1 3 0\n1 1 2 3\n", "three dimensions"),
    ],
)
def test_tetgen_that_is_refused(tmp_path: Path, node: str, ele: str, message: str) -> None:
    (tmp_path / "a.node").write_text(node)
    (tmp_path / "a.ele").write_text(ele)
    refused(read_tetrahedra, tmp_path / "a.ele", message)


def test_a_second_section_of_vertices_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mesh"
    section = "Vertices\n4\n0 0 0 0\n1 0 0 0\n0 1 0 0\n0 0 1 0\n"
    path.write_text(f"MeshVersionFormatted 2\nDimension 3\n{section}Tetrahedra\n1\n1 2 3 4 0\n{section}End\n")
    refused(read_tetrahedra, path, "vertices twice")
