"""Which variant an operator runs: a named one, a campaign's choice, a default, or the fastest of a few."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.campaign_folder import RESULTS
from repro.codegen.targets import DTYPES, Target
from repro.devices.base import Device, LaunchError
from repro.entries import get_entry
from repro.errors import ReproError, ReproErrorOfValue, Unsupported, argument_errors
from repro.export.campaign_choice import EXPORTED_STUDY, exported_variant, find_campaign_choice
from repro.operators.product import MatrixSource, Product, compiled, load_routine
from repro.operators.runtime import Runtime
from repro.sparse.compound.defaults import Rows, default_variant
from repro.sparse.compound.product import MAX_PADDING
from repro.sparse.compound.variants import ROUTINES, Layout, RoutineId, VariantId
from repro.sparse.symmetry import symmetry_of
from repro.sparse.tuning_features import OPERATOR, WINNERS, features
from repro.tuning.recordings import Machine, Recording
from repro.tuning.strategies import prior, read_ids, variant_covariance
from repro.words import nearest

#: Variants that `tuned="now"` may time on a GPU, and their times on recorded matrices, relative to the fastest: written
#: by `tools/make_candidates.py`, which says what they lose on matrices that they were not chosen for.
RECORDED = Path(__file__).with_name("candidates.csv")
#: Number of columns of `RECORDED` before the variants.
FACTS = 10
#: Most variants that are timed after the default, and the improvement on the best time, as a share, below which no
#: further one is. A recorded matrix counts if it has times of `LEAST_SHARE` of the variants.
MOST_TRIED, LEAST_HOPE, LEAST_SHARE = 11, 0.01, 0.05
#: Variants that `tuned="now"` times on a CPU.
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
        raise ReproErrorOfValue("unknown choice of a kernel", expected=CHOICES, actual=f"{tuned}; did you mean {near}?")
    if ":" in tuned:
        campaign, _, name = tuned.partition(":")
        choice = find_campaign_choice(
            results, campaign, EXPORTED_STUDY, name, precision, preferred=(OPERATOR, *WINNERS)
        )
        if choice.entry != matrix.entry:
            raise ReproErrorOfValue(
                "the campaign's problem has a different entry",
                where=tuned,
                expected=matrix.entry,
                actual=choice.entry,
                todo="name a problem with the entry of this matrix",
            )
        tuned = choice.name
    elif tuned in ROUTINES:
        return RoutineId(name=tuned)
    elif "-" not in tuned:  # no layout has such a name
        raise ReproErrorOfValue("unknown choice of a kernel", expected=CHOICES, actual=tuned)
    return exported_variant(tuned, target)


def find_fastest(
    runtime: Runtime, matrix: MatrixSource, precision: str, budget: float = BUDGET
) -> tuple[Product, dict[str, float]]:
    """Time the default and a few other variants on this matrix; return the fastest, and the seconds of each.

    Candidates are tried as long as the next one is expected to end within `budget` seconds from the start, not counting
    compilation: expected is what the first one took, and of variants that order rows the ordering. The default is
    always tried, and the library's routines are next. Variants that do not fit the matrix or the device are skipped. If
    no variant fits, the default's error is raised. Pair formats are tried only for symmetric matrices.
    """
    target = runtime.device.target
    start = perf_counter()  # moved on by the time of compiling
    best: Product | None = None
    timed: dict[str, float] = {}
    first_seconds = 0.0
    names = _candidates(
        matrix, precision, runtime.device, timed, lambda more: perf_counter() - start + first_seconds + more <= budget
    )
    try:
        for name in names:
            if best is not None and perf_counter() - start + first_seconds > budget:
                break
            _show(f"timing {name}: {len(timed)} done, {perf_counter() - start:.1f} of {budget:g} s")
            product: Product | None = None
            begun = perf_counter()
            try:
                id = find_variant(name, matrix, precision, target)
                if str(id) in timed or _is_padding(matrix, id.layout, target.warp):
                    continue
                compiling = perf_counter()
                make_ready = load_routine if isinstance(id, RoutineId) else compiled
                try:
                    make_ready(runtime, matrix.entry, precision, id)
                finally:
                    compiling = perf_counter() - compiling
                    start, begun = start + compiling, begun + compiling
                product = Product(runtime, matrix, precision, id)
                seconds = _seconds(product, min(timed.values(), default=np.inf))
            except (ReproError, Unsupported, LaunchError, MemoryError):
                if product is not None:
                    product.release()
                continue
            first_seconds = first_seconds or perf_counter() - begun
            product, best = (best, product) if best is None or seconds < min(timed.values()) else (product, best)
            timed[str(id)] = seconds
            if product is not None:
                product.release()
    finally:
        _show()
    if best is None:
        best = Product(runtime, matrix, precision, find_variant("default", matrix, precision, target))
    return best, timed


@cache
def recorded(path: Path = RECORDED) -> tuple[tuple[VariantId, ...], tuple[Recording, ...]]:
    """Return the variants of a file such as `RECORDED`, and their times on each matrix in it, relative to the least."""
    head, *lines = csv.reader(line for line in path.read_text().splitlines() if not line.startswith("#"))
    names, found = head[FACTS:], []
    for line in lines:
        facts, times = dict(zip(head, line[:FACTS], strict=False)), zip(names, line[FACTS:], strict=True)
        rows = Rows(*(int(facts[name]) for name in ("rows", "nonzeros", "longest", "nonzeros")))
        entry, precision = facts["entry"], facts["precision"]
        found.append(
            Recording(
                facts["problem"], entry, precision, "cuda",
                _features(entry, precision, rows, Machine.of(facts)),
                {name: math.exp(int(hundredths) / 100) for name, hundredths in times if hundredths},
            )
        )  # fmt: skip
    return tuple(read_ids(names, VariantId)), tuple(found)


def _features(entry: str, precision: str, rows: Rows, machine: Machine) -> NDArray[Any]:
    statistics = {
        "rows": rows.count, "nonzeros": rows.entries, "ell_factor": rows.longest / (rows.mean or 1),
        "bandwidth_percent": {"median": np.nan},
    }  # fmt: skip
    return features({"entry": entry, "statistics": statistics}, precision, machine)[:-1]  # of which the last is unknown


def _candidates(
    matrix: MatrixSource,
    precision: str,
    device: Device,
    timed: Mapping[str, float],
    is_affordable: Callable[[float], bool],
) -> Iterator[str]:
    """Yield the names of candidates, the default first, then the one that is expected to gain most on the times so far.

    `timed` has the seconds of those that were yielded and did not fail. `is_affordable` says whether there are so many
    more seconds.
    """
    yield "default"
    target = device.target
    if target.dialect != "cuda":
        yield from CPU_QUICK
        return
    if matrix.entry in ("real", "complex"):
        yield from ROUTINES
    ordering = 2 * ORDERING_SECONDS * matrix.nnz  # it leaves as many seconds for others
    orders = is_affordable(ordering)
    has_pairs = (
        bool(get_entry(matrix.entry).members)
        and matrix.square
        and is_affordable(ordering + SYMMETRY_SECONDS * matrix.nnz)
        and bool(symmetry_of(matrix.problem, matrix.problem.values.astype(DTYPES[precision], copy=False)).kind)
    )

    @cache
    def suits(layout: Layout) -> bool:
        needs_order = layout.stores_pairs or layout.ordering == "clustered"
        allowed = (has_pairs or not layout.stores_pairs) and (orders or not needs_order)
        return allowed and not _is_padding(matrix, layout, target.warp)

    variants, recordings = recorded()
    default = default_variant(matrix.entry, precision, matrix.rows, target)
    space = tuple(map(str, dict.fromkeys((default, *(id for id in variants if suits(id.layout))))))
    machine = Machine(device.sm_count, target.threads_per_sm, device.l2_bytes)
    this = _features(matrix.entry, precision, matrix.rows, machine)
    belief = prior(space, recordings, this, variant_covariance(space, VariantId), LEAST_SHARE)
    index = 0
    for _ in range(min(MOST_TRIED, len(space) - 1)):
        belief.observe(index, timed.get(space[index]))
        if belief.promises().max() < LEAST_HOPE:
            return
        index = belief.most_promising()
        yield space[index]


def _is_padding(matrix: MatrixSource, layout: Layout, warp: int) -> bool:
    """Return whether a matrix would be mostly padding in a layout."""
    return (
        bool(matrix.nnz)
        and not (layout.stores_pairs or layout.permutes_rows)
        and matrix.padding(layout.outer, warp) > MAX_PADDING
    )


def _show(words: str = "") -> None:
    """Write a line on stderr over the last one; nothing if stderr is no terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


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
