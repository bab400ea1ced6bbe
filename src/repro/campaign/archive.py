"""The archive of a measured campaign: its record, and its environment as constraints for pip.

A record has the rows of all problems in one file a study and step; see `repro.bench.store` for how files are
merged. The constraints name the packages that the campaign was measured with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from repro.bench.records import read_environments
from repro.bench.store import case_files, read_rows, recorded_steps, recorded_studies, write_table
from repro.errors import ReproError


def pack(raw: Path) -> list[Path]:
    """Merge the files of all problems into one a study and step, and delete them and their empty folders.

    A merged file is written whole or not at all, and nothing is deleted before all are written: where this was killed,
    the next call ends it.

    Parameters
    ----------
    raw
        `results/<campaign>/raw`.

    Returns
    -------
    list[Path]
        The merged files that were written, by study and step; those with nothing new are left alone.

    Raises
    ------
    ReproError
        There is no such folder; or a file is damaged, of another schema, or of another problem than its folder says.
    """
    if not raw.is_dir():
        raise ReproError("no such campaign", where=raw, todo="measure it first, or name another campaign")
    studies = [raw / name for name in recorded_studies(raw)]
    sources = {(study, step): case_files(study, step) for study in studies for step in recorded_steps(study)}
    merged = {case: read_rows(*case) for case in sources}  # also where nothing is new: what is kept is verified
    written = [
        write_table(merged[study, step], study / f"{step}.parquet") for study, step in sources if sources[study, step]
    ]
    for (study, _), files in sources.items():
        for path in files:
            path.unlink()
        for folder in sorted({parent for path in files for parent in _between(study, path)}, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
    return written


def _between(study: Path, path: Path) -> list[Path]:
    """Return the folders of a file below its study's."""
    return [parent for parent in path.parents if study in parent.parents]


#: The package of a library whose own version an environment record has as well: another one may have been loaded.
LIBRARIES = {"nvidia-cusparse": "cusparse"}
#: What is no package of Python's, by the keys of an environment record, with the words of a comment.
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
    """Return the packages of an environment record, one a line, under comments on what pip does not install.

    Parameters
    ----------
    raw
        `results/<campaign>/raw`.
    record
        The hash of one of its environment records, or how it begins; None: they all say the same.

    Raises
    ------
    ReproError
        There is no such campaign or record, a record has no packages, or records say different things.
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
    # a study's record may have packages beside those of the others
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
    """Return the packages of all records; none where two have another version of one."""
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
    return "\n".join(
        [*comments, *(_pin(name, version, record) for name, version in sorted((united or packages).items()))]
    )


def _pin(name: str, version: str, record: Mapping[str, Any]) -> str:
    """Return the line of a package: a pin, or where its library was not the one in use a comment."""
    loaded = _word(record.get(LIBRARIES.get(name, "")) or "")
    if loaded and not f"{version}.".startswith(f"{loaded}."):
        return f"# {name}: {version} was installed, and {loaded} was loaded from elsewhere"
    return f"{name}=={version}"


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else " ".join(str(value).split())


def _differing(text: str, texts: Mapping[str, Any]) -> str:
    """Return the lines of a text that not all texts have."""
    shared = set.intersection(*(set(other.splitlines()) for other in texts))
    return ", ".join(line.removeprefix("# ") for line in text.splitlines() if line not in shared)
