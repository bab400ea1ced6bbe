"""What the text of this study is called, and what it prescribes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what builds problems and compiles modules reads this file, and must not load what measures
    from repro.bench.runnable import Clock

STUDY = "dg_postprocessing"
PAPER = "King 2017, chapters 2 to 4"
REFERENCE = (
    "King: Reducing Irregularities in Control Flow and Memory Access on Graphics Processing Unit Architectures, "
    "dissertation, University of Utah 2017, chapters 2 to 4; of chapter 3 also King, Kirby: A Scalable, Efficient "
    "Scheme for Evaluation of Stencil Computations over Unstructured Meshes, SC 2013, doi 10.1145/2503210.2503214."
)
#: Patches of Figure 3.7.
PATCHES = 16
#: Cells of the grids of centroids and of points, in longest edges (section 3.2).
CENTROID_CELL, POINT_CELL = 1.0, 0.5
#: The degree that Table 3.1 counts tests of.
COUNTED_DEGREE = 1
#: What is timed beside what is searched, and can be left out: the filter as a matrix, with an h of each point, and
#: over several devices (in the plane); the sums of each point's regions; clipping on the device (in space).
MATRIX, LOCAL, DEVICES, SUMS, CLIP = PARTS = ("matrix", "local", "devices", "sums", "clip")
#: Triangles of the largest mesh that is filtered with an h of each point.
LOCAL_MOST = 20_000
#: Of rows over several devices: their kind, and what they do.
SEVERAL, FILTER, GATHER = "several", "filter", "gather"
#: The tunings: of all that is tried, and of the paper's.
JOINT, PAPERS = "joint", "paper"
#: The clock of direct filtering, whose launches are long: a graph of many would take longer and tell no more; that of
#: products with the matrix, some of which are short; and that of making the matrix, which allocates and reads sizes
#: back on the way.
CLOCK: Clock = "event"
PRODUCT_CLOCK: Clock = "graph"
HOST: Clock = "host"
#: The GPU of chapter 4.
MACHINE = "K20c"
#: The fields on its mesh, by degree.
CUBES = {1: "siac/cubes_10_p1", 2: "siac/cubes_10_p2"}
