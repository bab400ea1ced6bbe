"""Measured rows as a short table, and their export: JSON, CSV, NVBench's JSON, searches in Kernel Tuner's T4.

T4 is a common results format of autotuning tools (version 1.0.0 of its results schema). One file has the results of the
search for one kernel, here for one problem in one precision. NVBench's `--json` (file version 1.0.0) is as its
`nvbench/json_printer.cu` writes it; names of summaries are those of `nvbench/detail/measure_cold.cu` and
`measure_hot.cu`, and `python/scripts/nvbench_compare.py` reads it.
"""

from __future__ import annotations

import csv
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import ALL_CLOCKS, COMMON_COLUMNS, OUTSIDE, QUANTILES, TIMED
from repro.bench.store import check_measured, read_rows, recorded_studies
from repro.errors import ReproError
from repro.studies import Study, get_study
from repro.words import some_of, suggestion

#: A problem and a precision.
Case = tuple[str, str]
#: Steps of a study whose rows are measurements.
STEPS = ("search", "baseline", "report")
#: Columns with lists of samples, which are omitted in CSV.
LISTS = tuple(f"{clock}_samples" for clock in ALL_CLOCKS)
#: T4's value of `invalidity` for each status of a row.
INVALIDITY = {
    "ok": "correct",
    "noisy": "correct",
    "unsupported": "constraints",
    "compile_error": "compile",
    "launch_error": "runtime",
    "out_of_memory": "runtime",
    "disturbed": "runtime",
    "timeout": "timeout",
    "incorrect": "correctness",
    "unstable": "correctness",
}
T4_VERSION = "1.0.0"
#: Columns that are axes of NVBench, and its names of the times by each clock.
NVBENCH_AXES = ("problem", "precision", "step", "kind", "name", "cache")
NVBENCH_TIMES = {"event": "nv/cold/time/gpu", "host": "nv/cold/time/cpu", "graph": "nv/batch/time/gpu"}
MILLI, MICRO = 1e3, 1e6
NO_FILTERS: Mapping[str, str] = MappingProxyType({})
#: The recorded kinds of rows that a filter by the kind `rival` selects: those of `dynamic_csr`, and users' kernels.
RIVALS = ("rival", OUTSIDE)


def studies_of(folder: CampaignFolder, study_name: str | None = None) -> list[Study]:
    """Return the studies that a campaign has rows of, or the named one."""
    check_measured(folder)
    recorded_names = recorded_studies(folder)
    if study_name is not None and study_name not in recorded_names:
        raise ReproError(
            "the campaign has no results of this study",
            where=folder.raw,
            expected=f"one of {', '.join(recorded_names)}",
            actual=study_name,
        )
    return [get_study(name) for name in recorded_names if study_name in (None, name)]


