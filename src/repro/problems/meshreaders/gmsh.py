"""Reads Gmsh's format, versions 1, 2, 4.0 and 4.1, text and binary, with groups, partitions and node parameters.

A mesh gives equal cells in every version of the format. Nodes are sorted by number. Versions 1 and 2 repeat an element
for each of its physical groups; it is read once. Only the sections of nodes, elements and partitions are read for a
mesh.

A physical group is a set of elements with a number and usually a name. Versions 1 and 2 state the group's number for
each element, version 4 for each entity of the geometry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from repro.problems.meshreaders import (
    Cells,
    Content,
    Contents,
    Flaw,
    Floats,
    Numbers,
    Order,
    check_lines,
    load_text,
    renumbered,
    truncated,
    whole,
    whole_numbers,
)

#: Number of corners for each kind, dimension and type of element; a higher-order kind contains this number in its name.
_TYPES = {
    ("line", 1): {1: 2, 8: 3, 26: 4, 27: 5, 28: 6, 62: 7, 63: 8, 64: 9, 65: 10, 66: 11},
    ("triangle", 2): {
        2: 3, 9: 6, 20: 9, 21: 10, 22: 12, 23: 15, 24: 15, 25: 21, 42: 28, 43: 36, 44: 45, 45: 55, 46: 66, 52: 18,
        53: 21, 54: 24, 55: 27, 56: 30,
    },
    ("quad", 2): {
        3: 4, 10: 9, 16: 8, 36: 16, 37: 25, 38: 36, 39: 12, 40: 16, 41: 20, 47: 49, 48: 64, 49: 81, 50: 100, 51: 121,
        57: 24, 58: 28, 59: 32, 60: 36, 61: 40,
    },
    ("tetra", 3): {
        4: 4, 11: 10, 29: 20, 30: 35, 31: 56, 32: 22, 33: 28, 71: 84, 72: 120, 73: 165, 74: 220, 75: 286, 79: 34,
        80: 40, 81: 46, 82: 52, 83: 58, 137: 16,
    },
    ("hexahedron", 3): {
        5: 8, 12: 27, 17: 20, 92: 64, 93: 125, 94: 216, 95: 343, 96: 512, 97: 729, 98: 1000, 99: 32, 100: 44, 101: 56,
        102: 68, 103: 80, 104: 92, 105: 104,
    },
    ("wedge", 3): {6: 6, 13: 18, 18: 15, 90: 40, 91: 75},
    ("pyramid", 3): {
        7: 5, 14: 14, 19: 13, 118: 30, 119: 55, 120: 91, 121: 140, 122: 204, 123: 285, 124: 385, 125: 21, 126: 29,
        127: 37, 128: 45, 129: 53, 130: 61, 131: 69,
    },
    ("vertex", 0): {15: 1},
}  # fmt: skip
#: Triangles and tetrahedra, of which no program writes one with a node twice.
_SIMPLICES = (2, 4)
_LINEAR = (1, 2, 3, 4, 5, 6, 7, 15)
#: Kind, dimension and number of corners for each type of element.
KINDS = {
    number: (kind if number in _LINEAR else f"{kind}{corners}", dimension, corners)
    for (kind, dimension), types in _TYPES.items()
    for number, corners in types.items()
}


@dataclass(frozen=True)
class Elements:
    """Elements of one type: numbers, groups and entities `(c,)`, and nodes `(c, k)`."""

    type: int
    numbers: Numbers
    nodes: Numbers
    groups: Numbers | None = None
    entities: Numbers | None = None
    #: In version 4, the number of the geometry's entity to which all of these elements belong.
    entity: int | None = None


def unique_elements(parts: list[Elements]) -> Numbers:
    """Return the nodes of elements of one type without repetitions.

    Two elements count as one if they have equal nodes and equal numbers. In versions 1 and 2, they also count as one if
    they have equal nodes and entities but different groups, since Gmsh writes an element once for each of its groups,
    with another number and with the orientation in this group.
    """
    numbers, nodes = (
        np.concatenate(arrays) for arrays in zip(*((part.numbers, part.nodes) for part in parts), strict=True)
    )
    if parts[0].groups is None:
        if len(np.unique(numbers)) == len(numbers):
            return nodes
        groups = entities = np.zeros(len(nodes), np.int64)
    else:
        groups = np.concatenate([part.groups for part in parts if part.groups is not None])
        entities = np.concatenate([part.entities for part in parts if part.entities is not None])
        if len(np.unique(numbers)) == len(numbers) and len(np.unique(groups)) < 2:
            return nodes
    keys = np.column_stack([np.sort(nodes, axis=1), entities])
    order = np.lexsort(keys.T)
    is_first = np.concatenate([[True], (np.diff(keys[order], axis=0) != 0).any(axis=1)])
    first = np.empty(len(nodes), np.int64)
    first[order] = order[is_first][
        np.cumsum(is_first) - 1
    ]  # the sort is stable, so this is the first of equal elements
    row_numbers = np.arange(len(nodes))
    is_repeated = (first != row_numbers) & ((groups != groups[first]) | (numbers == numbers[first]))
    return np.asarray(nodes[~is_repeated])


#: Number of node parameters after the coordinates, for each dimension of the node's entity.
_PARAMETERS = {0: 0, 1: 1, 2: 2, 3: 3}
_INT, _REAL = np.dtype(np.int32), np.dtype(np.float64)
_REST_OF_LINE = re.compile(rb"[^\S\n]*\S")


def read_gmsh(path: Path, values: bool = False) -> Contents:
    """Read a surface or a volume; `Flaw` for unknown versions or element types, or incomplete sections."""
    return Reader(open_content(path)).read()


def open_content(path: Path) -> Content:
    """Return the content of a file, at its start; `Flaw` if it is not Gmsh's."""
    with path.open("rb") as file:
        start = file.read(200).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start and not start.startswith((b"$", b"\xff\xfe", b"\xfe\xff")):
        raise Flaw(
            "the .msh file is not Gmsh's",
            expected="a file of Gmsh, which begins with $MeshFormat",
            actual=f"one that begins with {start.splitlines()[0][:80].strip().decode(errors='replace')}",
            todo="export it for Gmsh: meshio convert --output-format gmsh, or file_format='gmsh' in meshio.write",
        )
    binary = re.search(rb"\$MeshFormat\s+\S+\s+1\s", start) or (b"$MeshFormat" not in start and _is_binary(path))
    content = Content(path.read_bytes() if binary else load_text(path))
    if content.content.startswith(b"\xef\xbb\xbf"):
        content.offset = 3
    return content


