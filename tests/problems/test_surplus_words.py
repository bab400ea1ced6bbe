"""A word too many or too few in a line of a text file: the file is refused, or gives the mesh that it gives without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.matrix_market import MatrixFile, read_matrix
from repro.problems.meshes import read_group, read_surface, read_tetrahedra

pytestmark = [pytest.mark.usefixtures("read_here"), pytest.mark.medium]

POINTS = ["0 0 0", "1 0 0", "0 1 0", "0 0 1", "2 3 4", "2 0 0.5"]
TETRAHEDRA = ["1 2 3 4", "2 3 4 5", "2 5 4 6"]
TRIANGLES = ["1 2 3", "2 3 4", "2 5 4", "5 4 6"]
#: The same, from 0 on.
FROM_0 = [" ".join(str(int(word) - 1) for word in cell.split()) for cell in TRIANGLES]
TETRAHEDRA_FROM_0 = [" ".join(str(int(word) - 1) for word in cell.split()) for cell in TETRAHEDRA]
#: Words that are put in: small counts, which are numbers of vertices and types as well, a coordinate, and a word.
WORDS = ("0", "1", "3", "4", "0.5", "x")


def rows(lines: list[str], before: str = "", behind: str = "", numbered: bool = False) -> list[str]:
    return [f"{f'{i} ' if numbered else ''}{before}{line}{behind}" for i, line in enumerate(lines, 1)]


def gmsh_by_lines(version: str) -> list[str]:
    old = version == "1"
    cells = [
        *(f"4 {7 + i % 2} {i % 2}{' 4' if old else ''} {cell}" for i, cell in enumerate(TETRAHEDRA)),
        *(f"2 9 1{' 3' if old else ''} {cell}" for cell in TRIANGLES[:2]),
    ]
    if not old:
        cells = [cell.replace(" ", " 2 ", 1) for cell in cells]
    nodes = ["$NOD" if old else "$Nodes", "6", *rows(POINTS, numbered=True), "$ENDNOD" if old else "$EndNodes"]
    elements = ["$ELM" if old else "$Elements", "5", *rows(cells, numbered=True), "$ENDELM" if old else "$EndElements"]
    if old:
        return [*nodes, *elements]
    names = ["$PhysicalNames", "2", '3 7 "a"', '3 8 "b"', "$EndPhysicalNames"]
    return ["$MeshFormat", f"{version} 0 8", "$EndMeshFormat", *names, *nodes, *elements]


def gmsh_by_entities(version: str, partitions: bool = False) -> list[str]:
    later = version == "4.1"
    box, place = "0 0 0 1 1 1", lambda dimension, tag: f"{dimension} {tag}" if later else f"{tag} {dimension}"
    names = ["$PhysicalNames", "2", '3 7 "a"', '3 8 "b"', "$EndPhysicalNames"]
    entities = [
        *("$Entities", "1 1 1 2", f"1 {'0 0 0' if later else box} 0", f"1 {box} 1 6 2 1 -1", f"1 {box} 1 9 1 1"),
        *(f"1 {box} 1 7 1 1", f"2 {box} 2 8 5 1 -1", "$EndEntities"),
    ]
    parts = ["$PartitionedEntities", "2", "1", "3 1", "0 0 1 1", *(f"1 {i} 3 1 1 {box} 0 0" for i in (2, 3))]
    parts += ["$EndPartitionedEntities"]
    nodes = ["$Nodes", f"2 6{' 1 6' if later else ''}"]
    elements = ["$Elements", f"3 5{' 1 5' if later else ''}"]
    numbers = range(1, 7)
    for dimension, part in ((2, numbers[:3]), (3, numbers[3:])):
        nodes.append(f"{place(dimension, 1)} 0 3")
        if later:
            nodes += map(str, part)
        nodes += [f"{'' if later else f'{i} '}{POINTS[i - 1]}" for i in part]
    elements += [f"{place(2, 1)} 2 2", *(f"{i} {cell}" for i, cell in enumerate(TRIANGLES[:2], 4))]
    elements += [f"{place(3, 1)} 4 2", *(f"{i} {cell}" for i, cell in enumerate(TETRAHEDRA[:2], 1))]
    elements += [f"{place(3, 2)} 4 1", f"3 {TETRAHEDRA[2]}"]
    head = ["$MeshFormat", f"{version} 0 8", "$EndMeshFormat"]
    ends = ["$EndNodes"], ["$EndElements"]
    return [*head, *names, *entities, *(parts if partitions else []), *nodes, *ends[0], *elements, *ends[1]]


def vtk(*body: str, version: str = "3.0") -> list[str]:
    return [f"# vtk DataFile Version {version}", "title", "ASCII", *body]


VTK_CELLS = ["CELLS 7 31", *rows(TETRAHEDRA_FROM_0, "4 "), *rows(FROM_0, "3 "), "CELL_TYPES 7", *["10"] * 3, *["5"] * 4]
VTK_OFFSETS = [
    *("CELLS 8 24", "OFFSETS vtktypeint64", "0 4 8 12", "15 18 21 24", "CONNECTIVITY vtktypeint64"),
    *(*TETRAHEDRA_FROM_0, *FROM_0, "CELL_TYPES 7", *["10"] * 3, *["5"] * 4),
]
VTK_POINTS = ["POINTS 6 double", *POINTS]
VTK_DATA = ["CELL_DATA 7", "SCALARS a float 1", "LOOKUP_TABLE default", "1 2 3 4", "5 6 7"]
VTK_FIELD = ["FIELD FieldData 1", "TIME 1 1 double", "0.5"]
PLY_HEAD = [
    *("ply", "format ascii 1.0", "comment x y", "element vertex 6"),
    *(f"property float {name}" for name in ("x", "y", "z")),
]
PLY_FACES = ["element face 4", "property list uchar int vertex_indices", "end_header"]
PLY_COLOURED = [*PLY_HEAD, "property uchar red", "element face 4", "property uchar flag", *PLY_FACES[1:]]
VTU = f"""<?xml version="1.0"?>
<VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian">
<UnstructuredGrid>
<Piece NumberOfPoints="6" NumberOfCells="3">
<Points>
<DataArray type="Float64" NumberOfComponents="3" format="ascii">
{" ".join(POINTS)}
</DataArray>
</Points>
<Cells>
<DataArray type="Int64" Name="connectivity" format="ascii">
{" ".join(TETRAHEDRA_FROM_0)}
</DataArray>
<DataArray type="Int64" Name="offsets" format="ascii">
4 8 12
</DataArray>
<DataArray type="UInt8" Name="types" format="ascii">
10 10 10
</DataArray>
</Cells>
</Piece>
</UnstructuredGrid>
</VTKFile>"""
MEDIT_CELLS = ["Tetrahedra", "3", *rows(TETRAHEDRA, behind=" 1"), "Triangles", "4", *rows(TRIANGLES, behind=" 2")]
MEDIT_BESIDE = [
    *("Corners", "2", "1", "2", "Ridges", "1", "1", "RequiredVertices", "1", "1", "Normals", "1", "0 0 1"),
    *("NormalAtVertices", "1", "1 1", "Edges", "1", "1 2 0"),
]
MEDIT_HEAD = ["MeshVersionFormatted 2", "Dimension", "3", "Vertices", "6", *rows(POINTS, behind=" 0")]
STL = [
    line
    for cell in TRIANGLES
    for line in ("facet normal 0 0 1", "outer loop", *(f"vertex {POINTS[int(i) - 1]}" for i in cell.split()),
                 "endloop", "endfacet")
]  # fmt: skip


class Text(NamedTuple):
    """Lines of each file by its suffix, what reads the file of the first, and which changed lines are of the format."""

    files: dict[str, list[str]]
    read: Callable[[Path], object] = read_tetrahedra
    #: Whether a line with the changed words, of that suffix, is another line of the format that nothing tells apart.
    is_of_the_format: Callable[[list[str]], bool] = lambda words: False


def has_its_size(words: list[str]) -> bool:
    """Whether a face, of PLY or OFF, has as many corners as it says; another size is another face."""
    return words[0].isdigit() and len(words) == int(words[0]) + 1


def is_element(words: list[str]) -> bool:
    """Whether an element of Gmsh's versions 1 and 2 is one of another type with the number of words that it has."""
    kind = {"2": 3, "3": 4, "4": 4}.get(words[1]) if len(words) > 3 and all(word.isdigit() for word in words) else None
    if kind is None or len({*words[-kind:]}) < kind:
        return False
    return len(words) == 3 + int(words[2]) + kind and int(words[2]) < 3


