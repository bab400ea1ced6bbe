"""Reads the points of a physical group of a Gmsh file: a set of elements that has a number, and mostly a name.

Versions 1 and 2 have a group's number at each element, version 4 at each entity of the geometry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from repro.problems.meshreaders import Content, Flaw, Floats, renumbered, truncated
from repro.problems.meshreaders.gmsh import KINDS, Reader, open_content

_NAME = re.compile(rb'(\d+)\s+(-?\d+)\s+"(.*)"')
_INT = np.dtype(np.int32)


def read_group(path: Path, group: str | int) -> Floats:
    """Return the points `(p, 3)` of all elements of a group; `Flaw` if there is no such group, or it has none."""
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
            found = _NAME.fullmatch(line)
            if found is None:
                raise truncated('dimension, number and "name" of a physical group', repr(line[:40]))
            name = found[3].decode(errors="replace")
            self._names.setdefault(name, []).append((int(found[1]), int(found[2])))

    def _read_entities(self) -> None:
        """Read which groups each entity belongs to; version 4 alone has this section."""
        content = self._content
        for dimension, count in enumerate(self._counts(4, "entities")):
            for _ in range(count):
                (entity,) = self._counts(1, "an entity", _INT)
                content.array(3 if dimension == 0 and self._version == "4.1" else 6, np.float64, "a box")
                (number,) = self._counts(1, "groups of an entity")
                self._groups[dimension, entity] = [abs(of) for of in self._counts(number, "groups", _INT)]
                if dimension:
                    (borders,) = self._counts(1, "borders of an entity")
                    self._counts(borders, "borders", _INT)

    def points_of(self, group: str | int) -> Floats:
        self.read()
        wanted = self._names.get(str(group), [])
        if isinstance(group, int):
            wanted = wanted or [(dimension, group) for dimension in range(4)]
        numbers, points = self._numbered()
        nodes = [np.empty(0, np.int64)]
        for elements in self._elements:
            dimension = KINDS[elements.type][1]
            asked = [number for of, number in wanted if of == dimension]
            if elements.groups is not None:
                chosen = elements.nodes[np.isin(np.abs(elements.groups), asked)]
            else:
                of_entity = self._groups.get((dimension, elements.entity or 0), [])
                chosen = elements.nodes if set(of_entity) & set(asked) else elements.nodes[:0]
            nodes.append(renumbered(chosen, numbers, "nodes").ravel())
        found = np.unique(np.concatenate(nodes))
        if not len(found):
            raise Flaw(
                "the mesh has no elements of this physical group",
                expected=f"one of {', '.join(self._names)}" if self._names else "a group by its number",
                actual=str(group),
                todo="correct `group:`; Gmsh saves no elements without a group unless it is told to save all",
            )
        return np.ascontiguousarray(points[found][:, :3], np.float64)
