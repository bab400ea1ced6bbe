"""Ids of the searched variants: methods to filter in the plane, and kernels that integrate regions in space.

Names of these variants are formatted and parsed only here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

from repro.bench.variant_id import BaseId, SearchPoint
from repro.codegen.targets import STATIC_SHARED, Target
from repro.errors import ReproError
from repro.filtering.kernels import BLOCK_SIZES, CONTOUR_BLOCK_SIZES
from repro.studies.dg_postprocessing import CENTROID_CELL, POINT_CELL
from repro.words import EXTENDED, PAPER, PAPER_TUNED, Space

FilterMethod = Literal["point", "element", "edges", "atomic"]
#: Cell sizes of the published methods, in units of the longest edge. The text has one block (`element`: patch) per
#: multiprocessor, and does not state the number of threads.
PUBLISHED_CELLS: dict[FilterMethod, float] = {"point": CENTROID_CELL, "element": POINT_CELL}
#: Parameters to try for both published methods, by dialect: threads per block. If they are tuned further, also cell
#: sizes (the text's two, for both methods) and blocks (`element`: patches) per multiprocessor. The CPU has few choices,
#: since its launches take long and its results are only rehearsals.
PAPER_THREADS = {"cuda": BLOCK_SIZES["cuda"], "opencl": (16,)}
TUNED_CELLS = {"cuda": (POINT_CELL, CENTROID_CELL), "opencl": (POINT_CELL,)}
TUNED_BLOCKS = {"cuda": (8, 32, 128), "opencl": (4,)}
#: Parameters to try for our methods: threads per block, cell sizes, and blocks (`atomic`: patches) per multiprocessor.
OWN_FILTERS: dict[str, dict[FilterMethod, tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]]] = {
    "cuda": {
        "edges": (CONTOUR_BLOCK_SIZES["cuda"], (0.25, 0.5, 1.0), (4, 16, 64)),
        "atomic": (BLOCK_SIZES["cuda"], (0.5,), (4, 16)),
    },
    "opencl": {"edges": ((16,), (1.0,), (16,)), "atomic": ((16,), (0.5,), (4,))},
}
_FILTER_TEXT = re.compile(r"(?P<way>\w+)-t(?P<threads>\d+)-c(?P<cell>\d+(\.\d+)?)-b(?P<blocks>\d+)")


class FieldId(BaseId):
    """The id of a filtering method in the plane, or of a region kernel in space."""

    @classmethod
    def _read(cls, text: str) -> FieldId:
        id_class: type[FieldId] = RegionId if "/" in text else FilterId
        return id_class._read(text)


@dataclass(frozen=True)
class FilterId(FieldId):
    """The id of a variant of filtering at points, spelt `edges-t64-c0.5-b16`."""

    #: `point`, `element` and `atomic` (`element` without copies) clip triangles; `edges` follows contours per point.
    method: FilterMethod
    #: Threads per block.
    threads: int
    #: Cell size of the search grid, in longest edges.
    cell: float
    #: Blocks per multiprocessor; for `element` and `atomic`, patches per multiprocessor.
    blocks: int

    def __str__(self) -> str:
        return f"{self.method}-t{self.threads}-c{self.cell:g}-b{self.blocks}"

    @classmethod
    def _read(cls, text: str) -> FilterId:
        match = _FILTER_TEXT.fullmatch(text)
        if match and match["way"] in get_args(FilterMethod):
            id = cls(match["way"], int(match["threads"]), float(match["cell"]), int(match["blocks"]))  # type: ignore[arg-type]
            if all((id.threads, id.cell, id.blocks)) and str(id) == text:
                return id
        raise ReproError("unknown way to filter", expected="such as edges-t64-c0.5-b16", actual=text)

    @property
    def space(self) -> Space:
        """`paper`: the text's cell, and one block per multiprocessor; `extended`: contours and atomic additions."""
        if self.method not in PUBLISHED_CELLS:
            return EXTENDED
        return PAPER if (self.cell, self.blocks) == (PUBLISHED_CELLS[self.method], 1) else PAPER_TUNED

    @property
    def module(self) -> str:
        return "element" if self.method == "atomic" else self.method

    @property
    def columns(self) -> dict[str, Any]:
        return {"way": self.method, "threads": self.threads, "cell": self.cell, "blocks": self.blocks}

    @property
    def point(self) -> SearchPoint:
        return SearchPoint.of(self.method, (self.method,), (self.threads, self.cell, self.blocks))


