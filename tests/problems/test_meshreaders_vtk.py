"""VTK's two formats: versions, text and binary, all that may be beside the cells, packings and pieces."""

from __future__ import annotations

import base64
import lzma
import struct
import zlib
from itertools import product
from pathlib import Path

import meshio
import numpy as np
import pyarrow as pa
import pytest

from repro.config.models import Limits
from repro.problems.meshes import read_blocks, read_surface, read_tetrahedra, tetrahedron_volumes
from support.mesh_shapes import SQUARES, TETRAHEDRA, TRIANGLES, VERTICES, area, refused, volume

pytestmark = pytest.mark.usefixtures("read_here")
CELLS = np.where((tetrahedron_volumes(VERTICES, TETRAHEDRA) > 0)[:, None], TETRAHEDRA, TETRAHEDRA[:, [0, 1, 3, 2]])
CUBE = (1.0, 6, ())
NAMES = {"f4": "float", "f8": "double", "i4": "int", "i8": "vtktypeint64", "u1": "unsigned_char"}


def numbers(given: object, kind: str, binary: bool) -> bytes:
    array = np.asarray(given).ravel()
    return (array.astype(f">{kind}").tobytes() if binary else " ".join(map(str, array.tolist())).encode()) + b"\n"


def cells_of(name: str, cells: list, binary: bool, later: bool) -> bytes:
    """A part of cells, with sizes before the corners or, from version 5 on, offsets."""
    sizes, corners = [len(of) for of in cells], [i for of in cells for i in of]
    if not later:
        listed = [i for of in cells for i in (len(of), *of)]
        return f"{name} {len(cells)} {len(listed)}\n".encode() + numbers(listed, "i4", binary)
    head = f"{name} {len(cells) + 1} {len(corners)}\nOFFSETS vtktypeint64\n".encode()
    offsets = numbers(np.cumsum([0, *sizes]), "i8", binary)
    return head + offsets + b"CONNECTIVITY vtktypeint64\n" + numbers(corners, "i8", binary)


def data(count: int, binary: bool) -> bytes:
    """All that may be kept of cells or points."""
    floats = np.arange(9.0 * count)
    colour = numbers(np.full(3 * count, 255 if binary else 1.0), "u1" if binary else "f4", binary)
    strings = b"".join(bytes([0xC0 | 3]) + b"a b" for _ in range(count)) if binary else b"a%20b\n" * count
    return b"".join([
        b"SCALARS a float\nLOOKUP_TABLE default\n", numbers(floats[:count], "f4", binary),
        b"LOOKUP_TABLE mine 1\n", numbers([1, 2, 3, 4] if binary else [0.1, 0.2, 0.3, 1.0], "u1", binary)
        if binary else b"0.1 0.2 0.3 1.0\n",
        b"COLOR_SCALARS c 3\n", colour,
        b"VECTORS v double\n", numbers(floats[: 3 * count], "f8", binary),
        b"NORMALS n float\n", numbers(floats[: 3 * count], "f4", binary),
        b"TENSORS t double\n", numbers(floats, "f8", binary),
        b"TEXTURE_COORDINATES x 2 float\n", numbers(floats[: 2 * count], "f4", binary),
        b"METADATA\nINFORMATION 1\nNAME L2_NORM_RANGE LOCATION vtkDataArray\nDATA 2 0 1\n\n",
        b"FIELD FieldData 3\n", f"modes_x 4 {count} double\n".encode(), numbers(floats[: 4 * count], "f8", binary),
        b"METADATA\nCOMPONENT_NAMES\na\nb\n\n",
        f"POINTS 1 {count} string\n".encode(), strings, b"\n",
        f"8.5 1 {count} int\n".encode(), numbers(np.arange(count), "i4", binary),
    ])  # fmt: skip


def legacy(version: str, binary: bool, cells: list, types: list[int], beside: bool = True) -> bytes:
    later = version.startswith("5")
    field = b"FIELD FieldData 1\nTIME 1 1 double\n" + numbers([0.5], "f8", binary)
    return b"".join([
        f"# vtk DataFile Version {version}\nPOINTS 3 float\n{'BINARY' if binary else 'ASCII'}\n".encode(),
        b"DATASET UNSTRUCTURED_GRID\n", field if beside else b"",
        b"POINTS 8 double\n", numbers(VERTICES, "f8", binary), b"\n" if beside else b"",
        b"METADATA\nINFORMATION 0\n\n" if beside else b"",
        cells_of("CELLS", cells, binary, later),
        f"CELL_TYPES {len(types)}\n".encode(), numbers(types, "i4", binary),
        f"CELL_DATA {len(types)}\n".encode() + data(len(types), binary) if beside else b"",
        b"POINT_DATA 8\n" + data(8, binary) if beside else b"",
    ])  # fmt: skip


