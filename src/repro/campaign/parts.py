"""Merging of parts (campaigns that were measured on several hosts or at several times) into one campaign.

All rows of one case come from the same part. By default all parts of a study must have the same timing protocol, code
and environment. With `--keep-apart` these may differ: each row keeps the hash of its environment record, and `NOTES.md`
lists the differences. Parts from different devices are refused, since tables have one column per campaign.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from repro.bench import store
from repro.bench.campaign_folder import COMMITS, CONFIG, NOTES, CampaignFolder, step_file
from repro.bench.records import as_packed, invalid_record, is_record, read_environments, read_problems
from repro.bench.row_tables import other_columns, other_quantiles
from repro.campaign.configuration import load, resolve
from repro.campaign.plan import as_yaml
from repro.config.models import Config
from repro.errors import ReproError
from repro.filesystem import making_folder
from repro.problems.registry import check_name, load_registry, problem_names
from repro.results.cross_campaign import find_campaign
from repro.studies import check_facts, get_study
from repro.untrusted_files import kind_of, others_below, read_file, shown

#: Problem and precision.
CaseKey = tuple[str, str]
#: Settings of a study that select cases and artifacts and do not affect measured times.
WHAT = {"problems", "precisions", "artifacts"}
#: Keys of an environment record: those in `CODE` describe the code; those in `OF_ITSELF` may differ between parts.
CODE = ("repro", "source")
OF_ITSELF = {"commit", "dirty", "uuids"}
CHOICES = "choices"
#: Steps with the same columns in all studies.
WITHOUT_OWN = (CHOICES, "counters")
#: Files of each part that are copied into the merged campaign, and the name of their folder there.
COPIED_FILES = (CONFIG, NOTES, COMMITS)
PARTS_FOLDER = "parts"
PART_NAME = r"[0-9]{1,4}-[A-Za-z0-9_][A-Za-z0-9._-]{0,249}"


@dataclass(frozen=True)
class Part:
    """A campaign to merge, with the cases that its configuration names."""

    #: Position among the parts and name of the campaign's folder: `1-default`.
    name: str
    #: The campaign's own folder.
    folder: CampaignFolder
    #: Configuration with which the part was measured.
    config: Config
    #: Measured rows by (study, step).
    rows: Mapping[tuple[str, str], pa.Table]
    #: Problem records by name.
    problems: Mapping[str, Mapping[str, Any]]
    #: Environment records by hash.
    environments: Mapping[str, Mapping[str, Any]]
    #: Number of cases that have rows but are not in the configuration.
    left_out: int

    @classmethod
    def read(cls, argument: str, results: Path, number: int) -> Part:
        """Read a part from a folder, or from a campaign's name below `results`; `number` is the part's position."""
        folder = find_campaign(argument, results)
        _refuse_others(folder)
        path = folder.config
        if not path.exists():
            raise ReproError(
                "a part has no configuration",
                where=path,
                expected="the configuration with which it was measured, as written by the run",
                todo="copy it there; without it the timing of the rows is unknown",
            )
        config = load(path)
        environments = read_environments(folder)
        for name in environments:
            if not is_record(file := folder.environment(name)):
                raise ReproError(
                    "an environment record was changed",
                    where=file,
                    todo="restore it from where the campaign was measured, or from git",
                )
        store.check_folders(folder, config.studies)
        registry = load_registry(Path(config.registry))
        problems = read_problems(folder)
        for name, record in problems.items():
            for study, facts in record.get("facts", {}).items():
                if study in config.studies:
                    try:
                        check_facts(study, facts)
                    except ValidationError as error:
                        record_path = folder.record(name)
                        path = record_path if record_path.exists() else folder.packed_records
                        raise invalid_record(path, "a problem", error, f"facts.{study}.") from None
        rows, unselected_cases = {}, set()
        for study in store.recorded_studies(folder):
            settings = config.studies.get(study)
            names = problem_names(registry, settings.problems) if settings else ()
            selected_cases = {
                (name, precision) for name in names for precision in (settings.precisions if settings else ())
            }
            for step in store.recorded_steps(folder.study(study)):
                table = store.read_rows(folder.study(study), step)
                cases = store.cases_of(table)
                if settings and table.num_rows:
                    _check(table, study, step_file(folder.study(study), step), problems)
                rows[study, step] = table.filter(pa.array([case in selected_cases for case in cases], pa.bool_()))
                unselected_cases |= {(study, case) for case in cases if case not in selected_cases}
        part = cls(
            f"{number}-{shown(folder.raw.resolve().parent.name)}",
            folder,
            config,
            {key: table for key, table in rows.items() if key[0] in config.studies},
            problems,
            environments,
            len(unselected_cases),
        )
        for study in part.studies:
            part.linked(study)
            part._check_choices(study)
        return part

    @property
    def studies(self) -> tuple[str, ...]:
        return tuple(self.config.studies)

    @cached_property
    def cases(self) -> Mapping[str, frozenset[CaseKey]]:
        """Cases with rows, for each study."""
        cases: dict[str, set[CaseKey]] = {study: set() for study in self.studies}
        for (study, _), table in self.rows.items():
            cases[study] |= set(store.cases_of(table))
        return {study: frozenset(study_cases) for study, study_cases in cases.items()}

    @cached_property
    def measured(self) -> Mapping[str, frozenset[CaseKey]]:
        """Cases with at least one row that is not `unavailable`, for each study."""
        cases: dict[str, set[CaseKey]] = {study: set() for study in self.studies}
        for (study, step), table in self.rows.items():
            if step != CHOICES and "status" in table.column_names:
                statuses = table["status"].to_pylist()
                cases[study] |= {case for case, status in zip(store.cases_of(table), statuses, strict=True)
                                 if status != "unavailable"}  # fmt: skip
        return {study: frozenset(study_cases) for study, study_cases in cases.items()}

    @cached_property
    def devices(self) -> frozenset[tuple[str, str]]:
        """Backend and model of each device in the part's rows."""
        return frozenset(
            (backend, device)
            for table in self.rows.values()
            if {"backend", "device"} <= set(table.column_names)
            for backend, device in zip(table["backend"].to_pylist(), table["device"].to_pylist(), strict=True)
            if backend is not None and device is not None
        )

    def protocol(self, study_name: str) -> dict[str, Any]:
        """Return the settings of a study that affect measured times, and the random seed."""
        settings = self.config.studies[study_name].model_dump(mode="json", exclude=WHAT)
        return dict(flattened_items({"seed": self.config.seed, **settings}))

    def linked(self, study_name: str) -> list[str]:
        """Return the sorted hashes of the environment records to which a study's rows refer."""
        names: set[str] = set()
        for (owner, step), table in self.rows.items():
            if owner == study_name and "environment" in table.column_names:
                environment_column = table["environment"]
                names |= {name for name in environment_column.unique().to_pylist() if name is not None}
                # profiler counters are not times and need no environment record
                has_own_times = step not in WITHOUT_OWN and "device" in table.column_names
                if has_own_times and environment_column.null_count > table["device"].null_count:
                    raise ReproError(
                        "rows have no environment record",
                        where=step_file(self.folder.study(study_name), step),
                        expected="the name of an environment record in each row that was measured on a device",
                        actual=f"none in {environment_column.null_count - table['device'].null_count} of them",
                        todo="copy the file from where the campaign was measured",
                    )
        if missing_environments := names - self.environments.keys():
            raise ReproError(
                "rows have no environment record",
                where=self.folder.environments,
                expected=", ".join(f"{name}.json" for name in sorted(missing_environments)),
                todo="copy it from where the campaign was measured",
            )
        return sorted(names)

    def _check_choices(self, study_name: str) -> None:
        """Raise `ReproError` if a chosen variant has no measured row in the same case."""
        tables = {step: table for (owner, step), table in self.rows.items() if owner == study_name}
        choices = tables.pop(CHOICES, None)
        if choices is None or not choices.num_rows:
            return
        row_names = {
            (*case, name)
            for table in tables.values()
            if "name" in table.column_names
            for case, name in zip(store.cases_of(table), table["name"].to_pylist(), strict=False)
        }
        for case, name in zip(store.cases_of(choices), choices["name"].to_pylist(), strict=True):
            if (*case, name) not in row_names:
                raise ReproError(
                    "a choice names something that was not measured",
                    where=step_file(self.folder.study(study_name), CHOICES),
                    expected=f"the name of a row of {', '.join(case)}",
                    actual=shown(name),
                    todo="copy the file from where the campaign was measured",
                )

    def code(self, environment: str) -> dict[str, Any]:
        """Return the entries of an environment record about our code."""
        return {key: self.environments[environment].get(key) for key in CODE}

    def surroundings(self, environment: str) -> dict[str, Any]:
        """Return the other entries of an environment record that affect times: device, driver, compiler, packages."""
        record = self.environments[environment]
        return dict(flattened_items({key: value for key, value in record.items() if key not in {*CODE, *OF_ITSELF}}))


