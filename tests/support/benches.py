"""Benches for tests, on both kinds of device, and timings with few launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from repro.bench.rows import ColumnType
from repro.bench.runnable import Operands, Workspace
from repro.bench.trial import Bench
from repro.config.models import Timing
from repro.devices.device_group import Devices
from repro.problems.generated_fields import generate_field
from repro.studies.dg_postprocessing.operands import make_operands as field_operands
from repro.studies.dg_postprocessing.study import STUDY
from repro.studies.dynamic_csr.ids import DynamicRow
from repro.studies.dynamic_csr.operands import make_operands as graph_operands


@contextmanager
def opened_benches(
    modules_folder: Path, study: str, own: Mapping[str, ColumnType], kept_packings: int = 16, **timing: Any
) -> Iterator[Callable[[Devices, str, Operands], Bench]]:
    """Give what opens a bench on devices for operands, and release all at the end."""
    benches = []

    def open_bench(devices: Devices, problem: str, operands: Operands) -> Bench:
        benches.append(
            Bench(
                Workspace(devices, operands, modules_folder, kept_packings),
                study_name=study,
                problem_name=problem,
                timing=Timing(**timing),
                seed=1,
                own=own,
                environment="test",
                software="test",
                code=str,
            )
        )
        return benches[-1]

    yield open_bench
    for bench in benches:
        bench.release()


QUICK: dict[str, Any] = {
    "screen_launches": 3,
    "finalists": 2,
    "launches": 10,
    "search_graph_launches": 2,
    "search_graph_replays": 5,
    "graph_launches": 2,
    "graph_replays": 6,
    "cold_launches": 6,
    "rounds": 2,
    "cpu_budget": 1.0,
    "noise": 1e9,
    "cpu_disturbed": 1e9,
}


def field_benches(modules_folder: Path, **timing: Any) -> Iterator[Callable[..., Bench]]:
    """Give what opens a bench on devices for a field, and release all at the end; for fixtures."""
    with opened_benches(modules_folder, STUDY.name, STUDY.columns, **timing) as open_bench:

        def make(devices: Devices, triangles: int = 60, degree: int = 1, variance: str = "high") -> Bench:
            field = generate_field("delaunay", triangles=triangles, degree=degree, variance=variance)
            object.__setattr__(field, "name", f"{variance}, P = {degree}")
            return open_bench(devices, field.name, field_operands(field, "double", 1))

        yield make


OWN = DynamicRow.own_columns()
#: Few launches, however they differ.
FEW = {
    "launches": 10, "graph_launches": 2, "graph_replays": 5, "cpu_budget": 0.01, "rounds": 2, "noise": 1e9,
    "cpu_disturbed": 1e9, "gpu_disturbed": 1e9,
}  # fmt: skip


def graph_benches(
    all_devices: Devices,
    modules_folder: Path,
    own: Mapping[str, ColumnType] = OWN,
    kept_packings: int = 16,
    **timing: Any,
) -> Iterator[Callable[..., Bench]]:
    """Give what opens a bench on these devices for a growing matrix, and release all at the end; for fixtures."""
    with opened_benches(modules_folder, "dynamic_csr", own, kept_packings, **{**FEW, **timing}) as open_bench:
        yield lambda problem, precision="double", devices=all_devices: open_bench(
            devices, problem.name, graph_operands(problem, precision, 1)
        )