MIXED = [[0], [0, 1], *CELLS.tolist(), [0, 1, 3]]
MIXED_TYPES = [1, 3, *[10] * 6, 5]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("version", ["2.0", "3.0", "4.2", "5.0", "5.1"])
def test_old_files_of_all_versions(tmp_path: Path, version: str, binary: bool, beside: bool) -> None:
    (tmp_path / "a.vtk").write_bytes(legacy(version, binary, MIXED, MIXED_TYPES, beside))
    vertices, cells, notes = read_tetrahedra(tmp_path / "a.vtk")
    np.testing.assert_array_equal(vertices, VERTICES)
    np.testing.assert_array_equal(cells, CELLS)
    assert notes == ()
    if beside:
        tets = next(of for of in read_blocks(tmp_path / "a.vtk", Limits(), values=True)[1] if of.kind == "tetra")
        assert set(tets.values) == {"a", "v", "n", "t", "modes_x", "8.5"}
        np.testing.assert_array_equal(tets.values["modes_x"], np.arange(36.0).reshape(9, 4)[2:8])


def test_old_text_may_look_otherwise(tmp_path: Path) -> None:
    text = legacy("3.0", False, MIXED, MIXED_TYPES)
    for other in (text.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + text, text.replace(b"\n", b"  \n"),
                  text.replace(b"POINTS 8 double", b"points 8 Double")):  # fmt: skip
        (tmp_path / "a.vtk").write_bytes(other)
        assert volume(tmp_path / "a.vtk") == CUBE


SURFACE = [SQUARES[0], [4, 5, 7], SQUARES[2], [4, 7, 6], [2, 6, 3, 7], [0, 4, 2, 6], SQUARES[5]]
SURFACE_TYPES = [9, 5, 7, 5, 8, 6, 7]  # square, triangle, polygon, triangle, pixel, strip, polygon


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("version", ["3.0", "5.1"])
def test_all_kinds_of_faces(tmp_path: Path, version: str, binary: bool) -> None:
    (tmp_path / "a.vtk").write_bytes(legacy(version, binary, SURFACE, SURFACE_TYPES))
    assert area(tmp_path / "a.vtk") == (6.0, 12, ("4 polygons cut into triangles",))
    vertices, faces, _ = read_surface(tmp_path / "a.vtk")
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    side = np.einsum("fi,fi->f", normals, corners.mean(axis=1) - 0.5)
    assert (side > 0).sum() in (10, 12)  # all outwards but for the pixel, whose order has no side


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("version", ["3.0", "5.1"])
def test_polydata(tmp_path: Path, version: str, binary: bool) -> None:
    later = version.startswith("5")
    content = b"".join([
        f"# vtk DataFile Version {version}\na\n{'BINARY' if binary else 'ASCII'}\nDATASET POLYDATA\n".encode(),
        b"POINTS 8 float\n", numbers(VERTICES, "f4", binary),
        cells_of("TRIANGLE_STRIPS", [[1, 3, 5, 7]], binary, later),
        cells_of("VERTICES", [[0], [1]], binary, later), cells_of("LINES", [[0, 1, 2]], binary, later),
        cells_of("POLYGONS", SQUARES[:5], binary, later), b"CELL_DATA 9\n", data(9, binary),
    ])  # fmt: skip
    (tmp_path / "a.vtk").write_bytes(content)
    assert area(tmp_path / "a.vtk") == (6.0, 12, ("5 polygons cut into triangles",))


