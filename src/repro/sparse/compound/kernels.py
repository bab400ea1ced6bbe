"""Renders the source of a kernel module for a layout and its schedules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from repro.codegen.targets import INDEX_BYTES, SCALARS, STATIC_SHARED, Target
from repro.codegen.templates import LOAD_BYTES, alignment, render_template
from repro.entries import Entry, get_entry
from repro.errors import ReproError
from repro.sparse.compound.outer import Outer, get_outer
from repro.sparse.compound.variants import (
    CHUNK,
    DIRECT,
    RUN_OF_LANE,
    SPLIT,
    TILE,
    TILE_ROWS,
    WITH_SCRATCH,
    Layout,
    Schedule,
    chunks,
)
from repro.sparse.elementwise import padded_size
from repro.sparse.pairs import NO_PAIR, SIGNS, SLICE, shared_entries
from repro.sparse.symmetry import adjoint_members, diagonal_members, kept_on_diagonal, kinds_of

#: The folder of the templates.
TEMPLATES = "sparse/compound"
#: Number of foreign columns that a thread of the pair kernels loads at once: meshes have fewer than two per thread.
HALO_IN_FLIGHT = 2
#: Warps of a block whose threads have a run of entries each, and the rows of a run that are many (`split.j2`).
WARPS_OF_RUNS, MANY_ROWS = 8, 4096


def kernel_name(schedule: Schedule, target: Target) -> str:
    """Return the kernel name of a schedule.

    In CUDA each schedule has its own kernel, since the compiler limits registers by the blocks per multiprocessor; in
    OpenCL this number only changes the grid.
    """
    name = f"spmv_{schedule.kind}_{schedule.block_size}"
    if target.dialect == "cuda":
        name += f"_{schedule.blocks_per_sm}"
    return "_".join(filter(None, (name, schedule.shape, "rolled" if schedule.rolled else "")))


@dataclass(frozen=True)
class Launch:
    """A kernel that a product launches."""

    kernel: str
    #: Threads per block.
    threads: int
    #: Runs of entries that a block takes; 0: the grid does not depend on runs.
    runs: int = 0


def launches(schedule: Schedule, target: Target) -> list[Launch]:
    """Return the launches of a product in their order; all have the same arguments, except the last word of `el`."""
    kernel, threads = kernel_name(schedule, target), schedule.block_size
    if schedule.kind != SPLIT:
        return [Launch(kernel, threads)]
    return [Launch(kernel, threads, threads // target.warp), replace(finding_of_runs(target), kernel="add_carries")]


def finding_of_runs(target: Target) -> Launch:
    """Return the launch that finds the rows of the runs of a `split` schedule, before the first product."""
    runs = WARPS_OF_RUNS * target.warp
    return Launch("find_runs", runs, runs)


def run_count(slots: int, warp: int) -> int:
    """Return the number of runs of `split` schedules: `RUN_OF_LANE` entries for each lane of a warp, at least one."""
    return max(1, -(-slots // (RUN_OF_LANE * warp)))


def scratch_bytes(runs: int, entry_bytes: int) -> int:
    """Return the bytes of a `split` product's scratch: carries, whether a run has many rows, and the rows of runs."""
    return runs * entry_bytes + (runs + 2) * INDEX_BYTES


def _by_kernel(schedules: Sequence[Schedule], target: Target) -> dict[str, Schedule]:
    """Return the schedules by kernel name, the last of those that share a kernel.

    Raises
    ------
    ReproError
        Two schedules share a name and differ in more than the blocks per multiprocessor, which only change the grid.
    """
    unique: dict[str, Schedule] = {}
    for schedule in schedules:
        name = kernel_name(schedule, target)
        other = unique.get(name, schedule)
        if replace(other, blocks_per_sm=schedule.blocks_per_sm) != schedule:
            raise ReproError(
                "two schedules have the same kernel name, so one of them would not be compiled",
                where=name,
                expected="different names for schedules that differ in any field except blocks_per_sm",
                actual=f"{other!r} and {schedule!r}",
                todo="include the differing field in `Schedule.shape` or `kernel_name`",
            )
        unique[name] = schedule
    return unique


