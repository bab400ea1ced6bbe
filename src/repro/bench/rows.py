"""The row: one measured thing, and the columns that every table reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 2

STATUSES = (
    "ok",
    "unsupported",
    "compile_error",
    "launch_error",
    "incorrect",
    "out_of_memory",
    "timeout",
    "noisy",
    "unavailable",
)

CLOCKS = ("event", "graph")
QUANTILES = ("min", "q1", "median", "q3", "max", "mean")


@dataclass
class Row:
    """One line of the store. Times are in seconds, sizes in bytes, absent values None.

    Attributes
    ----------
    key
        Hash of the rendered source, compiler, flags, device model, driver, problem and protocol.
    space
        Of a variant: `paper` or `extended`.
    ordering
        Order of the matrix's rows and columns: `natural`, `rcm` or `sorted`.
    kind
        `variant`, `baseline`, `floor`, `copy` (device copy), `empty` (empty kernel), or `solver` (an iterative
        solver with one of the products).
    name
        Unique within (study, problem, precision): `CSR-AoS-AoS/static-256-4`, `cusparse/spmv-csr-alg1/real`, …
    phase
        `search` (chosen on) or `report` (timed again in shuffled rounds, reported).
    protocol
        `screen` (few launches) or `full`.
    cache
        `warm` or `cold`.
    papers_choice
        True for the cuSPARSE routine that the papers compare with.
    bytes
        Bytes the launch has to move at least once: matrix in its own layout, x read once, y written.
    matrix_bytes
        Bytes of the matrix in its layout.
    floor_bytes
        The same count as `bytes` for CSR-AoS, to compare all rows of a problem by.
    event_*, graph_*
        Quantiles over single launches, and over replays of a graph per launch (CPU: over batches per launch).
    error
        Largest componentwise error over its bound (at most 1 where the status is `ok`).
    per_thread, chunks, encodings
        Of layouts of coordinates: slots of a thread (the paper's K; B is `n_t`), chunks that a block takes, and
        how many chunks have which encoding, as JSON.
    registers, spills
        Registers a thread and spilled bytes a thread, as the compiler reported; None on the CPU.
    preprocess
        Seconds of packing or of the library's own analysis, apart from the timed launches.
    """

    key: str
    study: str
    problem: str
    entry: str
    precision: str
    kind: str
    name: str
    status: str
    phase: str = "search"
    protocol: str = "full"
    cache: str = "warm"
    message: str | None = None
    space: str | None = None
    ordering: str = "natural"
    layout: str | None = None
    schedule: str | None = None
    n_t: int | None = None
    n_b: int | None = None
    width: int | None = None
    unroll: int | None = None
    per_thread: int | None = None
    chunks: int | None = None
    encodings: str | None = None
    routine: str | None = None
    representation: str | None = None
    papers_choice: bool | None = None
    bytes: int | None = None
    matrix_bytes: int | None = None
    floor_bytes: int | None = None
    event_launches: int | None = None
    event_min: float | None = None
    event_q1: float | None = None
    event_median: float | None = None
    event_q3: float | None = None
    event_max: float | None = None
    event_mean: float | None = None
    graph_launches: int | None = None
    graph_min: float | None = None
    graph_q1: float | None = None
    graph_median: float | None = None
    graph_q3: float | None = None
    graph_max: float | None = None
    graph_mean: float | None = None
    error: float | None = None
    registers: int | None = None
    spills: int | None = None
    preprocess: float | None = None
    device: str | None = None
    device_uuid: str | None = None
    backend: str | None = None
    sm_clock: float | None = None
    throttle: str | None = None
    environment: str | None = None
    measured_at: str | None = None
    schema: int = field(default=SCHEMA)

    def median(self, clock: str) -> float | None:
        """Return the median by a clock, in seconds."""
        value: float | None = getattr(self, f"{clock}_median")
        return value

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, a column a key."""
        return dict(vars(self))
