"""Drawing surfaces side by side: painter's algorithm, soft light, colours by a number a face."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Directions to the eye and to two lights, and how bright the lights are.
EYE = np.array([0.15, 0.25, 1.0])
LIGHTS = ((np.array([-0.5, 0.9, 0.8]), 0.6), (np.array([0.9, 0.2, 0.4]), 0.25))
AMBIENT = 0.42


def draw(path: Path, surfaces: Sequence[tuple[Floats, NDArray[np.int64]]], values: Floats) -> None:
    """Draw surfaces of the same faces, up along y, and write a picture.

    Parameters
    ----------
    path
        File to write.
    surfaces
        Vertices `(v, 3)` and faces `(f, 3)` of each.
    values
        `(f,)`, shown as colours.
    """
    figure, axes = plt.subplots(1, len(surfaces), figsize=(6 * len(surfaces), 6), dpi=150, facecolor="white")
    limit = float(np.abs(values).max()) or 1.0
    base = plt.get_cmap("RdYlBu_r")(0.5 + 0.42 * values / limit)[:, :3] * 0.85 + 0.15
    views = [_project(vertices) for vertices, _ in surfaces]
    reach = max(float(np.ptp(view[:, :2], axis=0).max()) for view in views) / 2 * 1.05
    for axis, view, (_, faces) in zip(np.atleast_1d(axes), views, surfaces, strict=True):
        corners = view[faces]
        shade = _light(view, faces)
        front = np.argsort(corners[:, :, 2].mean(axis=1))
        colours = np.clip(base * shade[:, None], 0, 1)[front]
        axis.add_collection(
            PolyCollection(corners[front][:, :, :2], facecolors=colours, edgecolors=colours, linewidths=0.2)
        )
        middle = (view.max(axis=0) + view.min(axis=0)) / 2
        axis.set_xlim(middle[0] - reach, middle[0] + reach)
        axis.set_ylim(middle[1] - reach, middle[1] + reach)
        axis.set_aspect("equal")
        axis.set_axis_off()
    figure.subplots_adjust(0, 0, 1, 1, 0, 0)
    figure.savefig(path)
    plt.close(figure)


def _project(vertices: Floats) -> Floats:
    """Return coordinates to the right, up, and towards the eye."""
    towards = EYE / np.linalg.norm(EYE)
    right = np.cross([0, 1, 0], towards)
    right /= np.linalg.norm(right)
    return vertices @ np.stack([right, np.cross(towards, right), towards]).T


def _light(view: Floats, faces: NDArray[np.int64]) -> Floats:
    """Return how bright each face is, from normals that are averaged over its vertices, `(f,)`."""
    a, b, c = view[faces].swapaxes(0, 1)
    flat = np.cross(b - a, c - a)
    smooth = np.stack([np.bincount(faces.ravel(), np.repeat(part, 3), len(view)) for part in flat.T], axis=1)
    normals = smooth[faces].mean(axis=1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-300
    towards = np.array([0, 0, 1])
    bright = np.full(len(faces), AMBIENT)
    for direction, strength in LIGHTS:
        unit = direction / np.linalg.norm(direction)
        half = (unit + towards) / np.linalg.norm(unit + towards)
        bright += strength * np.clip(normals @ unit, 0, None) + 0.12 * np.clip(normals @ half, 0, 1) ** 40
    return bright
