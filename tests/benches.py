"""Benches for tests, on both kinds of device."""

from __future__ import annotations

from contextlib import contextmanager

from repro.bench.trial import Bench
from repro.bench.workspace import Workspace
from repro.config.models import Timing


@contextmanager
def opened_benches(modules_folder, study, own, resident=16, **timing):
    """Give what opens a bench on devices for operands, and release all at the end."""
    benches = []

    def open_bench(devices, problem, operands):
        benches.append(
            Bench(
                Workspace(devices, operands, modules_folder, resident),
                study=study,
                problem=problem,
                timing=Timing(**timing),
                seed=1,
                own=own,
                environment="test",
                driver="test",
                code=str,
            )
        )
        return benches[-1]

    yield open_bench
    for bench in benches:
        bench.release()
