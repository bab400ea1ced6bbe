"""The parts of a campaign that was measured on several hosts or at several times: what each of them has."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from repro.artifacts.compare import find_campaign
from repro.bench.recorded import (
    cases_of,
    check_folders,
    other_schema,
    read_rows,
    recorded_steps,
    recorded_studies,
    refuse_rows,
)
from repro.bench.records import is_record, read_environments, read_problems
from repro.bench.row_checks import other_columns, other_quantiles
from repro.config import Config, load
from repro.errors import ReproError
from repro.problems.registry import load_registry, problem_names
from repro.reading import kind_of, others_below, shown
from repro.studies import get_study

#: A problem's name and a precision.
Case = tuple[str, str]
#: Settings of a study that say what is measured or shown, and nothing of how.
WHAT = {"problems", "precisions", "artifacts"}
#: What an environment record says of the code, and what of one copy of it or one piece of hardware.
CODE = ("repro", "source")
OF_ITSELF = {"commit", "dirty", "uuids"}
CHOICES = "choices"
#: Steps whose rows have columns of their own, whatever the study.
WITHOUT_OWN = (CHOICES, "counters")
#: What of a part is kept beside the merged rows, and the folder of it.
KEPT = ("config.yaml", "NOTES.md")
PARTS = "parts"
NAME_OF_PART = r"[0-9]{1,4}-[A-Za-z0-9_][A-Za-z0-9._-]{0,249}"


@dataclass(frozen=True)
class Part:
    """A campaign as it is merged with others: the cases that its configuration names.

    Attributes
    ----------
    name
        Its place among the parts and the name of its folder: `1-default`.
    raw
        Its folder of rows.
    config
        What it was measured with.
    rows
        By study and step.
    problems
        Records by name.
    environments
        Records by hash.
    left_out
        How many cases it has rows of that its configuration does not name.
    """

    name: str
    raw: Path
    config: Config
    rows: Mapping[tuple[str, str], pa.Table]
    problems: Mapping[str, Mapping[str, Any]]
    environments: Mapping[str, Mapping[str, Any]]
    left_out: int

    @classmethod
    def read(cls, given: str, results: Path, number: int) -> Part:
        """Read a campaign that is given by its name or by its folder.

        Parameters
        ----------
        given
            The name or the folder.
        results
            Folder of the campaigns that are given by name.
        number
            Its place among the parts.

        Raises
        ------
        ReproError
            There is none, it has no configuration, or something of it is damaged.
        """
        raw = find_campaign(given, results)
        _refuse_others(raw.parent)
        path = raw.parent / "config.yaml"
        if not path.exists():
            raise ReproError(
                "a part without its configuration",
                where=path,
                expected="the configuration that it was measured with, as a run leaves it",
                todo="put it there: without it nobody can say by which timing its rows were measured",
            )
        config = load(path)
        environments = read_environments(raw)
        for name in environments:
            if not is_record(file := raw / "environment" / f"{name}.json"):
                raise ReproError(
                    "an environment record is not what was written",
                    where=file,
                    todo="take it from where the campaign was measured, or from git",
                )
        check_folders(raw, config.studies)
        registry = load_registry(Path(config.registry))
        problems = read_problems(raw)
        rows, left_out = {}, set()
        for study in recorded_studies(raw):
            settings = config.studies.get(study)
            names = problem_names(registry, settings.problems) if settings else ()
            wanted = {(name, precision) for name in names for precision in (settings.precisions if settings else ())}
            for step in recorded_steps(raw / study):
                table = read_rows(raw / study, step)
                cases = cases_of(table)
                if settings and table.num_rows:
                    _check(table, study, raw / study / f"{step}.parquet", problems)
                rows[study, step] = table.filter(pa.array([case in wanted for case in cases], pa.bool_()))
                left_out |= {(study, case) for case in cases if case not in wanted}
        part = cls(
            f"{number}-{shown(raw.resolve().parent.name)}",
            raw,
            config,
            {key: table for key, table in rows.items() if key[0] in config.studies},
            problems,
            environments,
            len(left_out),
        )
        for study in part.studies:
            part.linked(study)
            part._check_choices(study)
        return part

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies that it is configured with."""
        return tuple(self.config.studies)

    @cached_property
    def cases(self) -> Mapping[str, frozenset[Case]]:
        """By study, the cases that it has rows of."""
        cases: dict[str, set[Case]] = {study: set() for study in self.studies}
        for (study, _), table in self.rows.items():
            cases[study] |= set(cases_of(table))
        return {study: frozenset(of_study) for study, of_study in cases.items()}

    @cached_property
    def measured(self) -> Mapping[str, frozenset[Case]]:
        """By study, those of them that are not unavailable as a whole."""
        cases: dict[str, set[Case]] = {study: set() for study in self.studies}
        for (study, step), table in self.rows.items():
            if step != CHOICES and "status" in table.column_names:
                statuses = table["status"].to_pylist()
                cases[study] |= {case for case, status in zip(cases_of(table), statuses, strict=True)
                                 if status != "unavailable"}  # fmt: skip
        return {study: frozenset(of_study) for study, of_study in cases.items()}

    @cached_property
    def devices(self) -> frozenset[tuple[str, str]]:
        """Backend and model of each device that it has rows of."""
        return frozenset(
            (backend, device)
            for table in self.rows.values()
            if {"backend", "device"} <= set(table.column_names)
            for backend, device in zip(table["backend"].to_pylist(), table["device"].to_pylist(), strict=True)
            if backend is not None and device is not None
        )

    def protocol(self, study: str) -> dict[str, Any]:
        """Return by which settings a study was measured: all but those that say what was, and the seed."""
        settings = self.config.studies[study].model_dump(mode="json", exclude=WHAT)
        return dict(flat({"seed": self.config.seed, **settings}))

    def linked(self, study: str) -> list[str]:
        """Return the hashes of the environments that the rows of a study were measured in, sorted.

        Raises
        ------
        ReproError
            The record of one is missing.
        """
        names: set[str] = set()
        for (of, step), table in self.rows.items():
            if of == study and "environment" in table.column_names:
                linked = table["environment"]
                names |= {name for name in linked.unique().to_pylist() if name is not None}
                # what a profiler counted need not have one: it is no time
                timed = step not in WITHOUT_OWN and "device" in table.column_names
                if timed and linked.null_count > table["device"].null_count:
                    raise ReproError(
                        "rows without the record of their environment",
                        where=self.raw / study / f"{step}.parquet",
                        expected="in each row that was measured on a device the name of its record",
                        actual=f"none in {linked.null_count - table['device'].null_count} of them",
                        todo="take the file from where the campaign was measured",
                    )
        if absent := names - self.environments.keys():
            raise ReproError(
                "rows without the record of their environment",
                where=self.raw / "environment",
                expected=", ".join(f"{name}.json" for name in sorted(absent)),
                todo="take it from where the campaign was measured",
            )
        return sorted(names)

    def _check_choices(self, study: str) -> None:
        """Refuse choices of what no row of their case is of."""
        tables = {step: table for (of, step), table in self.rows.items() if of == study}
        choices = tables.pop(CHOICES, None)
        if choices is None or not choices.num_rows:
            return
        named = {
            (*case, name)
            for table in tables.values()
            if "name" in table.column_names
            for case, name in zip(cases_of(table), table["name"].to_pylist(), strict=False)
        }
        for case, name in zip(cases_of(choices), choices["name"].to_pylist(), strict=True):
            if (*case, name) not in named:
                raise ReproError(
                    "a choice of what was not measured",
                    where=f"{self.raw / study / CHOICES}.parquet",
                    expected=f"a name that a row of {', '.join(case)} has",
                    actual=shown(name),
                    todo="take the file from where the campaign was measured",
                )

    def code(self, environment: str) -> dict[str, Any]:
        """Return what an environment record says of the code that measured."""
        return {key: self.environments[environment].get(key) for key in CODE}

    def surroundings(self, environment: str) -> dict[str, Any]:
        """Return what else a time depends on, by an environment record: device, driver, compiler, packages."""
        record = self.environments[environment]
        return dict(flat({key: value for key, value in record.items() if key not in {*CODE, *OF_ITSELF}}))