def filter_ids(
    target: Target, spaces: Sequence[Space], layouts: Literal["all"] | Sequence[str] = "all"
) -> Iterator[FilterId]:
    """Yield the variants of some spaces, or those with the given names; the paper's first."""
    return (id for id in _all_filter_ids(target) if id.space in spaces and (layouts == "all" or str(id) in layouts))


def _all_filter_ids(target: Target) -> Iterator[FilterId]:
    dialect = target.dialect
    threads = PAPER_THREADS[dialect]
    for way, cell in PUBLISHED_CELLS.items():
        yield from (FilterId(way, n_t, cell, 1) for n_t in threads)
    tuned_settings: product[tuple[FilterMethod, int, float, int]] = product(
        PUBLISHED_CELLS, threads, TUNED_CELLS[dialect], TUNED_BLOCKS[dialect]
    )
    yield from (FilterId(*sizes) for sizes in tuned_settings)
    for way, choices in OWN_FILTERS[dialect].items():
        yield from (FilterId(way, *sizes) for sizes in product(*choices))


#: `vector`: the paper's method, several threads per region, which share its 36 or 150 quadrature points. `lane`: our
#: method, one thread per region, 11 or 44 points. `matrix`: our method, one row of a sparse matrix per region.
RegionMethod = Literal["vector", "lane", "matrix"]
REGION_DEGREES = (1, 2)
#: Tried VECTOR_WIDTH, REGIONS_PER_BLOCK and BLOCK_COUNT / multiprocessors: 800 kernels per degree (King 2017,
#: section 4.3).
WIDTHS = {1: (1, 2, 4, 8, 12, 16, 18, 24, 32, 36), 2: (16, 32, 48, 64, 80, 96, 112, 128, 144, 150)}
REGIONS_PER_BLOCK = tuple(range(2, 21, 2))
REGION_BLOCKS = tuple(range(1, 9))
#: Regions per block, and blocks per multiprocessor, on the CPU, for which the paper states none; the full width fits.
CPU_REGIONS, CPU_BLOCKS = (1, 2), (1,)
#: For our kernels: threads per block, and blocks per multiprocessor.
OWN_THREADS = {"cuda": (64, 128, 256), "opencl": (16,)}
OWN_BLOCKS = {"cuda": (4, 8, 16, 32), "opencl": (1, 3)}
#: Doubles per region in shared memory: 16 from the list, the element's index, the determinant of its map, and the index
#: of the kernel's piece in each of three directions. The paper's formula has 21 without an explanation.
REGION_NUMBERS = 21
DOUBLE_BYTES = 8
_REGION_TEXT = re.compile(r"p(?P<degree>\d+)/(?P<method>[a-z]+)-w(?P<width>\d+)-r(?P<regions>\d+)-b(?P<blocks>\d+)")


@dataclass(frozen=True, order=True)
class RegionId(FieldId):
    """The id of a kernel that integrates regions, spelt `p1/vector-w18-r4-b8`, `p2/lane-w1-r128-b16`."""

    #: Degree of the field and of the kernel.
    degree: int
    method: RegionMethod
    #: VECTOR_WIDTH, threads per region; 1 for our kernels.
    width: int
    #: REGIONS_PER_BLOCK, regions that a block processes at a time; for our kernels, threads per block.
    regions: int
    #: BLOCK_COUNT divided by the number of multiprocessors.
    blocks: int

    def __str__(self) -> str:
        return f"p{self.degree}/{self.method}-w{self.width}-r{self.regions}-b{self.blocks}"

    @classmethod
    def _read(cls, text: str) -> RegionId:
        match = _REGION_TEXT.fullmatch(text)
        if match:
            groups = match.groupdict()
            degree, width, regions, blocks = (int(groups[name]) for name in ("degree", "width", "regions", "blocks"))
            id = cls(degree, groups["method"], width, regions, blocks)  # type: ignore[arg-type]
            sizes = width >= 1 and regions >= 1 and blocks >= 1
            right = (
                degree in REGION_DEGREES
                and id.method in get_args(RegionMethod)
                and (id.method == "vector" or width == 1)
            )
            if sizes and right and str(id) == text:
                return id
        raise ReproError("unknown kernel of regions", expected="such as p1/vector-w18-r4-b8", actual=text)

    @property
    def space(self) -> Space:
        return PAPER if self.method == "vector" else EXTENDED

    @property
    def threads(self) -> int:
        return self.width * self.regions

    @property
    def shared_bytes(self) -> int:
        return self.regions * region_bytes(self.degree, self.width) if self.method == "vector" else 0

    @property
    def launched_bytes(self) -> int:
        """Bytes of dynamic shared memory of a launch: all shared memory if it exceeds the static limit, else 0."""
        return self.shared_bytes if self.shared_bytes > STATIC_SHARED else 0

    @property
    def module(self) -> str:
        return region_module_key(self.degree, self.method, self.width)

    @property
    def kernel(self) -> str:
        """The kernel's name in its module."""
        return f"{self.method}_w{self.width}_r{self.regions}"

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "what": "regions",
            "kernel_degree": self.degree,
            "method": self.method,
            "vector_width": self.width,
            "regions_per_block": self.regions,
            "blocks_per_sm": self.blocks,
        }

    @property
    def point(self) -> SearchPoint:
        return SearchPoint.of(f"p{self.degree}-{self.method}", (self.method,), (self.width, self.regions, self.blocks))


