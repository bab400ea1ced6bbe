"""Kernels of sparse matrix products C = A B: row bins, sizes of hash tables and sorts, and rendering.

The products of a row are its intermediate products a_ik b_kj. A shape is a kernel's table size, lanes per row and rows
per block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal

from repro.codegen.targets import SCALARS, Target
from repro.codegen.templates import render_template
from repro.sparse.dynamic.kernels import STATE_NAMES, STATE_WORDS
from repro.sparse.elementwise import BLOCK_SIZE, split_key


class BinWord(IntEnum):
    """Index of each of the words that a kernel writes for a bin."""

    #: Intermediate products, or entries, of all rows of the bin: a sum in two words, the upper one in units of 2¹⁶.
    TOTAL_HIGH = 0
    TOTAL_LOW = 1
    #: Intermediate products, or entries, of the largest row of the bin.
    LARGEST = 2


class SampleWord(IntEnum):
    """Index of each word that a kernel writes for a sampled bin.

    These are the number of entries of its sampled rows, and of the largest of these rows.
    """

    ENTRIES = 0
    LARGEST = 1


class DestinationsWord(IntEnum):
    """Index of the words with the total bytes of all stored destinations, a sum in two words as in `BinWord`."""

    BYTES_HIGH = 0
    BYTES_LOW = 1


#: Largest number of intermediate products, or of entries, of a row in each bin; the last bin has all longer rows.
LIMITS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BINS = len(LIMITS) + 1
#: Number of bins of King 2017, Table 6.1, whose rows are sorted in shared memory.
PAPERS_BINS = LIMITS.index(2048) + 1
#: Bytes of static shared memory that a block may use; on the CPU a part of the L1 cache.
SHARED_BYTES = {"cuda": 44 * 1024, "opencl": 24 * 1024}
#: Targeted number of threads per block.
MIN_BLOCK_SIZE = {"cuda": 256, "opencl": 8}
COLUMN_BYTES, KEY_BYTES = 4, 8
#: Expected number of intermediate products per entry of C, by bin. Rows with fewer products per entry may overflow
#: their table, and are computed again.
EXPECTED = (2, 2, 4, 4, 8, 8, 16, 16, 32, 64, 64)
#: Fastest number of lanes per row on a GPU, by the slots of the table; for larger tables it is a whole warp. For
#: 32, 128 and 256 slots, an H200's bins chose these most often (results/h200/tables/spgemm_amg/table-bins.csv).
LANES = {16: 2, 32: 4, 64: 4, 128: 8, 256: 16}
#: From this number of intermediate products per row on, tables of 64 slots use twice as many lanes.
LONG_ROW = 500


@dataclass(frozen=True, order=True)
class HashShape:
    """Shape of a kernel that adds up the intermediate products of a row in a hash table in shared memory."""

    #: Lanes per row: part of a warp, or several warps, which split the entries of the row of A.
    width: int
    #: Slots of the table, a power of two.
    table: int
    #: Rows per block; 1 if several warps share a row.
    rows: int

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return the names of module and kernel."""
        return mode, f"{mode}_w{self.width}_t{self.table}"

    @property
    def bits(self) -> int:
        return self.table.bit_length() - 1

    @property
    def threads(self) -> int:
        return self.width * self.rows


