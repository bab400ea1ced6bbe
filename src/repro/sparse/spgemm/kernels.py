"""Kernels of sparse matrix products: row bins, shapes of hash tables and sorts, and rendering."""

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
    """Index of each word of a bin."""

    #: Products, or entries, of all its rows: a sum in two words, the upper one in units of 2¹⁶.
    TOTAL_HIGH = 0
    TOTAL_LOW = 1
    #: Those of its largest row.
    LARGEST = 2


class SampleWord(IntEnum):
    """Index of each word of a bin's sample: entries of its rows, and of the largest."""

    ENTRIES = 0
    LARGEST = 1


class DestinationsWord(IntEnum):
    """Index of each word of all rows' destinations: their bytes, a sum as in `BinWord`."""

    BYTES_HIGH = 0
    BYTES_LOW = 1


#: Maximum products, or entries, of a row in each bin; the last bin has longer rows.
LIMITS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BINS = len(LIMITS) + 1
#: Bins of King 2017, Table 6.1, with rows sorted in shared memory.
PAPERS_BINS = LIMITS.index(2048) + 1
#: Static shared memory of a block; on the CPU a part of its L1 cache.
SHARED_BYTES = {"cuda": 44 * 1024, "opencl": 24 * 1024}
#: Wanted threads of a block (measurements not recorded).
MIN_BLOCK_SIZE = {"cuda": 256, "opencl": 8}
COLUMN_BYTES, KEY_BYTES = 4, 8
#: Expected products per entry of C, by bin (measurements not recorded). Rows with fewer products per entry may be
#: computed again.
EXPECTED = (2, 2, 4, 4, 8, 8, 16, 16, 32, 64, 64)
#: Fastest number of lanes by table slots on a GPU; larger tables use a whole warp. Of an H200's bins
#: (results/h200/tables/spgemm_amg/table-bins.csv, column `hash_kernel`) these are the most frequent at 32, 128 and 256
#: slots; what the others rest on is not recorded.
LANES = {16: 2, 32: 4, 64: 4, 128: 8, 256: 16}
#: Products of a row at which tables of 64 use twice as many lanes (measurements not recorded).
LONG_ROW = 500


@dataclass(frozen=True, order=True)
class HashShape:
    """Launch shape of a kernel that computes a row by a hash table in shared memory."""

    #: Lanes of a row: a part of a warp, or several warps, each with a part of A's row.
    width: int
    #: Slots, a power of two.
    table: int
    #: Rows of a block; 1 for several warps a row.
    rows: int

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return module and kernel name."""
        return mode, f"{mode}_w{self.width}_t{self.table}"

    @property
    def bits(self) -> int:
        return self.table.bit_length() - 1

    @property
    def threads(self) -> int:
        return self.width * self.rows


@dataclass(frozen=True, order=True)
class SortShape:
    """A row by expansion, sorting and compression in shared memory."""

    #: Threads of a row.
    width: int
    #: Capacity in products, a power of two.
    max_products: int
    #: Rows of a block; 1 for more threads than a warp.
    rows: int

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return module and kernel name; there is only the one-phase kernel."""
        assert mode == "one"
        return "esc", f"esc_w{self.width}_p{self.max_products}_r{self.rows}"

    @property
    def threads(self) -> int:
        return self.width * self.rows


#: Slots of the tables of long rows in shared memory, and in global memory, for rows that these do not hold; products
#: that a block deals out at once; and products from which a row is long. A table of 32,768 in global memory beat dense
#: sums on an H100, one of 131,072 did not (results/h100/trials/products-shared-rows.csv); measurements behind the
#: others are not recorded.
LONG_TABLES = {"cuda": (1024, 2048, 4096, 8192, 16384), "opencl": (4096,)}
GLOBAL_TABLES = {"cuda": (32768,), "opencl": ()}
LONG_CHUNK = {"cuda": 1024, "opencl": 256}
LONG_PRODUCTS = {"cuda": 512, "opencl": 1792}
#: The largest part of such a table that is filled (measurements not recorded).
LONG_FILLED = 7 / 8


