"""Reconstructed meshes of the papers: Stanford's scans filled with tetrahedra, and machine parts from parametric CAD.

fem/armadillo_1000.1 is simplified to some 900 vertices and filled by Gmsh. fem/bunny2.4M, with nearly all vertices on
its surface, and fem/dragon_100K, of about 100,000 tetrahedra, are filled by TetGen.

Gmsh meshes a nut of about 37,000 tetrahedra, and a motor housing: fem/NX_MotorH67k has about 67,000 vertices,
fem/motor_257k is the same housing meshed finer, for a matrix that is larger than the caches of today's GPUs.
"""

from __future__ import annotations

from functools import partial
from math import cos, hypot, pi, sin, sqrt
from typing import Any

from repro.problems import recipes

# scans ---------------------------------------------------------------------------------------------------------------


def make_armadillo(source: recipes.SurfaceSource) -> recipes.Made:
    """Build the mesh; if the scan is missing, use the boundary of another tetrahedral mesh of the armadillo."""
    surface, notes = recipes.first_of(source, "surfaces/armadillo", "armadillo_13k")
    # below Gmsh's default 0.3, since the published mesh has many edges and therefore flat tetrahedra
    fill = partial(recipes.fill_by_gmsh, options={"Mesh.OptimizeThreshold": 0.1})
    return recipes.make_from_scan(
        (recipes.repair(surface), notes), fill, "gmsh", faces=1780, rows=1016, aggressiveness=4
    )


recipes.register(recipes.MeshRecipe("armadillo_1000.1", make_armadillo, ell_factor=3.0))


def make_bunny(source: recipes.SurfaceSource) -> recipes.Made:
    """Build the mesh.

    The published mesh has 10.5 entries per row, and one row of about 78. This results from a fine surface with very few
    interior vertices. Tetrahedra are therefore refined only for sharp angles, not for size or radius-edge ratio.
    """
    surface, notes = recipes.first_of(source, "surfaces/bunny")
    fill = partial(recipes.fill_by_tetgen, ratio=30, dihedral=3.5, flattest=140)
    return recipes.make_from_scan(
        (recipes.repair(surface), notes), fill, "tetgen", faces=50250, rows=27112, aggressiveness=1.8
    )


recipes.register(recipes.MeshRecipe("bunny2.4M", make_bunny, ell_factor=7.4))


def make_dragon(source: recipes.SurfaceSource) -> recipes.Made:
    """Build the mesh; if the full surface is missing, use other versions of this scan."""
    scan = recipes.first_of(source, "surfaces/dragon", "dragon_dithered", "dragon_res2")
    # slightly stricter than TetGen's 2, so that the longest row is near the published one of about 33
    fill = partial(recipes.fill_by_tetgen, ratio=1.8, dihedral=3.5, flattest=140)
    return recipes.make_from_scan(scan, fill, "tetgen", faces=39360, rows=26436, aggressiveness=3)


recipes.register(recipes.MeshRecipe("dragon_100K", make_dragon, ell_factor=2.8))


# parts ---------------------------------------------------------------------------------------------------------------

# An M10 nut, in mm: width across flats, height, radius and pitch of the thread (ISO 4032 and 261)
NUT_WIDTH, NUT_HEIGHT, NUT_RADIUS, NUT_PITCH, NUT_TURNS = 16.0, 8.4, 5.0, 1.5, 5
NUT_CREST = NUT_RADIUS - 0.61 * NUT_PITCH
NUT_CHAMFER = 0.6
# Edge lengths at the thread and at the corners of the hexagon: the published mesh has many surface vertices
NUT_FINE, NUT_COARSE = 0.301, 2.2


def draw_nut(occ: Any) -> None:
    """Draw a hexagonal prism, intersected with a body of revolution that has the thread and the chamfers."""
    corner = NUT_WIDTH / sqrt(3)
    hexagon = [(corner * cos(i * pi / 3), corner * sin(i * pi / 3), 0.0) for i in range(6)]
    prism = occ.extrude([(2, _polygon(occ, hexagon))], 0, 0, NUT_HEIGHT)
    # the thread is made of rings instead of a helix, so that it is a body of revolution
    start = (NUT_HEIGHT - NUT_TURNS * NUT_PITCH) / 2
    profile = [(NUT_RADIUS, 0.0), (NUT_RADIUS, start)]
    for i in range(NUT_TURNS):
        foot = start + i * NUT_PITCH
        profile += [
            (NUT_CREST, foot + 0.4 * NUT_PITCH),
            (NUT_CREST, foot + 0.6 * NUT_PITCH),
            (NUT_RADIUS, foot + NUT_PITCH),
        ]
    inner, outer = 0.97 * NUT_WIDTH / 2, corner + 0.1
    profile += [
        (NUT_RADIUS, NUT_HEIGHT),
        (inner, NUT_HEIGHT),
        (outer, NUT_HEIGHT - NUT_CHAMFER),
        (outer, NUT_CHAMFER),
        (inner, 0.0),
    ]
    solid_of_revolution = occ.revolve([(2, _polygon(occ, [(r, 0.0, z) for r, z in profile]))], 0, 0, 0, 0, 0, 1, 2 * pi)
    occ.intersect(_solids(prism), _solids(solid_of_revolution))