def kept_of(folder: Path) -> Iterator[Path]:
    """Yield the relative paths of a part's files to copy (`COPIED_FILES`), also those of earlier merged parts."""
    yield from (Path(file) for file in COPIED_FILES if (folder / file).exists())
    for part in sorted((folder / PARTS_FOLDER).iterdir()) if (folder / PARTS_FOLDER).is_dir() else ():
        if not re.fullmatch(PART_NAME, part.name):
            raise ReproError(
                "not a part of a merged campaign",
                where=part,
                expected="a number, - and the name of a campaign, as named by `repro merge`",
                todo="take it away",
            )
        yield from (Path(PARTS_FOLDER, part.name, path) for path in kept_of(part))


def _refuse_others(folder: CampaignFolder) -> None:
    """Raise `ReproError` if a campaign's folder contains links, pipes or other special files.

    A link could point to unrelated files of this machine, and reading a pipe could block.
    """
    files = [folder.path / name for name in COPIED_FILES]
    for path in (*files, folder.path / PARTS_FOLDER, folder.raw):
        if not os.path.lexists(path):
            continue
        mode = path.lstat().st_mode
        first_other = next(others_below(path), None) if stat.S_ISDIR(mode) else (path, kind_of(mode))
        if first_other and first_other[1]:
            raise ReproError(
                "a part contains something other than files and folders",
                where=first_other[0],
                expected="files and folders, not links to them",
                actual=first_other[1],
                todo="remove it, or replace it with its target",
            )
        if stat.S_ISDIR(mode) == (path in files):
            raise ReproError(
                "a part has a folder in place of a file" if path in files else "a part has a file in place of a folder",
                where=path,
                todo="take it away, or copy it from where the campaign was measured",
            )


