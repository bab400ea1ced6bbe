"""fem/nut_37k: a hexagonal nut as parametric CAD, of about 37,000 tetrahedra, meshed by Gmsh."""

from __future__ import annotations

from math import cos, hypot, pi, sin, sqrt
from typing import Any

from repro.problems.recipes import Floats, Made, MeshRecipe, SurfaceSource, mesh_solid, register, versions

# An M10 nut, in mm: width across flats, height, radius and pitch of the thread (ISO 4032 and 261)
WIDTH, HEIGHT, RADIUS, PITCH, TURNS = 16.0, 8.4, 5.0, 1.5, 5
CREST = RADIUS - 0.61 * PITCH
CHAMFER = 0.6
# Edge lengths at the thread and at the corners of the hexagon: the published mesh has many surface vertices
FINE, COARSE = 0.301, 2.2


def draw(occ: Any) -> None:
    """Draw a hexagonal prism, intersected with a body of revolution that has the thread and the chamfers."""
    corner = WIDTH / sqrt(3)
    hexagon = [(corner * cos(i * pi / 3), corner * sin(i * pi / 3), 0.0) for i in range(6)]
    prism = occ.extrude([(2, _polygon(occ, hexagon))], 0, 0, HEIGHT)
    # the thread is made of rings instead of a helix, so that it is a body of revolution
    start = (HEIGHT - TURNS * PITCH) / 2
    profile = [(RADIUS, 0.0), (RADIUS, start)]
    for i in range(TURNS):
        foot = start + i * PITCH
        profile += [(CREST, foot + 0.4 * PITCH), (CREST, foot + 0.6 * PITCH), (RADIUS, foot + PITCH)]
    inner, outer = 0.97 * WIDTH / 2, corner + 0.1
    profile += [(RADIUS, HEIGHT), (inner, HEIGHT), (outer, HEIGHT - CHAMFER), (outer, CHAMFER), (inner, 0.0)]
    turned = occ.revolve([(2, _polygon(occ, [(r, 0.0, z) for r, z in profile]))], 0, 0, 0, 0, 0, 1, 2 * pi)
    occ.intersect(_solids(prism), _solids(turned))


def size_at(position: Floats) -> float:
    return FINE if hypot(position[0], position[1]) < RADIUS + 1e-6 else COARSE


def make(_: SurfaceSource) -> Made:
    """Build the mesh; no input surface is needed."""
    notes = ("an M10 nut with ring grooves for its thread", f"made with {versions('gmsh')}")
    return Made(*mesh_solid(draw, {}, size_at), notes)


def _polygon(occ: Any, corners: list[tuple[float, float, float]]) -> int:
    points = [occ.addPoint(*corner) for corner in corners]
    lines = [occ.addLine(points[i - 1], points[i]) for i in range(len(points))]
    surface: int = occ.addPlaneSurface([occ.addCurveLoop(lines)])
    return surface


def _solids(entities: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [entity for entity in entities if entity[0] == 3]


register(MeshRecipe("nut_37k", make, ell_factor=2.6))
