"""Hardware limits of device generations, which kernels must respect; precisions; and data sheets of GPU models.

Sources of the NVIDIA limits: for most generations, CUDA Programming Guide 13, section 5.1 "Compute Capabilities",
tables 30 and 31; for generations before 7.5, edition 11 of the guide, table "Technical Specifications per Compute
Capability"; for 8.8, which the guide omits, the file `cuda_occupancy.h` of the toolkit.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from repro.errors import ReproError
from repro.package_data import shipped

#: C type and number of bytes of a floating-point number in each precision.
SCALARS = {"single": ("float", 4), "double": ("double", 8)}
DTYPES: dict[str, type[np.floating]] = {"single": np.float32, "double": np.float64}
INDEX_BYTES = 4


#: First generation with programmatic dependent launches (`griddepcontrol` in the PTX ISA).
FIRST_DEPENDENT_LAUNCHES = 90
#: Maximum static shared memory of a kernel in bytes, on every generation.
STATIC_SHARED = 48 * 1024


@dataclass(frozen=True)
class Target:
    """Hardware limits of one multiprocessor of a device generation."""

    #: Name of the generation: `sm_90`, … for GPUs, or `cpu`.
    name: str
    #: Number of threads in a warp.
    warp: int
    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    #: Maximum bytes of shared memory per block; above `STATIC_SHARED`, the memory must be dynamic.
    shared_bytes: int = STATIC_SHARED

    @property
    def dialect(self) -> str:
        """Language of the kernels: `cuda` or `opencl`."""
        return "cuda" if self.name.startswith("sm_") else "opencl"

    @property
    def has_dependent_launches(self) -> bool:
        """Whether a launch can start before the previous launch of its queue has ended, and wait for that end later."""
        return self.dialect == "cuda" and int(self.name.removeprefix("sm_")) >= FIRST_DEPENDENT_LAUNCHES


def _nvidia(capability: int, threads_per_sm: int, blocks_per_sm: int, shared_kib: int = 48) -> Target:
    return Target(f"sm_{capability}", 32, 1024, threads_per_sm, blocks_per_sm, shared_kib * 1024)


#: Limits for the CPU, chosen for fully vectorised work-groups and few work-groups per core.
CPU = Target("cpu", warp=16, threads_per_block=64, threads_per_sm=192, blocks_per_sm=3)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _nvidia(50, 2048, 32),
        _nvidia(52, 2048, 32),
        _nvidia(53, 2048, 32),
        _nvidia(60, 2048, 32),
        _nvidia(61, 2048, 32),
        _nvidia(62, 2048, 32),
        _nvidia(70, 2048, 32, 96),
        _nvidia(72, 2048, 32, 96),
        _nvidia(75, 1024, 16, 64),
        _nvidia(80, 2048, 32, 163),
        _nvidia(86, 1536, 16, 99),
        _nvidia(87, 1536, 16, 163),
        _nvidia(88, 1536, 16, 99),
        _nvidia(89, 1536, 24, 99),
        _nvidia(90, 2048, 32, 227),
        _nvidia(100, 2048, 32, 227),
        _nvidia(103, 2048, 32, 227),
        _nvidia(110, 1536, 24, 227),
        _nvidia(120, 1536, 24, 99),
        _nvidia(121, 1536, 24, 99),
        CPU,
    )
}


def get_target(name: str) -> Target:
    """Return the limits of a device generation; raise `ReproError` for an unknown one."""
    if name not in TARGETS:
        names = ", ".join(sorted(TARGETS, key=lambda n: (n == "cpu", int(re.sub(r"\D", "", n) or 0))))
        raise ReproError(
            "unknown target", expected=f"one of {names}", actual=name, todo="add its limits in codegen/targets.py"
        )
    return TARGETS[name]


#: Double-precision FMAs per cycle and multiprocessor, by generation. Source: CUDA C++ Programming Guide 11, "Throughput
#: of Native Arithmetic Instructions"; from 7.5 on, edition 13, table 30, "Ratio of FP32 to FP64 Throughput", times the
#: number of single-precision FMAs: 64 (7.5, 8.0) or 128.
DOUBLE_FMAS_PER_CYCLE = {
    **dict.fromkeys(("sm_50", "sm_52", "sm_53", "sm_61", "sm_62"), 4),
    **dict.fromkeys(("sm_60", "sm_70", "sm_72", "sm_80"), 32),
    **dict.fromkeys(("sm_90", "sm_100"), 64),
    **dict.fromkeys(("sm_75", "sm_86", "sm_87", "sm_89", "sm_103", "sm_110", "sm_120", "sm_121"), 2),
}

#: Brand names in a driver's GPU name, which the names of models omit.
_BRANDS = re.compile(r"NVIDIA|Tesla|GeForce", re.IGNORECASE)


@dataclass(frozen=True)
class GpuModel:
    """Data sheet of a GPU model, as published by its vendor (`config/gpus.csv`)."""

    name: str
    #: Regular expression for the names that drivers give the model, without brands.
    pattern: str
    #: Name of the generation, which need not be in `TARGETS`.
    target: str
    #: Memory throughput in bytes per second.
    bandwidth: float
    #: Operations in double precision per second, without tensor cores.
    fp64: float
    memory_bytes: int

    def slowdown(self, intensity: float = 0.0) -> float:
        """Return how many times longer a kernel takes than on an H200, if memory or arithmetic limits it.

        `intensity` is the kernel's operations in double precision per byte moved.
        """
        mine, reference = (max(1 / gpu.bandwidth, intensity / gpu.fp64) for gpu in (self, get_gpu(REFERENCE_GPU)))
        return mine / reference


#: Model for which cost models, targets and timeouts were chosen.
REFERENCE_GPU = "H200"


@cache
def gpu_models() -> tuple[GpuModel, ...]:
    with shipped("config/gpus.csv", here=False).open(encoding="utf-8", newline="") as file:
        return tuple(
            GpuModel(
                *(row["name"], row["pattern"], row["target"]),
                1e9 * float(row["bandwidth_gb_s"]),
                1e12 * float(row["fp64_tflops"]),
                int(row["memory_gib"]) << 30,
            )
            for row in csv.DictReader(file)
        )


def find_gpu(name: str) -> GpuModel | None:
    """Return the data sheet of a GPU by its name, such as `NVIDIA A100-SXM4-40GB`; None for an unknown model."""
    plain = " ".join(_BRANDS.sub(" ", name).split())
    named_models = (model for model in gpu_models() if plain.lower() == model.name.lower())
    pattern_models = (model for model in gpu_models() if re.fullmatch(model.pattern, plain, re.IGNORECASE))
    return next(named_models, None) or next(pattern_models, None)


def get_gpu(name: str) -> GpuModel:
    """Return the data sheet of a GPU by its name; raise `ReproError` for an unknown model."""
    model = find_gpu(name)
    if model is None:
        raise ReproError(
            "unknown GPU",
            expected=f"one of {', '.join(model.name for model in gpu_models())}",
            actual=name,
            todo="add its data as a line of config/gpus.csv",
        )
    return model
