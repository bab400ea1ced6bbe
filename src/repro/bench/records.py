"""Reads the problem and environment records (JSON) of a campaign; a damaged record raises `ReproError`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from repro.bench.campaign_folder import CampaignFolder
from repro.errors import ReproError
from repro.untrusted_files import files_below, read_file, read_json, shown
from repro.words import name_error


class _Record(BaseModel):
    """Base of records: declares the keys that readers need, and keeps further keys."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Quantiles(_Record):
    min: float
    q1: float
    median: float
    q3: float
    max: float
    mean: float


class _Statistics(_Record):
    rows: int = Field(ge=0)
    nonzeros: int = Field(ge=0)
    row_length: _Quantiles
    bandwidth_percent: _Quantiles
    ell_factor: float


class _FieldStatistics(_Record):
    cells: int = Field(ge=1)
    volume: _Quantiles
    edge: _Quantiles
    total_volume: float = Field(gt=0)
    longest_edge: float = Field(gt=0)
    mean_edge: float = Field(gt=0)


_STATISTICS: dict[str, type[_Record]] = {"matrix": _Statistics, "field": _FieldStatistics}


class _Problem(_Record):
    name: str = Field(min_length=1)
    kind: str = "matrix"
    status: Literal["ok", "unavailable"] = "ok"
    reason: str | None = None
    entry: str | None = None
    n: int | None = Field(None, ge=0)
    nnz: int | None = Field(None, ge=0)
    dimension: int | None = Field(None, ge=2, le=3)
    cells: int | None = Field(None, ge=1)
    degree: int | None = Field(None, ge=0)
    basis: str | None = Field(None, min_length=1)
    modes: int | None = Field(None, ge=1)
    checksum: str | None = None
    origin: dict[str, Any] | None = None
    statistics: dict[str, Any] | None = None
    facts: dict[str, dict[str, Any]] = {}

    @field_validator("statistics")
    @classmethod
    def _are_of_the_kind(cls, statistics: dict[str, Any] | None, info: ValidationInfo) -> dict[str, Any] | None:
        model = _STATISTICS.get(info.data.get("kind", ""))
        if statistics and model:
            model.model_validate(statistics)
        return statistics


#: A text without blanks, since it is printed in pip requirements and in tables.
_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}$")]


class _Environment(_Record):
    repro: _Word | None = None
    source: _Word | None = None
    commit: _Word | None = None
    backend: str | None = None
    device: str | None = None
    target: str | None = None
    multiprocessors: int | None = Field(None, ge=0)
    cache_bytes: int | None = Field(None, ge=0)
    flags: list[str] | None = None
    packages: dict[_Word, _Word] | None = None


M = TypeVar("M", bound=_Record)
_TAKE = "where it is kept of a campaign, take it from a copy, or from git"


def read_problem(path: Path) -> dict[str, Any]:
    """Read a problem's record written by `repro.campaign.problem_files.record_of`; `ReproError` if it is damaged."""
    return _read(path, _Problem, "a problem")


def read_problem_of(folder: CampaignFolder, name: str) -> dict[str, Any]:
    """Read a problem's record from its file, or from that of all.

    It raises `FileNotFoundError` if there is none, and `ReproError` if it is damaged or describes another problem.
    """
    return _problem_of(folder, name, _read_packed(folder))


def _problem_of(folder: CampaignFolder, name: str, packed: Mapping[str, Any]) -> dict[str, Any]:
    path = folder.record(name)
    if name in packed and not path.exists():
        path = folder.packed_records
        record = _validated(packed[name], path, _Problem, "a problem")
    else:
        record = read_problem(path)
    if record["name"] != name or name_error(name):
        raise ReproError(
            "the record describes a different problem from its file name",
            where=path,
            expected=f"the name {shown(repr(name))}"
            if not name_error(name)
            else f"a file named after a problem: {name_error(name)}",
            actual=shown(repr(record["name"])),
            todo=f"delete it and run the campaign again; {_TAKE}",
        )
    return record


def read_environment(path: Path) -> dict[str, Any]:
    return _read(path, _Environment, "an environment")


def read_problems(folder: CampaignFolder, names: Container[str] | None = None) -> dict[str, dict[str, Any]]:
    """Read the records of the named problems, as far as there are any; None: of all problems."""
    packed = _read_packed(folder)
    existing_names = sorted({*_names(folder.records), *packed})
    return {name: _problem_of(folder, name, packed) for name in existing_names if names is None or name in names}


