"""Runnables by name, launched for a profiler or a sanitizer, and the counters of a GPU for them.

A name stands for a variant of any space, the floor, or a routine of a library. Launches are not timed. Counters are
read by running `repro launch` under NVIDIA's profiler `ncu`.
"""

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

from repro.bench.ncu import COLUMNS, COUNTERS, ProfiledKernel, read_log, split, summarise, unknown_metrics
from repro.bench.rows import TIMED, Row
from repro.bench.runnable import Runnable
from repro.bench.store import read_case, read_table, write_table
from repro.bench.timing import SamplingPlan
from repro.bench.trial import FAILURES
from repro.bench.yardsticks import FLOOR, Empty, Floor
from repro.campaign.folders import Folders, check_study
from repro.campaign.measurement import open_bench
from repro.codegen.build_cache import MODULES, compile_module
from repro.codegen.targets import DTYPES, Target
from repro.codegen.templates import COMMON, render_common, streams
from repro.config.models import Config
from repro.devices.selection import resolve_device, target_of
from repro.errors import ReproError
from repro.problems.problem import Outline, Problem, Unavailable
from repro.programs import Ended, run_program
from repro.sparse.library import for_problem
from repro.sparse.ordering import UNKNOWNS
from repro.studies import get_study
from repro.untrusted_files import read_json, read_text, shown

#: Taken where no floor is recorded: of middling shape, in the space of every device.
SOME_FLOOR = f"{FLOOR}/256-4"


def find_runnables(
    config: Config, study: str, problem: Outline, precision: str, names: Sequence[str], target: Target, recorded: Path
) -> list[Runnable]:
    """Return what the names stand for, each once; a variant that no module holds is compiled by itself.

    Parameters
    ----------
    config, study, problem, precision, target
        What they are for.
    names
        Variants, `floor` or one configuration of it (`floor/256-4`), routines (`cusparse/bsrmv/real3`).
    recorded
        Folder of the study's measured rows, where `floor` looks for the fastest.

    Raises
    ------
    ReproError
        A name stands for nothing, or a kernel does not compile.
    """
    floors = {floor.name: floor for floor in map(Floor, streams(target))}
    fixed: dict[str, Runnable] = {**floors}
    for ordering in UNKNOWNS if problem.entry else ():
        fixed |= {routine.name: routine for routine in for_problem(problem.entry or "", target.dialect, ordering)}
    runnables: dict[str, Runnable] = {}
    for name in names:
        if name == FLOOR:
            runnable: Runnable = floors[fastest_floor(recorded, problem.name, precision)]
        elif name in fixed:
            runnable = fixed[name]
        elif name.partition("/")[0] in {routine.partition("/")[0] for routine in fixed}:
            raise ReproError("unknown routine", expected=f"one of {', '.join(fixed)}", actual=name)
        else:
            runnable = get_study(study).find(Path(config.kernels), problem, precision, name, target)
        runnables[runnable.name] = runnable
    return list(runnables.values())


def fastest_floor(recorded: Path, problem: str, precision: str) -> str:
    """Return the name of the fastest recorded configuration of the floor, of any where none is recorded."""
    for step in ("report", "baseline"):
        rows = read_case(recorded, step, problem, precision)
        floors = [row for row in rows if row["kind"] == FLOOR and row["cache"] == "warm" and row["graph_median"]]
        floors = [row for row in floors if row["status"] in TIMED]
        if floors:
            return str(min(floors, key=lambda row: row["graph_median"])["name"])
    return SOME_FLOOR


def launch(
    config: Config, study_name: str, name: str, precision: str, names: Sequence[str], launches: int
) -> list[Row]:
    """Prepare and verify each runnable, then launch them one after the other, so many times each.

    The empty kernel is launched before each and after the last: it marks in a profile where one begins.

    Returns
    -------
    A row a runnable in the order of their launches; without times.

    Raises
    ------
    ReproError
        Study, problem, precision or a runnable that there is not; or a runnable that cannot be run, is wrong, or writes
        outside of what is its own.
    """
    check_study(config, study_name)
    if precision not in DTYPES:
        raise ReproError("unknown precision", expected=f"one of {', '.join(DTYPES)}", actual=precision)
    study, folders = get_study(study_name), Folders(config, study_name, name, precision)
    try:
        problem = folders.load_problem()
    except Unavailable as reason:
        raise ReproError("the problem is unavailable", where=name, actual=reason.reason) from None
    target = target_of(resolve_device(config.device))
    runnables = find_runnables(config, study_name, outline_of(problem), precision, names, target, folders.study)
    _compile_common(config, target)
    rows = []
    with open_bench(config, study, name, study.operands(problem, precision, config.seed), folders) as bench:
        bench.workspace.resident = len(runnables)
        for runnable in runnables:
            try:
                bench.prepare(runnable)
                error = bench.check(runnable)
            except tuple(FAILURES) as failure:
                raise ReproError("a runnable cannot be launched", where=runnable.name, actual=failure) from None
            rows.append(bench.row(runnable, "search", SamplingPlan(launches), "ok", error=error))
        marker = Empty()
        bench.prepare(marker)
        for runnable in runnables:
            marker.launch()
            try:
                for _ in range(launches):
                    runnable.before()
                    runnable.launch()
                bench.devices.synchronize()
                bench.workspace.guards.check()
            except tuple(FAILURES) as failure:
                raise ReproError("a launch failed", where=runnable.name, actual=failure) from None
        marker.launch()
        bench.devices.synchronize()
        for runnable in runnables:
            runnable.release()
    return rows


def outline_of(problem: Problem) -> Outline:
    """Return what would be known of a built problem before it was built."""
    return Outline(problem.name, problem.kind, entry=problem.summary().get("entry"))


def _compile_common(config: Config, target: Target) -> None:
    """Compile the module that every campaign needs where no campaign has done so yet."""
    manifest = MODULES / target.name / f"{COMMON}.json"
    if not manifest.exists():
        compile_module(render_common(Path(config.kernels), target), target, manifest)


#: What the rows of counters take from the rows of what was launched.
KEPT = ("study", "problem", "entry", "precision", "kind", "name", "bytes", "device", "environment", "schema")
#: What counters are of.
KEY = ("study", "problem", "precision", "name")
PERMISSION = "ERR_NVGPUCTRPERM"
#: Lines of a failed run that its message quotes.
QUOTED = 8
#: Seconds for the profiler's version, and for what is profiled: each kernel is replayed for every few metrics.
ANSWERING, PROFILING = 60.0, 4 * 3600.0


def collect_counters(
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


def _profile(ncu: str, command: Sequence[str], log: Path) -> list[ProfiledKernel]:
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
