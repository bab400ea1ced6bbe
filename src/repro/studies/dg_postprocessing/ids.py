"""The identities of what is searched: methods to filter in the plane, and kernels that integrate regions in space.

The text of an identity is made and read only here. The space of region kernels has the paper's three numbers
(threads of a region, regions of a block, blocks of a multiprocessor), and ours beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import log2
from typing import Any, Literal, get_args

from repro.bench.rows import ColumnType
from repro.codegen.targets import STATIC_SHARED, Target
from repro.errors import ReproError
from repro.filtering.kernels import BLOCK_SIZES, CONTOUR_BLOCK_SIZES
from repro.studies.dg_postprocessing import CENTROID_CELL, POINT_CELL
from repro.studies.dg_postprocessing.regions import paper_counts
from repro.tuning.variant_space import Point

FilterMethod = Literal["point", "element", "edges", "atomic"]
SPACES = ("paper", "extended")
#: The columns of a row that its name says.
FILTER_COLUMNS: dict[str, ColumnType] = {"way": str, "threads": int, "cell": float, "blocks": int}
#: Sizes of cells that are tried, and blocks (of `element` and `atomic`: patches) for each multiprocessor.
FILTER_CELLS: dict[FilterMethod, tuple[float, ...]] = {
    "point": (0.5, 1.0),
    "element": (0.25, 0.5),
    "edges": (0.25, 0.5, 1.0),
    "atomic": (0.5,),
}
FILTER_BLOCKS: dict[FilterMethod, tuple[int, ...]] = {
    "point": (8, 32),
    "element": (2, 4),
    "edges": (4, 16, 64),
    "atomic": (4, 16),
}
#: Of the CPU, where a launch takes long and the study is a rehearsal: threads, and what is tried beside the paper's.
CPU_THREADS = 16
CPU_FILTERS: tuple[tuple[FilterMethod, float, int], ...] = (("edges", 1.0, 16), ("atomic", 0.5, 4))
_FILTER_TEXT = re.compile(r"(?P<way>\w+)-t(?P<threads>\d+)-c(?P<cell>\d+(\.\d+)?)-b(?P<blocks>\d+)")


@dataclass(frozen=True)
class FilterId:
    """A way to filter a field at points, spelt `edges-t64-c0.5-b16`.

    Attributes
    ----------
    way
        `point`, `element` or `atomic` (per element without copies), which clip, or `edges`, contours per point.
    threads
        Of a block.
    cell
        Of the grid that is searched, in longest edges.
    blocks
        For each multiprocessor; of `element` and `atomic` its patches.
    """

    way: FilterMethod
    threads: int
    cell: float
    blocks: int

    def __str__(self) -> str:
        return f"{self.way}-t{self.threads}-c{self.cell:g}-b{self.blocks}"

    @classmethod
    def parse(cls, text: str) -> FilterId:
        """Read the text of a way; the inverse of `str`.

        Raises
        ------
        ReproError
            It is none.
        """
        match = _FILTER_TEXT.fullmatch(text)
        if match and match["way"] in get_args(FilterMethod):
            id = cls(match["way"], int(match["threads"]), float(match["cell"]), int(match["blocks"]))  # type: ignore[arg-type]
            if all((id.threads, id.cell, id.blocks)) and str(id) == text:
                return id
        raise ReproError("no way to filter", expected="such as edges-t64-c0.5-b16", actual=text)

    @property
    def space(self) -> str:
        """`paper`: a block a multiprocessor, and cells as the text has them; else `extended`."""
        cells = {"point": CENTROID_CELL, "element": POINT_CELL}
        return SPACES[0] if self.blocks == 1 and cells.get(self.way) == self.cell else SPACES[1]

    @property
    def module(self) -> str:
        """The kernels that it is one of."""
        return "element" if self.way == "atomic" else self.way

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row: everything that the text says."""
        return {"way": self.way, "threads": self.threads, "cell": self.cell, "blocks": self.blocks}

    @property
    def point(self) -> Point:
        """Its place in its space, for searches that learn."""
        return Point(self.way, (self.way,), (log2(self.threads), log2(self.cell), log2(self.blocks)))


def filter_point(text: str) -> Point:
    """Return the place of a way that is given by its text.

    Raises
    ------
    ReproError
        It is none.
    """
    return FilterId.parse(text).point


def filter_ids(target: Target, space: str, named: Literal["all"] | Sequence[str] = "all") -> Iterator[FilterId]:
    """Give all ways of a space, or those of some names, the paper's first."""
    return (id for id in _all_filter_ids(target, space) if named == "all" or str(id) in named)


