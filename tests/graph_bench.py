"""Benches for growing matrices; for the tests of both kinds of device."""

from __future__ import annotations

from benches import opened_benches
from repro.sparse.study_kit import LIBRARY
from repro.studies.dynamic_csr.ids import PRODUCT_COLUMNS
from repro.studies.dynamic_csr.operands import make_operands

OWN = {**LIBRARY, **PRODUCT_COLUMNS, "ordering": str, "segments": int, "slack": int}
OF_SEVERAL = {**OWN, "devices": int, "exchange": str, "steps": int}
#: Few launches, however they differ.
FEW = {
    "launches": 10, "graph_launches": 2, "graph_replays": 5, "cpu_budget": 0.01, "rounds": 2, "noise": 1e9,
    "cpu_disturbed": 1e9, "gpu_disturbed": 1e9,
}  # fmt: skip


def graph_benches(all_devices, modules_folder, own=OWN, resident=16, **timing):
    """Give what opens a bench on these devices for a growing matrix, and release all at the end; for fixtures."""
    with opened_benches(modules_folder, "dynamic_csr", own, resident, **{**FEW, **timing}) as open_bench:
        yield lambda problem, precision="double", devices=all_devices: open_bench(
            devices, problem.name, make_operands(problem, precision, 1)
        )
