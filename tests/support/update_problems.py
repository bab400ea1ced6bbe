"""Small matrices and batches that try what formats find hard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from repro.bench.runnable import Runnable, Workspace
from repro.problems.matrix import Updates
from repro.studies.dynamic_csr.runnables_baselines import MAX_ROW_OF_THREADS

#: Numbers of some entries: rows, columns or values.
Numbers: TypeAlias = "Sequence[float] | NDArray[Any]"


def growing(
    base: sp.sparray, batches: Sequence[tuple[Numbers, Numbers, Numbers]], columns: int | None = None
) -> Updates:
    """Return a problem of a SciPy matrix, and of batches of (rows, columns, values)."""
    base = base.tocsr()
    base.sort_indices()
    lengths = [len(batch[0]) for batch in batches]

    def joined(i: int, dtype: DTypeLike) -> NDArray[Any]:
        return np.concatenate([np.asarray(batch[i], dtype) for batch in batches] or [np.empty(0, dtype)]).astype(dtype)

    return Updates(
        "growing",
        base.shape[0],
        base.indptr.astype(np.int32),
        base.indices.astype(np.int32),
        base.data.astype(np.float64).reshape(-1, 1),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        joined(0, np.int32),
        joined(1, np.int32),
        joined(2, np.float64),
        columns if columns is not None else base.shape[1],
    ).validate()


def drawn(rows: int, columns: int, count: int, seed: int = 1) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Draw a batch, places in it twice among others."""
    random = np.random.default_rng(seed)
    return random.integers(0, rows, count), random.integers(0, columns, count), random.normal(size=count)


def _long_rows(rows: int, columns: int) -> sp.csr_array:
    """A matrix with rows that are empty, short, and longer than a block's share."""
    random = np.random.default_rng(3)
    lengths = random.integers(0, 6, rows)
    lengths[rows // 3], lengths[-1], lengths[::5] = MAX_ROW_OF_THREADS + 70, 300, 0
    indices = [np.sort(random.choice(columns, length, replace=False)) for length in lengths]
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_array((random.normal(size=pointers[-1]), np.concatenate(indices), pointers), shape=(rows, columns))


RANDOM = sp.random_array((150, 90), density=0.05, rng=np.random.default_rng(2), format="csr")
PROBLEMS = {
    "several batches": growing(RANDOM, [drawn(150, 90, count, count) for count in (1, 200, 0, 77)]),
    "one batch": growing(RANDOM, [drawn(150, 90, 400)]),
    "an empty batch": growing(RANDOM, [([], [], [])]),
    "all of a batch in one row": growing(RANDOM, [([149] * 500, np.arange(500) % 90, np.arange(500.0) + 1)]),
    "all of a batch in one place": growing(RANDOM, [([7] * 300, [3] * 300, np.arange(300.0) - 7)]),
    "long rows": growing(_long_rows(200, 2000), [drawn(200, 2000, 900), ([199] * 1500, [0] * 1500, [0.5] * 1500)]),
    "nothing at first": growing(sp.csr_array((40, 50)), [drawn(40, 50, 300)]),
    "nothing at all": growing(sp.csr_array((5, 4)), [([], [], [])]),
    "one row": growing(sp.csr_array(np.ones((1, 3000))), [drawn(1, 3000, 10)]),
    "many more columns than rows": growing(sp.csr_array(np.eye(3, 5000)), [drawn(3, 5000, 4000)]),
}

problems = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
#: All in double precision, and one in single: kernels are the same but for the width of a number.
cases = pytest.mark.parametrize(
    ("problem", "precision"),
    [(problem, "double") for problem in PROBLEMS.values()] + [(PROBLEMS["several batches"], "single")],
    ids=[*PROBLEMS, "several batches, single"],
)


def check_twice(runnable: Runnable, workspace: Workspace) -> float:
    """Prepare, check as a trial does, and a second time, since a launch has to be repeatable."""
    runnable.prepare(workspace)
    errors = [workspace.operands.check(runnable, workspace) for _ in range(2)]
    workspace.guards.check()
    runnable.release()
    runnable.release()
    return max(errors)
