"""A record as an RO-Crate (https://w3id.org/ro/crate/1.1): what it has, with a checksum of each measured file.

`repro record` writes the crate, and `repro verify` holds the record against it. Tables and pages are no part of the
crate, since they are made from the measured files: they are made again and compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from repro.bench.campaign_folder import COMMITS, CampaignFolder
from repro.bench.records import read_environments
from repro.bench.store import read_rows, recorded_steps, recorded_studies
from repro.campaign.artifacts import CampaignSelection, all_artifacts, published_of
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.results.output import as_csv
from repro.results.tables import Table
from repro.untrusted_files import read_json, shown

CRATE = "ro-crate-metadata.json"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_LICENSE = "https://spdx.org/licenses/MIT"
_FORMATS = {".parquet": "application/vnd.apache.parquet", ".json": "application/json"}


def write_crate(folder: CampaignFolder) -> Path:
    """Write the crate of a record: its devices, the day of its last row, and the files, with SHA-256 and size."""
    files = [
        {
            "@id": name,
            "@type": "File",
            "contentSize": str(path.stat().st_size),
            "encodingFormat": _FORMATS.get(path.suffix, "text/plain"),
            "sha256": _checksum(path),
        }
        for name, path in _measured_files(folder).items()
    ]
    devices = sorted({str(environment.get("device")) for environment in read_environments(folder).values()})
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Measurements of campaign {folder.name}",
        "description": f"Times of kernels on {', '.join(devices)}, with the problems and environments they are of. "
        f"`repro verify {folder.name}` checks the files and makes the tables again.",
        "datePublished": _last_day(folder),
        "license": {"@id": _LICENSE},
        "hasPart": [{"@id": file["@id"]} for file in files],
    }
    about = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": _SPECIFICATION},
    }
    graph = [about, root, *files]
    path = folder.path / CRATE
    write_whole(path, json.dumps({"@context": f"{_SPECIFICATION}/context", "@graph": graph}, indent=1) + "\n")
    return path


def find_damage(folder: CampaignFolder) -> list[str]:
    """Return what differs between a record's measured files and its crate, a line for each file."""
    recorded, found = _read_checksums(folder.path / CRATE), _measured_files(folder)
    return [
        *(f"{name}: missing" for name in recorded if name not in found),
        *(f"{name}: not in the crate" for name in found if name not in recorded),
        *(
            f"{name}: changed since it was recorded"
            for name, path in found.items()
            if name in recorded and _checksum(path) != recorded[name]
        ),
    ]


def find_other_tables(selection: CampaignSelection) -> Iterator[tuple[str, str | None]]:
    """Make each stored table of a record again; yield its name and how it differs, or None if it is the same."""
    for study in selection.studies():
        campaign, published = selection.read(study), published_of(study)
        for artifact in all_artifacts(study, "table"):
            stored = selection.folder.tables(study) / f"{artifact.name}.csv"
            if stored.exists():
                table = artifact.make(campaign, published)
                assert isinstance(table, Table)
                yield f"{study}/{artifact.name}", _difference(stored.read_text("utf-8"), as_csv(table))


def _difference(stored: str, made: str) -> str | None:
    if stored == made:
        return None
    lines = zip(stored.splitlines(), made.splitlines(), strict=False)
    number, pair = next(((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1]), (0, ("", "")))
    return f"line {number} is {pair[0]!r:.100}, and made again {pair[1]!r:.100}" if number else "it has other lines"


def _measured_files(folder: CampaignFolder) -> Mapping[str, Path]:
    """Return the files of a record that no later command rewrites, by their paths in it."""
    paths = [path for path in folder.raw.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder.path)): path for path in sorted([*paths, *folder.path.glob(COMMITS)])}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checksums(path: Path) -> dict[str, str]:
    try:
        content: Any = read_json(path)
        return {item["@id"]: item["sha256"] for item in content["@graph"] if item["@type"] == "File"}
    except FileNotFoundError:
        raise ReproError(
            "the record has no checksums", where=path, todo="run `repro record` where the campaign was measured"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReproError(
            "the record's checksums cannot be read", where=path, actual=shown(str(error)), todo="take it from git"
        ) from None


def _last_day(folder: CampaignFolder) -> str | None:
    """Return the day on which the last row was measured, YYYY-MM-DD."""
    days = [
        day
        for study in map(folder.study, recorded_studies(folder))
        for step in recorded_steps(study)
        if "measured_at" in (rows := read_rows(study, step)).column_names
        for day in rows.column("measured_at").to_pylist()
        if day
    ]
    return max(days)[:10] if days else None
