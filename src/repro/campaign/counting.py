"""Reading a GPU's counters for runnables by name: `repro launch` under NVIDIA's profiler `ncu`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from repro.bench.ncu import COLUMNS, COUNTERS, Kernel, read_log, split, summarise, unknown_metrics
from repro.bench.parquet import read_table, write_table
from repro.bench.recorded import read_case
from repro.campaign.folders import Folders
from repro.config.models import Config
from repro.errors import ReproError
from repro.programs import Ended, run_program
from repro.reading import read_json, read_text, shown

#: What the rows of counters take from the rows of what was launched.
KEPT = ("study", "problem", "entry", "precision", "kind", "name", "bytes", "device", "environment", "schema")
#: What counters are of.
KEY = ("study", "problem", "precision", "name")
PERMISSION = "ERR_NVGPUCTRPERM"
#: Lines of a failed run that its message quotes.
QUOTED = 8
#: Seconds for the profiler's version, and for what is profiled: each kernel is replayed for every few metrics.
ANSWERING, PROFILING = 60.0, 4 * 3600.0


def count(
    config: Config,
    config_file: Path,
    study: str,
    problem: str,
    precision: str,
    names: Sequence[str],
    launches: int,
    output: Path | None = None,
) -> Path:
    """Profile runnables and write their counters, a row each; other rows in the file stay as they are.

    Parameters
    ----------
    config, config_file
        The configuration, and where the profiled process reads it from.
    study, problem, precision, names, launches
        What to launch, and how often.
    output
        `counters.parquet` beside the measured rows where it is None.

    Raises
    ------
    ReproError
        `ncu` is not there, may not read counters, or profiles nothing; or what is profiled fails.
    """
    ncu = find_ncu()
    log = Path("logs", config.campaign, "counters", study, problem, f"{precision}.csv")
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "launched.json")
        words = ["launch", study, problem, precision, *names, "--launches", str(launches)]
        words += ["--record", str(record), "--config", str(config_file)]
        kernels = _profile(ncu, [sys.executable, "-m", "repro", *words], log)
        launched: list[dict[str, Any]] = read_json(record)
    try:
        by_name = split(kernels, [row["name"] for row in launched], launches)
    except ReproError as error:
        raise ReproError(error.what, where=error.where or log, expected=error.expected, actual=error.actual) from None
    common = {"profiler": _version(ncu), "measured_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
    rows = [
        {
            **{column: row.get(column) for column in KEPT},
            "kernels": ", ".join(dict.fromkeys(kernel.name for kernel in by_name[row["name"]][0])),
            "launches": launches,
            **summarise(by_name[row["name"]]),
            **common,
        }
        for row in launched
    ]
    frame = pd.DataFrame(rows).astype(dict.fromkeys(COLUMNS, "float64"))
    folders = Folders(config, study, problem, precision)
    # the campaign's own rows may be in its merged file, which those of a case's file hide
    old = _read(output) if output else pd.DataFrame(read_case(folders.study, "counters", problem, precision))
    path = output or folders.raw / "counters.parquet"
    return write_table(pa.Table.from_pandas(_merged(old, frame), preserve_index=False), path)


def find_ncu() -> str:
    """Look for `ncu` on PATH and in the toolkit's usual folder.

    Raises
    ------
    ReproError
        It is not there.
    """
    path = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if path is None:
        raise ReproError(
            "NVIDIA's profiler ncu was not found",
            where="PATH, /usr/local/cuda/bin",
            todo="install Nsight Compute, which comes with the CUDA toolkit, and put `ncu` on PATH",
        )
    return path


def _profile(ncu: str, command: Sequence[str], log: Path) -> list[Kernel]:
    """Run a command under the profiler until it knows every metric that is asked for."""
    metrics = [counter.metric for counter in COUNTERS]
    # a blocked stream never ends under a profiler, which waits for each kernel
    environment = {**os.environ, "REPRO_BLOCKING": "0"}
    while True:
        log.unlink(missing_ok=True)
        # caches and clocks as they are: that is how everything else is measured
        options = ["--cache-control", "none", "--clock-control", "none", "--target-processes", "application-only"]
        options += ["--metrics", ",".join(metrics), "--csv", "--log-file", str(log)]
        done = run_program([ncu, *options, *command], PROFILING, "the profiler", environment)
        text = read_text(log) if log.exists() else ""
        kernels = [] if done.code else read_log(text)
        if kernels:
            return kernels
        said = f"{text}\n{done.output}\n{done.errors}"
        unknown = unknown_metrics(said, metrics)
        if not unknown or len(unknown) == len(metrics):
            raise _failure(said, done, log)
        print(f"this ncu or GPU does not know {', '.join(sorted(unknown))}", flush=True)
        metrics = [metric for metric in metrics if metric not in unknown]


def _failure(said: str, done: Ended, log: Path) -> ReproError:
    if PERMISSION in said:
        return ReproError(
            "no permission to read the GPU's counters",
            actual=PERMISSION,
            todo="run as root, in a container with the capability SYS_ADMIN, or have the administrator load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0",
        )
    last = "\n    ".join(line for line in said.splitlines() if line.strip().strip('"'))
    quoted = "\n    ".join(map(shown, last.splitlines()[-QUOTED:]))
    if done.code:
        return ReproError("the profiled command failed", where=log, actual=f"exit code {done.code}: {quoted}")
    return ReproError(
        "ncu profiled no kernels", where=log, actual=quoted, todo="counters are read of NVIDIA GPUs alone: see `device`"
    )


def _version(ncu: str) -> str:
    said = run_program([ncu, "--version"], ANSWERING, "the profiler").output.strip()
    return f"ncu {shown(said.splitlines()[-1])}" if said else "ncu"


def _read(path: Path) -> pd.DataFrame:
    """Return the rows of a file; none where there is no file."""
    return read_table(path).to_pandas() if path.exists() else pd.DataFrame()


def _merged(old: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the old rows that are not among the new ones, and the new ones after them."""
    if old.empty:
        return rows
    # a file that was named can hold more than one case, with variants of one name
    again = pd.MultiIndex.from_frame(old[[*KEY]]).isin(pd.MultiIndex.from_frame(rows[[*KEY]]))
    return pd.concat([old[~again], rows], ignore_index=True)