GRIDS = {
    "points": "STRUCTURED_POINTS\nDIMENSIONS 3 1 4\nORIGIN 1 2 3\nSPACING 0.5 1 2\nPOINT_DATA 12\nSCALARS a int 1\n"
    "LOOKUP_TABLE default\n" + "1 " * 12,
    "axes": "RECTILINEAR_GRID\nDIMENSIONS 3 1 4\nX_COORDINATES 3 float\n1 1.5 2\nY_COORDINATES 1 float\n2\n"
    "Z_COORDINATES 4 double\n3 5 7 9\n",
    "grid": "STRUCTURED_GRID\nDIMENSIONS 3 1 4\nPOINTS 12 float\n"
    + "".join(f"{x} 2 {z}\n" for z in (3, 5, 7, 9) for x in (1, 1.5, 2)),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids_by_their_dimensions(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.vtk").write_text("# vtk DataFile Version 3.0\na\nASCII\nDATASET " + GRIDS[name])
    assert area(tmp_path / "a.vtk") == (6.0, 12, ("6 polygons cut into triangles",))


def test_a_solid_grid_is_no_mesh_of_tetrahedra(tmp_path: Path) -> None:
    text = GRIDS["points"].partition("POINT_DATA")[0].replace("3 1 4", "3 2 4")
    (tmp_path / "a.vtk").write_text("# vtk DataFile Version 3.0\na\nASCII\nDATASET " + text)
    refused(read_tetrahedra, tmp_path / "a.vtk", r"elements other than linear tetrahedra[\s\S]*6 hexahedron")


OLD = legacy("3.0", False, MIXED, MIXED_TYPES, False).decode()
NEW = legacy("5.1", False, MIXED, MIXED_TYPES, False).decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not in VTK's legacy format"),
        ("<?xml version='1.0'?>\n<VTKFile>", r"XML"),
        (OLD.replace("ASCII", "TEXT"), "ASCII or BINARY"),
        (OLD.partition("DATASET")[0], "truncated"),
        (OLD.partition("CELL_TYPES")[0], "no CELL_TYPES"),
        (OLD.partition("CELLS")[0], "no CELLS and no CELL_TYPES"),
        (OLD.replace("UNSTRUCTURED_GRID", "DIRECTED_GRAPH"), r"unsupported kind of data[\s\S]*DIRECTED_GRAPH"),
        (OLD.replace("POINTS 8 double", "POINTS 9 double"), "not a number"),
        (OLD.replace("POINTS 8 double", "POINTS 7 double"), "not understood"),
        (OLD.replace("POINTS 8 double", "POINTS 8 real"), "unknown type"),
        (OLD.replace("POINTS 8 double", "POINTS 8"), "not understood"),
        (OLD.replace("CELLS 9 ", "CELLS 8 "), "do not add up"),
        (OLD.replace("CELL_TYPES 9", "CELL_TYPES 8"), "not understood|not as many"),
        (OLD.replace("1 3 10 10", "1 3 10 99"), "cells of an unsupported type"),
        (OLD.replace("1 3 10 10", "1 3 10 12"), r"the wrong number of corners[\s\S]*4 in cell 3"),
        (OLD.replace("1 3 10 10", "1 3 14 10").replace("4 0 1 7 3", "4 0 1 7 3"), "the wrong number of corners"),
        (OLD.replace("4 0 1 ", "4 0 99 ", 1), "vertices that do not exist"),
        (OLD + "SOMETHING 1\n", r"not understood[\s\S]*SOMETHING"),
        (OLD + "CELL_DATA 9\nSCALARS a double\n1 2 3\n", "truncated"),
        (NEW.replace("OFFSETS vtktypeint64\n0 1 3", "OFFSETS vtktypeint64\n0 3 1"), "do not ascend"),
        (NEW.replace("CONNECTIVITY", "CORNERS"), "CONNECTIVITY"),
        (OLD.replace("0.0 0.0 0.0", "nan 0.0 0.0"), "NaN, infinite or too large"),
    ],
)
def test_old_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.vtk").write_text(text)
    refused(read_tetrahedra, tmp_path / "a.vtk", message)


PACK = {
    "": None,
    "vtkZLibDataCompressor": zlib.compress,
    "vtkLZMADataCompressor": lzma.compress,
    "vtkLZ4DataCompressor": lambda of: pa.compress(of, codec="lz4_raw", asbytes=True),
}
KINDS = {"f4": "Float32", "f8": "Float64", "i4": "Int32", "i8": "Int64", "u1": "UInt8", "u8": "UInt64"}