def _all_filter_ids(target: Target, space: str) -> Iterator[FilterId]:
    on_gpu = target.dialect == "cuda"
    threads = BLOCK_SIZES["cuda"] if on_gpu else (CPU_THREADS,)
    for way, cell in (("point", CENTROID_CELL), ("element", POINT_CELL)):
        yield from (FilterId(way, n_t, cell, 1) for n_t in threads)  # type: ignore[arg-type]
    if space != SPACES[1]:
        return
    if not on_gpu:
        yield from (FilterId(way, CPU_THREADS, cell, blocks) for way, cell, blocks in CPU_FILTERS)
        return
    for way in get_args(FilterMethod):
        fitting = CONTOUR_BLOCK_SIZES["cuda"] if way == "edges" else threads
        yield from (FilterId(way, *sizes) for sizes in product(fitting, FILTER_CELLS[way], FILTER_BLOCKS[way]))


#: `vector`: the paper's, so many threads a region, each at some of its 36 or 150 points. `lane`: ours, a thread a
#: region, 11 or 44 points. `matrix`: ours, a row of a sparse matrix a region.
RegionMethod = Literal["vector", "lane", "matrix"]
REGION_DEGREES = (1, 2)
#: VECTOR_WIDTH, REGIONS_PER_BLOCK, and BLOCK_COUNT over the GPU's multiprocessors: 800 of each degree (King 2017,
#: section 4.3).
WIDTHS = {1: (1, 2, 4, 8, 12, 16, 18, 24, 32, 36), 2: (16, 32, 48, 64, 80, 96, 112, 128, 144, 150)}
REGIONS_PER_BLOCK = tuple(range(2, 21, 2))
REGION_BLOCKS = tuple(range(1, 9))
#: Of the CPU, which has no numbers of the paper's to be held against: one or two regions, so that the full width fits.
CPU_REGIONS, CPU_BLOCKS = (1, 2), (1,)
#: Of ours: threads of a block, and blocks for each multiprocessor.
OWN_THREADS = {"cuda": (64, 128, 256), "opencl": (16,)}
OWN_BLOCKS = {"cuda": (4, 8, 16, 32), "opencl": (1, 3)}
#: Numbers of a region in shared memory: the 16 of the list, its element, the determinant of its map, and which piece of
#: the kernel applies in each direction. The paper's formula says 21 and not what they are.
REGION_NUMBERS = 21
DOUBLE_BYTES = 8
#: The study's own columns of rows of regions: what a kernel's name says, operations of a region, shared memory of a
#: block, how much there is to integrate.
REGION_COLUMNS: dict[str, ColumnType] = {
    "what": str,
    "kernel_degree": int,
    "method": str,
    "vector_width": int,
    "regions_per_block": int,
    "blocks_per_sm": int,
    "region_operations": int,
    "shared_bytes": int,
    "regions": int,
    "points": int,
}
_REGION_TEXT = re.compile(r"p(?P<degree>\d+)/(?P<method>[a-z]+)-w(?P<width>\d+)-r(?P<regions>\d+)-b(?P<blocks>\d+)")