def kept_of(folder: Path) -> Iterator[Path]:
    """Yield the files that are kept of a part beside its rows, of a merged one its parts' as well, as paths in it.

    Raises
    ------
    ReproError
        A part of it has no part's name.
    """
    yield from (Path(file) for file in KEPT if (folder / file).exists())
    for part in sorted((folder / PARTS).iterdir()) if (folder / PARTS).is_dir() else ():
        if not re.fullmatch(NAME_OF_PART, part.name):
            raise ReproError(
                "no part of a merged campaign",
                where=part,
                expected="a number, - and the name of a campaign, as `repro merge` gives it",
                todo="take it away",
            )
        yield from (Path(PARTS, part.name, path) for path in kept_of(part))


def _refuse_others(folder: Path) -> None:
    """Refuse a campaign's folder that has anything but files and folders where a part of others is read.

    A link would bring in what lies elsewhere on this machine, and a pipe would be waited for.

    Raises
    ------
    ReproError
        It has.
    """
    for name in (*KEPT, PARTS, "raw"):
        path = folder / name
        if not os.path.lexists(path):
            continue
        mode = path.lstat().st_mode
        found = next(others_below(path), None) if stat.S_ISDIR(mode) else (path, kind_of(mode))
        if found and found[1]:
            raise ReproError(
                "a part with something else than files and folders",
                where=found[0],
                expected="a file or a folder, and no link to one: what lies elsewhere is no part of it",
                actual=found[1],
                todo="take it away, or put there what it stands for",
            )
        if stat.S_ISDIR(mode) == (name in KEPT):
            raise ReproError(
                "a part with a folder in place of a file"
                if name in KEPT
                else "a part with a file in place of a folder",
                where=path,
                todo="take it away, or take it from where the campaign was measured",
            )


def _check(rows: pa.Table, study: str, where: Path, problems: Mapping[str, Any]) -> None:
    """Refuse rows of a study of other columns than its own, or of problems without a record.

    Raises
    ------
    ReproError
        They are.
    """
    if where.stem not in WITHOUT_OWN and (wrong := other_columns(rows, get_study(study).columns)):
        raise other_schema(where, wrong.expected, wrong.actual)
    if other := other_quantiles(rows):
        raise refuse_rows(where, other)
    if absent := set(rows["problem"].unique().to_pylist()) - problems.keys():
        raise ReproError(
            "rows of a problem without its record",
            where=where,
            expected=f"a record in {where.parents[1] / 'problems'}",
            actual=shown(", ".join(sorted(absent))),
            todo="take it from where the campaign was measured",
        )


def flat(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by their dotted keys."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
