"""Gmsh's elements: their types, and each of them once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro.problems.meshreaders.cells import Numbers

#: Corners of elements by type, by kind and dimension; a kind's name has the corners behind it where they are more.
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
_LINEAR = (1, 2, 3, 4, 5, 6, 7, 15)
#: Kind, dimension and corners of elements by type.
KINDS = {
    number: (kind if number in _LINEAR else f"{kind}{corners}", dimension, corners)
    for (kind, dimension), types in _TYPES.items()
    for number, corners in types.items()
}


@dataclass(frozen=True)
class Elements:
    """Elements of one type: their numbers, the groups and the entities that they are in, `(c,)`, and nodes `(c, k)`."""

    type: int
    numbers: Numbers
    nodes: Numbers
    groups: Numbers | None = None
    entities: Numbers | None = None


def once(parts: list[Elements]) -> Numbers:
    """Return the nodes of elements of one type, each element once.

    It is the same one if the nodes are the same and the number is, or, in versions 1 and 2, the entity is and the group
    is not: Gmsh repeats it there under another number for each group, turned round where the group is.
    """
    numbers, nodes = (np.concatenate(of) for of in zip(*((of.numbers, of.nodes) for of in parts), strict=True))
    if parts[0].groups is None:
        if len(np.unique(numbers)) == len(numbers):
            return nodes
        groups = entities = np.zeros(len(nodes), np.int64)
    else:
        groups = np.concatenate([of.groups for of in parts if of.groups is not None])
        entities = np.concatenate([of.entities for of in parts if of.entities is not None])
        if len(np.unique(numbers)) == len(numbers) and len(np.unique(groups)) < 2:
            return nodes
    keys = np.column_stack([np.sort(nodes, axis=1), entities])
    order = np.lexsort(keys.T)
    new = np.concatenate([[True], (np.diff(keys[order], axis=0) != 0).any(axis=1)])
    first = np.empty(len(nodes), np.int64)
    first[order] = order[new][np.cumsum(new) - 1]  # of the same elements the first, since the sort is stable
    here = np.arange(len(nodes))
    again = (first != here) & ((groups != groups[first]) | (numbers == numbers[first]))
    return np.asarray(nodes[~again])
