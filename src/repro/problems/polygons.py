"""Polygons cut into triangles, concave ones among them, whichever of its corners a polygon begins with.

A polygon is looked at from its side of larger area: its corners are projected along the normal that their cross
products sum up to. A fan is taken where each of its triangles is turned as the polygon is and they go round its corner
once at most; that is tried from the corner with the least number on. Where there is none, ears are cut, the best shaped
one first. Of the libraries that do this, those that keep the corners' numbers need whole graphics stacks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Floats
from repro.problems.meshreaders.cells import Cells

Corners = NDArray[np.int64]
#: A triangle of a fan has more than this of its longest edge squared, twice over; thinner ones are left to the ears.
THIN = 1e-6
#: A triangle of less has no area beyond rounding.
FLAT = 1e-12
#: How far corners may be from their polygon's plane, in units of its size, before a note says so.
PLANE = 1e-6
#: From how many corners fans are tried.
_FANS = 8


def cut(points: Floats, blocks: list[Cells], path: Path) -> tuple[Corners, tuple[str, ...]]:
    """Return the triangles `(t, 3)` of faces, in the order of the file, and notes on those that were cut.

    Parameters
    ----------
    points
        The vertices `(p, 3)`; all that faces name are there and finite.
    blocks
        Faces of three corners or more.

    Raises
    ------
    ReproError
        A polygon crosses itself, has no area, or is bent so far that it has no side.
    """
    faces, places, number, bent = [], [], 0, 0
    before = 0
    for block in blocks:
        data = block.data
        at = np.arange(before, before + len(data)) if block.places is None else block.places
        before += len(data)
        triangles = data[:, None]
        if data.shape[1] > 3 and len(data):
            triangles, warped = _cut_alike(points, data, at, path)
            number += len(data)
            bent += warped
        faces.append(triangles.reshape(-1, 3))
        places.append(np.repeat(at, data.shape[1] - 2))
    order = np.argsort(np.concatenate(places), kind="stable")
    notes = [f"{number} polygons cut into triangles"] if number else []
    if bent:
        notes.append(f"{bent} of them with corners that are not in one plane")
    return np.concatenate(faces)[order], tuple(notes)


def _cut_alike(points: Floats, polygons: Corners, places: Corners, path: Path) -> tuple[Corners, int]:
    """Return the triangles `(c, k - 2, 3)` of polygons `(c, k)`, and how many are not plane."""
    size = polygons.shape[1]
    # begun with the least number, so that the triangles do not depend on where the file begins
    turn = (np.argmin(polygons, axis=1)[:, None] + np.arange(size)) % size
    polygons = np.take_along_axis(polygons, turn, axis=1)
    flat, height = _projected(points[polygons])
    open_ = np.ones(len(polygons), bool)
    triangles = np.empty((len(polygons), size - 2, 3), np.int64)
    for start in range(min(size, _FANS)):
        left = np.flatnonzero(open_)
        if not left.size:
            break
        turned = np.roll(np.arange(size), -start)
        fits = left[_is_fan(flat[left][:, turned])]
        corners = polygons[fits][:, turned]
        triangles[fits] = np.stack(
            [np.broadcast_to(corners[:, :1], corners[:, 2:].shape), corners[:, 1:-1], corners[:, 2:]], axis=-1
        )
        open_[fits] = False
    for i in np.flatnonzero(open_):
        ears = _ears(flat[i])
        if ears is None:
            raise ReproError(
                "the mesh has polygons that cannot be cut into triangles",
                where=path,
                expected="polygons whose border does not cross or touch itself, nearly in a plane, with an area",
                actual=f"one of {size} corners, number {places[i]} (counted from 0)",
                todo="cut them into triangles where the mesh was made, or repair it there",
            )
        triangles[i] = polygons[i][ears]
    extent = np.abs(flat).reshape(len(flat), -1).max(axis=1)
    return triangles, int(np.count_nonzero(height > PLANE * extent))


def _projected(corners: Floats) -> tuple[Floats, Floats]:
    """Return polygons `(c, k, 3)` in their planes, `(c, k, 2)` and counterclockwise, and how far they leave them."""
    away = corners - corners.mean(axis=1, keepdims=True)
    normal = np.cross(away, np.roll(away, -1, axis=1)).sum(axis=1)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)
    along = np.eye(3)[np.argmin(np.abs(normal), axis=1)]
    u = np.cross(along, normal)
    u /= np.maximum(np.linalg.norm(u, axis=1, keepdims=True), np.finfo(float).tiny)
    v = np.cross(normal, u)
    flat = np.stack([np.einsum("cki,ci->ck", away, u), np.einsum("cki,ci->ck", away, v)], axis=-1)
    return flat, np.abs(np.einsum("cki,ci->ck", away, normal)).max(axis=1)


def _is_fan(flat: Floats) -> NDArray[np.bool_]:
    """Say of which polygons the triangles at the first corner cover it: none is turned or thin, and none overlap."""
    spokes = flat[:, 1:] - flat[:, :1]
    a, b = spokes[:, :-1], spokes[:, 1:]
    twice = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    longest = np.maximum(np.maximum((a**2).sum(-1), (b**2).sum(-1)), ((b - a) ** 2).sum(-1))
    angles = np.arctan2(twice, (a * b).sum(-1)).sum(axis=1)
    return np.asarray((twice > THIN * longest).all(axis=1) & (angles < 2 * np.pi - THIN))


def _ears(flat: Floats) -> Corners | None:
    """Return the triangles `(k - 2, 3)` of a polygon `(k, 2)` that is counterclockwise; None if its border crosses."""
    count = len(flat)
    if _crosses(flat):
        return None
    left = list(range(count))
    worth = [_worth(flat, left, i) for i in range(count)]
    triangles = []
    while len(left) > 3:
        best = int(np.argmax(worth))
        if worth[best] <= FLAT:
            return None
        size = len(left)
        triangles.append((left[best - 1], left[best], left[(best + 1) % size]))
        del left[best], worth[best]
        for i in ((best - 1) % len(left), best % len(left)):
            worth[i] = _worth(flat, left, i)
    if _shape(*flat[left]) <= FLAT:
        return None
    return np.array([*triangles, left], np.int64)


def _shape(a: Floats, b: Floats, c: Floats) -> float:
    """Return twice the area of a triangle over its longest edge squared; negative where it is clockwise."""
    u, v = b - a, c - a
    longest = max(float(u @ u), float(v @ v), float((v - u) @ (v - u)))
    return float(u[0] * v[1] - u[1] * v[0]) / longest if longest else 0.0


def _worth(flat: Floats, left: list[int], i: int) -> float:
    """Return the shape of the ear at a corner; -1 if there is none, since another corner is in it or on its border."""
    a, b, c = (flat[left[(i + step) % len(left)]] for step in (-1, 0, 1))
    shape = _shape(a, b, c)
    if shape <= FLAT:
        return -1.0
    others = flat[left]
    ends = np.stack([a, b, c])
    others = others[~(others[:, None] == ends).all(axis=-1).any(axis=1)]
    sides = np.roll(ends, -1, axis=0) - ends
    to = others[:, None] - ends
    within = sides[:, 0] * to[..., 1] - sides[:, 1] * to[..., 0] >= -FLAT * (sides**2).sum(-1)
    return -1.0 if within.all(axis=1).any() else shape


def _crosses(flat: Floats) -> bool:
    """Say whether two edges of a polygon cross between their ends."""
    ends = np.roll(flat, -1, axis=0)
    for i in range(len(flat) - 2):
        a, b, c, d = flat[i], ends[i], flat[i + 2 :], ends[i + 2 :]
        if (_side(a, b, c) * _side(a, b, d) < 0)[(_side(c, d, a) * _side(c, d, b) < 0)].any():
            return True
    return False


def _side(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return twice the area of triangles, positive where they are counterclockwise."""
    return np.asarray((b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0])
