"""Archiving of a measured campaign: merging its files into one per study and step, finding the git commits of the code
that measured it, citing it, and listing its Python packages for pip.

`repro.bench.store` merges the rows.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from repro import __version__
from repro.bench.campaign_folder import CampaignFolder, step_file
from repro.bench.records import code_of, read_commits, read_environments
from repro.bench.store import case_files, check_measured, read_rows, recorded_steps, recorded_studies, write_table
from repro.codegen.templates import SUFFIXES
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.programs import run_program
from repro.results.campaign_data import Campaign
from repro.results.output import latex_escape
from repro.results.registry import Artifact
from repro.untrusted_files import shown


def pack(campaign: CampaignFolder) -> list[Path]:
    """Merge the files of a campaign's cases into one file per study and step; return the written files.

    Merged files are written atomically. The files of cases are deleted only after all merged files are written, so that
    a killed call can be repeated. Merged files without new rows are not rewritten.
    """
    check_measured(campaign)
    studies = [campaign.study(name) for name in recorded_studies(campaign)]
    sources = {(study, step): case_files(study, step) for study in studies for step in recorded_steps(study)}
    row_tables = {case: read_rows(*case) for case in sources}  # read a merged file without new rows too, to verify it
    archived_files = [
        write_table(row_tables[study, step], step_file(study, step)) for study, step in sources if sources[study, step]
    ]
    for (study, _), files in sources.items():
        for path in files:
            path.unlink()
        for folder in sorted(
            {parent for path in files for parent in path.parents if study in parent.parents}, reverse=True
        ):
            if not any(folder.iterdir()):
                folder.rmdir()
    return archived_files


#: Folders of a commit that `repro.bench.environment.package_hash` hashes, with the suffixes of their files. Earlier
#: commits hashed only the first folder.
HASHED = (("src/repro", (".py",)), ("kernels", SUFFIXES))
#: Time limit in seconds to list a repository's history.
LISTING = 60.0
_TREE = b"40000"


def record_commits(folder: CampaignFolder, repository: Path) -> dict[str, str | None]:
    """Write `commits.json` of a campaign: for each source hash the git commit with this source, null if none is found.

    Commits found by an earlier call are kept, since the record may now be in a clone with less history.
    """
    environments = read_environments(folder).values()
    recorded_commits = {str(record["source"]): record.get("commit") for record in environments if record.get("source")}
    known_commits = {
        source: commit for source, commit in read_commits(folder).items() if commit and source in recorded_commits
    }
    found_commits = find_commits(
        {source: commit for source, commit in recorded_commits.items() if source not in known_commits}, repository
    )
    commits = dict(sorted({**known_commits, **found_commits}.items()))
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
        raise ReproError("git failed", where=repository, actual=shown(log_lines.said))
    source_candidates: dict[str, list[str]] = {source: [] for source in source_commits}
    with subprocess.Popen(
        ["git", "-C", repository, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        objects = _Objects(process)
        for commit in log_lines.output.split():
            for source in objects.sources(commit):
                source_candidates.get(source, []).append(commit)
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
        self._files, self._blob, self._hashed = cache(self._list_files), cache(self._blob_of), cache(self._hash)

    def sources(self, commit: str) -> Collection[str]:
        """Return the two hashes that `package_hash` can give a commit: of its first folder (formerly), and of both."""
        trees = tuple(self._read(f"{commit}:{folder}")[0] for folder, _ in HASHED)
        return {self._hashed(trees[:1]), self._hashed(trees)}

    def _read(self, name: str) -> tuple[str, bytes]:
        """Return an object's id and content; empty for an object that does not exist."""
        self._asked.write(f"{name}\n".encode())
        self._asked.flush()
        head = self._answered.readline().split()
        if head[-1] == b"missing":
            return "", b""
        content = self._answered.read(int(head[2]))
        self._answered.read(1)
        return head[0].decode(), content

    def _blob_of(self, name: str) -> bytes:
        return self._read(name)[1]

    def _list_files(self, tree: str) -> list[tuple[PurePosixPath, str]]:
        """Return the paths and ids of all files below a tree object."""
        content, files = self._read(tree)[1], []
        width = len(tree) // 2
        while content:
            head, _, rest = content.partition(b"\0")
            mode, _, name = head.partition(b" ")
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
        for tree, (_, suffixes) in zip(trees, HASHED, strict=False):
            for path, blob in sorted(self._files(tree) if tree else ()):
                if path.suffix in suffixes:
                    digest.update(f"{path}\0".encode() + self._blob(blob))
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Citation:
    """Citation of a recorded table or figure: its campaign, devices, days, code and rows."""

    version: str
    campaign: str
    #: `study/name`.
    artifact: str
    devices: Sequence[str]
    #: First and last day of measurement.
    days: Sequence[str]
    #: For each version of the code: hash of its sources, and its commit or what else is known of it.
    codes: Sequence[str]
    #: File of the rows.
    rows: str
    #: Command that makes the table or figure again.
    command: str

    @property
    def recording(self) -> str:
        return f"{', '.join(self.devices)}, {' to '.join(dict.fromkeys(self.days))}"

    @property
    def code(self) -> str:
        """Text on the version, or versions, of the code."""
        return "; ".join(self.codes)

    @property
    def bibtex(self) -> str:
        """BibTeX entry, escaped for LaTeX."""
        key = re.sub(r"\W+", "-", f"sparse-repro-{self.campaign}-{self.artifact}")
        title = f"sparse-repro {self.version}, campaign {self.campaign}, {self.artifact}"
        note = f"Measured on {self.recording}; {self.code}; by {self.command}"
        lines = (
            "  author = {{The sparse-repro developers}},",
            f"  title = {{{{{latex_escape(title)}}}}},",
            f"  year = {{{self.days[-1][:4]}}},",
            f"  note = {{{latex_escape(note)}}},",
        )
        return "\n".join([f"@misc{{{key},", *lines, "}"])


