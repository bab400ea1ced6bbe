"""What is shared by all that runs on a problem stays usable by each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro.bench.trial import Bench
from repro.problems.problem import Problem


def test_scratch_memory_outlives_the_need_for_more(
    make_bench: Callable[..., Bench], small_problem: Callable[..., Problem]
) -> None:
    workspace = make_bench(small_problem()).workspace
    small = workspace.scratch(1000)
    before = np.zeros(1000, np.uint8)
    workspace.device.download(small, before)
    large = workspace.scratch(5000)
    assert large.nbytes >= 5000
    assert workspace.scratch(2000) is large
    after = np.zeros(1000, np.uint8)
    workspace.device.download(small, after)
    assert before.any()
    assert np.array_equal(before, after)
    workspace.release()
