"""fem/NX_MotorH67k: a motor housing as parametric CAD, of about 67,000 vertices, meshed by Gmsh.

fem/motor_257k is the same housing meshed finer, for a matrix that is larger than the caches of today's GPUs.
"""

from __future__ import annotations

from functools import partial
from math import cos, pi, sin
from typing import Any

from repro.problems.recipes import Made, MeshRecipe, SurfaceSource, mesh_solid, register, versions

# In mm. Along the z axis from the flange to the end shield with the bearing's seat; feet below.
LENGTH, RADIUS, BORE = 150.0, 62.0, 44.0
FLANGE, FLANGE_RADIUS, BOLTS, BOLT_RADIUS = 16.0, 80.0, 8, 3.5
SHIELD, SHAFT_RADIUS, SEAT, SEAT_RADIUS = 20.0, 18.0, 8.0, 30.0
FINS, FIN_WIDTH, FIN_HEIGHT = 12, 8.0, 10.0
BOX, BOX_WALL, BOX_CENTRE = 64.0, 9.0, 77.0  # terminal box: edge length, wall thickness, z
# Edge lengths of the two meshes
EDGE, FINE_EDGE = 2.81, 1.69

Entity = tuple[int, int]


def draw(occ: Any) -> None:
    """Draw the housing: the union of all added parts minus the union of all removed parts."""
    solid, _ = occ.fuse(
        [_cylinder(occ, 0, LENGTH, RADIUS)],
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


def make(_: SurfaceSource, edge: float) -> Made:
    """Build a mesh with the given edge length in mm; no input surface is needed."""
    notes = ("a finned housing with flange, feet and terminal box", f"made with {versions('gmsh')}")
    return Made(*mesh_solid(draw, {"Mesh.MeshSizeMax": edge}), notes)


def _cylinder(occ: Any, z: float, length: float, radius: float, x: float = 0, y: float = 0) -> Entity:
    return 3, occ.addCylinder(x, y, z, 0, 0, length, radius)


def _box(occ: Any, bottom: float, edge: float, height: float) -> Entity:
    """Draw a box at the terminal box, square in top view."""
    return 3, occ.addBox(-edge / 2, bottom, BOX_CENTRE - edge / 2, edge, height, edge)


def _fins(occ: Any) -> list[Entity]:
    fins = []
    for i in range(FINS):
        # starting inside the shell, so that the union has no gap
        low, length = RADIUS - 4, LENGTH - FLANGE - 10
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
    circle = (RADIUS + FLANGE_RADIUS) / 2
    angles = [2 * pi * (i + 0.5) / BOLTS for i in range(BOLTS)]
    return [_cylinder(occ, -1, FLANGE + 2, BOLT_RADIUS, circle * cos(a), circle * sin(a)) for a in angles]


register(MeshRecipe("NX_MotorH67k", partial(make, edge=EDGE), ell_factor=1.9))
register(MeshRecipe("motor_257k", partial(make, edge=FINE_EDGE)))