def element_points(degree: int) -> tuple[int, int, int]:
    """Return QX, QY, QZ: the paper's points of an element's field in each direction."""
    return degree + 2, degree + 1, degree + 1


def region_bytes(degree: int, width: int) -> int:
    """Return the bytes of shared memory for a region whose integral `width` threads share.

    The paper's formula has IW (QX + QY QZ + QZ + 1) + 21 doubles for IW quadrature points; with fewer threads, `width`
    points are processed at a time.
    """
    x, y, z = element_points(degree)
    return DOUBLE_BYTES * (width * (x + y * z + z + 1) + REGION_NUMBERS)


def paper_counts(degree: int) -> tuple[int, int, int]:
    """Return Q0, Q1, Q2, the points in each direction for degree p (King 2017, section 4.2.2): exact for degree 4p."""
    return -(-(4 * degree + 3) // 2), 2 * degree + 1, 2 * degree + 1


def full_width(degree: int) -> int:
    """Return IW, the paper's number of quadrature points per region: 36 or 150."""
    first, second, third = paper_counts(degree)
    return first * second * third


def width_region_pairs(degree: int, target: Target) -> list[tuple[int, int]]:
    """Return pairs of a vector width and a number of regions per block that fit on a target."""
    return [
        (width, regions)
        for width, regions in product(WIDTHS[degree], REGIONS_PER_BLOCK if target.dialect == "cuda" else CPU_REGIONS)
        if width * regions <= target.threads_per_block and regions * region_bytes(degree, width) <= target.shared_bytes
    ]


def paper_region_ids(degree: int, target: Target) -> list[RegionId]:
    """Return the paper's kernels that fit on a target, grouped by module."""
    counts = REGION_BLOCKS if target.dialect == "cuda" else CPU_BLOCKS
    shapes = product(width_region_pairs(degree, target), counts)
    return [RegionId(degree, "vector", width, regions, blocks) for (width, regions), blocks in shapes]


def own_region_ids(degree: int, target: Target) -> list[RegionId]:
    """Return our kernels, grouped by module."""
    methods: tuple[RegionMethod, ...] = ("lane", "matrix")
    shapes = product(methods, OWN_THREADS[target.dialect], OWN_BLOCKS[target.dialect])
    return [RegionId(degree, method, 1, threads, blocks) for method, threads, blocks in shapes]


def region_module_key(degree: int, method: RegionMethod, width: int) -> str:
    """Return the key of the module with the kernels of a width, such as `p1/vector-w18`."""
    return f"p{degree}/{method}-w{width}" if method == "vector" else f"p{degree}/ours"


def region_module_keys(degree: int, target: Target, space: Space = EXTENDED) -> list[str]:
    """Return the keys of a degree's modules: the paper's, then ours in the extended space."""
    widths = dict.fromkeys(width for width, _ in width_region_pairs(degree, target))
    keys = [region_module_key(degree, "vector", width) for width in widths]
    return [*keys, region_module_key(degree, "lane", 1)] if space == EXTENDED else keys
