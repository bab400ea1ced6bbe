"""Archiving a measured campaign: merging its files into one per study and step, and printing its environment for pip.

`repro.bench.store` merges the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from repro.bench.records import read_environments
from repro.bench.store import case_files, read_rows, recorded_steps, recorded_studies, write_table
from repro.errors import ReproError


def pack(raw: Path) -> list[Path]:
    """Merge all files in `results/<campaign>/raw` into one file per study and step; return the written files.

    Merged files are written atomically, and files are deleted only after all are written, so that a killed call can be
    repeated. Merged files without new rows are not rewritten.
    """
    if not raw.is_dir():
        raise ReproError("no such campaign", where=raw, todo="measure it first, or name another campaign")
    studies = [raw / name for name in recorded_studies(raw)]
    sources = {(study, step): case_files(study, step) for study in studies for step in recorded_steps(study)}
    merged = {case: read_rows(*case) for case in sources}  # also without new rows, to verify the merged file
    written = [
        write_table(merged[study, step], study / f"{step}.parquet") for study, step in sources if sources[study, step]
    ]
    for (study, _), files in sources.items():
        for path in files:
            path.unlink()
        for folder in sorted(
            {parent for path in files for parent in path.parents if study in parent.parents}, reverse=True
        ):
            if not any(folder.iterdir()):
                folder.rmdir()
    return written


#: Python packages of libraries, and the record's key for the loaded version, which may come from another installation.
LIBRARIES = {"nvidia-cusparse": "cusparse"}
#: Keys of an environment record other than Python packages, with their titles in the comments of the output.
BESIDE = {
    "device": "device",
    "python": "Python",
    "system": "system",
    "driver": "driver",
    "cuda_driver_api": "CUDA that the driver is for",
    "compiler": "compiler",
    "flags": "its flags",
    "cuda_of_pycuda": "CUDA toolkit that PyCUDA was built with",
    "cuda_runtime": "CUDA runtime",
    "cusparse": "cuSPARSE",
    "opencl": "OpenCL",
}


def constraints_of(raw: Path, record: str | None = None) -> str:
    """Return the packages of an environment record, one per line, after comments on what pip does not install.

    `record` selects a record in `results/<campaign>/raw` by the start of its hash; None requires that all records
    agree.
    """
    if not raw.is_dir():
        raise ReproError("no such campaign", where=raw, todo="measure it first, or name another campaign")
    records = read_environments(raw)
    if not records:
        raise ReproError(
            "the campaign has no record of its environment",
            where=raw / "environment",
            todo="take it from where the campaign was measured",
        )
    named = {name: content for name, content in records.items() if name.startswith(record or "")}
    if not named:
        raise ReproError(
            "no such environment record", where=raw / "environment", expected=", ".join(records), actual=record
        )
    # records of studies can name further packages
    packages = _united([content.get("packages") or {} for content in named.values()])
    texts: dict[str, list[str]] = {}
    for name, content in named.items():
        texts.setdefault(_text(raw / "environment" / f"{name}.json", content, packages), []).append(name)
    if len(texts) > 1:
        raise ReproError(
            "the campaign was measured in several environments",
            where=raw / "environment",
            expected="one",
            actual="; ".join(
                f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {_differing(text, texts)}"
                for text, names in texts.items()
            ),
            todo="name one by --record",
        )
    ((text, names),) = texts.items()
    commits = [str(content["commit"])[:12] for content in named.values() if content.get("commit")]
    of = [
        f"# Measured with, by {len(names)} environment {'record' if len(names) == 1 else 'records'} of campaign "
        f"{raw.resolve().parent.name}",
        *([f"# commits of this software: {', '.join(dict.fromkeys(commits))}"] if commits else []),
    ]
    return "\n".join([*of, text])


def _united(records: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the union of the packages in all records; empty if a package has different versions."""
    united: dict[str, str] = {}
    for packages in records:
        if any(united.setdefault(name, version) != version for name, version in packages.items()):
            return {}
    return united


def _text(path: Path, record: Mapping[str, Any], united: Mapping[str, str]) -> str:
    packages = record.get("packages")
    if not packages:
        raise ReproError(
            "the environment record does not say which packages there were",
            where=path,
            expected="`packages`, names with versions",
            actual=", ".join(record),
            todo="it was written by hand or by another program: measure the campaign again",
        )
    comments = [f"# {words}: {_word(record[key])}" for key, words in BESIDE.items() if record.get(key)]
    lines = []
    for name, version in sorted((united or packages).items()):
        loaded = _word(record.get(LIBRARIES.get(name, "")) or "")
        if loaded and not f"{version}.".startswith(f"{loaded}."):
            lines.append(f"# {name}: {version} was installed, and {loaded} was loaded from elsewhere")
        else:
            lines.append(f"{name}=={version}")
    return "\n".join([*comments, *lines])


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else " ".join(str(value).split())


def _differing(text: str, texts: Mapping[str, Any]) -> str:
    """Return the lines of a text that are not in all of the texts."""
    shared = set.intersection(*(set(other.splitlines()) for other in texts))
    return ", ".join(line.removeprefix("# ") for line in text.splitlines() if line not in shared)
