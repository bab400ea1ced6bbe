"""Which variant an operator runs: named, chosen by a campaign, a default, or the fastest of a few tried now."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from repro.bench.runnable import Unsupported
from repro.codegen.precisions import DTYPES
from repro.codegen.targets import Target
from repro.entries import get_entry
from repro.errors import ReproError
from repro.export.chosen import find_chosen
from repro.operators.product import Product
from repro.operators.runtime import Runtime
from repro.problems.matrix import Matrix
from repro.sparse.symmetry import symmetry_of
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.variant_id import VariantId, fitting

#: By entry and precision, of the variants that read and write a user's vectors as they are, the one that loses least
#: over the problems of the campaign `h200`, both spaces, by the geometric mean: 8 to 12 %, at most 32 % on one problem.
DEFAULTS = {
    ("block3", "single"): "CSR-AoSoA-AoS/direct-128-8-w8-u2",
    ("block3", "double"): "CSR-AoSoA-AoS/direct-64-8-w8-u2",
    ("complex", "single"): "CSR-AoSoA-AoS@clustered/direct-256-4-w8-u4",
    ("complex", "double"): "CSR-AoSoA-AoS@clustered/direct-64-16-w8-u4",
    ("quaternion", "single"): "CSR-AoSoA-AoS/direct-64-16-w4-u2-cs",
    ("quaternion", "double"): "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w2-cg",
}
#: For `real`, which it did not have, and entries to come: what does well for `complex` in either precision.
DEFAULT = DEFAULTS["complex", "double"]
#: A block's rows lie side by side, so that its threads, which a CPU runs one after the other, find theirs in the cache.
CPU_DEFAULT = "CSR-AoS-AoS/direct-64-3"
#: What `now` tries beside the default: one after the other those that lowered the mean loss over that campaign most, of
#: variants that fit every GPU. The best of them and the default loses 3 % there, at most 12 %.
QUICK = (
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4-u2-cs",
    "CSR-AoSoA-AoS/direct-64-8-w32-u4",
    "Sl-8-AoSoA-AoS@clustered/direct-256-4-w4",
    "CSR-AoSoA-AoS@clustered/direct-64-16-w8-u2-cs",
    "CSR-AoSoA-AoS/direct-256-4-w32",
    "Sl-8-AoSoA-AoS/direct-128-8-w4",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w2",
)
#: What it tries too where the matrix is symmetric. No campaign has chosen them: of the formats of pairs these are the
#: ones with tiles of the middle size, one thread to a row and two, past L2 and within it.
QUICK_PAIRS = (
    "Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2-cs",
    "Pairs-128-AoSoA-AoS@clustered/direct-256-4-w2-u2",
)
CPU_QUICK = ("Sl-16-AoS-AoS/static-64-3", "Sl-16-SoA-AoS/direct-64-3", "ELL-SoA-AoS/static-64-3")
CPU_QUICK_PAIRS: tuple[str, ...] = ()
LAUNCHES, REPLAYS = 20, 5


def find_variant(tuned: str, problem: Matrix, precision: str, target: Target, results: Path) -> VariantId:
    """Return the variant for a word of the user's.

    Parameters
    ----------
    tuned
        A variant's name, `Sl-32-SoA-AoS/static-256-4`; `campaign:problem` for a campaign's choice; or `default`.
    results
        Folder of the campaigns.

    Raises
    ------
    ReproError
        It names no variant, the campaign has no such choice, its entry is another, or the target cannot hold it.
    """
    if tuned == "default":
        tuned = _default(problem.entry, precision, target)
    elif ":" in tuned:
        campaign, _, name = tuned.partition(":")
        chosen = find_chosen(results, campaign, STUDY, name, precision)
        if chosen.entry != problem.entry:
            raise ReproError(
                "the campaign's problem has another entry",
                where=tuned,
                expected=problem.entry,
                actual=chosen.entry,
                todo="name a problem like this matrix",
            )
        tuned = chosen.name
    return fitting(VariantId.parse(tuned), target)


def fastest(runtime: Runtime, problem: Matrix, precision: str) -> VariantId:
    """Time the default and a few others on this matrix, and return the best: seconds, most of them compiling.

    Those that the matrix or the device has no room for are left out; if that is all of them it is the default, which
    then says why. Formats of pairs are compiled only where the matrix is symmetric.
    """
    target = runtime.device.target
    default = _default(problem.entry, precision, target)
    seconds: dict[str, float] = {}
    for name in (default, *_quick(problem, precision, target)):
        with suppress(ReproError, Unsupported, MemoryError):
            variant = fitting(VariantId.parse(name), target)
            seconds[name] = _seconds(Product(runtime, problem, precision, variant))
    return VariantId.parse(min(seconds, key=seconds.__getitem__, default=default))


def _quick(problem: Matrix, precision: str, target: Target) -> tuple[str, ...]:
    """Return what is tried beside the default on this matrix."""
    quick, pairs = (QUICK, QUICK_PAIRS) if target.dialect == "cuda" else (CPU_QUICK, CPU_QUICK_PAIRS)
    return quick + pairs if pairs and _symmetric(problem, precision) else quick


def _symmetric(problem: Matrix, precision: str) -> bool:
    if not get_entry(problem.entry).members:
        return False
    return bool(symmetry_of(problem, problem.values.astype(DTYPES[precision], copy=False)).kind)


def _default(entry: str, precision: str, target: Target) -> str:
    return DEFAULTS.get((entry, precision), DEFAULT) if target.dialect == "cuda" else CPU_DEFAULT


def _seconds(product: Product) -> float:
    device = product.runtime.device
    x, y = (product.vectors.zeros() for _ in range(2))
    with product.runtime.after():
        launch = product.bind(x.buffer, y.buffer)
        launch()
        return float(np.median(device.time_graph(launch, LAUNCHES, REPLAYS)))
