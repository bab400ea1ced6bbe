"""Export of measured rows to other programs: JSON and CSV with a schema, and searches in Kernel Tuner's format T4.

T4 is a common results format of autotuning tools (version 1.0.0 of its results schema). One file has the results of the
search for one kernel, here for one problem in one precision.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, UnionType
from typing import Any, TextIO, get_args

import pyarrow.compute as pc

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import ALL_CLOCKS, COMMON_COLUMNS, PHASES, SCHEMA, STATUSES, TIMED, ColumnType
from repro.bench.store import check_measured, read_rows, recorded_studies
from repro.config.validation_errors import suggestion
from repro.errors import ReproError
from repro.studies import Study, get_study

#: A problem and a precision.
Case = tuple[str, str]
#: Steps of a study whose rows are measurements.
STEPS = ("search", "baseline", "report")
_JSON_TYPES: Mapping[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
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
MILLI = 1e3
NO_CHOICE: Mapping[str, str] = MappingProxyType({})


def studies_of(folder: CampaignFolder, study_name: str | None = None) -> list[Study]:
    """Return the studies that a campaign has rows of, or the named one."""
    check_measured(folder)
    recorded = recorded_studies(folder)
    if study_name is not None and study_name not in recorded:
        raise ReproError(
            "the campaign holds nothing of this study",
            where=folder.raw,
            expected=f"one of {', '.join(recorded)}",
            actual=study_name,
        )
    return [get_study(name) for name in recorded if study_name in (None, name)]


#: Keys by which exported rows can be filtered: the step, and columns.
CHOOSING = ("step", "problem", "precision", "kind")


def exported_rows(
    folder: CampaignFolder, study: Study, only: Mapping[str, str] = NO_CHOICE
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a study, step by step, each with a key `step`; absent values are omitted.

    `only` selects the rows that have the given values; its keys are from `CHOOSING`.
    """
    for step in STEPS:
        if only.get("step", step) == step:
            rows = read_rows(folder.study(study.name), step)
            for name, value in only.items():
                if name in rows.column_names:
                    rows = rows.filter(pc.equal(rows[name], value))
            for row in rows.to_pylist():
                yield {"step": step, **{name: value for name, value in row.items() if value is not None}}


def check_choice(folder: CampaignFolder, studies: Iterable[Study], only: Mapping[str, str]) -> None:
    """Raise `ReproError` if no row has a value given in `only`; the message suggests the most similar value."""
    there: dict[str, set[str]] = {name: set() for name in only}
    for study in studies if only else ():
        for step in STEPS:
            rows = read_rows(folder.study(study.name), step)
            for name in only:
                if name == "step":
                    there[name] |= {step} if rows.num_rows else set()
                elif name in rows.column_names:
                    there[name] |= set(rows[name].unique().to_pylist())
    for name, value in only.items():
        if value not in there[name]:
            known = sorted(there[name])
            raise ReproError(
                f"no row is of this {name}",
                where=folder.raw,
                expected=f"one of {', '.join(known)}",
                actual=f"{value}{suggestion(value, known)}",
            )


def json_schema(studies: Iterable[Study]) -> dict[str, Any]:
    """Return the JSON schema of the output of `repro results --json` for some studies."""
    columns: dict[str, ColumnType | type[list[list[float]]]] = {**COMMON_COLUMNS}
    for study in studies:
        columns |= study.columns
    properties: dict[str, Any] = {"step": {"enum": [*STEPS]}}
    for name, kind in columns.items():
        plain = get_args(kind)[0] if isinstance(kind, UnionType) else kind
        if name in LISTS:
            properties[name] = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
        else:
            properties[name] = {"type": _JSON_TYPES[plain]}
    properties["status"] = {"enum": [*STATUSES]}
    properties["phase"] = {"enum": [*PHASES]}
    row = {
        "type": "object",
        "properties": properties,
        "required": ["step", "study", "problem", "precision", "kind", "name", "status"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rows of a campaign: times in seconds, sizes in bytes",
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "campaign": {"type": "string"},
            "rows": {"type": "array", "items": row},
        },
        "required": ["schema", "campaign", "rows"],
    }


def write_csv(
    folder: CampaignFolder, studies: Iterable[Study], out: TextIO, only: Mapping[str, str] = NO_CHOICE
) -> None:
    """Write the `exported_rows` of some studies as CSV, with the columns of `json_schema` except samples."""
    studies = [*studies]
    names = [name for name in json_schema(studies)["properties"]["rows"]["items"]["properties"] if name not in LISTS]
    writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for study in studies:
        writer.writerows(exported_rows(folder, study, only))


def t4_of(folder: CampaignFolder, study: Study, only: Mapping[str, str] = NO_CHOICE) -> dict[Case, dict[str, Any]]:
    """Return the searches of a study in format T4, by problem and precision; empty for a study without parameters.

    The objective is `time` in milliseconds: the median by events, or by the host's clock for rows without event times.
    """
    if study.id_class is None:
        return {}
    found: dict[Case, dict[str, Any]] = {}
    for row in exported_rows(folder, study, only):
        if row["step"] != "search" or row["kind"] != "variant" or row["status"] not in INVALIDITY:
            continue
        case = found.setdefault((row["problem"], row["precision"]), {"schema_version": T4_VERSION, "results": []})
        case["results"].append(_t4_result(row, study.id_class.parse(row["name"]).columns))
    return found


def _t4_result(row: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    timed = row["status"] in TIMED
    named = {"time": ("event_median", "host_median"), "graph_time": ("graph_median",)}
    measured = {
        name: next((MILLI * row[column] for column in columns if column in row), None)
        for name, columns in named.items()
        if timed
    }
    return {
        "timestamp": row.get("measured_at", ""),
        "configuration": {name: value for name, value in parameters.items() if value is not None},
        "objectives": ["time"],
        "times": {"runtimes": [measured["time"]] if measured.get("time") else []},
        "invalidity": INVALIDITY[row["status"]],
        "correctness": 1 if timed else 0,
        "measurements": [
            {"name": name, "value": value, "unit": "ms"} for name, value in measured.items() if value is not None
        ],
    }
