"""Benches for growing matrices; for the tests of both kinds of device."""

from __future__ import annotations

from repro.bench.trial import Bench
from repro.bench.workspace import Workspace
from repro.config.models import Timing
from repro.sparse.columns import LIBRARY
from repro.studies.dynamic_csr.operands import make_operands
from repro.studies.dynamic_csr.variant_id import PRODUCT_COLUMNS

OWN = {**LIBRARY, **PRODUCT_COLUMNS, "ordering": str, "segments": int, "slack": int}
OF_SEVERAL = {**OWN, "devices": int, "exchange": str, "steps": int}
#: Few launches, however they differ.
FEW = {
    "launches": 10, "graph_launches": 2, "graph_replays": 5, "cpu_budget": 0.01, "rounds": 2, "noise": 1e9,
    "cpu_disturbed": 1e9, "gpu_disturbed": 1e9,
}  # fmt: skip


def graph_benches(all_devices, modules_folder, own=OWN, resident=16, **timing):
    """Give what opens a bench on these devices for a growing matrix, and release all at the end; for fixtures."""
    benches = []

    def make(problem, precision="double", devices=all_devices):
        benches.append(
            Bench(
                Workspace(devices, make_operands(problem, precision, 1), modules_folder, resident),
                study="dynamic_csr",
                problem=problem.name,
                timing=Timing(**{**FEW, **timing}),
                seed=1,
                own=own,
                environment="test",
                driver="test",
                code=str,
            )
        )
        return benches[-1]

    yield make
    for bench in benches:
        bench.release()
