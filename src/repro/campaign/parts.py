"""The parts of a campaign that was measured on several hosts or at several times: what each of them has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from repro.artifacts.compare import find_campaign
from repro.bench.recorded import cases_of, read_rows, recorded_steps, recorded_studies
from repro.bench.records import is_record, read_environments, read_problems
from repro.config import Config, load
from repro.errors import ReproError
from repro.problems.registry import load_registry, problem_names

#: A problem's name and a precision.
Case = tuple[str, str]
#: Settings of a study that say what is measured or shown, and nothing of how.
WHAT = {"problems", "precisions", "artifacts"}
#: What an environment record says of the code, and what of one copy of it or one piece of hardware.
CODE = ("repro", "source")
OF_ITSELF = {"commit", "dirty", "uuids"}
CHOICES = "choices"


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
        registry = load_registry(Path(config.registry))
        rows, left_out = {}, set()
        for study in recorded_studies(raw):
            settings = config.studies.get(study)
            names = problem_names(registry, settings.problems) if settings else ()
            wanted = {(name, precision) for name in names for precision in (settings.precisions if settings else ())}
            for step in recorded_steps(raw / study):
                table = read_rows(raw / study, step)
                cases = cases_of(table)
                rows[study, step] = table.filter(pa.array([case in wanted for case in cases], pa.bool_()))
                left_out |= {(study, case) for case in cases if case not in wanted}
        return cls(
            f"{number}-{raw.resolve().parent.name}",
            raw,
            config,
            {key: table for key, table in rows.items() if key[0] in config.studies},
            read_problems(raw),
            environments,
            len(left_out),
        )

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
        for (of, _), table in self.rows.items():
            if of == study and "environment" in table.column_names:
                names |= {name for name in table["environment"].to_pylist() if name is not None}
        if absent := names - self.environments.keys():
            raise ReproError(
                "rows without the record of their environment",
                where=self.raw / "environment",
                expected=", ".join(f"{name}.json" for name in sorted(absent)),
                todo="take it from where the campaign was measured",
            )
        return sorted(names)

    def code(self, environment: str) -> dict[str, Any]:
        """Return what an environment record says of the code that measured."""
        return {key: self.environments[environment].get(key) for key in CODE}

    def surroundings(self, environment: str) -> dict[str, Any]:
        """Return what else a time depends on, by an environment record: device, driver, compiler, packages."""
        record = self.environments[environment]
        return dict(flat({key: value for key, value in record.items() if key not in {*CODE, *OF_ITSELF}}))


def flat(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by their dotted keys."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