def vtu(
    form: str, packing: str = "", order: str = "<", head: str = "u4", pieces: list | None = None, block: int = 50
) -> bytes:
    """Write a grid in XML; a piece is points, cells, types and which cells are another's."""
    pieces = pieces or [(VERTICES, MIXED, MIXED_TYPES, None)]
    appended = bytearray()

    def stored(raw: bytes) -> tuple[bytes, bytes]:
        if not PACK[packing]:
            return np.array([len(raw)], order + head).tobytes() + raw, b""
        parts = [raw[i : i + block] for i in range(0, len(raw), block)]
        packed = [PACK[packing](of) for of in parts]
        last = len(raw) % block
        return np.array([len(parts), block, last, *map(len, packed)], order + head).tobytes(), b"".join(packed)

    def array(name: str, given: object, kind: str, width: int = 1) -> str:
        values = np.asarray(given).ravel()
        tag = f'<DataArray type="{KINDS[kind]}" Name="{name}" NumberOfComponents="{width}"'
        if form == "ascii":
            return f'{tag} format="ascii">\n{" ".join(map(str, values.tolist()))}\n</DataArray>'
        first, second = stored(values.astype(order + kind).tobytes())
        if form in ("binary", "base64"):
            first, second = base64.b64encode(first), base64.b64encode(second)
        if form == "binary":
            return f'{tag} format="binary">\n  {(first + second).decode()}\n</DataArray>'
        place = len(appended)
        appended.extend(first + second)
        return f'{tag} format="appended" offset="{place}"><InformationKey name="a">b</InformationKey></DataArray>'

    text = []
    for points, cells, types, ghosts in pieces:
        text.append(f'<Piece NumberOfPoints="{len(points)}" NumberOfCells="{len(cells)}"><PointData/><CellData>')
        text.append(array("modes_x", np.arange(4.0 * len(cells)), "f8", 4))
        if ghosts:
            text.append(array("vtkGhostType", ghosts, "u1"))
        text.append("</CellData><Points>" + array("Points", points, "f8", 3) + "</Points><Cells>")
        text.append(array("connectivity", [i for of in cells for i in of], "i8"))
        text.append(array("offsets", np.cumsum([len(of) for of in cells]), "i4"))
        text.append(array("types", types, "u1") + "</Cells></Piece>")
    attributes = f'byte_order="{"LittleEndian" if order == "<" else "BigEndian"}"'
    attributes += f' header_type="{"UInt32" if head == "u4" else "UInt64"}"'
    attributes += f' compressor="{packing}"' if packing else ""
    start = f'<?xml version="1.0"?>\n<VTKFile type="UnstructuredGrid" version="2.3" {attributes}><UnstructuredGrid>'
    start += '<FieldData><Array type="String" Name="x"/></FieldData>'
    end = "</UnstructuredGrid>"
    body = (start + "".join(text) + end).encode()
    if form in ("raw", "base64"):
        body += f'\n<AppendedData encoding="{form}">\n  _'.encode() + bytes(appended) + b"\n </AppendedData>"
    return body + b"\n</VTKFile>\n"


@pytest.mark.parametrize("form", ["ascii", "binary", "raw", "base64"])
@pytest.mark.parametrize("packing", PACK)
def test_xml_in_all_forms(tmp_path: Path, packing: str, form: str) -> None:
    for order, head, block in product("<>", ("u4", "u8"), (50, 1 << 15)):
        (tmp_path / "a.vtu").write_bytes(vtu(form, packing, order, head, block=block))
        vertices, cells, notes = read_tetrahedra(tmp_path / "a.vtu")
        np.testing.assert_array_equal(vertices, VERTICES)
        np.testing.assert_array_equal(cells, CELLS)
        assert notes == ()
        tets = next(of for of in read_blocks(tmp_path / "a.vtu", Limits(), values=True)[1] if of.kind == "tetra")
        np.testing.assert_array_equal(tets.values["modes_x"], np.arange(36.0).reshape(9, 4)[2:8])


def test_all_kinds_of_faces_in_xml(tmp_path: Path) -> None:
    (tmp_path / "a.vtu").write_bytes(vtu("raw", pieces=[(VERTICES, SURFACE, SURFACE_TYPES, None)]))
    assert area(tmp_path / "a.vtu") == (6.0, 12, ("4 polygons cut into triangles",))


def in_pieces(ghosts: bool) -> list:
    """Each piece has some cells of the next one, marked as that one's, and vertices of its own."""
    pieces = []
    for first in (0, 2, 4):
        cells = CELLS[first : first + (4 if ghosts else 2)]
        used, corners = np.unique(cells, return_inverse=True)
        pieces.append((VERTICES[used], corners.reshape(-1, 4).tolist(), [10] * len(cells),
                       [0, 0, 1, 33][: len(cells)] if ghosts else None))  # fmt: skip
    return [*pieces, (np.empty((0, 3)), [], [], None)]


@pytest.mark.parametrize("ghosts", [False, True])
@pytest.mark.parametrize("form", ["ascii", "raw"])
def test_pieces_are_one_mesh(tmp_path: Path, form: str, ghosts: bool) -> None:
    (tmp_path / "a.vtu").write_bytes(vtu(form, pieces=in_pieces(ghosts)))
    vertices, cells, _ = read_tetrahedra(tmp_path / "a.vtu")
    assert len(vertices) == 8
    np.testing.assert_array_equal(vertices[cells], VERTICES[CELLS])
    points, blocks = read_blocks(tmp_path / "a.vtu", Limits(), values=True)
    assert len(points) > 8
    assert sum(len(of.data) for of in blocks) == 6


