"""Filtering of discontinuous Galerkin fields on unstructured meshes (King 2017, chapters 2 to 4).

Every module of the study imports these constants, so that this file imports nothing at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repro.bench.rows import ClockName
    from repro.results.published import Published


STUDY_NAME = "dg_postprocessing"
CITED = "King 2017, chapters 2 to 4"
REFERENCE = (
    "King: Reducing Irregularities in Control Flow and Memory Access on Graphics Processing Unit Architectures, "
    "dissertation, University of Utah 2017, chapters 2 to 4; of chapter 3 also King, Kirby: A Scalable, Efficient "
    "Scheme for Evaluation of Stencil Computations over Unstructured Meshes, SC 2013, doi 10.1145/2503210.2503214."
)
#: Numbers of patches in Figure 3.7.
PATCHES = 16
#: Cell sizes of the search grids of centroids and of points, in units of the longest edge (section 3.2).
CENTROID_CELL, POINT_CELL = 1.0, 0.5
#: The polynomial degree for which Table 3.1 counts intersection tests.
COUNTED_DEGREE = 1
#: Parts that are timed besides the search and can be disabled. In the plane: the filter as a matrix, a separate kernel
#: width h for each point, several devices. In space: the sums of each point's regions, and clipping on the device.
MATRIX, LOCAL, DEVICES, SUMS, CLIP = PARTS = ("matrix", "local", "devices", "sums", "clip")
#: Number of triangles in the largest mesh that is filtered with a separate kernel width h for each point.
MAX_LOCAL_TRIANGLES = 20_000
#: For rows over several devices: the kind of row, and the names of methods.
SEVERAL, FILTER, GATHER = "several", "filter", "gather"
#: The tunings: the best of all variants, and the best of the paper's.
JOINT, PAPERS = "joint", "paper"
#: Clocks. Direct filtering: events, since its launches are long and a graph of many launches would not be more exact.
#: Products with the matrix: graphs, since some launches are short. Making the matrix: the host's clock, since it
#: allocates memory and reads sizes back during the launch.
FILTER_CLOCK: ClockName = "event"
PRODUCT_CLOCK: ClockName = "graph"
HOST_CLOCK: ClockName = "host"
#: The fields on chapter 4's mesh, by degree.
CUBES = {1: "siac/cubes_10_p1", 2: "siac/cubes_10_p2"}


#: Columns of the files in `config/published/dg_postprocessing`.
PUBLISHED = {
    "sizes": ("table", "gpu", "problem", "entry", "printed", "variance", "degree"),
    "tests": ("table", "gpu", "problem", "printed", "per_point", "per_element", "ratio"),
    "text": ("table", "gpu", "quantity", "variance", "degree", "value"),
    "width": ("table", "gpu", "degree", "vector_width", "gain"),
    "machine": ("table", "gpu", "quantity", "unit", "cpu", "value"),
}
#: Columns of `config/targets/dg_postprocessing.csv`.
TARGETS = ("quantity", "wanted", "what")
#: The GPU for which the text states numbers.
STATED_GPU = "M2090"
OVER_POINT = "per element over per point"
MIN_OVER_POINT = "per element over per point, least"
MAX_OVER_POINT = "per element over per point, most"
#: Sentences on inconsistencies in the text, which tables and figures print beside its numbers.
GAIN_CONTRADICTS = (
    "The text contradicts itself: per element gains less over per point for P = 2 and 3 in section 3.4, but more in "
    "section 3.4.1. Section 3.4.1 states over 2× and over 3×, the conclusions 2× to 6×."
)
CELLS_CONTRADICT = (
    "The text’s ⌈1/c⌉ cells per direction, with index ⌊x/c⌋, end in a cell that is cut off, and a halo of one cell "
    "that wraps onto it is too thin. Only the counts follow the text; all filtering uses ⌊1/c⌋ equal cells."
)


def stated_number(published: Published, quantity: str, variance: str = "", degree: int | None = None) -> float | None:
    """Return a number stated in the text, for a family and degree if given; None if none is stated."""
    row_key = (quantity, variance, "" if degree is None else str(degree))
    for item in published.tables.get("text", []):
        if (item["quantity"], item["variance"], item["degree"]) == row_key:
            return float(item["value"])
    return None
