"""Rendering of the kernels of iterative solvers: vector kernels that run between products, and persistent kernels."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from repro.codegen.targets import SCALARS, Target
from repro.codegen.templates import alignment, render_template
from repro.entries import get_entry
from repro.errors import ReproError
from repro.sparse.solvers.slices import COLUMN_BITS, FORMS, LANES, LANES_UNIT, VALUE_BITS, Form
from repro.sparse.symmetry import adjoint_members

#: Threads per block, and blocks per multiprocessor, all of which are resident at once.
BLOCK_SIZE = {"cuda": 256, "opencl": 64}
SOLVER_BLOCKS_PER_SM = {"cuda": 4, "opencl": 1}
#: Bytes of a vector load, to a multiple of which vectors are padded; and number of loads in flight per thread.
WORD_BYTES = 16
IN_FLIGHT = 4


class LaunchedBicgstabState(IntEnum):
    """Index of each float64 number in the device state of BiCGSTAB with a launch per product."""

    RHO = 0  # (shadow, r)
    RHO_OF_ALPHA = 1  # rho of the iteration that computed `ALPHA`
    ALPHA = 2
    OMEGA = 3
    STOPPED = 4  # `Breakdown` at the end of an iteration
    STOPPED_HALFWAY = 5  # `Breakdown` in the middle of an iteration
    ITERATIONS = 6  # finished iterations


class Breakdown(IntEnum):
    """Breakdown of the recurrence: the divisor that is zero or not finite."""

    NONE = 0
    RHO = 1
    PROJECTION = 2  # (shadow, A p)
    OMEGA = 3  # (t, s) or (t, t)


#: The persistent solvers, whose kernels run many iterations in one launch.
METHODS = ("cg", "bicgstab")
#: Threads per block of a persistent solver, which has one block per multiprocessor.
PERSISTENT_BLOCK_SIZE = {"cuda": 512, "opencl": 64}
#: Numbers of rows per thread for which kernels may hold vectors in registers; and largest number of 4-byte words per
#: thread that these vectors may take.
ROWS_IN_REGISTERS, MAX_WORDS = (1, 2, 3, 4, 5, 6, 8), 80
#: Number of vectors that a thread holds in registers.
VECTORS_HELD = {"cg": 5, "bicgstab": 6}
#: Largest number of different sums in a phase; each block writes a partial sum of each.
KINDS = 6


class CgState(IntEnum):
    """Index of each float64 number in the device state of conjugate gradients."""

    LIMIT = 0  # (r, r) at which the solve has converged; only the host sets it, and its `reset` clears the whole state
    RR = 1  # (r, r), by the recurrence
    BB = 2  # (b, b)
    REASON = 3  # `StopReason`
    ITERATIONS = 4  # number of finished iterations since `reset`, over all restarts: no kernel clears it
    LAST_RU = 5  # (r, u) of the last iteration; 0: there was no iteration
    LAST_ALPHA = 6
    NEXT_RU = 7  # (r, u) of the running iteration; the next iteration reads it as LAST_RU
    NEXT_ALPHA = 8


class BicgstabState(IntEnum):
    """Index of each float64 number in the device state of persistent BiCGSTAB.

    The first five are those of `CgState`.
    """

    LIMIT = 0
    RR = 1
    BB = 2
    REASON = 3
    ITERATIONS = 4
    HALFWAY = 5  # `StopReason` in the middle of an iteration
    RHO = 6  # (shadow, r)
    RHO_OF_ALPHA = 7
    ALPHA = 8


STATES: dict[str, type[IntEnum]] = {"cg": CgState, "bicgstab": BicgstabState}


class StopReason(IntEnum):
    """Reason why a solver with this state has stopped; `NONE` while it runs."""

    NONE = 0
    CONVERGED = 1
    NOT_FINITE = 2
    BREAKDOWN = 3  # a divisor is zero; in conjugate gradients, (p, A p) is not positive


def rows_in_registers(method: str, entry: str, precision: str) -> dict[int, bool]:
    """Return the numbers of rows per thread for which there is a kernel, ascending.

    The values say whether the kernel holds the inverted diagonal in registers, too. The last key is 0: a kernel with
    vectors in memory, for any number of rows.
    """
    words = get_entry(entry).size * SCALARS[precision][1] // 4
    vectors = VECTORS_HELD[method]
    row_counts = [rows for rows in ROWS_IN_REGISTERS if rows * words * vectors <= MAX_WORDS]
    return {rows: rows * words * (vectors + 1) <= MAX_WORDS for rows in row_counts} | {0: False}


def held_rows(method: str, entry: str, precision: str, required_rows: int) -> int:
    """Return the smallest number of rows per thread, of `rows_in_registers`, that is at least `required_rows`.

    It returns 0 if there is none.
    """
    return next((rows for rows in rows_in_registers(method, entry, precision) if rows >= required_rows), 0)


def render_persistent(
    templates: Path,
    method: str,
    entry: str,
    precision: str,
    target: Target,
    n_rows: int | None = None,
    forms: tuple[Form, ...] = FORMS,
) -> str:
    """Return the source of the module of a persistent solver.

    `n_rows` is the number of rows per thread of its kernel with many iterations; None: kernels for all numbers.
    `forms`: the forms of kept slices for which the module has kernels.
    """
    if method not in METHODS:
        raise ReproError("unknown method", expected=" or ".join(METHODS), actual=method)
    scalar, scalar_bytes = SCALARS[precision]
    algebra = get_entry(entry)
    vector_alignment = alignment(algebra.size, scalar_bytes)
    register_rows = rows_in_registers(method, entry, precision)
    return render_template(
        templates,
        "sparse/persistent/module.j2",
        dialect=target.dialect,
        title=f"{method} that stays on the chip: {entry}, {precision} precision",
        method=method,
        entry=algebra,
        scalar=scalar,
        scalar_bytes=scalar_bytes,
        vector_alignment=vector_alignment,
        word_members=vector_alignment // scalar_bytes,
        block_size=PERSISTENT_BLOCK_SIZE[target.dialect],
        slots=LANES,
        lanes_unit=LANES_UNIT,
        in_registers=register_rows if n_rows is None else {n_rows: register_rows[n_rows]},
        forms=forms,
        column_bits=COLUMN_BITS,
        value_bits=VALUE_BITS,
        adjoint=adjoint_members(entry),
        state={place.name.lower(): place.value for place in STATES[method]},
        reasons={reason.name.lower(): reason.value for reason in StopReason},
    )


#: State words and stop reasons of the solvers whose kernels are launched between products.
SOLVERS: dict[str, tuple[type[IntEnum], type[IntEnum]]] = {
    "bicgstab": (LaunchedBicgstabState, Breakdown),
    "cg": (CgState, StopReason),
}


def render_solver(templates: Path, solver: str, precision: str, target: Target) -> str:
    """Return the source of the module of a solver whose kernels are launched between products."""
    if solver not in SOLVERS or precision not in SCALARS:
        raise ReproError(
            "unknown solver or precision",
            expected=f"{'|'.join(SOLVERS)}-{'|'.join(SCALARS)}",
            actual=f"{solver}-{precision}",
        )
    scalar, scalar_bytes = SCALARS[precision]
    state, reasons = SOLVERS[solver]
    return render_template(
        templates,
        f"sparse/{solver}.j2",
        dialect=target.dialect,
        title=f"{solver}: {precision} precision",
        scalar=scalar,
        members="xyzw"[: WORD_BYTES // scalar_bytes],
        block_size=BLOCK_SIZE[target.dialect],
        blocks_per_sm=SOLVER_BLOCKS_PER_SM[target.dialect],
        in_flight=IN_FLIGHT,
        state={place.name.lower(): place.value for place in state},
        reasons={reason.name.lower(): reason.value for reason in reasons},
    )


#: Group of the solvers' modules in a study, and prefix of the names of persistent solvers.
SOLVER_GROUP, PERSISTENT = "solvers", "persistent-"


def solver_key(solver: str, precision: str, entry: str | None = None) -> str:
    """Return the key of a solver's module in a study; with an entry, the key of the persistent solver's module."""
    name = solver if entry is None else f"{PERSISTENT}{solver}-{entry}"
    return f"{SOLVER_GROUP}/{name}-{precision}"


def render_solver_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module with a key from `solver_key`."""
    solver, _, precision = key.removeprefix(f"{SOLVER_GROUP}/").rpartition("-")
    method, _, entry = solver.removeprefix(PERSISTENT).rpartition("-")
    if solver.startswith(PERSISTENT) and method in METHODS and precision in SCALARS:
        return render_persistent(templates, method, entry, precision, target)
    return render_solver(templates, solver, precision, target)
