"""Selects metrics of NVIDIA's profiler `ncu` and reads its CSV output."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from statistics import median

from repro.errors import ReproError

#: Marker kernel: its launches separate the runnables in the profiler's log.
MARKER = "empty"
Values = Mapping[str, float | None]


@dataclass(frozen=True)
class ProfiledKernel:
    name: str
    #: Value for each of the profiler's metric names, in seconds, bytes, percent or counts. Unreadable values are left
    #: out.
    metrics: Mapping[str, float]


def _sum(values: Sequence[float], seconds: Sequence[float]) -> float:
    return sum(values)


def _mean(values: Sequence[float], seconds: Sequence[float]) -> float:
    if len(values) == 1:
        return values[0]  # the exact value
    return sum(v * s for v, s in zip(values, seconds, strict=True)) / sum(seconds)


def _dominant(values: Sequence[float], seconds: Sequence[float]) -> float:
    return max(values)


@dataclass(frozen=True)
class Counter:
    """A result column that is computed from one profiler metric."""

    column: str
    metric: str
    #: Combines the values of all kernels of one launch; its arguments are the values, and the seconds of the kernels.
    join: Callable[[Sequence[float], Sequence[float]], float]


TIME = Counter("gpu_time", "gpu__time_duration.sum", _sum)
COUNTERS = (
    TIME,
    Counter("dram_read_bytes", "dram__bytes_read.sum", _sum),
    Counter("l2_to_l1_bytes", "l1tex__m_xbar2l1tex_read_bytes.sum", _sum),
    Counter("l1_hit_percent", "l1tex__t_sector_hit_rate.pct", _mean),
    Counter("l2_hit_percent", "lts__t_sector_hit_rate.pct", _mean),
    Counter("l1_throughput_percent", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed", _mean),
    Counter("l2_throughput_percent", "lts__throughput.avg.pct_of_peak_sustained_elapsed", _mean),
    Counter("occupancy_percent", "sm__warps_active.avg.pct_of_peak_sustained_active", _mean),
    Counter(
        "long_scoreboard_per_issue",
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        _mean,
    ),
    Counter("registers", "launch__registers_per_thread", _dominant),
    Counter("load_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", _sum),
    Counter("load_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", _sum),
    Counter("warps", "smsp__warps_launched.sum", _sum),
    Counter("waves", "launch__waves_per_multiprocessor", _dominant),
)
#: Column that is computed from two profiler metrics.
SECTORS_PER_REQUEST = "sectors_per_request"
COLUMNS = (*(counter.column for counter in COUNTERS), SECTORS_PER_REQUEST)

#: Factors to seconds and to bytes. Older `ncu` versions write full unit names and vary the prefix.
_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
FACTORS = {
    **_TIMES,
    **{f"{unit}econd": factor for unit, factor in _TIMES.items()},
    **{f"{prefix}byte": factor for prefix, factor in _SIZES.items()},
}
_HEADS = ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")


def read_log(text: str) -> list[ProfiledKernel]:
    """Read the log of `ncu --csv --log-file`; return kernel launches in order (none if nothing was profiled).

    Raises `ReproError`: a line does not contain exactly one metric for one launch.
    """
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    rows = csv.DictReader(line for line in lines[first:] if line.startswith('"'))
    absent = [header for header in _HEADS if header not in (rows.fieldnames or ())]
    if absent:
        raise ReproError("unknown format of ncu's output", expected=f"columns {', '.join(_HEADS)}", actual=lines[first])
    names: dict[str, str] = {}
    metrics: dict[str, dict[str, float]] = {}
    for row in rows:
        names[row["ID"]] = row["Kernel Name"]
        readings = metrics.setdefault(row["ID"], {})
        value = _number(row["Metric Value"])
        if value is not None:
            readings[row["Metric Name"]] = value * FACTORS.get(row["Metric Unit"], 1.0)
    return [ProfiledKernel(name, metrics[number]) for number, name in names.items()]


def _number(text: str) -> float | None:
    """Read a number with thousands separators; return None for `n/a` and other text."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return None if isnan(value) else value


def unknown_metrics(log: str, metrics: Iterable[str]) -> set[str]:
    tokens = {
        token for line in log.splitlines() if line.startswith("==ERROR==") for token in re.findall(r"[\w.]+", line)
    }
    tokens |= {token.rstrip(".") for token in tokens}
    return {metric for metric in metrics if metric in tokens or metric.split(".")[0] in tokens}


def split(
    kernels: Sequence[ProfiledKernel], names: Sequence[str], launches: int
) -> dict[str, list[list[ProfiledKernel]]]:
    """Assign kernels to runnables. A marker kernel ran before each runnable and after the last one.

    Returns a list of launches for each runnable, and for each launch its kernels (a library call may use several).
    Raises `ReproError`: the number of markers is wrong, or a runnable's launches have different numbers of kernels.
    """
    marks = [i for i, kernel in enumerate(kernels) if kernel.name == MARKER]
    if len(marks) != len(names) + 1:
        raise ReproError(
            "the profiled kernels cannot be told apart",
            expected=f"{len(names) + 1} launches of `{MARKER}` between them",
            actual=f"{len(marks)} among {len(kernels)} kernels",
        )
    launches_by_name = {}
    for name, start, end in zip(names, marks, marks[1:], strict=False):
        segment = kernels[start + 1 : end]
        kernels_per_launch, remainder = divmod(len(segment), launches)
        if remainder or not kernels_per_launch:
            raise ReproError(
                "a runnable launches different kernels from one run to the next",
                where=name,
                expected=f"a multiple of {launches} kernels",
                actual=f"{len(segment)}: {', '.join(dict.fromkeys(kernel.name for kernel in segment)) or 'none'}",
            )
        launches_by_name[name] = [
            list(segment[i : i + kernels_per_launch]) for i in range(0, len(segment), kernels_per_launch)
        ]
    return launches_by_name


def summarise(launches: Sequence[Sequence[ProfiledKernel]]) -> dict[str, float | None]:
    """Return a runnable's profiler columns: medians over all launches except the first, whose caches are cold."""
    summaries = [_join(kernels) for kernels in launches[1:] or launches]
    return {column: _median([launch[column] for launch in summaries]) for column in COLUMNS}


def _join(kernels: Sequence[ProfiledKernel]) -> Values:
    """Combine the kernels of one launch: add amounts, average rates weighted by time, take the largest size."""
    durations = [kernel.metrics.get(TIME.metric) for kernel in kernels]
    seconds = [s for s in durations if s] if all(durations) else [1.0] * len(kernels)
    values: dict[str, float | None] = {}
    for counter in COUNTERS:
        amounts = [kernel.metrics[counter.metric] for kernel in kernels if counter.metric in kernel.metrics]
        values[counter.column] = counter.join(amounts, seconds) if len(amounts) == len(kernels) else None
    sectors, requests = values["load_sectors"], values["load_requests"]
    values[SECTORS_PER_REQUEST] = sectors / requests if sectors is not None and requests else None
    return values


def _median(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
