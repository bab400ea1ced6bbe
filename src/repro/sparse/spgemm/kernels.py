"""Kernels of sparse matrix products: bins of rows, shapes of hash tables and sorts, and rendering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from repro.codegen.targets import SCALARS, Target
from repro.codegen.templates import render_template
from repro.sparse.dynamic.kernels import STATE_NAMES
from repro.sparse.elementwise import BLOCK_SIZE, split_key

#: The most products, or entries, of a row of each bin but the last, whose rows have more.
LIMITS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BINS = len(LIMITS) + 1
#: The bins of King 2017, Table 6.1, whose rows are sorted in shared memory.
PAPERS_BINS = LIMITS.index(2048) + 1
#: Shared memory of a block without further ado; on the CPU a part of its first cache.
SHARED_BYTES = {"cuda": 44 * 1024, "opencl": 24 * 1024}
#: Threads of a block that shall be reached.
MIN_BLOCK_SIZE = {"cuda": 256, "opencl": 8}
COLUMN_BYTES, KEY_BYTES = 4, 8
#: How many products an entry of C is expected to be the sum of, in each bin. Where it is fewer, rows are done again.
EXPECTED = (2, 2, 4, 4, 8, 8, 16, 16, 32, 64, 64)
#: How many lanes of a row are the fastest for tables of so many slots on a GPU; of larger tables all of a warp.
LANES = {16: 2, 32: 4, 64: 4, 128: 8, 256: 16}
#: Products of a row from which on twice as many are faster for tables of 64.
LONG_ROW = 500


@dataclass(frozen=True, order=True)
class HashShape:
    """A row by a hash table in shared memory.

    Attributes
    ----------
    width
        Lanes of a row: some of a warp, or several warps, which take parts of A's row.
    table
        Slots: a power of two.
    rows
        Rows of a block; one where a row has several warps.
    """

    width: int
    table: int
    rows: int

    @property
    def bits(self) -> int:
        """Bits that number the slots."""
        return self.table.bit_length() - 1

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return the kernels' module, and the kernel's name."""
        return mode, f"{mode}_w{self.width}_t{self.table}"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.width * self.rows


@dataclass(frozen=True, order=True)
class SortShape:
    """A row by expansion, sorting and compression in shared memory.

    Attributes
    ----------
    width
        Threads of a row.
    most
        Products that there is memory for: a power of two.
    rows
        Rows of a block; one where a row has more threads than a warp.
    """

    width: int
    most: int
    rows: int

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return the kernels' module, and the kernel's name; it is for one phase alone."""
        assert mode == "one"
        return "esc", f"esc_w{self.width}_p{self.most}_r{self.rows}"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.width * self.rows


@cache
def hash_shapes(target: Target, scalar_bytes: int) -> tuple[HashShape, ...]:
    """Return the hash tables that there are kernels for, for numbers of so many bytes."""
    if target.dialect == "opencl":
        widths = {1: tuple(2**bits for bits in range(5, 12))}
    else:
        most = {1: 64, 2: 128, 4: 256, 8: 512, 16: 1024, 32: 2048}
        # all lanes of a warp go through a table together, so that none has fewer slots than a row has lanes
        tables = [16 << bits for bits in range(8)]
        widths = {width: tuple(table for table in tables if width <= table <= most[width]) for width in most}
        # several warps of a row have a table each, and what one of them holds is what the row may have
        widths |= {64: (256, 512, 1024), 128: (128, 256, 512), 256: (128, 256)}
    return tuple(_hash_shape(target, width, table, scalar_bytes) for width, of in widths.items() for table in of)


def _hash_shape(target: Target, width: int, table: int, scalar_bytes: int) -> HashShape:
    if width > target.warp and target.dialect == "cuda":
        return HashShape(width, table, 1)
    fitting = SHARED_BYTES[target.dialect] // (table * (COLUMN_BYTES + scalar_bytes))
    rows = max(1, min(MIN_BLOCK_SIZE[target.dialect] // width, fitting))
    return HashShape(width, table, 1 << (rows.bit_length() - 1))


def sort_shapes(target: Target, scalar_bytes: int) -> list[SortShape]:
    """Return what rows are sorted in: for each of the paper's bins some numbers of threads and of rows."""
    made: list[SortShape] = []
    for most in LIMITS[:PAPERS_BINS]:
        if target.dialect == "opencl":
            if most * (KEY_BYTES + scalar_bytes) <= 2 * SHARED_BYTES["opencl"]:
                made.append(SortShape(1, most, 1))
            continue
        fitting = SHARED_BYTES["cuda"] // (most * (KEY_BYTES + scalar_bytes))
        made += [SortShape(32, most, rows) for rows in (1, 4, 8) if rows <= fitting]
        made += [SortShape(width, most, 1) for width in (128, 256) if width <= most]
    return made