def test_vertices_that_a_piece_has_twice_stay_two(tmp_path: Path) -> None:
    """A slit has two vertices at a place; a piece on either side must not close it."""
    points = np.vstack([VERTICES, VERTICES[:4]])
    slit = CELLS[3:].copy()
    slit[slit == 0] = 8
    pieces = [
        (points, [*CELLS[:3].tolist(), *slit.tolist()], [10] * 6, None),
        (VERTICES + np.array([5, 0, 0]), CELLS.tolist(), [10] * 6, None),
    ]
    (tmp_path / "a.vtu").write_bytes(vtu("ascii", pieces=pieces))
    assert len(read_tetrahedra(tmp_path / "a.vtu")[0]) == 8 + 1 + 8


RAW, TEXT, BASE = vtu("raw", "vtkZLibDataCompressor"), vtu("ascii"), vtu("binary")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated"),
        (TEXT[:-30], "truncated"),
        (b"<html><body>Not found</body></html>", "not VTK's"),
        (RAW.replace(b"\n </AppendedData>\n</VTKFile>\n", b""), "truncated"),
        (TEXT.replace(b"</Cells>", b"</Cell>"), "damaged"),
        (TEXT.replace(b"UnstructuredGrid", b"PolyData"), r"unsupported kind of data[\s\S]*PolyData"),
        (TEXT.replace(b"<Piece", b"<Part").replace(b"</Piece", b"</Part"), "no mesh"),
        (TEXT.replace(b'NumberOfCells="9"', b'NumberOfCells="10"'), "truncated"),
        (TEXT.replace(b'NumberOfCells="9"', b'NumberOfCells="x"'), "number of cells"),
        (TEXT.replace(b'Name="offsets"', b'Name="places"'), "no cells"),
        (TEXT.replace(b"Int64", b"Int65"), "unknown type"),
        (TEXT.replace(b'format="ascii"', b'format="hex"'), "unknown form"),
        (TEXT.replace(b'"LittleEndian"', b'"MiddleEndian"'), "unsupported form"),
        (RAW.replace(b"vtkZLib", b"vtkZZip"), r"unsupported form[\s\S]*another mode"),
        (RAW.replace(b'offset="0"', b'offset="7"').replace(b"vtkZLib", b"vtkLZMA"), "cannot be unpacked|truncated"),
        (BASE.replace(b"\n  ", b"\n  *", 3), "not base64"),
        (TEXT.replace(b"10 10 10 10 10 10", b"10 10 10 10 10 12"), "the wrong number of corners"),
        (TEXT.replace(b"10 10 10 10 10 10", b"10 10 10 10 10 98"), "cells of an unsupported type"),
        (TEXT.replace(b"\n1 3 7 11", b"\n1 3 2 11"), "do not ascend"),
        (TEXT.replace(b"\n0 0 1 ", b"\n0 0 99 "), "vertices that do not exist|no tetrahedra"),
    ],
)
def test_xml_that_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.vtu").write_bytes(content)
    if b"\n0 0 99 " in content:  # the vertex of a line, which is not read
        assert volume(tmp_path / "a.vtu") == CUBE
        return
    refused(read_tetrahedra, tmp_path / "a.vtu", message)


@pytest.mark.parametrize("compression", [None, "zlib", "lzma"])
def test_what_meshio_writes(tmp_path: Path, compression: str | None) -> None:
    mesh = meshio.Mesh(VERTICES, [("tetra", CELLS), ("triangle", TRIANGLES)])
    meshio.vtu.write(tmp_path / "a.vtu", mesh, compression=compression)
    assert volume(tmp_path / "a.vtu") == CUBE
    assert area(tmp_path / "a.vtu") == (6.0, 12, ())
    for version, binary in product(("4.2", "5.1"), (False, True)):
        meshio.vtk.write(tmp_path / "a.vtk", mesh, fmt_version=version, binary=binary)
        assert volume(tmp_path / "a.vtk") == CUBE


def test_strings_in_binary_files_may_be_long(tmp_path: Path) -> None:
    text = b"CELLS 1 2\n" * 30
    strings = bytes([0xC2]) + b"ab" + struct.pack(">H", 0x8000 | len(text)) + text
    strings += struct.pack(">I", 0x40000000 | len(text)) + text
    content = legacy("5.1", True, MIXED, MIXED_TYPES, False) + b"FIELD a 1\nb 1 3 string\n" + strings + b"\n"
    (tmp_path / "a.vtk").write_bytes(content)
    assert volume(tmp_path / "a.vtk") == CUBE