def _is_binary(path: Path) -> bool:
    """Find the format header after comments; return whether the file is binary."""
    match = re.search(rb"\$MeshFormat\s+\S+\s+(\d+)\s", path.read_bytes())
    return bool(match and match[1] == b"1")


class Reader:
    """Reads the sections of a file in their order."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._version, self._size = "1", np.dtype(np.uint64)
        #: Whether tags of elements say in how many partitions these are, as in version 2.2.
        self._has_partitions = False
        self._nodes: list[tuple[Numbers, Floats]] = []
        self._elements: list[Elements] = []
        self._interfaces: set[tuple[int, int]] = set()

    def _sections(self) -> dict[str, Callable[[], None]]:
        """Return the function that reads each section; others are skipped."""
        return {
            "MeshFormat": self._format, "Nodes": self._read_nodes, "NOD": self._read_nodes,
            "ParametricNodes": self._read_parametric, "Elements": self._read_elements, "ELM": self._read_elements,
            "PartitionedEntities": self._read_partitions,
        }  # fmt: skip

    def read(self) -> Contents:
        content, read = self._content, self._sections()
        while line := content.line():
            if not line.startswith(b"$"):
                raise Flaw(
                    "the mesh is damaged: there is text between two sections",
                    expected="a line that begins with $",
                    actual=repr(line[:40].decode(errors="replace")),
                )
            name = line[1:].split()[0].decode(errors="replace") if line[1:].split() else ""
            end = (b"$END" if name in ("NOD", "ELM") else b"$End") + name.encode()
            if name in read:
                if self._version == "1" and end.startswith(b"$End") and name != "MeshFormat":
                    raise Flaw(
                        "the mesh file is damaged: it states no version",
                        expected="a section $MeshFormat before all others",
                        actual=f"${name}",
                    )
                read[name]()
                header = content.line()
                if header.split()[:1] != [end]:
                    if not header:
                        raise truncated(end.decode(), "the end of the file")
                    raise Flaw(
                        f"the mesh is damaged: ${name} is longer than stated",
                        expected=end.decode(),
                        actual=repr(header[:40].decode(errors="replace")),
                    )
            else:
                offset = content.content.find(b"\n" + end, content.offset - 1)
                if offset < 0:
                    raise truncated(end.decode(), "the end of the file")
                content.offset = offset + 1
                content.line()
        if not self._elements:
            raise truncated("a section $Elements", "no $EndElements")
        return self._joined()

    def _format(self) -> None:
        content = self._content
        tokens = content.line().split()
        if len(tokens) < 3:
            raise truncated(
                "version, kind and size of numbers", b" ".join(tokens).decode(errors="replace") or "nothing"
            )
        version, kind, size = tokens[:3]
        version_text = version.decode(errors="replace")
        major = version_text.split(".")[0]
        if major not in ("2", "4") or (major == "4" and version_text not in ("4", "4.0", "4.1")):
            raise Flaw(
                "unsupported version of Gmsh's format",
                expected="1.0, 2.0 to 2.2, 4.0 or 4.1",
                actual=version_text or "none",
                todo="save it again with Gmsh: gmsh -0 -format msh41 -o new.msh old.msh",
            )
        self._has_partitions = version_text == "2.2"
        self._version = "2" if major == "2" else version_text if version_text == "4.1" else "4.0"
        if size not in (b"4", b"8"):
            raise Flaw("unknown size of numbers in the mesh file", expected="4 or 8", actual=repr(size))
        self._size = np.dtype(f"u{int(size)}")
        if kind == b"1":
            mark = content.content[content.offset : content.offset + 4]
            orders: dict[bytes, Order] = {b"\1\0\0\0": "<", b"\0\0\0\1": ">"}
            if mark not in orders:
                raise truncated("a number 1 that tells the order of bytes", repr(mark))
            content.offset += 4
            content.order = orders[mark]
        elif kind != b"0":
            raise Flaw("unknown kind of mesh file", expected="0 (text) or 1 (binary)", actual=repr(kind))

    def _counts(self, count: int, subject: str, dtype: np.dtype[Any] | None = None) -> list[int]:
        """Read integers; in binary files, the version determines their width."""
        counts = self._content.array(
            count, (dtype or self._size) if self._content.order else np.int64, subject
        ).tolist()
        if min(counts, default=0) < 0 and dtype is None:
            raise Flaw("the mesh is damaged", expected=f"a number of {subject}", actual=min(counts))
        return [int(number) for number in counts]

    def _count(self, subject: str) -> int:
        """Read the count at the start of a section; up to version 2, it is text in binary files too."""
        content = self._content
        count = content.count(subject)
        if not content.order and _REST_OF_LINE.match(content.content, content.offset):
            raise Flaw("the mesh is damaged", expected=f"a line with the number of {subject} alone", actual=count)
        return count

    def _begin(self) -> None:
        """In binary files of version 2, skip the end of the line before a section's data."""
        content = self._content
        if content.order:
            content.offset = content.content.index(b"\n", content.offset) + 1

    # nodes

    def _read_nodes(self) -> None:
        if self._version.startswith("4"):
            self._read_entities_nodes()
            return
        content, count = self._content, self._count("nodes")
        self._begin()
        if content.order:
            rows = content.raw(count, np.dtype([("number", _INT), ("x", _REAL, (3,))]), "nodes")
            self._nodes.append((rows["number"].astype(np.int64), rows["x"]))
            return
        line = content.content[content.offset :].split(b"\n", 2)[:2]
        if self._version == "1" and len(b" ".join(line).split()) > 4:
            self._read_lines(count, b"$ENDNOD")
            return
        table = content.numbers(4 * count, np.float64, "nodes").reshape(count, 4)
        self._nodes.append((whole_numbers(table[:, 0], "nodes"), table[:, 1:]))

    def _read_lines(self, count: int, end: bytes) -> None:
        """Read nodes as text: number and coordinates of each line, of the entity and parameters behind them nothing."""
        content = self._content
        offset = content.content.find(end, content.offset)
        if offset < 0:
            raise truncated(end.decode(), "the end of the file")
        lines = [line for line in content.content[content.offset : offset].split(b"\n") if line.strip()]
        if len(lines) != count:
            raise truncated(f"{count:,} lines, a node each", f"{len(lines):,}")
        self._check_parameters(lines)
        table = Content(b" ".join(b" ".join(line.split()[:4]) for line in lines))
        rows = table.numbers(4 * count, np.float64, "nodes").reshape(count, 4)
        self._nodes.append((whole_numbers(rows[:, 0], "nodes"), rows[:, 1:]))
        content.offset = offset

    def _read_parametric(self) -> None:
        """Read nodes of version 2 with entities and parameters."""
        content, count = self._content, self._count("nodes")
        self._begin()
        if not content.order:
            self._read_lines(count, b"$EndParametricNodes")
            return
        head = np.dtype([("number", _INT), ("x", _REAL, (3,)), ("entity", _INT, (2,))])
        numbers, points = [], []
        for _ in range(count):
            row = content.raw(1, head, "nodes")[0]
            numbers.append(int(row["number"]))
            points.append(row["x"])
            dimension = int(row["entity"][0])
            content.raw(self._parameters(dimension) if dimension < 3 else 0, _REAL, "parameters of nodes")
        self._nodes.append((np.array(numbers, np.int64), np.array(points).reshape(-1, 3)))

    def _check_parameters(self, lines: list[bytes]) -> None:
        for tokens in map(bytes.split, lines):
            dimension = whole(tokens[4], "dimensions of a node's entity") if len(tokens) > 5 else -1
            if len(tokens) not in (6, 6 + self._parameters(dimension)):
                raise Flaw(
                    "the mesh is damaged: a line of nodes has a word too many or too few",
                    expected="number, coordinates, an entity's dimension and number, a parameter for each dimension",
                    actual=repr(b" ".join(tokens)[:80].decode(errors="replace")),
                )

    def _parameters(self, dimension: int) -> int:
        if dimension not in _PARAMETERS:
            raise Flaw("the mesh is damaged: a node is on no entity", expected="0 to 3 dimensions", actual=dimension)
        return _PARAMETERS[dimension]

    def _read_entities_nodes(self) -> None:
        """Read nodes of version 4 by entity."""
        content, is_version_4_1 = self._content, self._version == "4.1"
        head = self._counts(4 if is_version_4_1 else 2, "nodes")
        for _ in range(head[0]):
            first, second, parametric = self._counts(3, "an entity", _INT)
            (count,) = self._counts(1, "nodes of an entity")
            width = 3 + (self._parameters(first if is_version_4_1 else second) if parametric else 0)
            if is_version_4_1:
                numbers = content.array(count, self._size if content.order else np.int64, "numbers of nodes")
                points = content.array(width * count, np.float64, "nodes").reshape(count, width)
            elif content.order:
                rows = content.raw(count, np.dtype([("number", _INT), ("x", _REAL, (width,))]), "nodes")
                numbers, points = rows["number"], rows["x"]
            else:
                table = content.numbers((1 + width) * count, np.float64, "nodes").reshape(count, 1 + width)
                numbers, points = whole_numbers(table[:, 0], "nodes"), table[:, 1:]
            self._nodes.append((numbers.astype(np.int64), points[:, :3]))
        self._check_sum(head[1], sum(len(tags) for tags, _ in self._nodes), "nodes")

    @staticmethod
    def _check_sum(declared_count: int, actual_count: int, subject: str) -> None:
        if declared_count != actual_count:
            raise Flaw(
                f"the mesh is damaged: the number of {subject} of its entities is wrong",
                expected=f"{declared_count:,} {subject}",
                actual=f"{actual_count:,}",
            )

    # elements

    def _read_elements(self) -> None:
        if self._version.startswith("4"):
            self._read_entities_elements()
        elif self._content.order:
            self._read_binary_elements()
        else:
            self._read_listed_elements()

    def _read_entities_elements(self) -> None:
        content, is_version_4_1 = self._content, self._version == "4.1"
        head = self._counts(4 if is_version_4_1 else 2, "elements")
        element_count = 0
        index = (self._size if is_version_4_1 else _INT) if content.order else np.dtype(np.int64)
        for _ in range(head[0]):
            first, second, kind = self._counts(3, "an entity", _INT)
            (count,) = self._counts(1, "elements of an entity")
            width = 1 + self._corners(kind)
            rows = content.array(width * count, index, "elements").reshape(count, width).astype(np.int64)
            element_count += count
            dimension, entity = (first, second) if is_version_4_1 else (second, first)
            if (dimension, entity) not in self._interfaces:
                self._elements.append(Elements(kind, rows[:, 0], rows[:, 1:], entity=entity))
        self._check_sum(head[1], element_count, "elements")

    def _read_binary_elements(self) -> None:
        """Read elements of version 2, several after each header."""
        content, count, element_count = self._content, self._count("elements"), 0
        self._begin()
        while element_count < count:
            kind, following, tags = self._counts(3, "elements", _INT)
            if following < 1 or tags < 0:
                raise Flaw("the mesh is damaged", expected="elements behind a header", actual=f"{following}, {tags}")
            width = 1 + tags + self._corners(kind)
            rows = content.raw(width * following, _INT, "elements").reshape(following, width).astype(np.int64)
            self._add_rows(kind, tags, rows[:, 0], rows[:, 1:])
            element_count += following
        self._check_sum(count, element_count, "elements")

    def _read_listed_elements(self) -> None:
        """Read text elements of versions 1 and 2, in blocks of lines with equally many numbers."""
        content, count = self._content, self._count("elements")
        name = b"$ENDELM" if self._version == "1" else b"$EndElements"
        end = content.content.find(name, content.offset)
        if end < 0:
            raise truncated(name.decode(), f"no {name.decode()}")
        text = content.content[content.offset : end]
        table = Content(text).rest(np.int64, "elements")
        content.offset = end
        offset, element_count = 0, 0
        widths: list[Numbers] = []
        tag_counts: set[tuple[int, int]] = set()
        while offset < len(table):
            first_row = table[offset : offset + 5]
            if len(first_row) < 3 or (self._version == "1" and len(first_row) < 5):
                raise truncated(f"{count:,} elements", f"{element_count:,} and a part of one")
            kind, tags = int(first_row[1]), 3 if self._version == "1" else int(first_row[2])
            corners = self._corners(kind)
            if tags < 0 or (self._version == "1" and first_row[4] != corners):
                raise Flaw("the mesh is damaged: an element has the wrong number of nodes for its type",
                           expected=corners, actual=f"element {first_row[0]}")  # fmt: skip
            leading_columns = 2 if self._version == "1" else 3
            width = leading_columns + tags + corners
            rows = self._run(table, offset, width, leading_columns)
            if not len(rows):
                raise truncated(f"{count:,} elements", f"{element_count:,} and a part of one")
            self._add_rows(kind, tags, rows[:, 0], rows[:, leading_columns:])
            widths.append(np.full(len(rows), width))
            self._check_listed(kind, tags, rows[:, leading_columns:])
            tag_counts.add((KINDS[kind][1], 0 if self._version == "1" else tags))
            offset += rows.size
            element_count += len(rows)
        self._check_sum(count, element_count, "elements")
        if widths:
            check_lines(text, np.concatenate(widths), "elements")
            self._check_tags(tag_counts)

    def _check_listed(self, kind: int, tags: int, rows: Numbers) -> None:
        """Refuse elements that a word too many makes of another one: partitions miscounted, or a node twice.

        The third of several tags is the number of partitions, whose numbers follow.
        """
        has_wrong_tags = self._has_partitions and tags > 2 and bool((rows[:, 2] != tags - 3).any())
        nodes = np.sort(rows[:, tags:], axis=1)
        if has_wrong_tags or (kind in _SIMPLICES and (nodes[:, 1:] == nodes[:, :-1]).any()):
            raise Flaw(
                "the mesh is damaged: an element has a node twice, or the wrong number of partitions",
                expected="number, type, number of tags, tags (a group, an entity, partitions), nodes that differ",
                actual=f"elements of type {kind} with {tags} tags and {nodes.shape[1]} nodes",
            )

    @staticmethod
    def _check_tags(tag_counts: set[tuple[int, int]]) -> None:
        """Raise `Flaw` if only some elements of the highest dimension have partition tags."""
        highest = max(dimension for dimension, _ in tag_counts)
        counts = [tags for dimension, tags in tag_counts if dimension == highest]
        if max(tags for _, tags in tag_counts) > 2 and min(counts) <= 2:
            raise Flaw(
                "the mesh is damaged: some elements are in partitions and others, of the highest dimension, are not",
                expected="as many tags for each, or partitions for all",
                actual=f"{', '.join(map(str, sorted({tags for _, tags in tag_counts})))} tags",
            )

    @staticmethod
    def _run(table: Numbers, offset: int, width: int, leading_columns: int) -> Numbers:
        """Return consecutive rows from `offset` on that have one type and number of tags."""
        max_rows, row_count = (len(table) - offset) // width, 1
        if not max_rows:
            return np.empty((0, leading_columns), np.int64)
        while True:
            row_count = min(2 * row_count, max_rows)
            rows = table[offset : offset + row_count * width].reshape(row_count, width)
            differs = (rows[:, 1:leading_columns] != rows[:1, 1:leading_columns]).any(axis=1)
            if differs.any():
                return rows[: int(np.argmax(differs))]
            if row_count == max_rows:
                return rows

    def _add_rows(self, kind: int, tags: int, numbers: Numbers, nodes: Numbers) -> None:
        """Add elements of versions 1 and 2, whose first tag is the group and second the entity."""
        none = np.zeros(len(numbers), np.int64)
        groups = nodes[:, 0] if tags > 0 else none
        entities = nodes[:, 1] if tags > 1 else none
        self._elements.append(Elements(kind, numbers, nodes[:, tags:], groups, entities))

    @staticmethod
    def _corners(kind: int) -> int:
        if kind not in KINDS:
            raise Flaw(
                "the mesh has elements of an unsupported type",
                expected="linear triangles or tetrahedra (types 2 and 4), and others of Gmsh's types beside them",
                actual=f"type {kind}",
                todo="export the whole mesh with linear triangles or tetrahedra (order 1)",
            )
        return KINDS[kind][2]

    # partitions

    def _read_partitions(self) -> None:
        """Record entities on borders between partitions, which are not part of the mesh; their parents have a higher
        dimension.
        """
        content = self._content
        self._counts(1, "partitions")
        (ghosts,) = self._counts(1, "ghost entities")
        self._counts(2 * ghosts, "ghost entities", _INT)
        counts = self._counts(4, "entities")
        for dimension, count in enumerate(counts):
            for _ in range(count):
                tag, parent, _ = self._counts(3, "an entity", _INT)
                if parent > dimension:
                    self._interfaces.add((dimension, tag))
                self._partitions()
                content.array(3 if dimension == 0 and self._version == "4.1" else 6, np.float64, "a box")
                for _ in range(1 if dimension == 0 else 2):
                    (extra_count,) = self._counts(1, "groups or borders")
                    self._counts(extra_count, "groups or borders", _INT)

    def _partitions(self) -> None:
        (parts,) = self._counts(1, "partitions")
        self._counts(parts, "partitions", _INT)

    # the whole

    def _joined(self) -> Contents:
        """Return nodes sorted by number, and each element once."""
        numbers, points = self._numbered()
        cells = []
        for kind in dict.fromkeys(element.type for element in self._elements):
            parts = [element for element in self._elements if element.type == kind]
            nodes = renumbered(unique_elements(parts), numbers, "nodes")
            name, dimension, _ = KINDS[kind]
            cells.append(Cells(name, dimension, nodes))
        return points, cells

    def _numbered(self) -> tuple[Numbers, Floats]:
        """Return the numbers of all nodes, ascending, and their points."""
        numbers = np.concatenate([tags for tags, _ in self._nodes]) if self._nodes else np.empty(0, np.int64)
        points = np.concatenate([coordinates for _, coordinates in self._nodes]) if self._nodes else np.empty((0, 3))
        if len(numbers) and (np.diff(numbers) <= 0).any():
            order = np.argsort(numbers, kind="stable")
            numbers, points = numbers[order], points[order]
            is_repeated = np.concatenate([[False], np.diff(numbers) == 0])
            has_same_point = (points[1:] == points[:-1]).all(axis=1)
            # nodes on borders between partitions are repeated
            if is_repeated.any() and has_same_point[is_repeated[1:]].all():
                numbers, points = numbers[~is_repeated], points[~is_repeated]
        return numbers, points