def _check(row_table: pa.Table, study_name: str, path: Path, problems: Mapping[str, Any]) -> None:
    """Raise `ReproError` if columns of rows differ from the study's, or a problem of the rows has no record."""
    if path.stem not in WITHOUT_OWN and (unknown_columns := other_columns(row_table, get_study(study_name).columns)):
        raise store.other_schema(path, unknown_columns.expected, unknown_columns.actual)
    if invalid_columns := other_quantiles(row_table):
        raise store.refuse_rows(path, invalid_columns)
    if unknown_problems := set(row_table["problem"].unique().to_pylist()) - problems.keys():
        raise ReproError(
            "rows belong to a problem that has no record",
            where=path,
            expected=f"a record in {path.parents[1] / 'problems'}",
            actual=shown(", ".join(sorted(unknown_problems))),
            todo="copy it from where the campaign was measured",
        )


def flattened_items(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten nested mappings: yield (dotted key, value) pairs."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flattened_items(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


#: Maximum number of differing keys that a message names.
NAMED = 6
#: Size limit in bytes for a copied file.
MAX_COPIED_BYTES = 16 << 20
KEEP_APART = (
    "measure one of them again as the other was; or merge them as they are by --keep-apart: each case then keeps its "
    "own environment record, and NOTES.md says what differs"
)


@dataclass(frozen=True)
class Difference:
    """A difference between the first part and another one, in one study."""

    #: Kind of difference: `another protocol`, `other code`, `another environment`.
    kind: str
    study: str
    #: Names of the two parts; equal if the difference is within one part.
    first: str
    other: str
    #: Differing values in the first and the other part.
    expected: str
    actual: str


@dataclass(frozen=True)
class Merged:
    #: Folder of the merged campaign, `results/<campaign>`.
    folder: Path
    #: Parts in the given order.
    parts: Sequence[Part]
    #: Number of cases for each study.
    cases: Mapping[str, int]
    #: Differences between the parts that `keep_apart` permitted.
    differences: Sequence[Difference]


def merge(arguments: Sequence[str], results: Path, name: str, keep_apart: bool = False) -> Merged:
    """Merge parts (names below `results`, or folders) into the new campaign `name`; the parts are not changed.

    The new campaign is written atomically. `keep_apart` permits differences in protocol, code or environment.
    """
    folder = results / name
    if os.path.lexists(folder):
        raise ReproError(
            "a campaign of this name already exists",
            where=folder,
            todo="choose another name; existing campaigns are not replaced",
        )
    parts = [Part.read(campaign, results, number) for number, campaign in enumerate(arguments, 1)]
    config = _configuration(parts, name)
    _refuse_several_devices(parts)
    problems = _problems(parts)
    tables = {key: _rows(parts, *key) for key in sorted({key for part in parts for key in part.rows})}
    differences = [*_differences(parts)]
    if differences and not keep_apart:
        first = differences[0]
        raise ReproError(
            f"the parts have {first.kind}",
            where=f"study {first.study}",
            expected=f"as in {first.first}: {first.expected}",
            actual=f"in {first.other}: {first.actual}",
            todo=KEEP_APART,
        )
    cases: dict[str, set[CaseKey]] = {}
    for (study, _), table in tables.items():
        cases.setdefault(study, set()).update(store.cases_of(table))
    merged_campaign = Merged(folder, parts, {study: len(own_cases) for study, own_cases in cases.items()}, differences)
    with making_folder(folder) as partial:
        _write(partial, merged_campaign, config, problems, tables)
    return merged_campaign


def _write(
    folder: Path,
    merged_campaign: Merged,
    config: Config,
    problems: Mapping[str, Mapping[str, Any]],
    tables: Mapping[tuple[str, str], pa.Table],
) -> None:
    target_folder = CampaignFolder(folder)
    for (study, step), table in tables.items():
        if table.num_columns:
            store.write_table(table, step_file(target_folder.study(study), step))
    records = {check_name(name, "the merged campaign"): record for name, record in problems.items()}
    target_folder.raw.mkdir(parents=True, exist_ok=True)
    target_folder.packed_records.write_text(as_packed(records), encoding="utf-8")
    target_folder.environments.mkdir(parents=True)
    for part in merged_campaign.parts:
        for name in part.environments:
            _copy(part.folder.environment(name), target_folder.environment(name))
        for path in kept_of(part.folder.path):
            _copy(part.folder.path / path, folder / PARTS_FOLDER / part.name / path)
    target_folder.config.write_text(as_yaml(config), encoding="utf-8")
    target_folder.notes.write_text(_notes(merged_campaign), encoding="utf-8")


def _copy(path: Path, target: Path) -> None:
    """Copy a file; check its kind and size again, since it may have changed."""
    try:
        content = read_file(path, MAX_COPIED_BYTES)
    except OSError as error:
        raise ReproError("a file of a part cannot be copied", where=path, actual=error.strerror or error) from None
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def _configuration(parts: Sequence[Part], name: str) -> Config:
    """Return the first part's configuration as a replay, with the problems, precisions and artifacts of all parts."""
    studies: dict[str, dict[str, Any]] = {}
    for part in parts:
        for study, settings in part.config.model_dump(mode="json")["studies"].items():
            first = studies.setdefault(study, settings)
            for key in ("problems", "precisions", "artifacts"):
                first[key] = _union(first[key], settings[key])
    base = parts[0].config.model_dump(mode="json")
    config = resolve({**base, "campaign": name, "replay": True, "studies": studies}, "the merged campaign")
    registry = load_registry(Path(config.registry))
    for settings in config.studies.values():
        problem_names(registry, settings.problems)  # refuse problems that are missing in the first part's registry
    return config


def _union(names: Any, other_names: Any) -> Any:
    """Return the union of two lists of names in order of first occurrence; the union with `all` is `all`."""
    if names in (other_names, "all"):
        return names
    if other_names == "all":
        return other_names
    first, second = ([texts] if isinstance(texts, str) else list(texts) for texts in (names, other_names))
    return [*first, *(word for word in second if word not in first)]


def _refuse_several_devices(parts: Sequence[Part]) -> None:
    devices = {device: part.name for part in reversed(parts) for device in part.devices}
    if len(devices) > 1:
        raise ReproError(
            "the parts were measured on several devices",
            expected="one device, since every table has columns for one device",
            actual="; ".join(f"{device} ({backend}) in {part}" for (backend, device), part in sorted(devices.items())),
            todo="keep one campaign for each device; `repro report --beside` shows two, `repro compare "
            "--across-devices` gives their ratios",
        )


def _problems(parts: Sequence[Part]) -> dict[str, Mapping[str, Any]]:
    """Return one record for each problem, preferably from a part where the problem is available."""
    records: dict[str, tuple[Part, Mapping[str, Any]]] = {}
    for part in parts:
        for name, record in part.problems.items():
            first_record = records.setdefault(name, (part, record))
            if _is_unavailable(first_record[1]) and not _is_unavailable(record):
                records[name] = (part, record)
            elif (
                not _is_unavailable(record)
                and not _is_unavailable(first_record[1])
                and _content(first_record[1]) != _content(record)
            ):
                raise ReproError(
                    "the parts use one name for different problems",
                    where=f"problem {name}",
                    expected=f"as in {first_record[0].name}: {_content(first_record[1])}",
                    actual=f"in {part.name}: {_content(record)}",
                    todo="give one of them a different `name:` and measure it again",
                )
    return {name: _record_with_facts(name, record, parts) for name, (_, record) in sorted(records.items())}


def _is_unavailable(record: Mapping[str, Any]) -> bool:
    return bool(record.get("status", "ok") != "ok")


def _content(record: Mapping[str, Any]) -> str:
    return f"{record.get('kind', 'matrix')} of checksum {record.get('checksum')}"


def _record_with_facts(name: str, record: Mapping[str, Any], parts: Sequence[Part]) -> Mapping[str, Any]:
    """Take the facts for each study from the part that measured the problem, since parts may differ in code."""
    facts = dict(record.get("facts", {}))
    for part in reversed(parts):
        part_facts = part.problems.get(name, {}).get("facts", {})
        facts |= {study: part_facts[study] for study in part.studies if study in part_facts}
    return {**record, "facts": facts} if facts else record


def _rows(parts: Sequence[Part], study_name: str, step: str) -> pa.Table:
    """Return the rows of a step from all parts; for each case from the first part that measured it."""
    tables: list[pa.Table] = []
    case_rows: dict[CaseKey, tuple[Part, pa.Table]] = {}
    measured_cases = {case for part in parts for case in part.measured.get(study_name, ())}
    for part in parts:
        table = part.rows.get((study_name, step))
        if table is None:
            continue
        rows_by_case: dict[CaseKey, list[int]] = {}
        for row, case in enumerate(store.cases_of(table)):
            rows_by_case.setdefault(case, []).append(row)
        new_row_numbers: list[int] = []
        for case, row_numbers in rows_by_case.items():
            if case in measured_cases and case not in part.measured[study_name]:
                continue  # this part could not measure the case, but another one did
            rows = table.take(pa.array(row_numbers))
            first_rows = case_rows.setdefault(case, (part, rows))
            if first_rows[0] is part:
                new_row_numbers += row_numbers
            elif case in measured_cases and _comparable_rows(first_rows[1]) != _comparable_rows(rows):
                raise ReproError(
                    "the parts have different rows for one case",
                    where=f"{step} of {study_name} on {case[0]}, {case[1]}",
                    expected=f"rows in one part only, or equal rows: {_row_range(first_rows[1])} in "
                    f"{first_rows[0].name}",
                    actual=f"{_row_range(rows)} in {part.name}",
                    todo="take the problem, or the precision, out of config.yaml in one of the parts; rows that it "
                    "does not name are ignored",
                )
        tables.append(table.take(pa.array(new_row_numbers, pa.int64())))
    return store.join_cases(tables, Path(study_name, step))


def _comparable_rows(row_table: pa.Table) -> list[str]:
    """Convert rows to texts for comparison: NaN equals NaN, and absent values are omitted."""
    return [
        repr(sorted((key, value) for key, value in row.items() if value is not None)) for row in row_table.to_pylist()
    ]


def _row_range(row_table: pa.Table) -> str:
    times = (
        [time for time in row_table["measured_at"].to_pylist() if time]
        if "measured_at" in row_table.column_names
        else []
    )
    count = row_table.num_rows
    return f"{count} row{'s' * (count != 1)}{f', the first of {min(times)},' if times else ''}"


def _differences(parts: Sequence[Part]) -> Iterator[Difference]:
    """Yield the differences between parts in protocol, code and environment, for each study."""
    for study in dict.fromkeys(study for part in parts for study in part.studies):
        study_parts = [part for part in parts if part.cases.get(study)]
        for part in study_parts[1:]:
            entries = _differing_entries(study_parts[0].protocol(study), part.protocol(study))
            if entries:
                yield Difference("another protocol", study, study_parts[0].name, part.name, *entries)
        part_environments = [(part, name) for part in study_parts for name in part.linked(study)]
        for kind, hashes in (("other code", Part.code), ("another environment", Part.surroundings)):
            seen_hashes: list[dict[str, Any]] = []
            for part, name in part_environments:
                environment_hashes = hashes(part, name)
                if seen_hashes and environment_hashes not in seen_hashes:
                    yield Difference(
                        kind,
                        study,
                        part_environments[0][0].name,
                        part.name,
                        *(_differing_entries(seen_hashes[0], environment_hashes) or ("", "")),
                    )
                if environment_hashes not in seen_hashes:
                    seen_hashes.append(environment_hashes)


def _differing_entries(base: Mapping[str, Any], compared: Mapping[str, Any]) -> tuple[str, str] | None:
    """Describe the differing entries of two flat mappings by two texts, one per mapping; None if the mappings agree."""
    keys = [key for key in dict.fromkeys([*base, *compared]) if base.get(key) != compared.get(key)]
    if not keys:
        return None
    remainder = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    first, second = (
        ", ".join(shown(f"{key} {side.get(key, '–')}") for key in keys[:NAMED]) + remainder for side in (base, compared)
    )
    return first, second


def _notes(merged_campaign: Merged) -> str:
    lines = [
        "# Of which parts this campaign is",
        "",
        "Merged by `repro merge`; `parts/` has the configuration and the notes of each part. Every case is of one",
        "part, and every row is linked to the record of its environment (`environment`, in `raw/environment/`).",
        "",
        "| part | study | cases | source | commit | environments |",
        "|---|---|---:|---|---|---|",
    ]
    for part in merged_campaign.parts:
        for study in part.studies:
            names = part.linked(study)
            records = [part.environments[name] for name in names]
            cells = [part.name, study, str(len(part.cases[study]))]
            for key in ("source", "commit"):
                found = dict.fromkeys(shown(record[key], 16) for record in records if record.get(key) is not None)
                cells.append(", ".join(found) or "–")
            lines.append(f"| {' | '.join([*cells, ', '.join(names) or '–'])} |")
    if merged_campaign.differences:
        lines += ["", "## What differs", ""]
        lines += [
            f"- {difference.study}: {difference.kind}. In {difference.first} {difference.expected}; "
            f"in {difference.other} {difference.actual}."
            for difference in merged_campaign.differences
        ]
        lines += ["", "Settings in `config.yaml` are those of the first part that has the study."]
    if any(part.left_out for part in merged_campaign.parts):
        lines += ["", "## Left out", ""]
        lines += [
            f"- {part.name}: {part.left_out} cases that its configuration does not name."
            for part in merged_campaign.parts
            if part.left_out
        ]
    return "\n".join(lines) + "\n"
