"""Archiving of a measured campaign: merging its files into one per study and step, finding the git commits of the code
that measured it, and checksums.

`repro.bench.store` merges the rows. The checksums of measured files are in an RO-Crate
(https://w3id.org/ro/crate/1.1), which `repro record` writes and `repro verify` checks. Tables and pages are no part of
the crate, since they are made from the measured files: `repro verify` makes them again and compares.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from repro.bench.campaign_folder import COMMITS, CampaignFolder, step_file
from repro.bench.records import as_packed, read_commits, read_environments, read_problems
from repro.bench.store import case_files, check_measured, read_rows, recorded_steps, recorded_studies, write_table
from repro.campaign.artifacts import CampaignSelection, all_artifacts, published_of
from repro.codegen.templates import SUFFIXES
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.programs import run_program
from repro.results.output import as_csv
from repro.results.tables import Table
from repro.untrusted_files import read_json, shown


def pack(campaign: CampaignFolder, refuse: Callable[[], object] = lambda: None) -> list[Path]:
    """Merge the files of a campaign's cases into one per study and step, those of problems into one; return these.

    `refuse` is called when all rows are read, and may raise `ReproError`; then nothing is changed. Merged files are
    written atomically. The files of cases are deleted only after all merged files are written, so that a killed call
    can be repeated. Merged files without anything new are not rewritten, and a step without rows has none.
    """
    check_measured(campaign)
    studies = [campaign.study(name) for name in recorded_studies(campaign)]
    sources = {(study, step): case_files(study, step) for study in studies for step in recorded_steps(study)}
    problems = read_problems(campaign)
    record_files = [path for path in map(campaign.record, problems) if path.exists()]
    row_tables = {case: read_rows(*case) for case in sources}  # read a merged file without new rows too, to verify it
    refuse()
    archived_files = [
        write_table(row_tables[study, step], step_file(study, step))
        for study, step in sources
        if sources[study, step] and (row_tables[study, step].num_rows or step_file(study, step).exists())
    ]
    if record_files:
        write_whole(campaign.packed_records, as_packed(problems))
        archived_files.append(campaign.packed_records)
    for study, files in [*((study, files) for (study, _), files in sources.items()), (campaign.raw, record_files)]:
        for path in files:
            path.unlink()
        for folder in sorted(
            {parent for path in files for parent in path.parents if study in parent.parents}, reverse=True
        ):
            if not any(folder.iterdir()):
                folder.rmdir()
    return archived_files


#: Folders of a commit that `repro.bench.environment.package_hash` hashes, with the suffixes of their files.
HASHED = (("src/repro", (".py",)), ("kernels", SUFFIXES))
#: Time limit in seconds to list a repository's history.
LISTING = 60.0
_TREE = b"40000"


def record_commits(
    folder: CampaignFolder, repository: Path, *, allow_uncommitted: bool = False
) -> dict[str, str | None]:
    """Write `commits.json` of a campaign: for each source hash the git commit with this source, null if none is found.

    Commits found by an earlier call are kept, since the record may now be in a clone with less history. A source
    without a commit raises `ReproError`, unless `allow_uncommitted` is true or an earlier call wrote it.
    """
    environments = read_environments(folder).values()
    recorded_commits = {str(record["source"]): record.get("commit") for record in environments if record.get("source")}
    earlier = read_commits(folder)
    known_commits = {source: commit for source, commit in earlier.items() if commit and source in recorded_commits}
    found_commits = find_commits(
        {source: commit for source, commit in recorded_commits.items() if source not in known_commits}, repository
    )
    commits = dict(sorted({**known_commits, **found_commits}.items()))
    unknown = [source for source, commit in commits.items() if commit is None and source not in earlier]
    if unknown and not allow_uncommitted:
        raise ReproError(
            "rows were measured with code that is in no commit",
            where=folder.environments,
            expected="a commit in this checkout's history with the same sources, so that others can run them again",
            actual=f"none for the source hash {', '.join(unknown)}",
            todo="commit the code and measure again, or fetch the history that has it; --uncommitted keeps the rows "
            "as they are, and report and `repro check` say so",
        )
    if commits:
        write_whole(folder.commits, json.dumps(commits, indent=1) + "\n")
    return commits


def find_commits(source_commits: Mapping[str, str | None], repository: Path) -> dict[str, str | None]:
    """Return for each source hash a commit with this source: the one in `source_commits` if it has it, else the oldest,
    or None.

    All commits that the repository's refs reach are searched.
    """
    if not source_commits:
        return {}
    log_lines = run_program(["git", "-C", repository, "log", "--all", "--reverse", "--format=%H"], LISTING, "git")
    if log_lines.code:
        raise ReproError("the git command failed", where=repository, actual=shown(log_lines.said))
    source_candidates: dict[str, list[str]] = {source: [] for source in source_commits}
    with subprocess.Popen(
        ["git", "-C", repository, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        objects = _Objects(process)
        for commit in log_lines.output.split():
            source_candidates.get(objects.source(commit), []).append(commit)
    return {
        source: commit if commit in source_candidates[source] else next(iter(source_candidates[source]), None)
        for source, commit in source_commits.items()
    }


class _Objects:
    """Objects of a git repository, read from a running `git cat-file --batch`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout
        self._asked, self._answered = process.stdin, process.stdout
        # cached, since most commits share most objects with others
        self._files, self._blob, self._hashed = (
            cache(self._list_files),
            cache(lambda name: self._read(name)[1]),
            cache(self._hash),
        )

    def source(self, commit: str) -> str:
        """Return the hash that `package_hash` gives a commit."""
        return self._hashed(tuple(self._read(f"{commit}:{folder}")[0] for folder, _ in HASHED))

    def _read(self, name: str) -> tuple[str, bytes]:
        """Return an object's id and content; empty for an object that does not exist."""
        self._asked.write(f"{name}\n".encode())
        self._asked.flush()
        header = self._answered.readline().split()
        if header[-1] == b"missing":
            return "", b""
        content = self._answered.read(int(header[2]))
        self._answered.read(1)
        return header[0].decode(), content

    def _list_files(self, tree: str) -> list[tuple[PurePosixPath, str]]:
        """Return the paths and ids of all files below a tree object."""
        content, files = self._read(tree)[1], []
        width = len(tree) // 2
        while content:
            header, _, rest = content.partition(b"\0")
            mode, _, name = header.partition(b" ")
            child, content = rest[:width].hex(), rest[width:]
            path = PurePosixPath(name.decode())
            files += (
                [(path / relative_path, blob) for relative_path, blob in self._files(child)]
                if mode == _TREE
                else [(path, child)]
            )
        return files

    def _hash(self, trees: tuple[str, ...]) -> str:
        digest = hashlib.sha256()
        for tree, (_, suffixes) in zip(trees, HASHED, strict=True):
            for path, blob in sorted(self._files(tree) if tree else ()):
                if path.suffix in suffixes:
                    digest.update(f"{path}\0".encode() + self._blob(blob))
        return digest.hexdigest()[:16]


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
