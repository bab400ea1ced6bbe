"""A recorded campaign cut in two, and what can be done to a part of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import digest_of, read_environments, read_problems
from repro.bench.store import cases_of, read_table, write_table

RECORDED = Path(__file__).parents[2] / "results"

#: By study its problems and precisions.
Wanted = dict[str, tuple[set[str], set[str]]]


def cases_by_study(recorded: Path) -> dict[str, set[tuple[str, str]]]:
    """Return by study the cases that a recorded campaign has reported."""
    return {path.parent.name: set(cases_of(read_table(path))) for path in sorted(recorded.glob("raw/*/report.parquet"))}


def cut(recorded: Path, folder: Path, wanted: Wanted, *, packed: bool = True) -> Path:
    """Write a part of a recorded campaign; return its folder.

    Parameters
    ----------
    packed
        Whether in one file a study and step, or in one a case as well.
    """
    for path in sorted(recorded.glob("raw/*/*.parquet")):
        if path.parent.name not in wanted:
            continue
        problems, precisions = wanted[path.parent.name]
        rows = read_table(path)
        cases = cases_of(rows)
        taken = {case for case in cases if case[0] in problems and case[1] in precisions}
        for these in [taken] if packed else [{case} for case in sorted(taken)]:
            name = path.name if packed else "/".join([*min(these), path.name])
            part = rows.filter(pa.array([case in these for case in cases], pa.bool_()))
            write_table(part, folder / "raw" / path.parent.name / name)
    records = read_problems(CampaignFolder(recorded))
    for problem in {name for problems, _ in wanted.values() for name in problems}:
        target = folder / "raw/problems" / f"{problem}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(records[problem], indent=1) + "\n")
    shutil.copytree(recorded / "raw/environment", folder / "raw/environment")
    config = yaml.safe_load((recorded / "config.yaml").read_text())
    config["studies"] = {study: config["studies"][study] for study in wanted}
    for study, (problems, precisions) in wanted.items():
        config["studies"][study] |= {"problems": sorted(problems), "precisions": sorted(precisions)}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def change_rows(part: Path, column: str, of: Callable[[Any], Any]) -> None:
    """Change the values of a column wherever there are any."""
    for path in part.glob("raw/*/*.parquet"):
        rows = read_table(path)
        if column in rows.column_names:
            place = rows.column_names.index(column)
            values = [value if value is None else of(value) for value in rows[column].to_pylist()]
            write_table(rows.set_column(place, column, pa.array(values, rows.schema.field(place).type)), path)


def change_environment(part: Path, **keys: Any) -> dict[str, str]:
    """Let a part have been measured in another environment; return the new names of its records by the old ones."""
    named = {}
    for name, record in read_environments(CampaignFolder(part)).items():
        content = json.dumps({**record, **keys}, indent=1, sort_keys=True) + "\n"
        named[name] = digest_of(content.encode())
        (part / "raw/environment" / f"{name}.json").unlink()
        (part / "raw/environment" / f"{named[name]}.json").write_text(content)
    change_rows(part, "environment", named.__getitem__)
    return named


def change_config(part: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the configuration of a part."""
    path = part / "config.yaml"
    config = yaml.safe_load(path.read_text())
    change(config)
    path.write_text(yaml.safe_dump(config))


def change_record(part: Path, problem: str, **keys: Any) -> None:
    """Change the record of a problem in a part."""
    path = part / "raw/problems" / f"{problem}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}, indent=1) + "\n")