@dataclass(frozen=True, order=True)
class RegionId:
    """A kernel, spelt `p1/vector-w18-r4-b8`, `p2/lane-w1-r128-b16`.

    Attributes
    ----------
    degree
        Of field and kernel.
    method
        How a region is integrated.
    width
        VECTOR_WIDTH, threads of a region; 1 of ours.
    regions
        REGIONS_PER_BLOCK, regions that a block has at a time; of ours that is its threads.
    blocks
        BLOCK_COUNT over the multiprocessors.
    """

    degree: int
    method: RegionMethod
    width: int
    regions: int
    blocks: int

    def __str__(self) -> str:
        return f"p{self.degree}/{self.method}-w{self.width}-r{self.regions}-b{self.blocks}"

    @classmethod
    def parse(cls, text: str) -> RegionId:
        """Read a kernel's text; the inverse of `str`.

        Raises
        ------
        ReproError
            It is no kernel's.
        """
        match = _REGION_TEXT.fullmatch(text)
        if match:
            words = match.groupdict()
            degree, width, regions, blocks = (int(words[name]) for name in ("degree", "width", "regions", "blocks"))
            id = cls(degree, words["method"], width, regions, blocks)  # type: ignore[arg-type]
            sizes = width >= 1 and regions >= 1 and blocks >= 1
            right = (
                degree in REGION_DEGREES
                and id.method in get_args(RegionMethod)
                and (id.method == "vector" or width == 1)
            )
            if sizes and right and str(id) == text:
                return id
        raise ReproError("no kernel of regions", expected="such as p1/vector-w18-r4-b8", actual=text)

    @property
    def space(self) -> str:
        """`paper`, or `extended` where it is ours."""
        return SPACES[0] if self.method == "vector" else SPACES[1]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.width * self.regions

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return self.regions * region_bytes(self.degree, self.width) if self.method == "vector" else 0

    @property
    def launched_bytes(self) -> int:
        """Shared memory that a launch on a GPU has to give: all of it, where it is more than a text may declare."""
        return self.shared_bytes if self.shared_bytes > STATIC_SHARED else 0

    @property
    def module(self) -> str:
        """The key of the module that has the kernel."""
        return region_module_key(self.degree, self.method, self.width)

    @property
    def kernel(self) -> str:
        """The kernel's name in its module."""
        return f"{self.method}_w{self.width}_r{self.regions}"

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row: everything that the text says."""
        return {
            "what": "regions",
            "kernel_degree": self.degree,
            "method": self.method,
            "vector_width": self.width,
            "regions_per_block": self.regions,
            "blocks_per_sm": self.blocks,
        }

    @property
    def point(self) -> Point:
        """The kernel's place in its space, for searches that learn: its words, and its sizes as binary logarithms."""
        sizes = tuple(log2(size) for size in (self.width, self.regions, self.blocks))
        return Point(f"p{self.degree}-{self.method}", (self.method,), sizes)


def region_point(text: str) -> Point:
    """Return the place of a kernel that is given by its text.

    Raises
    ------
    ReproError
        It is no kernel's.
    """
    return RegionId.parse(text).point


def element_points(degree: int) -> tuple[int, int, int]:
    """Return QX, QY, QZ: the points in each direction by whose values the paper has an element's field."""
    return degree + 2, degree + 1, degree + 1


def region_bytes(degree: int, width: int) -> int:
    """Return the shared memory of a region that so many threads share.

    The paper's formula is IW (QX + QY QZ + QZ + 1) + 21 doubles for IW quadrature points; where a region has fewer
    threads than points, they take `width` of these at a time, and there is room for so many.
    """
    x, y, z = element_points(degree)
    return DOUBLE_BYTES * (width * (x + y * z + z + 1) + REGION_NUMBERS)


def full_width(degree: int) -> int:
    """Return IW, the paper's quadrature points of a region: 36 or 150."""
    first, second, third = paper_counts(degree)
    return first * second * third


def width_region_pairs(degree: int, target: Target) -> list[tuple[int, int]]:
    """Return the widths with the regions of a block that a target has threads and shared memory for."""
    return [
        (width, regions)
        for width, regions in product(WIDTHS[degree], REGIONS_PER_BLOCK if target.dialect == "cuda" else CPU_REGIONS)
        if width * regions <= target.threads_per_block and regions * region_bytes(degree, width) <= target.shared_bytes
    ]


def paper_region_ids(degree: int, target: Target) -> list[RegionId]:
    """Return the paper's kernels that fit on a target; those of a module follow each other."""
    counts = REGION_BLOCKS if target.dialect == "cuda" else CPU_BLOCKS
    shapes = product(width_region_pairs(degree, target), counts)
    return [RegionId(degree, "vector", width, regions, blocks) for (width, regions), blocks in shapes]


def own_region_ids(degree: int, target: Target) -> list[RegionId]:
    """Return our kernels; those of a module follow each other."""
    methods: tuple[RegionMethod, ...] = ("lane", "matrix")
    shapes = product(methods, OWN_THREADS[target.dialect], OWN_BLOCKS[target.dialect])
    return [RegionId(degree, method, 1, threads, blocks) for method, threads, blocks in shapes]


def region_module_key(degree: int, method: RegionMethod, width: int) -> str:
    """Return the key of the module with the kernels of a width, such as `p1/vector-w18`."""
    return f"p{degree}/{method}-w{width}" if method == "vector" else f"p{degree}/ours"


def region_module_keys(degree: int, target: Target, space: str = SPACES[1]) -> list[str]:
    """Return the keys of the modules of a degree: the paper's, and after them ours, in the extended space."""
    widths = dict.fromkeys(width for width, _ in width_region_pairs(degree, target))
    keys = [region_module_key(degree, "vector", width) for width in widths]
    return [*keys, region_module_key(degree, "lane", 1)] if space == SPACES[1] else keys
