"""The id of a kernel for the rows of a bin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from repro.bench.rows import RecordedRow
from repro.bench.variant_id import BaseId, SearchPoint
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.sparse.spgemm.kernels import BINS, HashShape, SortShape, hash_shapes, sort_shapes
from repro.studies.spgemm_amg import PRODUCTS, ProductName
from repro.words import EXTENDED, PAPER, Space


class AmgRow(RecordedRow):
    """A row of a bin's kernel, of a product, of a numeric phase, of a set-up or of its level, or of a solution."""

    #: Kind of task: `bin`, `product`, `numeric`, `setup`, `level` or `solve`.
    what: str | None
    product: str | None
    mode: str | None
    bin: int | None
    method: str | None
    width: int | None
    slots: int | None
    rows_of_block: int | None
    routine: str | None
    format: str | None
    products: int | None
    nonzeros: int | None
    rows: int | None
    peak_bytes: int | None
    plan_bytes: int | None
    level: int | None
    levels: int | None
    complexity: float | None
    iterations: int | None
    stage_whole: float | None
    stage_count: float | None
    stage_compute: float | None
    stage_settle: float | None
    stage_symbolic: float | None
    stage_place: float | None
    stage_numeric: float | None
    stage_aggregates: float | None
    stage_tentative: float | None
    stage_radius: float | None
    stage_prolongator: float | None
    stage_transpose: float | None
    stage_galerkin: float | None


#: Modes of a bin's kernel. `one` (one phase): rows are binned by their number of products, and computed into newly
#: allocated segments. `numeric`: rows are binned by their number of entries, and values are computed at known
#: positions.
BinMode = Literal["one", "numeric"]
Shape = HashShape | SortShape | None
#: Maximum slots of a hash table, as a multiple of the entries in a bin's largest row.
MAX_SLOTS = 4
#: Bins whose rows have at least this number of products are also tried with `dense`, one sum for each column.
MIN_DENSE = 1024
_TEXT = re.compile(
    r"(?P<product>\w+)/(?P<mode>\w+)/b(?P<bin>\d+)/(?P<method>\w+)(-w(?P<width>\d+)-s(?P<slots>\d+)-r(?P<rows>\d+))?"
)


@dataclass(frozen=True)
class KernelId(BaseId):
    """A product, a bin of its rows, and a kernel for the bin, spelt `AP/one/b1/hash-w4-s64-r64`, `AA/one/b10/dense`."""

    product: ProductName
    mode: BinMode
    bin: int
    #: Size of a hash table or of memory for sorting; None for `dense`, which has one sum per column in global memory.
    shape: Shape

    @property
    def method(self) -> str:
        if self.shape is None:
            return "dense"
        return "hash" if isinstance(self.shape, HashShape) else "sort"

    @property
    def slots(self) -> int:
        """Slots of the hash table, or number of products that fit into the memory for sorting; 0 for `dense`."""
        if self.shape is None:
            return 0
        return self.shape.table if isinstance(self.shape, HashShape) else self.shape.max_products

    def __str__(self) -> str:
        prefix = f"{self.product}/{self.mode}/b{self.bin}/{self.method}"
        return f"{prefix}-w{self.shape.width}-s{self.slots}-r{self.shape.rows}" if self.shape else prefix

    @classmethod
    def _read(cls, text: str) -> KernelId:
        match = _TEXT.fullmatch(text)
        if match:
            groups = match.groupdict()
            sizes = [int(groups[name]) if groups[name] else 0 for name in ("width", "slots", "rows")]
            shapes: dict[str, Shape] = {"dense": None, "hash": HashShape(*sizes), "sort": SortShape(*sizes)}
            right = groups["product"] in PRODUCTS and groups["mode"] in get_args(BinMode) and int(groups["bin"]) < BINS
            if right and groups["method"] in shapes and (groups["method"] == "dense") == (not sizes[0]):
                return cls(groups["product"], groups["mode"], int(groups["bin"]), shapes[groups["method"]])  # type: ignore[arg-type]
        raise ReproError("unknown kernel of a bin", expected="such as AP/one/b1/hash-w4-s64-r64", actual=text)

    @property
    def space(self) -> Space:
        return PAPER if self.method == "sort" else EXTENDED

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "what": "bin",
            "product": self.product,
            "mode": self.mode,
            "bin": self.bin,
            "method": self.method,
            "width": self.shape.width if self.shape else None,
            "slots": self.slots or None,
            "rows_of_block": self.shape.rows if self.shape else None,
        }

    @property
    def point(self) -> SearchPoint:
        sizes = (self.shape.width, self.shape.rows) if self.shape else (1, 1)
        group = f"{self.product}-{self.mode}-{self.bin}"
        return SearchPoint.of(group, (self.method,), (*sizes, max(self.slots, 1)))


def shapes_for(target: Target, scalar_bytes: int, mode: BinMode, limit: int | None, longest_row: int) -> list[Shape]:
    """Return the shapes (table or sort sizes) to try for a bin's rows.

    Parameters
    ----------
    limit
        Maximum number of products (or of entries) for a row of the bin; None for the last bin.
    longest_row
        Number of entries in the bin's longest row.
    """
    shapes: list[Shape] = []
    if mode == "one" and limit is not None:
        shapes += [shape for shape in sort_shapes(target, scalar_bytes) if shape.max_products == limit]
    tables = [shape for shape in hash_shapes(target, scalar_bytes) if longest_row <= shape.table]
    smallest_table = min((shape.table for shape in tables), default=0)
    shapes += [shape for shape in tables if shape.table <= MAX_SLOTS * smallest_table]
    if limit is None or limit >= MIN_DENSE or not shapes:
        shapes.append(None)
    return shapes