_NAME = re.compile(rb'(\d+)\s+(-?\d+)\s+"(.*)"')


def read_group(path: Path, group: str | int) -> Floats:
    """Return the points `(p, 3)` of all elements of a group; `Flaw` if the group does not exist or has no elements."""
    return _GroupReader(open_content(path)).points_of(group)


class _GroupReader(Reader):
    def __init__(self, content: Content) -> None:
        super().__init__(content)
        #: Dimension and number of each named group.
        self._names: dict[str, list[tuple[int, int]]] = {}
        #: Numbers of the groups of each entity (dimension, number).
        self._groups: dict[tuple[int, int], list[int]] = {}

    def _sections(self) -> dict[str, Callable[[], None]]:
        return {**super()._sections(), "PhysicalNames": self._read_names, "Entities": self._read_entities}

    def _read_names(self) -> None:
        for _ in range(self._count("physical groups")):
            line = self._content.line()
            match = _NAME.fullmatch(line)
            if match is None:
                raise truncated('dimension, number and "name" of a physical group', repr(line[:40]))
            name = match[3].decode(errors="replace")
            self._names.setdefault(name, []).append((int(match[1]), int(match[2])))

    def _read_entities(self) -> None:
        """Read which groups each entity belongs to; version 4 alone has this section."""
        content = self._content
        for dimension, count in enumerate(self._counts(4, "entities")):
            for _ in range(count):
                (entity,) = self._counts(1, "an entity", _INT)
                content.array(3 if dimension == 0 and self._version == "4.1" else 6, np.float64, "a box")
                (number,) = self._counts(1, "groups of an entity")
                self._groups[dimension, entity] = [abs(tag) for tag in self._counts(number, "groups", _INT)]
                if dimension:
                    (borders,) = self._counts(1, "borders of an entity")
                    self._counts(borders, "borders", _INT)

    def points_of(self, group: str | int) -> Floats:
        self.read()
        dimension_groups = self._names.get(str(group), [])
        if isinstance(group, int):
            dimension_groups = dimension_groups or [(dimension, group) for dimension in range(4)]
        numbers, points = self._numbered()
        nodes = [np.empty(0, np.int64)]
        for elements in self._elements:
            dimension = KINDS[elements.type][1]
            group_numbers = [number for dimension_of, number in dimension_groups if dimension_of == dimension]
            if elements.groups is not None:
                group_nodes = elements.nodes[np.isin(np.abs(elements.groups), group_numbers)]
            else:
                of_entity = self._groups.get((dimension, elements.entity or 0), [])
                group_nodes = elements.nodes if set(of_entity) & set(group_numbers) else elements.nodes[:0]
            nodes.append(renumbered(group_nodes, numbers, "nodes").ravel())
        node_numbers = np.unique(np.concatenate(nodes))
        if not len(node_numbers):
            raise Flaw(
                "the mesh has no elements of this physical group",
                expected=f"one of {', '.join(self._names)}" if self._names else "a group by its number",
                actual=str(group),
                todo="correct `group:`; by default Gmsh saves only elements with a group",
            )
        return np.ascontiguousarray(points[node_numbers][:, :3], np.float64)