def exported_rows(
    folder: CampaignFolder, study: Study, filters: Mapping[str, str] = NO_FILTERS
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a study, step by step, each with a key `step`; absent values are omitted.

    `filters` selects the rows that have the given values, as text; its keys are `step`, and names of columns.
    """
    for step in STEPS:
        if filters.get("step", step) == step:
            rows = read_rows(folder.study(study.name), step)
            for name, value in filters.items():
                if name in rows.column_names:
                    values = RIVALS if (name, value) == ("kind", RIVALS[0]) else (value,)
                    rows = rows.filter(pc.is_in(pc.cast(rows[name], "string"), pa.array(values)))
            for row in rows.to_pylist():
                yield {"step": step, **{name: value for name, value in row.items() if value is not None}}


#: Columns of `row_lines` that a narrow terminal leaves out where all rows have the same value, and otherwise.
COMMON_IN_ROWS, SPARE_COLUMNS = (
    ("study", "problem", "step", "precision"),
    ("error", "kind", "host µs", "cache", "status"),
)


def count_lines(folder: CampaignFolder, studies: Iterable[Study]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the lines of a table with the number of rows of each step by study, problem, precision."""
    headers = ["study", "problem", "precision", *STEPS]
    lines = []
    for study in studies:
        counts: dict[Case, dict[str, int]] = {}
        for step in STEPS:
            rows = read_rows(folder.study(study.name), step)
            cases = zip(rows["problem"].to_pylist(), rows["precision"].to_pylist(), strict=True) if rows else ()
            for case, number in Counter(cases).items():
                counts.setdefault(case, {})[step] = number
        lines += [
            [study.name, *case, *(f"{steps[step]:,}" if step in steps else "" for step in STEPS)]
            for case, steps in sorted(counts.items())
        ]
    return headers, lines


def row_lines(
    folder: CampaignFolder, studies: Iterable[Study], filters: Mapping[str, str] = NO_FILTERS
) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the lines of a short table of rows; columns that are empty in all lines are left out.

    Times are medians in µs, and the last column has the first line of a row's message.
    """
    plain = ("problem", "precision", "step", "kind", "name", "cache", "status")
    lines: list[dict[str, str]] = []
    for study in studies:
        for row in exported_rows(folder, study, filters):
            line = {"study": study.name, **{name: str(row.get(name, "")) for name in plain}}
            for clock in ALL_CLOCKS:
                seconds = row.get(f"{clock}_median")
                line[f"{clock} µs"] = "" if seconds is None else f"{MICRO * seconds:.1f}"
            line["error"] = f"{row['error']:.2g}" if "error" in row else ""
            line["message"] = (row.get("message") or "").partition("\n")[0]
            lines.append(line)
    headers = [header for header in (lines[0] if lines else ()) if any(line[header] for line in lines)]
    return headers, [[line[header] for header in headers] for line in lines]


def check_filters(folder: CampaignFolder, studies: Iterable[Study], filters: Mapping[str, str]) -> None:
    """Raise `ReproError` if no row has a value given in `filters`; the message suggests the most similar value."""
    recorded_values: dict[str, set[str]] = {name: set() for name in filters}
    for study in studies if filters else ():
        for step in STEPS:
            rows = read_rows(folder.study(study.name), step)
            for name in filters:
                if name == "step":
                    recorded_values[name] |= {step} if rows.num_rows else set()
                elif name in rows.column_names:
                    recorded_values[name] |= {*pc.cast(rows[name], "string").drop_null().unique().to_pylist()}
    if OUTSIDE in recorded_values.get("kind", ()):
        recorded_values["kind"].add(RIVALS[0])
    for name, value in filters.items():
        if value not in recorded_values[name]:
            known_values = sorted(recorded_values[name])
            raise ReproError(
                f"no row has this {name}",
                where=folder.raw,
                expected=some_of(known_values, value, f"`repro results {folder.name}`")
                if name == "problem"
                else f"one of {', '.join(known_values)}",
                actual=f"{value}{suggestion(value, known_values)}",
            )


def write_csv(
    folder: CampaignFolder, studies: Iterable[Study], stream: TextIO, filters: Mapping[str, str] = NO_FILTERS
) -> None:
    """Write the `exported_rows` of some studies as CSV, with all their columns except samples."""
    studies = [*studies]
    columns = dict.fromkeys(
        column for names in (COMMON_COLUMNS, *(study.columns for study in studies)) for column in names
    )
    names = ["step", *(name for name in columns if name not in LISTS)]
    writer = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for study in studies:
        writer.writerows(exported_rows(folder, study, filters))


def t4_of(folder: CampaignFolder, study: Study, filters: Mapping[str, str] = NO_FILTERS) -> dict[Case, dict[str, Any]]:
    """Return the searches of a study in format T4, by problem and precision; empty for a study without parameters.

    The objective is `time` in milliseconds: the median by events, or by the host's clock for rows without event times.
    """
    if study.id_class is None:
        return {}
    case_results: dict[Case, dict[str, Any]] = {}
    for row in exported_rows(folder, study, filters):
        if row["step"] != "search" or row["kind"] != "variant" or row["status"] not in INVALIDITY:
            continue
        case = case_results.setdefault(
            (row["problem"], row["precision"]), {"schema_version": T4_VERSION, "results": []}
        )
        case["results"].append(_t4_result(row, study.id_class.parse(row["name"]).columns))
    return case_results


def _t4_result(row: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    is_timed = row["status"] in TIMED
    time_columns = {"time": ("event_median", "host_median"), "graph_time": ("graph_median",)}
    measured_times = {
        name: next((MILLI * row[column] for column in columns if column in row), None)
        for name, columns in time_columns.items()
        if is_timed
    }
    return {
        "timestamp": row.get("measured_at", ""),
        "configuration": {name: value for name, value in parameters.items() if value is not None},
        "objectives": ["time"],
        "times": {"runtimes": [measured_times["time"]] if measured_times.get("time") else []},
        "invalidity": INVALIDITY[row["status"]],
        "correctness": 1 if is_timed else 0,
        "measurements": [
            {"name": name, "value": value, "unit": "ms"} for name, value in measured_times.items() if value is not None
        ],
    }


def nvbench_of(
    folder: CampaignFolder, studies: Iterable[Study], filters: Mapping[str, str] = NO_FILTERS
) -> dict[str, Any]:
    """Return rows in NVBench's format: a benchmark for each study, with a state for each row.

    NVBench calls single launches cold; here the cache is an axis. Rows without a time are skipped states.
    """
    devices: dict[str, int] = {}
    benchmarks: list[dict[str, Any]] = []
    for study in studies:
        rows = [*exported_rows(folder, study, filters)]
        states = [_nvbench_state(row, devices.setdefault(row.get("device", ""), len(devices))) for row in rows]
        axes = {axis: dict.fromkeys(row[axis] for row in rows) for axis in NVBENCH_AXES}
        benchmarks.append(
            {
                "name": study.name,
                "index": len(benchmarks),
                "devices": [*dict.fromkeys(state["device"] for state in states)],
                "axes": [
                    {
                        "name": axis,
                        "type": "string",
                        "flags": "",
                        "values": [{"input_string": value, "description": "", "value": value} for value in values],
                    }
                    for axis, values in axes.items()
                ],
                "states": states,
            }
        )
    version = {"major": 1, "minor": 0, "patch": 0, "string": "1.0.0"}
    return {
        "meta": {"argv": ["repro", "results", "--nvbench"], "version": {"json": version}},
        "devices": [{"id": number, "name": name} for name, number in devices.items()],
        "benchmarks": benchmarks,
    }


def _nvbench_state(row: Mapping[str, Any], device: int) -> dict[str, Any]:
    is_timed = row["status"] in TIMED
    values = [{"name": axis, "type": "string", "value": row[axis]} for axis in NVBENCH_AXES]
    state = {
        "name": " ".join([f"Device={device}", *(f"{axis}={row[axis]}" for axis in NVBENCH_AXES)]),
        "device": device,
        "type_config_index": 0,
        "axis_values": values,
        "summaries": [part for clock in NVBENCH_TIMES for part in _nvbench_summaries(row, clock)] if is_timed else None,
        "is_skipped": not is_timed,
    }
    return state if is_timed else {**state, "skip_reason": row.get("message") or row["status"]}


def _nvbench_summaries(row: Mapping[str, Any], clock: str) -> Iterator[dict[str, Any]]:
    """Yield the quantiles of a clock, their range, and the deviation of the samples that the row keeps."""
    times = {name: row[column] for name in QUANTILES if (column := f"{clock}_{name}") in row}
    if not times:
        return
    samples = [seconds for part in row.get(f"{clock}_samples", ()) for seconds in part]
    spreads = {"ir": times["q3"] - times["q1"]}
    if len(samples) > 1:
        spreads["stdev"] = statistics.stdev(samples)
    for name, spread in spreads.items():
        center = times["median" if name == "ir" else "mean"]
        times |= {f"{name}/absolute": spread, f"{name}/relative": spread / center}
    for name, value in times.items():
        yield {
            "tag": f"{NVBENCH_TIMES[clock]}/{name}",
            "name": f"{clock} {name}",
            "hint": "percentage" if name.endswith("/relative") else "duration",
            **({} if name in ("mean", "median", "ir/relative") else {"hide": "Hidden by default."}),
            "data": [{"name": "value", "type": "float64", "value": str(value)}],
        }
