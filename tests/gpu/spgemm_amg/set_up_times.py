"""Times of a set-up on a GPU, whole and by level and stage, as CSV.

    python set_up_times.py [PROBLEM...] > times.csv

A problem is POINTSpt_SIDE, as 27pt_128. Seconds are medians: of wholes by the host's clock, of stages between events.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import numpy as np  # noqa: E402

from repro.bench.runnable import Workspace  # noqa: E402
from repro.codegen.build_cache import compile_module  # noqa: E402
from repro.devices.base import Program  # noqa: E402
from repro.devices.cuda import CudaDevice, open_cuda  # noqa: E402
from repro.devices.device_group import Devices  # noqa: E402
from repro.sparse.device_primitives import ModuleFile  # noqa: E402
from repro.sparse.dynamic.host_layout import lay_out  # noqa: E402
from repro.sparse.dynamic.storage import Storage  # noqa: E402
from repro.sparse.multigrid.hierarchy import refresh_hierarchy, set_up_hierarchy  # noqa: E402
from repro.sparse.multigrid.reference import HostLevel  # noqa: E402
from repro.studies.spgemm_amg.kernels import modules_for, render_key  # noqa: E402
from repro.studies.spgemm_amg.operands import AmgOperands  # noqa: E402
from repro.studies.spgemm_amg.runnables_setup import LevelSetUp, SetUp  # noqa: E402
from support.matrices import poisson  # noqa: E402

PROBLEMS = "5pt_512", "7pt_64", "27pt_64", "5pt_1024", "7pt_128", "27pt_128"
DIMENSIONS = {"5": 2, "9": 2, "7": 3, "27": 3}
COLUMNS = "device", "problem", "level", "rows", "nonzeros", "stage", "seconds"
#: Set-ups of which the median is taken, and those before them.
SAMPLES, WARM = 15, 5


def build(gpu: CudaDevice, folder: Path) -> dict[str, ModuleFile]:
    """Compile the modules of the study in double precision."""
    built = {}
    for name in modules_for(gpu.target):
        manifest = folder / f"{name}.json"
        compile_module(render_key(ROOT / "kernels", f"double/{name}", gpu.target), gpu.target, manifest)
        built[name] = ModuleFile.read(manifest)
    return built


def operands_for(
    gpu: CudaDevice, built: dict[str, ModuleFile], folder: Path, name: str
) -> tuple[AmgOperands, np.ndarray]:
    """Return a problem with its hierarchy, made by the device as the host takes minutes, and times of refreshes."""
    points, side = name.split("pt_")
    matrix = poisson((int(side),) * DIMENSIONS[points], int(points))

    @cache
    def load(module: str) -> Program:
        return gpu.load(folder / built[module].module.binary)

    levels = set_up_hierarchy(gpu, load, Storage.upload(gpu, lay_out(matrix, 1)), refreshable=True)
    levels[:] = refresh_hierarchy(gpu, load, levels)
    times = gpu.time_host(lambda: refresh_hierarchy(gpu, load, levels), WARM + SAMPLES)
    made = tuple(HostLevel(level.a.download().to_csr()) for level in levels)
    for level in levels:
        level.release()
    return AmgOperands(name, "double", made, 1, np.ones((matrix.shape[0], 1)), 1, name), times


def main(*names: str) -> None:
    """Time the set-ups of some problems."""
    gpu = open_cuda(0)
    out = csv.writer(sys.stdout)
    out.writerow(COLUMNS)

    def write(name: str, level: int | str, runnable: SetUp | LevelSetUp, stage: str, times: np.ndarray) -> None:
        amounts = [runnable.columns[key] for key in ("rows", "nonzeros")]
        out.writerow([gpu.name, name, level, *amounts, stage, f"{np.median(times[WARM:]):.3e}"])
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        built = build(gpu, folder)
        for name in names or PROBLEMS:
            operands, refreshes = operands_for(gpu, built, folder, name)
            workspace = Workspace(Devices([gpu]), operands, folder, kept_packings=16)
            whole = SetUp(built, "default")
            whole.prepare(workspace)
            write(name, "all", whole, "whole", gpu.time_host(whole.launch, WARM + SAMPLES, whole.before))
            write(name, "all", whole, "refresh", refreshes)
            whole.release()
            for at in range(len(operands.levels) - 1):
                level = LevelSetUp(built, at)
                level.prepare(workspace)
                stages = gpu.time_stages(list(level.stages.values()), WARM + SAMPLES, level.before)
                for stage, times in zip(level.stages, stages.T, strict=True):
                    write(name, at, level, stage, times)
                write(name, at, level, "whole", gpu.time_host(level.launch, WARM + SAMPLES, level.before))
                level.release()
            workspace.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