def as_packed(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a file of all problems' records, by name."""
    return json.dumps(dict(sorted(records.items())), indent=1) + "\n"


def _read_packed(folder: CampaignFolder) -> dict[str, Any]:
    """Return the records of all problems that are packed, as they are in the file."""
    path = folder.packed_records
    return _read(path, None, "problems") if path.exists() else {}


def read_environments(folder: CampaignFolder) -> dict[str, dict[str, Any]]:
    return {name: read_environment(folder.environment(name)) for name in _names(folder.environments)}


#: Number of characters of a git commit in texts.
COMMIT_LENGTH = 12


def read_commits(folder: CampaignFolder) -> dict[str, str | None]:
    """Read `results/<campaign>/commits.json`; return an empty mapping without this file.

    It raises `ReproError` if the file is damaged.
    """
    path = folder.commits
    try:
        return TypeAdapter(dict[_Word, _Word | None]).validate_python(read_json(path), strict=True)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ReproError(
            "the list of commits in a record cannot be read",
            where=path,
            expected="a commit, or null, for each hash of a source",
            actual=shown(str(error).splitlines()[0]),
            todo="run `repro record` again in a clone of the repository, whose history it searches",
        ) from None


#: Text in place of a commit, if no commit of the git history has the hash of a source.
UNCOMMITTED = "code that no commit of the history has"


def code_of(environments: Mapping[str, Mapping[str, Any]], commits: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Group environment records by the code that was measured: map a text on the code to the names of the records.

    `commits` is the result of `read_commits`. For code without a commit, the text says what is known: the commit that
    was changed, or else the version.
    """
    codes: dict[str, list[str]] = {}
    for name, record in environments.items():
        source, commit = record.get("source"), record.get("commit")
        if isinstance(source, str) and source in commits:
            source_commit = commits[source]
            code = (
                f"commit {source_commit[:COMMIT_LENGTH]}"
                if source_commit
                else f"{UNCOMMITTED}{_describe_uncommitted(record)}"
            )
        elif commit:
            code = f"commit {commit[:COMMIT_LENGTH]}{' with changes' * bool(record.get('dirty'))}"
        else:
            code = f"no commit is recorded{_describe_uncommitted(record)}"
        codes.setdefault(code, []).append(name)
    return codes


def _describe_uncommitted(record: Mapping[str, Any]) -> str:
    """Return what an environment record knows of code without a commit."""
    commit, version = record.get("commit"), record.get("repro")
    if commit:
        return f", changed from commit {commit[:COMMIT_LENGTH]}"
    return f", of version {version}" if version else ""


def _names(folder: Path) -> list[str]:
    return [str(path.relative_to(folder).with_suffix("")) for path in files_below(folder, "*.json")]


def _read(path: Path, model: type[M] | None, subject: str) -> dict[str, Any]:
    try:
        return _validated(read_json(path), path, model, subject)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, subject, error.strerror or error) from error
    except ValueError as error:
        raise _unreadable(path, subject, shown(error)) from error


def _validated(record: Any, path: Path, model: type[M] | None, subject: str) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise _unreadable(path, subject, f"not an object, but {shown(record)}")
    if model:
        try:
            model.model_validate(record)
        except ValidationError as error:
            raise invalid_record(path, subject, error) from None
    return record


def invalid_record(path: Path, subject: str, error: ValidationError, parent_key: str = "") -> ReproError:
    """Return an error for record values with wrong types. `parent_key` is the key that contains the invalid values."""
    wrong = []
    for item in error.errors():
        key = shown(parent_key + ".".join(map(str, item["loc"])))
        wrong.append(f"{key}: {item['msg'].lower()}, and is {shown(repr(item['input'])):.60}")
    return _unreadable(path, subject, "; ".join(wrong[:3]))


def _unreadable(path: Path, subject: str, reason: object) -> ReproError:
    return ReproError(
        f"the record of {subject} cannot be read: it is damaged or not a record",
        where=path,
        actual=reason,
        todo=f"delete it and run the campaign again; {_TAKE}",
    )


def is_record(path: Path) -> bool:
    """Return whether the environment record exists and its file name equals its hash."""
    try:
        return digest_of(read_file(path)) == path.stem
    except OSError:
        return False


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content.removesuffix(b"\n")).hexdigest()[:16]


def code_words(codes: Mapping[str, Sequence[str]]) -> str:
    """Return text that names the code versions of the environment records, the most frequent first."""
    commits, uncommitted = _by_commit(codes)
    parts = [", ".join(commits)] if commits else []
    parts += [f"{code}: {len(codes[code])} of {sum(map(len, codes.values()))} environments" for code in uncommitted]
    return "; ".join(parts) or "not recorded"


def code_count(codes: Mapping[str, Sequence[str]]) -> str:
    """Return the number of commits, and of environments without one; the commit itself if it is the only version."""
    if len(codes) < 2:
        return code_words(codes)
    named, unknown = _by_commit(codes)
    without = sum(len(codes[code]) for code in unknown)
    parts = [f"{len(named)} commit{'s' * (len(named) > 1)}"] if named else []
    parts += [f"{without} environment{'s' * (without > 1)} without one"] if without else []
    return ", ".join(parts)


def _by_commit(codes: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the code versions with a commit, and those without one, each by falling number of environments."""
    frequent = sorted(codes, key=lambda code: len(codes[code]), reverse=True)
    named = [code for code in frequent if code.startswith("commit")]
    return named, [code for code in frequent if code not in named]