def is_polygon(words: list[str]) -> bool:
    """Whether a face of OBJ has three corners or more."""
    return words[0] == "f" and len(words) > 3


def group_points(path: Path) -> object:
    """Return the points of groups, and the mesh."""
    return [read_group(path, Limits(), group) for group in ("a", "b", 9)], read_tetrahedra(path)


def matrix(path: Path) -> object:
    return read_matrix(path, Limits())


GRID = ["0 0 0", "1 0 0", "0 1 0", "1 1 0", "0 2 0", "1 2 0"]
TEXTS = {
    **{f"Gmsh {version}": Text({".msh": gmsh_by_lines(version)}, read_tetrahedra, is_element)
       for version in ("1", "2", "2.2")},
    **{f"Gmsh {version}": Text({".msh": gmsh_by_entities(version)}) for version in ("4.0", "4.1")},
    **{f"Gmsh {version} in parts": Text({".msh": gmsh_by_entities(version, True)}) for version in ("4.0", "4.1")},
    "groups of Gmsh 2.2": Text({".msh": gmsh_by_lines("2.2")}, group_points, is_element),
    **{f"groups of Gmsh {version}": Text({".msh": gmsh_by_entities(version)}, group_points)
       for version in ("4.0", "4.1")},
    "surface of Gmsh 2.2": Text({".msh": [
        *("$MeshFormat", "2.2 0 8", "$EndMeshFormat", "$Nodes", "6", *rows(POINTS, numbered=True), "$EndNodes"),
        *("$Elements", "4", *rows(TRIANGLES, "2 2 1 1 ", numbered=True), "$EndElements")]}, read_surface, is_element),
    "MEDIT": Text({".mesh": [*MEDIT_HEAD, *MEDIT_CELLS, "End"]}),
    "surface of MEDIT": Text({".mesh": [*MEDIT_HEAD, "Triangles", "2", *rows(TRIANGLES[:2], behind=" 2"),
                                        *MEDIT_BESIDE, "Triangles", "2", *rows(TRIANGLES[2:], behind=" 2"),
                                        "End"]}, read_surface),
    "MEDIT with more": Text({".mesh": [*MEDIT_HEAD, *MEDIT_BESIDE, *MEDIT_CELLS, *MEDIT_BESIDE, "Tetrahedra", "1",
                                       "1 2 3 6 1", "End"]}),
    "TetGen": Text({".node": ["6 3 0 0", *rows(POINTS, numbered=True)],
                    ".ele": ["3 4 0", *rows(TETRAHEDRA, numbered=True)]}),
    "TetGen with more": Text({".ele": ["3 4 1", *rows(TETRAHEDRA, numbered=True, behind=" 2")],
                              ".node": ["6 3 1 1", *rows(POINTS, numbered=True, behind=" 0.5 1")]}),
    "TetGen, short headers": Text({".ele": ["3", *rows(TETRAHEDRA, numbered=True)],
                                   ".node": ["6", *rows(POINTS, numbered=True)]}),
    "VTK 3.0": Text({".vtk": vtk("DATASET UNSTRUCTURED_GRID", *VTK_FIELD, *VTK_POINTS, *VTK_CELLS, *VTK_DATA)}),
    "VTK 5.1": Text({".vtk": vtk("DATASET UNSTRUCTURED_GRID", *VTK_POINTS, *VTK_OFFSETS, *VTK_DATA, version="5.1")}),
    "VTK surface": Text({".vtk": vtk("DATASET POLYDATA", *VTK_POINTS, "POLYGONS 4 16", *rows(FROM_0, "3 "))},
                        read_surface),
    "VTK strips": Text({".vtk": vtk("DATASET POLYDATA", *VTK_POINTS, "POLYGONS 1 4", "3 0 1 2", "TRIANGLE_STRIPS 1 6",
                                    "5 1 2 3 4 5")}, read_surface),
    "VTK points": Text({".vtk": vtk("DATASET STRUCTURED_POINTS", "DIMENSIONS 3 1 2", "ORIGIN 0 0 0", "SPACING 1 2 3",
                                    "POINT_DATA 6", "SCALARS a float", "LOOKUP_TABLE default", "1 2 3 4 5 6")},
                       read_surface),
    "VTK grid": Text({".vtk": vtk("DATASET STRUCTURED_GRID", "DIMENSIONS 2 3 1", "POINTS 6 float", *GRID)},
                     read_surface),
    "VTK axes": Text({".vtk": vtk("DATASET RECTILINEAR_GRID", "DIMENSIONS 2 3 1", "X_COORDINATES 2 float", "0 1",
                                  "Y_COORDINATES 3 float", "0 1 3", "Z_COORDINATES 1 float", "0")}, read_surface),
    "VTU": Text({".vtu": VTU.splitlines()}),
    "STL": Text({".stl": ["solid a b", *STL, "endsolid a b"]}, read_surface),
    "OBJ": Text({".obj": ["o a", *rows(POINTS, "v "), "vt 0 0", *rows(TRIANGLES, "f ")]}, read_surface, is_polygon),
    "OBJ with more": Text({".obj": [*rows(POINTS, "v ", " 0.5 0.5 0.5"), "vn 0 0 1", *rows([
        " ".join(f"{i}/1/1" for i in cell.split()) for cell in TRIANGLES], "f ")]}, read_surface, is_polygon),
    "OFF": Text({".off": ["OFF", "6 4 0", *POINTS, *rows(FROM_0, "3 ")]}, read_surface, has_its_size),
    "OFF without its name": Text({".off": ["6 4 0", *POINTS, *rows(FROM_0, "3 ")]}, read_surface, has_its_size),
    "OFF with colours": Text({".off": ["COFF", "6 4 0", *rows(POINTS, behind=" 0.5 0.5 0.5 1"),
                                      *rows(FROM_0, "3 ", " 9 9 9")]},
                             read_surface),
    "PLY": Text({".ply": [*PLY_HEAD, *PLY_FACES, *POINTS, *rows(FROM_0, "3 ")]}, read_surface, has_its_size),
    "PLY with more": Text({".ply": [*PLY_COLOURED, *rows(POINTS, behind=" 255"), *rows(FROM_0, "0 3 ")]}, read_surface,
                          lambda words: has_its_size(words[1:])),
    "PLY with the faces first": Text({".ply": [
        *("ply", "format ascii 1.0", *PLY_FACES[:2], *PLY_HEAD[3:], "end_header", *rows(FROM_0, "3 "), *POINTS)]},
        read_surface, has_its_size),
    **{f"Matrix Market, {field} {symmetry}": Text({".mtx": [
        *(f"%%MatrixMarket matrix coordinate {field} {symmetry}", "% a b", "4 4 5"),
        *(f"{place}{beside}" for place in ("1 1", "2 1", "2 2", "4 3", "4 4"))]}, matrix)
        for field, symmetry, beside in (("real", "general", " 0.5"), ("integer", "symmetric", " 3"),
                                        ("complex", "general", " 1 2"), ("pattern", "general", ""))},
    "Matrix Market, array": Text({".mtx": ["%%MatrixMarket matrix array real general", "2 2", "1", "2", "3", "4"]},
                                 matrix),
}  # fmt: skip


