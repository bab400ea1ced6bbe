"""Launching named kernels under a profiler or sanitizer, and recording their GPU counters.

A name stands for a variant of any search space, the floor, or a library routine. Counters are measured by running
`repro launch` under `ncu`.
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

from repro.bench.campaign_folder import CampaignFolder, step_file
from repro.bench.ncu import COLUMNS, COUNTERS, ProfiledKernel, read_log, split, summarise, unknown_metrics
from repro.bench.rows import RecordedRow, Row
from repro.bench.runnable import Runnable
from repro.bench.store import read_case, read_table, write_table
from repro.bench.timing import SamplingPlan
from repro.bench.trial import FAILURES
from repro.bench.yardsticks import FLOOR, Empty, Floor
from repro.campaign.configuration import check_study
from repro.campaign.measurement import load_built, open_bench
from repro.codegen.build_cache import MODULES, compile_module
from repro.codegen.targets import DTYPES, Target
from repro.codegen.templates import COMMON, render_common, streams
from repro.config.models import Config
from repro.devices.selection import resolve_device, target_of
from repro.errors import ReproError
from repro.problems.problem import Outline, Unavailable
from repro.programs import Ended, run_program
from repro.sparse.library import for_problem
from repro.sparse.ordering import UNKNOWNS
from repro.studies import get_study
from repro.untrusted_files import read_json, read_text, shown
from repro.words import some_of

#: Default configuration of the floor: medium block size, available on every device.
SOME_FLOOR = f"{FLOOR}/256-4"


def find_runnables(
    config: Config,
    study_name: str,
    problem: Outline,
    precision: str,
    names: Sequence[str],
    target: Target,
    study_folder: Path,
) -> list[Runnable]:
    """Return the distinct named runnables; a variant that is in no compiled module is compiled separately.

    Parameters
    ----------
    names
        Variants, `floor` or a configuration of the floor (`floor/256-4`), library routines (`cusparse/bsrmv/real3`).
    study_folder
        Folder of the study's measured rows, which determine the fastest configuration for the name `floor`.
    """
    floors = {floor.name: floor for floor in map(Floor, streams(target))}
    fixed_runnables: dict[str, Runnable] = {**floors}
    for ordering in UNKNOWNS if problem.entry else ():
        fixed_runnables |= {
            routine.name: routine for routine in for_problem(problem.entry or "", target.dialect, ordering)
        }
    libraries = {name.partition("/")[0] for name in fixed_runnables}
    study, templates = get_study(study_name), Path(config.kernels)
    runnables: dict[str, Runnable] = {}
    for name in names:
        if name == FLOOR:
            runnable: Runnable = floors[fastest_floor(study_folder, problem.name, precision)]
        elif name in fixed_runnables:
            runnable = fixed_runnables[name]
        else:
            # no variant's name begins with that of a library
            if name.partition("/")[0] in libraries:
                named_runnables = study.named_runnables(templates, problem, precision, target)
                if name not in named_runnables:
                    routines = [*fixed_runnables, *named_runnables]
                    raise ReproError("unknown routine", expected=some_of(routines, name), actual=name)
            runnable = study.find(templates, problem, precision, name, target)
        runnables[runnable.name] = runnable
    return list(runnables.values())


def fastest_floor(study_folder: Path, problem_name: str, precision: str) -> str:
    """Return the fastest recorded configuration of the floor, or `SOME_FLOOR` if none is recorded."""
    for step in ("report", "baseline"):
        rows = read_case(study_folder, step, problem_name, precision)
        floors = [row for row in map(RecordedRow, rows) if row.kind == FLOOR and row.cache == "warm"]
        floor_times = [(seconds, row.name) for row in floors if (seconds := row.seconds("graph"))]
        if floor_times:
            return min(floor_times, key=lambda item: item[0])[1]
    return SOME_FLOOR


def launch(
    config: Config, study_name: str, name: str, precision: str, names: Sequence[str], launches: int
) -> list[Row]:
    """Prepare, verify and launch each named runnable several times; return one row without times for each.

    An empty kernel is launched before each runnable and after the last, to separate them in the profile.
    """
    check_study(config, study_name)
    if precision not in DTYPES:
        raise ReproError("unknown precision", expected=f"one of {', '.join(DTYPES)}", actual=precision)
    study, folder = get_study(study_name), CampaignFolder.of(config.campaign)
    try:
        problem = load_built(folder, name)
    except Unavailable as reason:
        raise ReproError("the problem is unavailable", where=name, actual=reason.reason) from None
    target = target_of(resolve_device(config.device))
    runnables = find_runnables(
        config, study_name, problem.outline(), precision, names, target, folder.study(study_name)
    )
    common = MODULES / target.name / f"{COMMON}.json"
    if not common.exists():
        compile_module(render_common(Path(config.kernels), target), target, common)
    rows = []
    with open_bench(config, study, name, study.operands(problem, precision, config.seed)) as bench:
        bench.workspace.kept_packings = len(runnables)
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


#: Columns of counter rows that are copied from the rows of `launch`.
COPIED_COLUMNS = ("study", "problem", "entry", "precision", "kind", "name", "bytes", "device", "environment", "schema")
#: Key columns of counter rows.
KEY = ("study", "problem", "precision", "name")
PERMISSION = "ERR_NVGPUCTRPERM"
#: Maximum number of output lines of a failed profiler run that a message quotes.
QUOTED = 8
#: Time limits in seconds for `ncu --version`, and for profiling, which replays each kernel for every few metrics.
ANSWERING, PROFILING = 60.0, 4 * 3600.0


def collect_counters(
    config: Config,
    config_file: Path,
    study_name: str,
    problem_name: str,
    precision: str,
    names: Sequence[str],
    launches: int,
    output: Path | None = None,
) -> Path:
    """Profile runnables with `ncu` and write one row of counters for each; other rows in the file are kept.

    The profiled process reads `config_file`. The default `output` is `counters.parquet` next to the measured rows.
    """
    ncu = find_ncu()
    log = Path("logs", config.campaign, "counters", study_name, problem_name, f"{precision}.csv")
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "launched.json")
        arguments = ["launch", study_name, problem_name, precision, *names, "--launches", str(launches)]
        arguments += ["--record", str(record), "--config", str(config_file)]
        kernels = _profile(ncu, [sys.executable, "-m", "repro", *arguments], log)
        launched: list[dict[str, Any]] = read_json(record)
    try:
        kernels_by_name = split(kernels, [row["name"] for row in launched], launches)
    except ReproError as error:
        raise ReproError(error.what, where=error.where or log, expected=error.expected, actual=error.actual) from None
    common = {"profiler": _version(ncu), "measured_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
    rows = [
        {
            **{column: row.get(column) for column in COPIED_COLUMNS},
            "kernels": ", ".join(dict.fromkeys(kernel.name for kernel in kernels_by_name[row["name"]][0])),
            "launches": launches,
            **summarise(kernels_by_name[row["name"]]),
            **common,
        }
        for row in launched
    ]
    frame = pd.DataFrame(rows).astype(dict.fromkeys(COLUMNS, "float64"))
    campaign = CampaignFolder.of(config.campaign)
    # earlier counter rows may be in the campaign's merged file or in the case's file, which has priority
    old_counters = (
        _read(output)
        if output
        else pd.DataFrame(read_case(campaign.study(study_name), "counters", problem_name, precision))
    )
    path = output or step_file(campaign.case(study_name, problem_name, precision), "counters")
    return write_table(pa.Table.from_pandas(_merge_counters(old_counters, frame), preserve_index=False), path)


def find_ncu() -> str:
    path = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if path is None:
        raise ReproError(
            "NVIDIA's profiler ncu is not installed",
            where="PATH, /usr/local/cuda/bin",
            todo="install Nsight Compute, which comes with the CUDA toolkit, and put `ncu` on PATH",
        )
    return path


def _profile(ncu: str, command: Sequence[str], log: Path) -> list[ProfiledKernel]:
    """Profile a command; if this `ncu` does not know some metrics, repeat without them."""
    metrics = [counter.metric for counter in COUNTERS]
    # ncu runs one kernel at a time, so a stream that waits for a blocking kernel would wait forever
    environment = {**os.environ, "REPRO_BLOCKING": "0"}
    while True:
        log.unlink(missing_ok=True)
        # do not flush caches or lock clocks, as in all other measurements
        options = ["--cache-control", "none", "--clock-control", "none", "--target-processes", "application-only"]
        options += ["--metrics", ",".join(metrics), "--csv", "--log-file", str(log)]
        result = run_program([ncu, *options, *command], PROFILING, "the profiler", environment)
        text = read_text(log) if log.exists() else ""
        kernels = [] if result.code else read_log(text)
        if kernels:
            return kernels
        log_text = f"{text}\n{result.output}\n{result.errors}"
        unknown_names = unknown_metrics(log_text, metrics)
        if not unknown_names or len(unknown_names) == len(metrics):
            raise _failure(log_text, result, log)
        print(f"this ncu or GPU does not know {', '.join(sorted(unknown_names))}", flush=True)
        metrics = [metric for metric in metrics if metric not in unknown_names]


def _failure(log_text: str, result: Ended, log: Path) -> ReproError:
    if PERMISSION in log_text:
        return ReproError(
            "no permission to read the GPU's performance counters",
            actual=PERMISSION,
            todo="run as root, in a container with the capability SYS_ADMIN, or have the administrator load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0",
        )
    last_lines = "\n    ".join(line for line in log_text.splitlines() if line.strip().strip('"'))
    quoted_lines = "\n    ".join(map(shown, last_lines.splitlines()[-QUOTED:]))
    if result.code:
        return ReproError("the profiled command failed", where=log, actual=f"exit code {result.code}: {quoted_lines}")
    return ReproError(
        "ncu profiled no kernels", where=log, actual=quoted_lines, todo="only NVIDIA GPUs have counters; check `device`"
    )


def _version(ncu: str) -> str:
    version_text = run_program([ncu, "--version"], ANSWERING, "the profiler").output.strip()
    return f"ncu {shown(version_text.splitlines()[-1])}" if version_text else "ncu"


def _read(path: Path) -> pd.DataFrame:
    return read_table(path).to_pandas() if path.exists() else pd.DataFrame()


def _merge_counters(old_counters: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the old rows that have no new row with the same key, followed by the new rows."""
    if old_counters.empty:
        return frame
    # compare whole keys: a file given by --output can hold several cases with the same variants
    is_repeated = pd.MultiIndex.from_frame(old_counters[[*KEY]]).isin(pd.MultiIndex.from_frame(frame[[*KEY]]))
    return pd.concat([old_counters[~is_repeated], frame], ignore_index=True)