def render_module(
    templates: Path,
    entry: str,
    precision: str,
    layout: Layout,
    schedules: Sequence[Schedule],
    target: Target,
    owner: str,
    *,
    dependent: bool = False,
    columns: int = 0,
) -> str:
    """Return the source of the module with all schedules of an entry, precision and layout; `owner` is in its title.

    With `columns`, its kernels compute Y = A X for as many columns of a matrix X at once, which may be row-major or
    column-major. The order of the layout's vectors does not matter then; formats of pairs have no such kernels.

    With `dependent`, its kernels are for chains of dependent launches (`Device.bind_dependent`), if the target has
    them. Schedules with scratch memory are not available then: a counter has to be reset between launches, and carries
    are added in between.

    Raises
    ------
    ReproError
        A schedule needs more shared memory than a kernel has, or two have one kernel name.
    """
    title = f"{owner}: {entry}, {precision} precision, {layout.stored}" + f", {columns} columns" * bool(columns)
    dependent = dependent and target.has_dependent_launches
    assert not (dependent and any(s.kind in WITH_SCRATCH for s in schedules))
    assert not (columns and (dependent or layout.stores_pairs))
    if layout.stores_pairs:
        return _render_pairs(templates, entry, precision, layout, schedules, target, title, dependent)
    algebra, outer = several_columns(get_entry(entry), columns), get_outer(layout.outer)
    clustered = layout.permutes_rows
    of_all = _by_kernel(schedules, target)
    unique = {name: s for name, s in of_all.items() if s.kind != SPLIT}
    split = {name: s for name, s in of_all.items() if s.kind == SPLIT}
    if not columns:
        for s in split.values():
            _require_shared_memory(s, _vector_numbers(entry, layout) * SCALARS[precision][1])
    # the first blocks of these schedules process one long row each, at the end of a clustered layout
    long_row_kernels = {name for name, s in unique.items() if s.kind in (DIRECT, CHUNK)} if clustered else set()
    return render_template(
        templates,
        f"{TEMPLATES}/module.j2",
        title=title,
        **(_context(entry, precision, layout, target) | _columns_context(algebra, entry, precision, columns)),
        dependent=dependent,
        outer=outer.template,
        rows_adjacent=outer.rows_adjacent,
        **outer.constants,
        # padding of entries without members needs a check, as they cannot be 0
        absent_entries=outer.padded and not algebra.members,
        warp_distances=_distances(target.warp, 1),
        # long rows use plain loads
        loads=sorted(
            {s.load for s in unique.values() if s.shape and not _copies(s, algebra)}
            | ({"ca"} if long_row_kernels else set())
            | {s.load for s in split.values()}
        ),
        copies=any(_copies(s, algebra) for s in unique.values()),
        blocks_of_long_rows=sorted({unique[name].block_size for name in long_row_kernels}),
        papers_schedules=any(not s.shape for s in unique.values()),
        row_loops=sorted({"_rolled" if s.rolled else "" for s in unique.values() if not s.shape}),
        loads_vectors=True,
        stores_vectors=True,
        shapes=[
            _shape(s, outer, algebra, target.warp) for s in {s.shape: s for s in unique.values() if s.shape}.values()
        ],
        schedules=[
            {
                "kernel": name,
                "shape": s.shape,
                "long_rows": name in long_row_kernels,
                "staged": _staging_sizes(s, algebra, target.warp),
                **asdict(s),
            }
            for name, s in unique.items()
        ],
        split_schedules=[{"kernel": name, "stride": _lane_stride(s), **asdict(s)} for name, s in split.items()],
        overlaps=bool(split) and target.has_dependent_launches,
        run_of_lane=RUN_OF_LANE,
        run_block=WARPS_OF_RUNS * target.warp,
        many_rows=MANY_ROWS,
        scan_distances=[1 << i for i in range(target.warp.bit_length() - 1)],
    )


#: Largest number of columns of X that one launch multiplies, and of their numbers in one row of entries.
MAX_COLUMNS, MAX_NUMBERS = 8, 16