def changes(line: str, number: int) -> Iterator[list[str]]:
    """Yield the words of a line with one left out, doubled or put in; of `WORDS` two at each place."""
    words = line.split()
    for i in range(len(words)):
        yield words[:i] + words[i + 1 :]
        yield words[: i + 1] + words[i:]
    for i in range(len(words) + 1):
        for word in {WORDS[(number + i) % len(WORDS)], WORDS[(number + i + 2) % len(WORDS)]}:
            yield [*words[:i], word, *words[i:]]


def arrays(read: object) -> list[np.ndarray]:
    if isinstance(read, MatrixFile):
        return [read.matrix.toarray()]
    if isinstance(read, tuple | list):
        return [array for part in read for array in arrays(part)]
    return [read] if isinstance(read, np.ndarray) else []


@pytest.fixture(autouse=True)
def _read_matrices_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repro.problems.matrix_market.read_isolated", lambda read, *_, **__: read())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TEXTS)
def test_a_word_too_many_or_too_few_never_gives_another_mesh(name: str, tmp_path: Path) -> None:
    text = TEXTS[name]
    paths = {suffix: tmp_path / f"a{suffix}" for suffix in text.files}
    for suffix, lines in text.files.items():
        paths[suffix].write_text("\n".join(lines) + "\n")
    first = next(iter(paths.values()))
    whole = arrays(text.read(first))
    assert any(array.size for array in whole)
    refused, wrong = 0, []
    for suffix, lines in text.files.items():
        for i, line in enumerate(lines):
            for words in changes(line, i):
                if words and text.is_of_the_format(words):
                    continue
                changed = " ".join(words)
                paths[suffix].write_text("\n".join([*lines[:i], changed, *lines[i + 1 :]]) + "\n")
                try:
                    other = arrays(text.read(first))
                except ReproError:
                    refused += 1
                    continue
                if len(other) != len(whole) or not all(map(np.array_equal, whole, other)):
                    wrong.append(f"{suffix}, line {i + 1}: {line!r} as {changed!r}")
        paths[suffix].write_text("\n".join(lines) + "\n")
    assert wrong == []
    assert refused
