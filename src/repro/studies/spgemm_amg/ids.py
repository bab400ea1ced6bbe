"""The identity of a kernel for the rows of a bin; its text is made and read only here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log2
from typing import Any, Literal, get_args

from repro.bench.rows import ColumnType
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.sparse.spgemm.kernels import BINS, HashShape, SortShape, hash_shapes, sort_shapes
from repro.studies.spgemm_amg import PRODUCTS, ProductName
from repro.tuning.variant_space import Point

SPACES = ("paper", "extended")
#: What a kernel leaves: rows in segments that it cuts off, binned by their products; or the values of rows that have
#: their places, binned by their entries.
BinMode = Literal["one", "numeric"]
Shape = HashShape | SortShape | None
#: The columns of a row that its name says.
KERNEL_COLUMNS: dict[str, ColumnType] = {
    "what": str,
    "product": str,
    "mode": str,
    "bin": int,
    "method": str,
    "width": int,
    "slots": int,
    "rows_of_block": int,
}
#: Tables with more slots than so many times a bin's largest row has entries are not tried.
MAX_SLOTS = 4
#: Rows of bins of so many products and more are tried with a sum for every column too.
MIN_DENSE = 1024
_TEXT = re.compile(
    r"(?P<product>\w+)/(?P<mode>\w+)/b(?P<bin>\d+)/(?P<method>\w+)(-w(?P<width>\d+)-s(?P<slots>\d+)-r(?P<rows>\d+))?"
)


@dataclass(frozen=True)
class KernelId:
    """A product, a bin of its rows, and the kernel for them, spelt `AP/one/b1/hash-w4-s64-r64`, `AA/one/b10/dense`.

    Attributes
    ----------
    product, mode, bin
        Which rows.
    shape
        A hash table, room to sort in, or None for a sum a column in global memory.
    """

    product: ProductName
    mode: BinMode
    bin: int
    shape: Shape

    @property
    def method(self) -> str:
        """`hash`, `sort` or `dense`."""
        if self.shape is None:
            return "dense"
        return "hash" if isinstance(self.shape, HashShape) else "sort"

    @property
    def slots(self) -> int:
        """Slots of the table, or products that there is room for; 0 of `dense`."""
        if self.shape is None:
            return 0
        return self.shape.table if isinstance(self.shape, HashShape) else self.shape.most

    def __str__(self) -> str:
        where = f"{self.product}/{self.mode}/b{self.bin}/{self.method}"
        return f"{where}-w{self.shape.width}-s{self.slots}-r{self.shape.rows}" if self.shape else where

    @classmethod
    def parse(cls, text: str) -> KernelId:
        """Read a kernel's text; the inverse of `str`.

        Raises
        ------
        ReproError
            It is no kernel's.
        """
        match = _TEXT.fullmatch(text)
        if match:
            words = match.groupdict()
            sizes = [int(words[name]) if words[name] else 0 for name in ("width", "slots", "rows")]
            shapes: dict[str, Shape] = {"dense": None, "hash": HashShape(*sizes), "sort": SortShape(*sizes)}
            right = words["product"] in PRODUCTS and words["mode"] in get_args(BinMode) and int(words["bin"]) < BINS
            if right and words["method"] in shapes and (words["method"] == "dense") == (not sizes[0]):
                return cls(words["product"], words["mode"], int(words["bin"]), shapes[words["method"]])  # type: ignore[arg-type]
        raise ReproError("no kernel of a bin", expected="such as AP/one/b1/hash-w4-s64-r64", actual=text)

    @property
    def space(self) -> str:
        """`paper`, which sorts in shared memory, or `extended`."""
        return SPACES[0] if self.method == "sort" else SPACES[1]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row: everything that the text says."""
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
    def point(self) -> Point:
        """The kernel's place in its space, for searches that learn: its words, and its sizes as binary logarithms."""
        sizes = (self.shape.width, self.shape.rows) if self.shape else (1, 1)
        return Point(
            f"{self.product}-{self.mode}-{self.bin}",
            (self.method,),
            tuple(log2(size) for size in (*sizes, max(self.slots, 1))),
        )


def point_of(text: str) -> Point:
    """Return the place of a kernel that is given by its text.

    Raises
    ------
    ReproError
        It is no kernel's.
    """
    return KernelId.parse(text).point


def shapes_for(target: Target, scalar_bytes: int, mode: BinMode, limit: int | None, longest: int) -> list[Shape]:
    """Return what the rows of a bin are tried in.

    Parameters
    ----------
    limit
        The most products, or entries, of a row of the bin; None of the last bin.
    longest
        Entries of the longest row that is in it.
    """
    shapes: list[Shape] = []
    if mode == "one" and limit is not None:
        shapes += [shape for shape in sort_shapes(target, scalar_bytes) if shape.most == limit]
    tables = [shape for shape in hash_shapes(target, scalar_bytes) if longest <= shape.table]
    least = min((shape.table for shape in tables), default=0)
    shapes += [shape for shape in tables if shape.table <= MAX_SLOTS * least]
    if limit is None or limit >= MIN_DENSE or not shapes:
        shapes.append(None)
    return shapes