def smallest(
    target: Target, scalar_bytes: int, entries: int, products: int = 0, mean_row: float = 0.0
) -> HashShape | None:
    """Return the fastest shape of those with the smallest table for so many entries; None: there is none.

    Seven slots in eight are taken at the most: more time is lost by larger tables than by searching fuller ones.

    Parameters
    ----------
    products
        Of a row at the most: lanes of long rows wait for each other less where they are more.
    mean_row
        Entries of B's rows in the mean: more lanes would have nothing to do; 0: not known.
    """
    most_lanes = 1 << (int(mean_row).bit_length() - 1) if mean_row >= 1 else target.warp
    fastest = _fastest(target, scalar_bytes, products >= LONG_ROW, most_lanes)
    return next((shape for shape in fastest if 7 * shape.table >= 8 * entries), None)


def spread(shape: HashShape, target: Target, scalar_bytes: int, most_lanes: float) -> HashShape:
    """Return the shape with the most lanes of those with a shape's table, within a limit; that one where none is."""
    wider = [
        other
        for other in hash_shapes(target, scalar_bytes)
        if other.table == shape.table and shape.width < other.width <= most_lanes
    ]
    return max(wider, key=lambda other: other.width, default=shape)


@cache
def _fastest(target: Target, scalar_bytes: int, long_rows: bool, most_lanes: int) -> tuple[HashShape, ...]:
    """Return the fastest shape for each size of a table, the smallest first."""
    lanes = LANES | {64: 8} if long_rows else LANES
    by_table: dict[int, list[HashShape]] = {}
    for shape in hash_shapes(target, scalar_bytes):
        by_table.setdefault(shape.table, []).append(shape)
    return tuple(
        min(by_table[table], key=lambda shape: abs(shape.width - min(lanes.get(shape.table, shape.table), most_lanes)))
        for table in sorted(by_table)
    )


#: How rows of the operands lie. `exact`: in one segment each, without room, no column twice. `chain`: anyhow.
Format = Literal["exact", "chain"]
FORMATS: tuple[Format, ...] = ("exact", "chain")
#: What a kernel of a bin leaves: rows in segments that it cuts off, their sizes, rows where there are segments.
Mode = Literal["one", "symbolic", "numeric"]
MODES: tuple[Mode, ...] = ("one", "symbolic", "numeric")
#: Lanes that count the products of a row.
COUNT_WIDTH = {"cuda": 4, "opencl": 1}
#: The modules: counting and listing rows, a mode each, the paper's way, and that through coordinates; in both formats.
KERNELS = ("count", *MODES, "esc", "expand")
MODULES = tuple(f"{kernels}-{format}" for kernels in KERNELS for format in FORMATS)


def render_spgemm(templates: Path, key: str, target: Target, owner: str) -> str:
    """Return the source of the module of a key, PRECISION/MODULE.

    Parameters
    ----------
    owner
        Whose module it is, for its title and for messages.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    precision, module = split_key(key, MODULES, owner)
    kernels, format = module.split("-")
    scalar, scalar_bytes = SCALARS[precision]
    count_width = COUNT_WIDTH[target.dialect]
    words: dict[str, Any] = {
        "dialect": target.dialect,
        "scalar": scalar,
        "format": format,
        "n_t": BLOCK_SIZE[target.dialect],
        "state": STATE_NAMES,
    }
    if kernels == "count":
        own = {
            "limits": LIMITS,
            "n_bins": BINS,
            "count_width": count_width,
            "distances": [1 << bit for bit in range(count_width.bit_length() - 1)],
        }
    elif kernels == "expand":
        own = {"width": target.warp if target.dialect == "cuda" else 1}
    elif kernels == "esc":
        own = {"shapes": sort_shapes(target, scalar_bytes)}
    else:
        own = {"mode": kernels, "shapes": hash_shapes(target, scalar_bytes)}
    template = f"sparse/spgemm/{'hash' if kernels in MODES else kernels}.j2"
    return render_template(templates, template, title=f"{owner}: {module}, {precision} precision", **words, **own)