@dataclass(frozen=True, order=True)
class SortShape:
    """Shape of a kernel that expands, sorts and compresses a row in shared memory."""

    #: Threads per row.
    width: int
    #: Largest number of intermediate products of a row, a power of two.
    max_products: int
    #: Rows per block; 1 if a row has more threads than a warp.
    rows: int

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return the names of module and kernel; only mode `one` exists."""
        assert mode == "one"
        return "esc", f"esc_w{self.width}_p{self.max_products}_r{self.rows}"

    @property
    def threads(self) -> int:
        return self.width * self.rows


#: For long rows: slots of the tables in shared memory; slots of the tables in global memory, for rows that exceed
#: these; intermediate products that a block distributes to its threads at once; and number of these above which a row
#: is long. On an H100 a table of 32,768 slots in global memory took less than dense sums, one of 131,072 more
#: (results/h100/trials/products-shared-rows.csv).
LONG_TABLES = {"cuda": (1024, 2048, 4096, 8192, 16384), "opencl": (4096,)}
GLOBAL_TABLES = {"cuda": (32768,), "opencl": ()}
LONG_CHUNK = {"cuda": 1024, "opencl": 256}
LONG_PRODUCTS = {"cuda": 512, "opencl": 1792}
#: Largest share of a table's slots that a long row may fill.
LONG_FILLED = 7 / 8


@dataclass(frozen=True, order=True)
class LongShape:
    """Shape of a kernel that computes a row by one block, whose threads get equal numbers of intermediate products."""

    #: Slots of the table, a power of two; 0: an array of sums for all columns in global memory instead of a table.
    table: int
    threads: int
    #: Intermediate products per thread that are distributed at once.
    items: int
    #: Targeted number of resident blocks per multiprocessor.
    blocks_per_sm: int = 1
    rows: int = 1
    #: Whether the table is in global memory.
    in_global: bool = False

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return the names of module and kernel."""
        return mode, f"{mode}_long_t{self.table}" if self.table else f"{mode}_dense"

    @property
    def bits(self) -> int:
        return self.table.bit_length() - 1

    def table_bytes(self, mode: str, scalar_bytes: int) -> int:
        """Return the bytes of dynamic shared memory per block."""
        return 0 if self.in_global else self.table * (COLUMN_BYTES + (0 if mode == "symbolic" else scalar_bytes))

    def shared_bytes(self, scalar_bytes: int) -> int:
        """Return an upper bound of the shared memory per block, in bytes."""
        product_bytes, thread_bytes = COLUMN_BYTES + scalar_bytes, 2 * COLUMN_BYTES + scalar_bytes
        tallies = COLUMN_BYTES * (self.threads // 32) ** 2
        table_bytes = 0 if self.in_global else self.table * product_bytes
        return table_bytes + self.threads * (self.items * product_bytes + thread_bytes) + tallies + 512


@cache
def long_shapes(target: Target, scalar_bytes: int) -> tuple[LongShape, ...]:
    """Return the kernels for long rows.

    The first has an array of sums for all columns, the others tables, ascending in size.
    """
    chunk, global_tables, shapes = LONG_CHUNK[target.dialect], GLOBAL_TABLES[target.dialect], []
    for table in (0, *LONG_TABLES[target.dialect], *global_tables):
        threads = 8 if target.dialect == "opencl" else 256 if 0 < table <= 2048 else 512
        # if shared memory has no table, a block can distribute more intermediate products at once
        roomy = target.dialect == "cuda" and (not table or table in global_tables)
        shape = LongShape(table, threads, chunk // threads * (2 if roomy else 1), in_global=table in global_tables)
        resident_blocks = target.shared_bytes // (shape.shared_bytes(scalar_bytes) + 1024)
        if target.dialect == "opencl" or resident_blocks or not table:
            shapes.append(replace(shape, blocks_per_sm=max(1, min(resident_blocks, 1024 // threads))))
    return tuple(shapes)


def long_shape(target: Target, scalar_bytes: int, entries: int, columns: int) -> LongShape | None:
    """Return the kernel for long rows of up to `entries` entries of a matrix with `columns` columns, or None.

    A table in global memory is used only if it has fewer slots than the matrix has columns; else None is returned,
    which means an array of sums for all columns.
    """
    candidates = (shape for shape in long_shapes(target, scalar_bytes) if LONG_FILLED * shape.table >= entries)
    shape = next(candidates, None)
    return None if shape and shape.in_global and columns <= shape.table else shape


@cache
def hash_shapes(target: Target, scalar_bytes: int) -> tuple[HashShape, ...]:
    """Return the available kernels with hash tables in shared memory, for values of `scalar_bytes` bytes."""
    if target.dialect == "opencl":
        widths = {1: tuple(2**bits for bits in range(5, 12))}
    else:
        max_tables = {1: 64, 2: 128, 4: 256, 8: 512, 16: 1024, 32: 2048}
        # all lanes of a row scan the table together, so a table has at least as many slots as lanes
        tables = [16 << bits for bits in range(8)]
        widths = {
            width: tuple(table for table in tables if width <= table <= max_tables[width]) for width in max_tables
        }
        # if several warps share a row, each has a table of its own, whose size limits the row
        widths |= {64: (256, 512, 1024), 128: (128, 256, 512), 256: (128, 256)}
    shapes = []
    for width, table in [(width, table) for width, tables in widths.items() for table in tables]:
        rows = 1
        if width <= target.warp or target.dialect != "cuda":
            resident_tables = SHARED_BYTES[target.dialect] // (table * (COLUMN_BYTES + scalar_bytes))
            rows = max(1, min(MIN_BLOCK_SIZE[target.dialect] // width, resident_tables))
        shapes.append(HashShape(width, table, 1 << (rows.bit_length() - 1)))
    return tuple(shapes)


def sort_shapes(target: Target, scalar_bytes: int) -> list[SortShape]:
    """Return the available sort kernels: several numbers of threads and rows for each bin of the paper."""
    shapes: list[SortShape] = []
    for max_products in LIMITS[:PAPERS_BINS]:
        if target.dialect == "opencl":
            if max_products * (KEY_BYTES + scalar_bytes) <= 2 * SHARED_BYTES["opencl"]:
                shapes.append(SortShape(1, max_products, 1))
            continue
        max_rows = SHARED_BYTES["cuda"] // (max_products * (KEY_BYTES + scalar_bytes))
        shapes += [SortShape(32, max_products, rows) for rows in (1, 4, 8) if rows <= max_rows]
        shapes += [SortShape(width, max_products, 1) for width in (128, 256, 512) if width <= max_products]
    return shapes


def fastest_hash_shape(
    target: Target, scalar_bytes: int, entries: int, products: int = 0, mean_row: float = 0.0
) -> HashShape | None:
    """Return the fastest kernel shape whose table is the smallest that holds `entries`; None if no table does.

    At most 7/8 of the slots are filled: collisions in a fuller table cost more time than a larger table. Rows with many
    intermediate `products` get more lanes. `mean_row`, the mean row length of B, limits the lanes; 0 if unknown.
    """
    max_lanes = 1 << (int(mean_row).bit_length() - 1) if mean_row >= 1 else target.warp
    fastest = _fastest(target, scalar_bytes, products >= LONG_ROW, max_lanes)
    return next((shape for shape in fastest if 7 * shape.table >= 8 * entries), None)


def widen_shape(shape: HashShape, target: Target, scalar_bytes: int, max_lanes: float) -> HashShape:
    """Return the kernel shape with the same table and the most lanes, at most `max_lanes`.

    It returns `shape` if there is no wider one.
    """
    wider = [
        other
        for other in hash_shapes(target, scalar_bytes)
        if other.table == shape.table and shape.width < other.width <= max_lanes
    ]
    return max(wider, key=lambda other: other.width, default=shape)


@cache
def _fastest(target: Target, scalar_bytes: int, long_rows: bool, max_lanes: int) -> tuple[HashShape, ...]:
    """Return the fastest kernel shape for each table size, ascending in size."""
    lanes = LANES | {64: 8} if long_rows else LANES
    shapes_by_table: dict[int, list[HashShape]] = {}
    for shape in hash_shapes(target, scalar_bytes):
        shapes_by_table.setdefault(shape.table, []).append(shape)
    return tuple(
        min(
            shapes_by_table[table],
            key=lambda shape: abs(shape.width - min(lanes.get(shape.table, shape.table), max_lanes)),
        )
        for table in sorted(shapes_by_table)
    )


#: Row capacities for products with stored destinations: a row of C belongs to the smallest one that holds its entries;
#: longer rows have no destinations. Up to `BYTES_ROOM` entries, a destination takes one byte, else two.
ROOMS = (16, 32, 64, 128, 256, 512, 1024, 2048)
BYTES_ROOM = 256
#: A word of the plan for an entry of A has the number of its products in this many low bits, and the number of earlier
#: products of the row in the high bits.
COUNT_BITS = 12
#: Bytes of shared memory per staged entry of A, and targeted block size, of kernels for stored destinations.
STEP_BYTES, REFILL_BLOCK_SIZE = 16, {"cuda": 256, "opencl": 64}
#: Largest number of sums that all groups of a row may have in shared memory.
MAX_SUMS = 2048


@dataclass(frozen=True, order=True)
class RefillShape:
    """Shape of a kernel that adds products to stored positions in C, for rows of C of up to `room` entries."""

    room: int
    #: Lanes that share a row of B; groups of such lanes that share a row of A; and rows per block.
    lanes: int
    groups: int
    rows: int

    @property
    def entries_at_once(self) -> int:
        """Number of entries of A's row that a block stages at once.

        Most rows of a stencil fit, and each lane loads only a few.
        """
        return max(2 * self.lanes * self.groups, 16)

    @property
    def stride(self) -> int:
        """Distance between the sums of consecutive groups in numbers, padded so that groups use different banks."""
        return self.room + (self.lanes if self.lanes < 16 else 0)

    @property
    def blocks_per_sm(self) -> int:
        """Targeted number of resident blocks per multiprocessor.

        Short rows need more blocks, as they mostly wait for memory.
        """
        return 6 if self.room <= 64 else 5

    @property
    def kernel(self) -> str:
        return f"refill_l{self.lanes}_g{self.groups}_r{self.room}"

    @property
    def threads(self) -> int:
        return self.lanes * self.groups * self.rows


@cache
def refill_shapes(target: Target, scalar_bytes: int) -> tuple[RefillShape, ...]:
    """Return the available kernels that add intermediate products to stored destinations."""
    block_size = REFILL_BLOCK_SIZE[target.dialect]
    if target.dialect != "cuda":
        return tuple(RefillShape(room, 1, 1, block_size) for room in ROOMS)
    shapes = []
    for room in ROOMS:
        for lanes in (4, 8, 16, 32):
            for groups in (1, 2, 4, 8):
                shape = RefillShape(room, lanes, groups, 1)
                # a row's sums are cleared and stored within one warp, and rows that share a warp must be short
                if lanes * groups > target.warp or groups * room > MAX_SUMS or room > 64 * lanes * groups:
                    continue
                row_bytes = groups * shape.stride * scalar_bytes + (shape.entries_at_once + 1) * STEP_BYTES
                rows = min(block_size // (lanes * groups), SHARED_BYTES["cuda"] // row_bytes)
                least = target.warp // (lanes * groups)  # a block has whole warps
                if rows >= least:
                    shapes.append(replace(shape, rows=1 << (rows.bit_length() - 1)))
    return tuple(shapes)


def refill_shape(
    target: Target, scalar_bytes: int, room: int, n_rows: int, mean_row_of_a: float, mean_row_of_b: float, resident: int
) -> RefillShape:
    """Return the kernel for `n_rows` rows of C of up to `room` entries each.

    `mean_row_of_a` and `mean_row_of_b` are mean row lengths of A and B. `resident` is the number of threads that the
    device holds at once: if rows are few, each gets more of them. The thresholds are those between the fastest kernels
    of 24 products of Poisson problems on an H100.
    """
    shapes = [shape for shape in refill_shapes(target, scalar_bytes) if shape.room == room]
    lanes = 4 if mean_row_of_b < 6 else 8 if mean_row_of_b < 16 else 16 if mean_row_of_b < 128 else target.warp
    lanes = min((shape.lanes for shape in shapes), key=lambda lane_count: abs(lane_count - lanes))
    groups = 1.0 if mean_row_of_a < 12 or mean_row_of_b >= 16 else 2.0 if mean_row_of_a < 16 else 4.0
    if n_rows * lanes * groups * 2 < resident:
        groups = max(groups, min(mean_row_of_a / 4, resident / (2 * max(n_rows, 1) * lanes)))
    candidates = [shape for shape in shapes if shape.lanes == lanes]
    return min(candidates, key=lambda shape: abs(math.log2(shape.groups) - math.log2(groups)))


class LaunchWord(IntEnum):
    """Index of each counter that the blocks of a one-launch product update and the host reads."""

    #: Offset in the buffer of C of the next free entry.
    BUFFER_END = 0
    #: Number of stored entries of C, and of the largest row of C.
    ENTRIES = 1
    LARGEST = 2
    #: Number of rows that are not stored because a table or the buffer was too small.
    LACKING = 3
    #: Number of blocks that have ended.
    DONE = 4


class CsrWord(IntEnum):
    """Index of each word that the blocks of `read_csr` update and the host reads."""

    #: Length of the longest row, and number of entries.
    LONGEST = 0
    ENTRIES = 1
    #: 1 if an offset or a column is wrong.
    WRONG = 2
    #: 0 if the columns of each row ascend, without duplicates.
    UNORDERED = 3
    #: Number of blocks that have ended.
    DONE = 4


#: Numbers of table slots of one-launch products, and targeted threads per block.
SINGLE_TABLES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048)
SINGLE_BLOCK_SIZE = 256
#: Sizes of hash tables for rows that a whole block computes, multiples of its threads; and the warps of such a block.
#: With four warps, the product R·(A·P) of elasticity took 1.3 to 1.7 times as long on an H100
#: (results/h100/trials/products-shared-rows.csv).
BLOCK_TABLES, BLOCK_WARPS = (256, 512, 768, 1024, 1280, 1536, 2048), 8
#: Registers of a multiprocessor, and registers per thread that loads several entries of B at once.
SM_REGISTERS, REGISTERS_IN_FLIGHT = 1 << 16, 56
#: Smallest table, by lanes per row of B: a row of C has at least as many entries as each row of B in its sum.
MIN_TABLE = {4: 16, 8: 16, 16: 32, 32: 96}


@dataclass(frozen=True, order=True)
class SingleShape:
    """Shape of a one-launch kernel for rows of C in tables of `table` slots."""

    table: int
    #: Lanes that share a row of B; groups of such lanes that share a row of A; and rows per block.
    lanes: int
    groups: int
    rows: int
    #: Largest number of resident blocks per multiprocessor.
    blocks_per_sm: int
    #: Warps that share a row of A, each of them one group; 1: all groups of a row are in one warp.
    warps: int = 1

    @property
    def entries_at_once(self) -> int:
        return max(self.lanes * self.groups, 8)

    @property
    def stride(self) -> int:
        return self.table + (self.lanes if self.lanes < 16 else 0)

    @property
    def kernel(self) -> str:
        return f"single_l{self.lanes}_g{self.groups}_t{self.table}"

    @property
    def in_flight(self) -> int:
        """Number of entries of a row of B that a lane loads at once: several if registers suffice."""
        registers = SM_REGISTERS // (self.blocks_per_sm * self.threads)
        return 4 if self.groups > 1 and self.lanes >= 8 and registers >= REGISTERS_IN_FLIGHT else 1

    @property
    def threads(self) -> int:
        return self.lanes * self.groups * self.rows

    def dynamic_bytes(self, scalar_bytes: int) -> int:
        """Return the bytes of dynamic shared memory per block.

        It is 0 if a block has several rows, whose memory is static.
        """
        return self.shared_bytes(scalar_bytes) if self.warps > 1 else 0

    def shared_bytes(self, scalar_bytes: int) -> int:
        row_bytes = (
            self.groups * self.stride * scalar_bytes
            + (self.entries_at_once + 1) * STEP_BYTES
            + self.table * COLUMN_BYTES
        )
        return self.rows * row_bytes


#: Largest number of resident blocks of `SINGLE_BLOCK_SIZE` threads, so that each thread has enough registers; the
#: second is for rows that several warps share.
SINGLE_REGISTERED, BLOCK_REGISTERED = 6, 4


@cache
def single_shapes(target: Target, scalar_bytes: int) -> tuple[SingleShape, ...]:
    """Return the available kernels of one-launch products."""
    shapes = []
    for table in SINGLE_TABLES:
        for lanes in (4, 8, 16, 32):
            for groups in (1, 2, 4, 8):
                width = lanes * groups
                # the lanes of a warp clear and read a table together
                if width > target.warp or table % width or groups * table > MAX_SUMS or table > 32 * width:
                    continue
                if table < MIN_TABLE[lanes]:
                    continue
                single_row = SingleShape(table, lanes, groups, 1, 1)
                rows = min(SINGLE_BLOCK_SIZE // width, SHARED_BYTES["cuda"] // single_row.shared_bytes(scalar_bytes))
                if rows < target.warp // width:  # a block has whole warps
                    continue
                shape = replace(single_row, rows=1 << (rows.bit_length() - 1))
                max_blocks = SINGLE_REGISTERED * SINGLE_BLOCK_SIZE // shape.threads
                shapes.append(
                    replace(shape, blocks_per_sm=max(1, min(max_blocks, _resident(shape, target, scalar_bytes))))
                )
    for table in BLOCK_TABLES:
        shape = SingleShape(table, target.warp, BLOCK_WARPS, 1, 1, BLOCK_WARPS)
        resident_blocks = min(
            BLOCK_REGISTERED * SINGLE_BLOCK_SIZE // shape.threads, _resident(shape, target, scalar_bytes)
        )
        if resident_blocks:
            shapes.append(replace(shape, blocks_per_sm=resident_blocks))
    return tuple(shapes)


def _resident(shape: SingleShape, target: Target, scalar_bytes: int) -> int:
    """Return how many blocks fit into a multiprocessor's shared memory, of which the runtime takes 1 KiB per block."""
    return min(target.shared_bytes // (shape.shared_bytes(scalar_bytes) + 1024), target.blocks_per_sm)


#: If rows are few, and have at least this many intermediate products on average, several warps share each row. On an
#: H100 that took less for elasticity's R·(A·P) (results/h100/trials/products-shared-rows.csv).
PRODUCTS_OF_A_BLOCK = 2048
#: From this mean row length of B on, all lanes of a warp share one row of B, in a single group.
WIDE_ROW = 24
#: Number of entries of a row of A for each group of lanes that shares the row, approximately.
ROWS_OF_GROUP = 10
#: Largest share of filled slots of a table: with one group per row; with several groups, whose insertions collide; and
#: with several warps per row, where a larger table would reduce the number of resident blocks.
MAX_FILLED, MAX_FILLED_BY_GROUPS, MAX_FILLED_BY_WARPS = 7 / 8, 0.72, 0.75


def single_shape(
    target: Target,
    scalar_bytes: int,
    entries: int,
    n_rows: int,
    mean_row_of_a: float,
    mean_row_of_b: float,
    resident: int,
) -> SingleShape | None:
    """Return the kernel for `n_rows` rows of up to `entries` entries, or None.

    See `refill_shape` for the other parameters.
    """
    target_groups = 1.0 if mean_row_of_b >= WIDE_ROW else min(max(1.0, mean_row_of_a / ROWS_OF_GROUP), 4.0)
    least = 10 if target_groups < 1.5 else 7.5
    lanes = 4 if mean_row_of_b < least else 8 if mean_row_of_b < WIDE_ROW else 16 if mean_row_of_b < 64 else target.warp
    if n_rows * lanes * target_groups * 2 < resident:
        target_groups = max(
            target_groups, min(mean_row_of_a / 4, resident / (2 * max(n_rows, 1) * lanes), target.warp / lanes)
        )
    # the groups determine the order of summation, so their number must not depend on `entries`, which may be a bound
    groups, warps = min((1, 2, 4, 8), key=lambda group_count: abs(math.log2(group_count) - math.log2(target_groups))), 1
    if 2 * n_rows * target.warp < resident and mean_row_of_a * mean_row_of_b >= PRODUCTS_OF_A_BLOCK:
        groups = warps = BLOCK_WARPS
    max_load = MAX_FILLED if groups == 1 else MAX_FILLED_BY_GROUPS if warps == 1 else MAX_FILLED_BY_WARPS
    shapes = [
        shape
        for shape in single_shapes(target, scalar_bytes)
        if (shape.groups, shape.warps) == (groups, warps) and max_load * shape.table >= entries
    ]
    return min(shapes, key=lambda shape: (abs(shape.lanes - lanes), shape.table), default=None)


def planned_rows_per_block(room: int, target: Target) -> int:
    """Return the rows per block of the kernel that finds destinations, with a table of 2 · `room` slots per row."""
    if target.dialect != "cuda":
        return 1
    rows = SHARED_BYTES["cuda"] // (2 * room * (COLUMN_BYTES + 2))
    return max(1, min(8, 1 << (rows.bit_length() - 1)))


#: Format of the factors. `exact`: one segment per row, no free space, no duplicates. `chain`: any dynamic matrix.
Format = Literal["exact", "chain"]

#: Output of a kernel: `one`: rows in newly allocated segments; `symbolic`: row sizes; `numeric`: rows at given offsets.
Mode = Literal["one", "symbolic", "numeric"]
MODES: tuple[Mode, ...] = ("one", "symbolic", "numeric")
#: Lanes per row in the kernel that counts intermediate products.
COUNT_WIDTH = {"cuda": 4, "opencl": 1}
#: For a row of A with at least this many entries, a whole block counts the intermediate products.
COUNTED_BY_BLOCK = 128
#: Modules of both formats: counting and binning; one for each mode; the paper's sort; expansion to coordinates.
KERNELS = ("count", *MODES, "esc", "expand")
#: Modules of the format `exact` only: reading of CSR arrays, products with stored destinations, and, on a GPU,
#: one-launch products.
EXACT_KERNELS = ("csr", "refill", "single")
MODULES = tuple(f"{kernels}-{format}" for format in ("exact", "chain") for kernels in KERNELS) + tuple(
    f"{kernels}-exact" for kernels in EXACT_KERNELS
)


def exact_modules(target: Target) -> tuple[str, ...]:
    """Return the names of the modules for a target and for factors in the format `exact`."""
    exact_kernels = EXACT_KERNELS if target.dialect == "cuda" else EXACT_KERNELS[:-1]
    return tuple(f"{kernels}-exact" for kernels in (*KERNELS, *exact_kernels))


def _places(**words: type[IntEnum]) -> dict[str, Mapping[str, int]]:
    """Return names and values of enumerations, by the prefix under which templates refer to them."""
    return {prefix: {word.name: word.value for word in enum} for prefix, enum in words.items()}


def render_spgemm(
    templates: Path, key: str, target: Target, owner: str, only: HashShape | SortShape | None = None
) -> str:
    """Return the source of module `key` (PRECISION/MODULE); `owner` is named in its title and in error messages.

    With `only`, the module has the kernel of this shape in place of all.
    """
    precision, module = split_key(key, MODULES, owner)
    kernels, format = module.split("-")
    scalar, scalar_bytes = SCALARS[precision]
    count_width = COUNT_WIDTH[target.dialect]
    common: dict[str, Any] = {
        "dialect": target.dialect,
        "scalar": scalar,
        "format": format,
        "block_size": BLOCK_SIZE[target.dialect],
        "state": STATE_NAMES,
    }
    if kernels == "count":
        module_values = {
            "limits": LIMITS,
            "n_bins": BINS,
            "count_width": count_width,
            "long_row": COUNTED_BY_BLOCK,
            "words": _places(BIN=BinWord, SAMPLE=SampleWord),
        }
    elif kernels == "expand":
        module_values = {"width": target.warp if target.dialect == "cuda" else 1}
    elif kernels == "refill":
        module_values = {
            "rooms": ROOMS,
            "plan_rows": {room: planned_rows_per_block(room, target) for room in ROOMS},
            "shapes": refill_shapes(target, scalar_bytes),
            "count_bits": COUNT_BITS,
            "bytes_room": BYTES_ROOM,
            "max_products": 1 << (32 - COUNT_BITS),
            "words": _places(DESTINATIONS=DestinationsWord),
        }
    elif kernels == "csr":
        module_values = {"state_words": STATE_WORDS, "words": _places(CSR=CsrWord)}
    elif kernels == "single":
        module_values = {
            "shapes": single_shapes(target, scalar_bytes),
            "state_words": STATE_WORDS,
            "words": _places(LAUNCH=LaunchWord),
        }
    elif kernels == "esc":
        module_values = {"shapes": [only] if only else sort_shapes(target, scalar_bytes)}
    else:
        shapes = [only] if only else hash_shapes(target, scalar_bytes)
        module_values = {"mode": kernels, "shapes": shapes, "long_shapes": long_shapes(target, scalar_bytes)}
    template = f"sparse/spgemm/{'hash' if kernels in MODES else kernels}.j2"
    return render_template(
        templates, template, title=f"{owner}: {module}, {precision} precision", **common, **module_values
    )