@dataclass(frozen=True, order=True)
class LongShape:
    """A row by a block whose threads have as many products each, whatever B's rows are."""

    #: Slots, a power of two; 0: a sum for every column in global memory.
    table: int
    threads: int
    #: Products of a thread in a chunk.
    items: int
    #: Blocks that a multiprocessor shall hold.
    blocks_per_sm: int = 1
    rows: int = 1
    #: Whether the table is in global memory.
    in_global: bool = False

    def kernel(self, mode: str) -> tuple[str, str]:
        """Return module and kernel name."""
        return mode, f"{mode}_long_t{self.table}" if self.table else f"{mode}_dense"

    @property
    def bits(self) -> int:
        return self.table.bit_length() - 1

    def table_bytes(self, mode: str, scalar_bytes: int) -> int:
        """Return the dynamic shared memory of a block."""
        return 0 if self.in_global else self.table * (COLUMN_BYTES + (0 if mode == "symbolic" else scalar_bytes))

    def shared_bytes(self, scalar_bytes: int) -> int:
        """Return an upper bound of a block's shared memory in bytes."""
        of_product, of_thread = COLUMN_BYTES + scalar_bytes, 2 * COLUMN_BYTES + scalar_bytes
        tallies = COLUMN_BYTES * (self.threads // 32) ** 2
        of_table = 0 if self.in_global else self.table * of_product
        return of_table + self.threads * (self.items * of_product + of_thread) + tallies + 512


@cache
def long_shapes(target: Target, scalar_bytes: int) -> tuple[LongShape, ...]:
    """Return the kernels for long rows: the first has a dense array of sums, the others tables of ascending sizes."""
    chunk, in_global, made = LONG_CHUNK[target.dialect], GLOBAL_TABLES[target.dialect], []
    for table in (0, *LONG_TABLES[target.dialect], *in_global):
        threads = 8 if target.dialect == "opencl" else 256 if 0 < table <= 2048 else 512
        # without a table in shared memory there is room for more products at once
        roomy = target.dialect == "cuda" and (not table or table in in_global)
        shape = LongShape(table, threads, chunk // threads * (2 if roomy else 1), in_global=table in in_global)
        fitting = target.shared_bytes // (shape.shared_bytes(scalar_bytes) + 1024)
        if target.dialect == "opencl" or fitting or not table:
            made.append(replace(shape, blocks_per_sm=max(1, min(fitting, 1024 // threads))))
    return tuple(made)


def long_shape(target: Target, scalar_bytes: int, entries: int, columns: int) -> LongShape | None:
    """Return the kernel for long rows with slots for `entries`, of a matrix of so many columns; None without one.

    A table in global memory is for a matrix of more columns than it has slots: else a sum for every column takes less.
    """
    fitting = (shape for shape in long_shapes(target, scalar_bytes) if LONG_FILLED * shape.table >= entries)
    shape = next(fitting, None)
    return None if shape and shape.in_global and columns <= shape.table else shape


@cache
def hash_shapes(target: Target, scalar_bytes: int) -> tuple[HashShape, ...]:
    """Return the available hash tables for a number size."""
    if target.dialect == "opencl":
        widths = {1: tuple(2**bits for bits in range(5, 12))}
    else:
        max_tables = {1: 64, 2: 128, 4: 256, 8: 512, 16: 1024, 32: 2048}
        # lanes of a row scan a table together, so a table has at least as many slots as lanes
        tables = [16 << bits for bits in range(8)]
        widths = {
            width: tuple(table for table in tables if width <= table <= max_tables[width]) for width in max_tables
        }
        # with several warps each has its own table, and one table limits the row
        widths |= {64: (256, 512, 1024), 128: (128, 256, 512), 256: (128, 256)}
    shapes = []
    for width, table in [(width, table) for width, tables in widths.items() for table in tables]:
        rows = 1
        if width <= target.warp or target.dialect != "cuda":
            fitting = SHARED_BYTES[target.dialect] // (table * (COLUMN_BYTES + scalar_bytes))
            rows = max(1, min(MIN_BLOCK_SIZE[target.dialect] // width, fitting))
        shapes.append(HashShape(width, table, 1 << (rows.bit_length() - 1)))
    return tuple(shapes)


def sort_shapes(target: Target, scalar_bytes: int) -> list[SortShape]:
    """Return the available sorts: several numbers of threads and rows for each of the paper's bins."""
    made: list[SortShape] = []
    for max_products in LIMITS[:PAPERS_BINS]:
        if target.dialect == "opencl":
            if max_products * (KEY_BYTES + scalar_bytes) <= 2 * SHARED_BYTES["opencl"]:
                made.append(SortShape(1, max_products, 1))
            continue
        fitting = SHARED_BYTES["cuda"] // (max_products * (KEY_BYTES + scalar_bytes))
        made += [SortShape(32, max_products, rows) for rows in (1, 4, 8) if rows <= fitting]
        made += [SortShape(width, max_products, 1) for width in (128, 256) if width <= max_products]
    return made


def fastest_hash_shape(
    target: Target, scalar_bytes: int, entries: int, products: int = 0, mean_row: float = 0.0
) -> HashShape | None:
    """Return the fastest shape with the smallest table for `entries`; None without one.

    At most seven of eight slots are filled: larger tables cost more time than collisions. Rows with many `products` use
    more lanes. `mean_row`, B's mean row length, limits the lanes; 0: unknown.
    """
    max_lanes = 1 << (int(mean_row).bit_length() - 1) if mean_row >= 1 else target.warp
    fastest = _fastest(target, scalar_bytes, products >= LONG_ROW, max_lanes)
    return next((shape for shape in fastest if 7 * shape.table >= 8 * entries), None)


def widen_shape(shape: HashShape, target: Target, scalar_bytes: int, max_lanes: float) -> HashShape:
    """Return the shape with the most lanes for the same table, within a limit; else the given shape."""
    wider = [
        other
        for other in hash_shapes(target, scalar_bytes)
        if other.table == shape.table and shape.width < other.width <= max_lanes
    ]
    return max(wider, key=lambda other: other.width, default=shape)


@cache
def _fastest(target: Target, scalar_bytes: int, long_rows: bool, max_lanes: int) -> tuple[HashShape, ...]:
    """Return the fastest shape for each table size, ascending."""
    lanes = LANES | {64: 8} if long_rows else LANES
    by_table: dict[int, list[HashShape]] = {}
    for shape in hash_shapes(target, scalar_bytes):
        by_table.setdefault(shape.table, []).append(shape)
    return tuple(
        min(by_table[table], key=lambda shape: abs(shape.width - min(lanes.get(shape.table, shape.table), max_lanes)))
        for table in sorted(by_table)
    )


#: Rooms of rows of C with stored destinations; longer rows have none. Up to `BYTES_ROOM` entries these are bytes.
ROOMS = (16, 32, 64, 128, 256, 512, 1024, 2048)
BYTES_ROOM = 256
#: Low bits of a word for the number of the entry's products; the high bits count earlier products.
COUNT_BITS = 12
#: Bytes of a staged entry of A, and targeted block size, of kernels for stored destinations.
STEP_BYTES, REFILL_BLOCK_SIZE = 16, {"cuda": 256, "opencl": 64}
#: Maximum number of sums of all groups of a row.
MAX_SUMS = 2048


@dataclass(frozen=True, order=True)
class RefillShape:
    """Rows of C of up to `room` entries by stored destinations."""

    room: int
    #: Lanes of a row of B, groups of them of a row of A, and rows of a block.
    lanes: int
    groups: int
    rows: int

    @property
    def entries_at_once(self) -> int:
        """Entries of A's row that are read at once: most rows of a stencil, by each lane few."""
        return max(2 * self.lanes * self.groups, 16)

    @property
    def stride(self) -> int:
        """Distance between the sums of consecutive groups, padded so that groups use different banks."""
        return self.room + (self.lanes if self.lanes < 16 else 0)

    @property
    def blocks_per_sm(self) -> int:
        """Blocks that a multiprocessor shall hold; short rows wait for memory most of the time."""
        return 6 if self.room <= 64 else 5

    @property
    def kernel(self) -> str:
        return f"refill_l{self.lanes}_g{self.groups}_r{self.room}"

    @property
    def threads(self) -> int:
        return self.lanes * self.groups * self.rows


@cache
def refill_shapes(target: Target, scalar_bytes: int) -> tuple[RefillShape, ...]:
    """Return the available kernels that add to stored destinations."""
    wanted = REFILL_BLOCK_SIZE[target.dialect]
    if target.dialect != "cuda":
        return tuple(RefillShape(room, 1, 1, wanted) for room in ROOMS)
    made = []
    for room in ROOMS:
        for lanes in (4, 8, 16, 32):
            for groups in (1, 2, 4, 8):
                shape = RefillShape(room, lanes, groups, 1)
                # the lanes of a row clear and store its sums together, and rows in parts of a warp are short
                if lanes * groups > target.warp or groups * room > MAX_SUMS or room > 64 * lanes * groups:
                    continue
                of_row = groups * shape.stride * scalar_bytes + (shape.entries_at_once + 1) * STEP_BYTES
                rows = min(wanted // (lanes * groups), SHARED_BYTES["cuda"] // of_row)
                least = target.warp // (lanes * groups)  # whole warps
                if rows >= least:
                    made.append(replace(shape, rows=1 << (rows.bit_length() - 1)))
    return tuple(made)


def refill_shape(
    target: Target, scalar_bytes: int, room: int, n_rows: int, mean_row_of_a: float, mean_row_of_b: float, resident: int
) -> RefillShape:
    """Return the kernel for `n_rows` rows of a room.

    `mean_row_of_a` and `mean_row_of_b` are mean row lengths of A and B, `resident` the lanes of the device, which few
    rows share. The limits are those between the fastest kernels of the 24 products of Poisson problems on an H100; the
    times are not recorded.
    """
    shapes = [shape for shape in refill_shapes(target, scalar_bytes) if shape.room == room]
    lanes = 4 if mean_row_of_b < 6 else 8 if mean_row_of_b < 16 else 16 if mean_row_of_b < 128 else target.warp
    lanes = min((shape.lanes for shape in shapes), key=lambda each: abs(each - lanes))
    groups = 1.0 if mean_row_of_a < 12 or mean_row_of_b >= 16 else 2.0 if mean_row_of_a < 16 else 4.0
    if n_rows * lanes * groups * 2 < resident:
        groups = max(groups, min(mean_row_of_a / 4, resident / (2 * max(n_rows, 1) * lanes)))
    of_lanes = [shape for shape in shapes if shape.lanes == lanes]
    return min(of_lanes, key=lambda shape: abs(math.log2(shape.groups) - math.log2(groups)))


class LaunchWord(IntEnum):
    """Index of each word that blocks of a product in one launch count in, and the host reads."""

    #: Offset of the next share of the buffer.
    BUFFER_END = 0
    #: Stored entries of C, and those of its largest row.
    ENTRIES = 1
    LARGEST = 2
    #: Rows that are not stored: a table or the buffer lacked room.
    LACKING = 3
    #: Blocks that have ended.
    DONE = 4


#: Tables of products in one launch, and wanted threads of a block.
SINGLE_TABLES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048)
SINGLE_BLOCK_SIZE = 256
#: Tables of a block that has one row, multiples of its threads, and its warps; with four of them R·(A·P) of elasticity
#: took 1.3 to 1.7 times as long on an H100 (results/h100/trials/products-shared-rows.csv).
BLOCK_TABLES, BLOCK_WARPS = (256, 512, 768, 1024, 1280, 1536, 2048), 8
#: Registers of a multiprocessor, and of a thread that loads several entries of B at once.
SM_REGISTERS, REGISTERS_IN_FLIGHT = 1 << 16, 56
#: The smallest table of so many lanes: a row of C has the columns of each row of B that it is a sum of.
MIN_TABLE = {4: 16, 8: 16, 16: 32, 32: 96}


@dataclass(frozen=True, order=True)
class SingleShape:
    """Rows of C of up to `table` entries, in a product of one launch."""

    table: int
    #: Lanes of a row of B, groups of them of a row of A, and rows of a block.
    lanes: int
    groups: int
    rows: int
    #: Blocks that a multiprocessor holds at once.
    blocks_per_sm: int
    #: Warps of a row of A, each of them a group; 1: the groups are of one warp.
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
        """Entries of a row of B that a lane loads at once: several where few rows share the device."""
        registers = SM_REGISTERS // (self.blocks_per_sm * self.threads)
        return 4 if self.groups > 1 and self.lanes >= 8 and registers >= REGISTERS_IN_FLIGHT else 1

    @property
    def threads(self) -> int:
        return self.lanes * self.groups * self.rows

    def dynamic_bytes(self, scalar_bytes: int) -> int:
        """Return the shared memory of a block that a launch states: all of it where a block has one row."""
        return self.shared_bytes(scalar_bytes) if self.warps > 1 else 0

    def shared_bytes(self, scalar_bytes: int) -> int:
        of_row = (
            self.groups * self.stride * scalar_bytes
            + (self.entries_at_once + 1) * STEP_BYTES
            + self.table * COLUMN_BYTES
        )
        return self.rows * of_row


#: Blocks of `SINGLE_BLOCK_SIZE` threads that registers are left for; and where several warps share a row.
SINGLE_REGISTERED, BLOCK_REGISTERED = 6, 4


@cache
def single_shapes(target: Target, scalar_bytes: int) -> tuple[SingleShape, ...]:
    """Return the available kernels of products in one launch."""
    made = []
    for table in SINGLE_TABLES:
        for lanes in (4, 8, 16, 32):
            for groups in (1, 2, 4, 8):
                width = lanes * groups
                # the lanes of a warp clear and read its tables together
                if width > target.warp or table % width or groups * table > MAX_SUMS or table > 32 * width:
                    continue
                if table < MIN_TABLE[lanes]:
                    continue
                single_row = SingleShape(table, lanes, groups, 1, 1)
                rows = min(SINGLE_BLOCK_SIZE // width, SHARED_BYTES["cuda"] // single_row.shared_bytes(scalar_bytes))
                if rows < target.warp // width:  # whole warps
                    continue
                shape = replace(single_row, rows=1 << (rows.bit_length() - 1))
                most = SINGLE_REGISTERED * SINGLE_BLOCK_SIZE // shape.threads
                made.append(replace(shape, blocks_per_sm=max(1, min(most, _resident(shape, target, scalar_bytes)))))
    for table in BLOCK_TABLES:
        shape = SingleShape(table, target.warp, BLOCK_WARPS, 1, 1, BLOCK_WARPS)
        fitting = min(BLOCK_REGISTERED * SINGLE_BLOCK_SIZE // shape.threads, _resident(shape, target, scalar_bytes))
        if fitting:
            made.append(replace(shape, blocks_per_sm=fitting))
    return tuple(made)


def _resident(shape: SingleShape, target: Target, scalar_bytes: int) -> int:
    """Return the blocks for which a multiprocessor has the shared memory, one KiB of each for the runtime."""
    return min(target.shared_bytes // (shape.shared_bytes(scalar_bytes) + 1024), target.blocks_per_sm)


#: Mean products of a row from which several warps share it, where rows are few: on an H100 they were faster on rows of
#: elasticity's R·(A·P) (results/h100/trials/products-shared-rows.csv), but the limit's measurements are not recorded.
PRODUCTS_OF_A_BLOCK = 2048
#: From this mean row length of B on, all lanes share one row of B instead of forming groups. The measurements behind
#: this and the next number are not recorded.
WIDE_ROW = 24
#: Mean row length of A for each group of lanes.
ROWS_OF_GROUP = 10
#: Maximum fill ratio of a table whose row has one group; with several groups, which collide at slots; and with several
#: warps, where a larger table leaves fewer blocks (measurements not recorded).
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
    """Return the kernel for `n_rows` rows of up to `entries`, or None; other parameters as for `refill_shape`."""
    wanted = 1.0 if mean_row_of_b >= WIDE_ROW else min(max(1.0, mean_row_of_a / ROWS_OF_GROUP), 4.0)
    least = 10 if wanted < 1.5 else 7.5
    lanes = 4 if mean_row_of_b < least else 8 if mean_row_of_b < WIDE_ROW else 16 if mean_row_of_b < 64 else target.warp
    if n_rows * lanes * wanted * 2 < resident:
        wanted = max(wanted, min(mean_row_of_a / 4, resident / (2 * max(n_rows, 1) * lanes), target.warp / lanes))
    # the order of sums depends on the groups, so their number must not depend on `entries`, which may be a bound
    groups, warps = min((1, 2, 4, 8), key=lambda each: abs(math.log2(each) - math.log2(wanted))), 1
    if 2 * n_rows * target.warp < resident and mean_row_of_a * mean_row_of_b >= PRODUCTS_OF_A_BLOCK:
        groups = warps = BLOCK_WARPS
    filled = MAX_FILLED if groups == 1 else MAX_FILLED_BY_GROUPS if warps == 1 else MAX_FILLED_BY_WARPS
    shapes = [
        shape
        for shape in single_shapes(target, scalar_bytes)
        if (shape.groups, shape.warps) == (groups, warps) and filled * shape.table >= entries
    ]
    return min(shapes, key=lambda shape: (abs(shape.lanes - lanes), shape.table), default=None)


def rows_that_plan(room: int, target: Target) -> int:
    """Return the rows of a block that finds the destinations of rows of a room, by a table of twice the slots."""
    if target.dialect != "cuda":
        return 1
    rows = SHARED_BYTES["cuda"] // (2 * room * (COLUMN_BYTES + 2))
    return max(1, min(8, 1 << (rows.bit_length() - 1)))


#: Format of operands. `exact`: one segment a row, no free space, no duplicates. `chain`: any dynamic matrix.
Format = Literal["exact", "chain"]

#: Output of a bin's kernel: rows in newly allocated segments, row sizes, rows in existing segments.
Mode = Literal["one", "symbolic", "numeric"]
MODES: tuple[Mode, ...] = ("one", "symbolic", "numeric")
#: Lanes of a row for counting products (measurements not recorded).
COUNT_WIDTH = {"cuda": 4, "opencl": 1}
#: Entries of a row of A from which a whole block counts its products (measurements not recorded).
COUNTED_BY_BLOCK = 128
#: Modules: counting and binning, one for each mode, the paper's sort, and expansion to coordinates; in both formats.
KERNELS = ("count", *MODES, "esc", "expand")
#: Modules in the format `exact` alone: new values by stored destinations, and on a GPU products in one launch.
EXACT_KERNELS = ("refill", "single")
MODULES = tuple(f"{kernels}-{format}" for format in ("exact", "chain") for kernels in KERNELS) + tuple(
    f"{kernels}-exact" for kernels in EXACT_KERNELS
)


def exact_modules(target: Target) -> tuple[str, ...]:
    """Return the modules of products of matrices in the format `exact` that a target has."""
    own = EXACT_KERNELS if target.dialect == "cuda" else EXACT_KERNELS[:1]
    return tuple(f"{kernels}-exact" for kernels in (*KERNELS, *own))


def _places(**words: type[IntEnum]) -> dict[str, Mapping[str, int]]:
    """Return the places of words by name, for each prefix that templates give them."""
    return {prefix: {word.name: word.value for word in enum} for prefix, enum in words.items()}


def render_spgemm(templates: Path, key: str, target: Target, owner: str) -> str:
    """Return the source of module PRECISION/MODULE; `owner` stands in its title and in messages."""
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
        own = {
            "limits": LIMITS,
            "n_bins": BINS,
            "count_width": count_width,
            "long_row": COUNTED_BY_BLOCK,
            "words": _places(BIN=BinWord, SAMPLE=SampleWord),
        }
    elif kernels == "expand":
        own = {"width": target.warp if target.dialect == "cuda" else 1}
    elif kernels == "refill":
        own = {
            "rooms": ROOMS,
            "plan_rows": {room: rows_that_plan(room, target) for room in ROOMS},
            "shapes": refill_shapes(target, scalar_bytes),
            "count_bits": COUNT_BITS,
            "bytes_room": BYTES_ROOM,
            "max_products": 1 << (32 - COUNT_BITS),
            "words": _places(DESTINATIONS=DestinationsWord),
        }
    elif kernels == "single":
        own = {
            "shapes": single_shapes(target, scalar_bytes),
            "state_words": STATE_WORDS,
            "words": _places(LAUNCH=LaunchWord),
        }
    elif kernels == "esc":
        own = {"shapes": sort_shapes(target, scalar_bytes)}
    else:
        shapes = {"shapes": hash_shapes(target, scalar_bytes), "long_shapes": long_shapes(target, scalar_bytes)}
        own = {"mode": kernels, **shapes}
    template = f"sparse/spgemm/{'hash' if kernels in MODES else kernels}.j2"
    return render_template(templates, template, title=f"{owner}: {module}, {precision} precision", **common, **own)