def cite(campaign: Campaign, folder: CampaignFolder, artifact: Artifact, caption: str) -> Citation:
    """Return the citation of a table or figure of a recorded campaign.

    `caption` is the artifact's caption; it tells whether the times are from the search or the report phase.
    """
    of_search = "medians of the search" in caption and "medians of the report phase" not in caption
    step = "search" if of_search else "report"
    rows = campaign.search if of_search else campaign.report
    rows = rows[rows.device.notna()]
    if rows.empty:
        raise ReproError("nothing was measured that could be cited", where=folder.study(campaign.study))
    environments = {name: campaign.environments[name] for name in sorted(rows.environment.unique())}
    row_file = step_file(folder.study(campaign.study), step)
    artifact_name = f"{artifact.study}/{artifact.name}"
    return Citation(
        __version__,
        campaign.name,
        artifact_name,
        sorted(rows.device.unique()),
        (rows.measured_at.min()[:10], rows.measured_at.max()[:10]),
        [
            f"sources {', '.join(sorted({str(environments[name]['source']) for name in names}))}, {code}"
            for code, names in code_of(environments, read_commits(folder)).items()
        ],
        str(row_file if row_file.exists() else folder.study(campaign.study)),
        f"repro {artifact.kind} {artifact_name} --campaign {campaign.name}",
    )


#: For each Python package that contains a library: the record's key for the version that was loaded, which may come
#: from another installation.
LIBRARIES = {"nvidia-cusparse": "cusparse"}
#: Keys of an environment record for parts that pip cannot install, with their titles in the output's comments.
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


def constraints_of(folder: CampaignFolder, record: str | None = None) -> str:
    """Return the packages of an environment record, one per line, after comments on what pip does not install.

    `record` selects one of the campaign's records by the start of its hash; None requires that all records
    agree.
    """
    check_measured(folder)
    records = read_environments(folder)
    if not records:
        raise ReproError(
            "the campaign has no record of its environment",
            where=folder.environments,
            todo="take it from where the campaign was measured",
        )
    selected_records = {name: content for name, content in records.items() if name.startswith(record or "")}
    if not selected_records:
        raise ReproError(
            "no such environment record", where=folder.environments, expected=", ".join(records), actual=record
        )
    # records of different studies can name different packages
    packages = _shared_versions([content.get("packages") or {} for content in selected_records.values()])
    texts: dict[str, list[str]] = {}
    for name, content in selected_records.items():
        texts.setdefault(_constraints_text(folder.environment(name), content, packages), []).append(name)
    if len(texts) > 1:
        raise ReproError(
            "the campaign was measured in several environments",
            where=folder.environments,
            expected="one",
            actual="; ".join(
                f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {_differing_lines(text, texts)}"
                for text, names in texts.items()
            ),
            todo="name one by --record",
        )
    ((text, names),) = texts.items()
    codes = code_of(selected_records, read_commits(folder))
    versions = [
        f"# Measured with, by {len(names)} environment {'record' if len(names) == 1 else 'records'} of campaign "
        f"{folder.raw.resolve().parent.name}",
        f"# of this software: {', '.join(codes)}",
    ]
    return "\n".join([*versions, text])


def _shared_versions(records: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the union of the packages in all records; empty if a package has different versions."""
    shared_versions: dict[str, str] = {}
    for packages in records:
        if any(shared_versions.setdefault(name, version) != version for name, version in packages.items()):
            return {}
    return shared_versions


def _constraints_text(path: Path, record: Mapping[str, Any], shared_versions: Mapping[str, str]) -> str:
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
    for name, version in sorted((shared_versions or packages).items()):
        loaded = _word(record.get(LIBRARIES.get(name, "")) or "")
        if loaded and not f"{version}.".startswith(f"{loaded}."):
            lines.append(f"# {name}: {version} was installed, and {loaded} was loaded from elsewhere")
        else:
            lines.append(f"{name}=={version}")
    return "\n".join([*comments, *lines])


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else " ".join(str(value).split())


def _differing_lines(text: str, texts: Mapping[str, Any]) -> str:
    """Return the lines of a text that are not in all of the texts."""
    shared = set.intersection(*(set(lines.splitlines()) for lines in texts))
    return ", ".join(line.removeprefix("# ") for line in text.splitlines() if line not in shared)