def nut_edge(position: recipes.Floats) -> float:
    return NUT_FINE if hypot(position[0], position[1]) < NUT_RADIUS + 1e-6 else NUT_COARSE


def make_nut(_: recipes.SurfaceSource) -> recipes.Made:
    """Build the mesh; no input surface is needed."""
    notes = ("an M10 nut with ring grooves for its thread", f"made with {recipes.versions('gmsh')}")
    return recipes.Made(*recipes.mesh_solid(draw_nut, {}, nut_edge), notes)


def _polygon(occ: Any, corners: list[tuple[float, float, float]]) -> int:
    points = [occ.addPoint(*corner) for corner in corners]
    lines = [occ.addLine(points[i - 1], points[i]) for i in range(len(points))]
    surface: int = occ.addPlaneSurface([occ.addCurveLoop(lines)])
    return surface


def _solids(entities: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [entity for entity in entities if entity[0] == 3]


recipes.register(recipes.MeshRecipe("nut_37k", make_nut, ell_factor=2.6))

# Dimensions of the motor housing in mm; its z axis goes from the flange to the end shield with the bearing's seat.
LENGTH, SHELL_RADIUS, BORE = 150.0, 62.0, 44.0
FLANGE, FLANGE_RADIUS, BOLTS, BOLT_RADIUS = 16.0, 80.0, 8, 3.5
SHIELD, SHAFT_RADIUS, SEAT, SEAT_RADIUS = 20.0, 18.0, 8.0, 30.0
FINS, FIN_WIDTH, FIN_HEIGHT = 12, 8.0, 10.0
BOX, BOX_WALL, BOX_CENTRE = 64.0, 9.0, 77.0  # terminal box: edge length, wall thickness, z
# Edge lengths in mm of the two meshes of the housing
EDGE, FINE_EDGE = 2.81, 1.69

Entity = tuple[int, int]


def draw_housing(occ: Any) -> None:
    """Draw the housing: the union of all added parts minus the union of all removed parts."""
    solid, _ = occ.fuse(
        [_cylinder(occ, 0, LENGTH, SHELL_RADIUS)],
        [_cylinder(occ, 0, FLANGE, FLANGE_RADIUS), *_fins(occ), *_feet(occ), _box(occ, 48, BOX, 46)],
    )
    occ.cut(
        solid,
        [
            _cylinder(occ, -1, LENGTH - SHIELD + 1, BORE),
            _cylinder(occ, LENGTH - SHIELD - 1, SHIELD + 2, SHAFT_RADIUS),
            _cylinder(occ, LENGTH - SEAT, SEAT + 1, SEAT_RADIUS),
            _box(occ, 62, BOX - 2 * BOX_WALL, 46),
            *_bolt_holes(occ),
            *_foot_holes(occ),
        ],
    )


def make_housing(_: recipes.SurfaceSource, edge: float) -> recipes.Made:
    """Build a mesh with the given edge length in mm; no input surface is needed."""
    notes = ("a finned housing with flange, feet and terminal box", f"made with {recipes.versions('gmsh')}")
    return recipes.Made(*recipes.mesh_solid(draw_housing, {"Mesh.MeshSizeMax": edge}), notes)


def _cylinder(occ: Any, z: float, length: float, radius: float, x: float = 0, y: float = 0) -> Entity:
    return 3, occ.addCylinder(x, y, z, 0, 0, length, radius)


def _box(occ: Any, bottom: float, edge: float, height: float) -> Entity:
    """Draw a box with a square base of the given edge length at the position of the terminal box."""
    return 3, occ.addBox(-edge / 2, bottom, BOX_CENTRE - edge / 2, edge, height, edge)


def _fins(occ: Any) -> list[Entity]:
    fins = []
    for i in range(FINS):
        # starting inside the shell, so that the union has no gap
        low, length = SHELL_RADIUS - 4, LENGTH - FLANGE - 10
        fin = 3, occ.addBox(low, -FIN_WIDTH / 2, FLANGE, FIN_HEIGHT + 4, FIN_WIDTH, length)
        occ.rotate([fin], 0, 0, 0, 0, 0, 1, 2 * pi * (i + 0.5) / FINS)
        fins.append(fin)
    return fins


def _feet(occ: Any) -> list[Entity]:
    return [(3, occ.addBox(side * 44 - 18, -84, z, 36, 56, 30)) for z in (30, LENGTH - 50) for side in (-1, 1)]


def _foot_holes(occ: Any) -> list[Entity]:
    centres = [(side * 53, z) for z in (45, LENGTH - 35) for side in (-1, 1)]
    return [(3, occ.addCylinder(x, -90, z, 0, 22, 0, 4.5)) for x, z in centres]


def _bolt_holes(occ: Any) -> list[Entity]:
    circle = (SHELL_RADIUS + FLANGE_RADIUS) / 2
    angles = [2 * pi * (i + 0.5) / BOLTS for i in range(BOLTS)]
    return [_cylinder(occ, -1, FLANGE + 2, BOLT_RADIUS, circle * cos(a), circle * sin(a)) for a in angles]


recipes.register(recipes.MeshRecipe("NX_MotorH67k", partial(make_housing, edge=EDGE), ell_factor=1.9))
recipes.register(recipes.MeshRecipe("motor_257k", partial(make_housing, edge=FINE_EDGE)))