def columns_schedule(schedule: Schedule, target: Target, size: int) -> Schedule:
    """Return a schedule that multiplies several columns at once; `size` is the numbers of a vector entry.

    A thread has registers for the sums of all columns, so that blocks are few, and one entry is in flight. In a `split`
    schedule it has one column, and four numbers in flight; entries are read again by the same group, from L1.
    """
    if schedule.kind == SPLIT:
        blocks = max(1, target.threads_per_sm * 3 // 4 // (schedule.block_size * min(size, 2)))
        return replace(schedule, blocks_per_sm=blocks, in_flight=max(1, 4 // size), load="ca")
    blocks = min(schedule.blocks_per_sm, max(1, target.threads_per_sm // 4 // schedule.block_size))
    return replace(schedule, blocks_per_sm=blocks, in_flight=1, prefetch="")


def _lane_stride(schedule: Schedule) -> int:
    """Return the distance in shared memory of the products of two lanes: odd, so that lanes read different banks."""
    return schedule.in_flight | 1


def _require_shared_memory(schedule: Schedule, entry_bytes: int) -> None:
    """Raise `ReproError` if the products of a `split` schedule's batch exceed a block's shared memory."""
    threads = schedule.block_size
    needed = threads * (_lane_stride(schedule) * entry_bytes + RUN_OF_LANE)
    if needed > STATIC_SHARED:
        raise ReproError(
            "the schedule needs more shared memory than a kernel may use",
            where=schedule,
            expected=f"at most {STATIC_SHARED:,} bytes",
            actual=f"{needed:,} bytes for the products of {threads} threads, of {entry_bytes} bytes each",
            todo="use fewer threads per block or fewer entries in flight",
        )


def split_columns(columns: int, size: int) -> tuple[int, list[int]]:
    """Return how many columns each launch multiplies, and the first column of each launch.

    `size` is the size of an entry. Launches have equal widths so that all run one kernel; they may overlap.
    """
    launches = -(-columns // max(2, min(MAX_COLUMNS, MAX_NUMBERS // size)))
    width = -(-columns // launches)
    return width, [min(width * launch, columns - width) for launch in range(launches)]


def several_columns(entry: Entry, columns: int) -> Entry:
    """Return an entry whose vector entries have the members of several vectors, one after the other; 0: the entry."""
    if not columns:
        return entry

    def of_column(statement: str, column: int) -> str:
        return re.sub(r"\b([bc])\.(\w+)", rf"\1.\2_{column}", statement)

    numbers = range(columns)
    return replace(
        entry,
        vector_members=tuple(f"{member}_{column}" for column in numbers for member in entry.vector_members),
        # braces, as statements may declare variables
        mac=tuple(f"{{ {' '.join(of_column(statement, column) for statement in entry.mac)} }}" for column in numbers),
    )


def _columns_context(algebra: Entry, entry: str, precision: str, columns: int) -> dict[str, Any]:
    """Return the template variables about vectors that are columns of a matrix, or about usual ones for 0 columns."""
    if not columns:
        return {"columns_at_once": 0, "x_extent": "n", "y_extent": "n"}
    size = get_entry(entry).size
    parts = 2 if entry == "complex" else 1  # of a number of the user's matrix
    places = [
        {
            "member": member,
            "column": index // size,
            "numbers": size // parts,
            "number": index % size // parts,
            "part": index % parts,
        }
        for index, member in enumerate(algebra.vector_members)
    ]
    return {
        "columns_at_once": columns,
        "x_extent": "first_column, x_row, x_column",
        "y_extent": "first_column, y_row, y_column",
        "entry": algebra,
        "vector": "columns",
        "vector_type": "scalar",
        "vector_members": algebra.vector_members,
        "vector_alignment": SCALARS[precision][1],
        "column_places": places,
        "entry_of_column": get_entry(entry),
        "lanes_of_group": 1 << (columns - 1).bit_length(),
    }


def _render_pairs(
    templates: Path,
    entry: str,
    precision: str,
    layout: Layout,
    schedules: Sequence[Schedule],
    target: Target,
    title: str,
    dependent: bool,
) -> str:
    algebra = get_entry(entry)
    if not algebra.members:
        raise ReproError(
            "a matrix without values has no pairs of values",
            where=f"{layout} of the entry {entry}",
            todo="choose another layout; `repro list layouts` prints all",
        )
    unique = _by_kernel(schedules, target)
    # true if a vector entry takes two loads
    halves = layout.vector != "SoA" and _vector_numbers(entry, layout) * SCALARS[precision][1] == 2 * LOAD_BYTES
    return render_template(
        templates,
        f"{TEMPLATES}/pairs.j2",
        title=title,
        **_context(entry, precision, layout, target),
        dependent=dependent,
        **pairs_constants(entry, layout),
        absent_entries=False,
        papers_schedules=False,
        loads=sorted({s.load for s in unique.values()}),
        copies=any(s.prefetch == "a" for s in unique.values()),
        halves=halves,
        halo_in_flight=HALO_IN_FLIGHT,
        loads_vectors=not halves,
        stores_vectors=not halves or target.dialect != "cuda",
        shared_entries=shared_entries(TILE_ROWS[layout.outer], _vector_numbers(entry, layout) * SCALARS[precision][1]),
        schedules=[{"kernel": name, **asdict(s)} for name, s in unique.items()],
    )


def pairs_constants(entry: str, layout: Layout) -> dict[str, Any]:
    """Return the template variables of the pair formats: sizes, and the transposition of an entry."""
    members = get_entry(entry).members
    kinds = kinds_of(entry)
    sign_given = len(kinds) > 1
    factors = {1: "", -1: "sign * " if sign_given else "-"}
    return {
        "tile_rows": TILE_ROWS[layout.outer],
        "slice_rows": SLICE,
        "no_pair": NO_PAIR,
        "sign_given": sign_given,
        "first_sign": SIGNS[kinds[0]],
        "across": [
            (member, members[source], factors[sign])
            for member, (source, sign) in zip(members, adjoint_members(entry), strict=True)
        ],
        "on_diagonal": [members[number] for number in kept_on_diagonal(entry)],
        "diagonal_members": [
            (member, "" if source_member is None else members[source_member])
            for member, source_member in zip(members, diagonal_members(entry), strict=True)
        ],
    }


def _context(entry: str, precision: str, layout: Layout, target: Target) -> dict[str, Any]:
    """Return the template variables that all formats use."""
    algebra, size = get_entry(entry), _vector_numbers(entry, layout)
    scalar, scalar_bytes = SCALARS[precision]
    loads = chunks(len(algebra.members), scalar_bytes)
    return {
        "dialect": target.dialect,
        "entry": algebra,
        "scalar": scalar,
        "scalar_bytes": scalar_bytes,
        "matrix_alignment": alignment(len(algebra.members), scalar_bytes),
        "vector_alignment": alignment(size, scalar_bytes),
        "vector_members": [*algebra.vector_members, *(f"padding{i}" for i in range(size - algebra.size))],
        "inner": layout.inner,
        "vector": layout.vector,
        "clustered": layout.permutes_rows,
        "matrix_type": "matrix_entry" if layout.inner == "AoS" and algebra.members else "scalar",
        "vector_type": "scalar" if layout.vector == "SoA" else "vector_entry",
        "tile": TILE,
        "chunks": loads,
        "chunk_widths": sorted({width for _, width in loads}),
        "chunk_members": ("a", "b", "c", "d"),
    }


def _vector_numbers(entry: str, layout: Layout) -> int:
    """Return how many numbers a vector entry has, including padding."""
    size = get_entry(entry).size
    return padded_size(size) if layout.vector == "Padded" else size


def _copies(schedule: Schedule, entry: Entry) -> bool:
    """Return whether the schedule prefetches entries into shared memory by asynchronous copies."""
    return schedule.prefetch == "a" and bool(entry.members)


def _staging_sizes(schedule: Schedule, entry: Entry, warp: int) -> dict[str, int] | None:
    """Return where a warp's prefetched entries are in shared memory, in numbers; None without asynchronous copies.

    `buffer0` and `buffer1` are the offsets of the two alternating batches; `entry` is the stride of entries in flight,
    and `warp` the stride of warps.
    """
    if not _copies(schedule, entry):
        return None
    step_numbers = warp * len(entry.members)
    batch = schedule.in_flight * step_numbers
    return {"buffer0": 0, "buffer1": batch, "entry": step_numbers, "warp": 2 * batch}


def _shape(schedule: Schedule, outer: Outer, entry: Entry, warp: int) -> dict[str, Any]:
    """Return how a schedule distributes rows over a warp's threads, with the shuffle distances of their sums."""
    return {
        "name": schedule.shape,
        "width": schedule.width,
        "in_flight": schedule.in_flight,
        "load": schedule.load,
        "prefetch": schedule.prefetch,
        "staged": _staging_sizes(schedule, entry, warp),
        "distances": _distances(schedule.width, warp // schedule.width if outer.rows_adjacent else 1),
    }


def _distances(width: int, nearest: int) -> list[int]:
    """Return the shuffle distances for a sum over `width` threads that are `nearest` lanes apart, the largest first."""
    return [nearest << i for i in reversed(range(width.bit_length() - 1))]
