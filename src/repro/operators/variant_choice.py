"""Which variant an operator runs: a named one, a campaign's choice, a default, or the fastest of a few."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from repro.bench.campaign_folder import RESULTS
from repro.codegen.targets import DTYPES, Target
from repro.devices.base import LaunchError
from repro.entries import get_entry
from repro.errors import ReproError, ReproErrorOfValue, Unsupported, argument_errors
from repro.export.campaign_choice import EXPORTED_STUDY, exported_variant, find_campaign_choice
from repro.misspellings import nearest
from repro.operators.product import MatrixSource, Product, compiled, load_routine
from repro.operators.runtime import Runtime
from repro.problems.matrix import Matrix
from repro.sparse.compound.defaults import default_variant
from repro.sparse.compound.product import MAX_PADDING, padding
from repro.sparse.compound.variants import FEW_MEMBERS, ROUTINES, RoutineId, VariantId
from repro.sparse.symmetry import symmetry_of
from repro.sparse.tuning_features import OPERATOR, WINNERS

#: Variants that `tuned="now"` times after the default, in this order, of which none needs the host for an order. Slices
#: of 32 rows are for entries of few members; the others were chosen greedily to reduce the mean slowdown in the
#: campaign `h200`, among variants that run on every GPU, or split rows over blocks.
QUICK_SLICES = (
    "Sl-32-AoSoA-AoS/direct-256-4-u4",
    "Sl-32-AoSoA-AoS@sigma/direct-256-4-u4",
    "Sl-32-AoSoA-AoS@sigma/direct-256-4-u8-cs",
    "Sl-32-AoSoA-AoS/direct-128-8-w2-u4-cs",
    "CSR-AoSoA-AoS/merge-128-8-u7-cs",
)
QUICK = (
    "CSR-AoSoA-AoS/direct-64-8-w8-u2",
    "CSR-AoSoA-AoS/merge-256-4-u3",
    "Sl-8-AoSoA-AoS/direct-128-8-w4",
    "CSR-AoSoA-AoS/direct-64-8-w32-u4",
    "CSR-AoSoA-AoS/direct-256-4-w32",
)
#: Further variants for symmetric matrices, in natural order; these were not chosen by a campaign. They store pairs in
#: tiles of middle size, with one or two threads per row, and with or without the cache hint for data read once.
QUICK_PAIRS = (
    "Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2-cs",
    "Pairs-128-AoSoA-AoS@clustered/direct-256-4-w2-u2",
)
#: Variants that order rows, for matrices whose rows are ordered within the budget; chosen as those of `QUICK`.
QUICK_ORDERED = (
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4-u2-cs",
    "Sl-8-AoSoA-AoS@clustered/direct-256-4-w4",
    "CSR-AoSoA-AoS@clustered/direct-64-16-w8-u2-cs",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w2",
)
CPU_QUICK = ("Sl-16-AoS-AoS/static-64-3", "Sl-16-SoA-AoS/direct-64-3", "ELL-SoA-AoS/static-64-3")
#: Estimated seconds of the host per entry for the order of the rows and for finding out whether a matrix is symmetric,
#: by which candidates are left out that the budget does not allow.
ORDERING_SECONDS, SYMMETRY_SECONDS = 1.3e-6, 5e-8
#: Most launches per graph and replays of the graph, by which `find_fastest` times a variant, and about the most seconds
#: of each replay.
LAUNCHES, REPLAYS, REPLAY_SECONDS = 20, 5, 0.01
#: A variant is not timed further if its first launches take this multiple of the fastest's seconds, and the seconds
#: that the host needs for a launch.
HOPELESS, LAUNCH_SECONDS = 1.5, 1e-4
#: Seconds that `tuned="now"` takes by default, besides compiling.
BUDGET = 2.0


#: What `tuned` may be.
CHOICES = f"default, now, CAMPAIGN:PROBLEM, {', '.join(ROUTINES)}, or a variant such as Sl-32-SoA-AoS/static-256-4"


@argument_errors()
def find_variant(
    tuned: str, matrix: MatrixSource, precision: str, target: Target, results: Path = RESULTS
) -> VariantId:
    """Return the variant that a user's argument `tuned` selects.

    `tuned` is the name of a variant such as `Sl-32-SoA-AoS/static-256-4`, or of a library's routine, or `default`, or
    `campaign:problem`. The last is the variant that a campaign in the folder `results` chose for a problem among those
    that use vectors in a user's order; if its records lack this choice, the fastest of all variants.

    Raises
    ------
    ReproError
        The name or the campaign's choice is unknown, the campaign's problem has another entry type, or the target
        cannot run the schedule.
    """
    if tuned == "default":
        return default_variant(matrix.entry, precision, matrix.rows, target)
    if near := nearest(tuned, ("default", "now")):
        raise ReproErrorOfValue(
            "unknown choice of a kernel",
            expected=CHOICES,
            actual=f"{tuned}; did you mean {near}?",
        )
    if ":" in tuned:
        campaign, _, name = tuned.partition(":")
        choice = find_campaign_choice(
            results, campaign, EXPORTED_STUDY, name, precision, preferred=(OPERATOR, *WINNERS)
        )
        if choice.entry != matrix.entry:
            raise ReproErrorOfValue(
                "the campaign's problem has another entry",
                where=tuned,
                expected=matrix.entry,
                actual=choice.entry,
                todo="name a problem like this matrix",
            )
        tuned = choice.name
    elif tuned in ROUTINES:
        return RoutineId.of(tuned)
    elif "-" not in tuned:  # no layout has such a name
        raise ReproErrorOfValue("unknown choice of a kernel", expected=CHOICES, actual=tuned)
    return exported_variant(tuned, target)


@dataclass(frozen=True)
class Fastest:
    """The fastest of the variants that were timed on a matrix."""

    product: Product
    #: Seconds of one product by each variant that was timed; empty if none was.
    timed: Mapping[str, float]


def find_fastest(
    runtime: Runtime,
    matrix: MatrixSource,
    precision: str,
    budget: float = BUDGET,
) -> Fastest:
    """Time the default and a few other variants on this matrix, and return the fastest.

    Candidates are tried as long as the next one is expected to end within `budget` seconds from the start, not counting
    compilation: expected is what the first one took, and of variants that order rows the ordering. The default is
    always tried. Variants that do not fit the matrix or the device are skipped. If no variant fits, the default's error
    is raised. Pair formats are tried only for symmetric matrices.
    """
    target = runtime.device.target
    clock, line = _Clock(), _ProgressLine()
    best: Product | None = None
    timed: dict[str, float] = {}
    first_seconds = 0.0
    names = _candidates(matrix, precision, target, lambda seconds: clock.seconds + first_seconds + seconds <= budget)
    try:
        for name in names:
            if best is not None and clock.seconds + first_seconds > budget:
                break
            line.write(f"timing {name}: {len(timed)} done, {clock.seconds:.1f} of {budget:g} s")
            product: Product | None = None
            begun = clock.seconds
            try:
                id = find_variant(name, matrix, precision, target)
                if str(id) in timed or _is_padding(matrix, id, target.warp):
                    continue
                with clock.paused():
                    make_ready = load_routine if isinstance(id, RoutineId) else compiled
                    make_ready(runtime, matrix.entry, precision, id)
                product = Product(runtime, matrix, precision, id)
                seconds = _seconds(product, min(timed.values(), default=np.inf))
            except (ReproError, Unsupported, LaunchError, MemoryError):
                if product is not None:
                    product.release()
                continue
            first_seconds = first_seconds or clock.seconds - begun
            product, best = (best, product) if best is None or seconds < min(timed.values()) else (product, best)
            timed[str(id)] = seconds
            if product is not None:
                product.release()
    finally:
        line.clear()
    if best is None:
        best = Product(runtime, matrix, precision, find_variant("default", matrix, precision, target))
    return Fastest(best, timed)


def _candidates(
    matrix: MatrixSource, precision: str, target: Target, is_affordable: Callable[[float], bool]
) -> Iterator[str]:
    """Yield the names of candidates, the default first; `is_affordable` says whether there are so many more seconds."""
    yield "default"
    if target.dialect != "cuda":
        yield from CPU_QUICK
        return
    members = len(get_entry(matrix.entry).members)
    if matrix.entry in ("real", "complex"):
        yield from ROUTINES
    yield from QUICK_SLICES if members <= FEW_MEMBERS else ()
    yield from QUICK
    ordering = ORDERING_SECONDS * matrix.nnz
    has_pairs = members and matrix.square and is_affordable(ordering + SYMMETRY_SECONDS * matrix.nnz)
    if has_pairs and _is_symmetric(matrix.problem, precision):
        yield from QUICK_PAIRS
    if is_affordable(ordering):
        yield from QUICK_ORDERED


def _is_symmetric(problem: Matrix, precision: str) -> bool:
    return bool(symmetry_of(problem, problem.values.astype(DTYPES[precision], copy=False)).kind)


def _is_padding(matrix: MatrixSource, id: VariantId, warp: int) -> bool:
    """Return whether a matrix would be mostly padding in the layout of a variant."""
    return (
        bool(matrix.nnz)
        and not (id.layout.stores_pairs or id.layout.permutes_rows)
        and padding(matrix.row_lengths, id.layout.outer, warp) > MAX_PADDING
    )


class _Clock:
    """Seconds since its start, without those in `paused`."""

    def __init__(self) -> None:
        self._start = perf_counter()

    @property
    def seconds(self) -> float:
        return perf_counter() - self._start

    @contextmanager
    def paused(self) -> Iterator[None]:
        begun = perf_counter()
        try:
            yield
        finally:
            self._start += perf_counter() - begun


class _ProgressLine:
    """A line on stderr that is written over again; nothing if stderr is no terminal."""

    def __init__(self) -> None:
        self._width, self._shown = 0, sys.stderr is not None and sys.stderr.isatty()

    def write(self, words: str) -> None:
        if self._shown:
            print(f"\r{words:{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(words)

    def clear(self) -> None:
        if self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)


def _seconds(product: Product, fastest: float) -> float:
    """Return the median seconds of one launch in a graph, of as many launches as the first one's time allows.

    A product that by its first launches takes `HOPELESS` times the seconds of the fastest is not timed further.
    """
    device = product.runtime.device
    x, y = product.x_vectors.zeros(), product.y_vectors.zeros()
    with product.runtime.after():
        launch = product.bind(x.buffer, y.buffer)
        device.synchronize()
        first = np.inf
        for _ in range(2):
            begun = perf_counter()
            launch()
            device.synchronize()
            first = min(first, perf_counter() - begun)
        if first > HOPELESS * fastest + LAUNCH_SECONDS:
            return first
        launches = max(1, min(LAUNCHES, int(REPLAY_SECONDS / max(first, 1e-9))))
        replays = max(1, min(REPLAYS, int(REPLAYS * REPLAY_SECONDS / max(first, 1e-9))))
        return float(np.median(device.time_graph(launch, launches, replays)))
