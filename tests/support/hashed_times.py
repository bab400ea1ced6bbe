"""A harness whose times are hashes of all that a time depends on: equal for equal campaigns, and for no others."""

from __future__ import annotations

from pathlib import Path

from support.checkouts import Checkout

#: Appended to the module of trials: a time is a hash of all that it depends on.
HASHED_TIMES = """

def _hashed_sample(self: Bench, runnable: Runnable, effort: Effort) -> Samples:
    import os
    import time

    import numpy as np

    time.sleep(float(os.environ.get("PAUSE", 0)))
    runnable.launch()
    self.devices.synchronize()
    seconds = 1e-5 + int(self.key(runnable, "report", effort)[:8], 16) * 1e-14
    samples = {clock: np.full(10, seconds) for clock in runnable.clocks}
    return Samples(samples, effort.graph_launches or None)


def _hashed_prepare(self: Bench, runnable: Runnable) -> float:
    runnable.prepare(self.workspace)
    self.devices.synchronize()
    return 0.0


Bench.sample = _hashed_sample
Bench.prepare = _hashed_prepare
"""


def hash_times(checkout: Checkout) -> None:
    """Let the copy's times be hashes; a sample takes `PAUSE` seconds more, a variable, so that a run can be caught."""
    trial = checkout.folder / "src/repro/bench/trial.py"
    trial.write_text(trial.read_text() + HASHED_TIMES)


def tables_of(root: Path, campaign: str) -> dict[str, bytes]:
    """Return the content of all tables of a campaign, by path."""
    folder = root / "results" / campaign / "tables"
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*"))}
