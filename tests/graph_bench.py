"""A bench for growing matrices; for the tests of both kinds of device."""

from __future__ import annotations

from repro.bench.trial import Bench
from repro.bench.workspace import Workspace
from repro.config.models import Timing
from repro.devices.several import Devices
from repro.sparse.columns import LIBRARY
from repro.studies.dynamic_csr.operands import make_operands
from repro.studies.dynamic_csr.variant_id import PRODUCT_COLUMNS

OWN = {**LIBRARY, **PRODUCT_COLUMNS, "ordering": str, "segments": int, "slack": int}


def graph_bench(device, modules_folder, problem, precision="double"):
    """Open a bench for a growing matrix, timed with few launches."""
    few = {"launches": 10, "graph_launches": 2, "graph_replays": 5, "cpu_budget": 0.01, "rounds": 2, "noise": 1e9}
    return Bench(
        Workspace(Devices([device]), make_operands(problem, precision, 1), modules_folder, resident=16),
        study="dynamic_csr",
        problem=problem.name,
        timing=Timing(**few, cpu_disturbed=1e9, gpu_disturbed=1e9),
        seed=1,
        own=OWN,
        environment="test",
        driver="test",
        code=str,
    )
