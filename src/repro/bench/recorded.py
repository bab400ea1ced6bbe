"""Reading what was measured of a study: a file for each case while a campaign runs, one for all in what is kept of it.

A campaign is measured into `raw/<study>/<problem>/<precision>/<step>.parquet`, a file for each problem, precision and
step, so that jobs can run side by side; kept, it is `raw/<study>/<step>.parquet`. Where a study has both, a problem
that was measured again counts, and not what the merged file holds of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from repro.bench.parquet import read_table
from repro.bench.row_checks import Misfit, misfit, other_types
from repro.bench.rows import SCHEMA
from repro.errors import ReproError
from repro.problems.names import check_name
from repro.reading import files_below, shown

#: Folders of `raw` that are no study's.
SHARED = ("problems", "environment")
#: The columns that say which case a row is of.
CASE = ("problem", "precision")
#: What a step can be called: it becomes a file, and what is looked for.
STEP = r"[A-Za-z0-9_-]{1,100}"


def case_files(study: Path, step: str) -> list[Path]:
    """Return the files of a step that hold one problem in one precision each, sorted; `study` is `raw/<study>`."""
    return [path for path in files_below(study, f"{step}.parquet") if path.parent != study]


def read_rows(study: Path, step: str) -> pa.Table:
    """Read a step of all problems, merged or not: sorted by problem and precision, and in each as they were written.

    Parameters
    ----------
    study
        `results/<campaign>/raw/<study>`.
    step
        The name of the step, `search` say.

    Returns
    -------
    pa.Table
        Columns of all files, null where a file does not have one; without columns where there is no file.

    Raises
    ------
    ReproError
        A file is damaged, of another schema, or of another problem than its folder says.
    """
    files = case_files(study, step)
    measured = {path.parent.relative_to(study).parts: _read(path, study.name) for path in files}
    for (case, rows), path in zip(measured.items(), files, strict=True):
        if foreign := {_folder(*of) for of in distinct_cases(rows)} - {case}:
            raise ReproError(
                "rows of another problem",
                where=path,
                expected="/".join(case),
                actual=", ".join(sorted("/".join(other) for other in foreign)),
                todo="measure the problem again: its folder says what it is",
            )
    tables = list(measured.values())
    if os.path.lexists(path := study / f"{step}.parquet"):  # a link that leads nowhere is one that is damaged
        kept = _read(path, study.name)
        if measured:
            kept = kept.filter(pa.array([_folder(*of) not in measured for of in cases_of(kept)], pa.bool_()))
        tables.append(kept)
    return join_cases(tables, study / f"**/{step}.parquet")


def join_cases(tables: Sequence[pa.Table], where: Path) -> pa.Table:
    """Return the rows of several tables as one: sorted by problem and precision, and in each case as they were.

    Parameters
    ----------
    tables
        Rows of one step, as `read_rows` returns them; no case in two of them.
    where
        What a message names.

    Returns
    -------
    pa.Table
        Columns of all tables, null where one does not have it; without columns where there is no table.

    Raises
    ------
    ReproError
        A column is of other types in two of them.
    """
    tables = [table for table in tables if table.num_rows] or list(tables[:1])
    if not tables:
        return pa.table({})
    try:
        merged = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise other_schema(where, "columns of the same types in all files", error) from error
    order = {case: place for place, case in enumerate(sorted(distinct_cases(merged), key=lambda case: _folder(*case)))}
    places = _of_each(merged, order)
    return merged if (np.diff(places) >= 0).all() else merged.take(pa.array(np.argsort(places, kind="stable")))


def cases_of(rows: pa.Table) -> list[tuple[str, str]]:
    """Return the problem and the precision of each row; none of a table without rows, which may have no columns."""
    return list(zip(*(rows[column].to_pylist() for column in CASE), strict=True)) if rows.num_rows else []


def distinct_cases(rows: pa.Table) -> list[tuple[str, str]]:
    """Return the problem and the precision of all rows, each once, in no order."""
    return cases_of(rows.select(CASE).group_by(list(CASE)).aggregate([])) if rows.num_rows else []


def _of_each(rows: pa.Table, numbers: Mapping[tuple[str, str], int]) -> NDArray[np.int64]:
    """Return for each row the number of its case; a campaign has 100,000 rows of some cases."""
    problems, precisions = (rows[column].combine_chunks().dictionary_encode() for column in CASE)
    pairs = product(problems.dictionary.to_pylist(), precisions.dictionary.to_pylist())
    table = np.array([numbers.get(pair, -1) for pair in pairs], np.int64)
    places = problems.indices.to_numpy().astype(np.int64) * len(precisions.dictionary) + precisions.indices.to_numpy()
    of_each: NDArray[np.int64] = table[places]
    return of_each


def recorded_steps(study: Path) -> list[str]:
    """Return the names of the steps that a study has rows of, merged or not; `study` is `raw/<study>`."""
    steps = sorted({path.stem for path in files_below(study, "*.parquet")})
    for step in steps:
        if not re.fullmatch(STEP, step):
            raise ReproError(
                "a file of rows whose name is no step's",
                where=study,
                expected="letters, digits, _ and -, before .parquet",
                actual=shown(repr(step)),
                todo="take it away, or give it the name that it had",
            )
    return steps


def _read(path: Path, study: str) -> pa.Table:
    rows = read_table(path)
    if not rows.num_rows:
        return rows
    for column in CASE:
        if column not in rows.column_names or not _is_text(rows[column]) or rows[column].null_count:
            raise other_schema(
                path, f"in each row a text as its {column}", f"columns {shown(', '.join(rows.column_names))}"
            )
    versions = set(rows["schema"].unique().to_pylist()) if "schema" in rows.column_names else {"none"}
    if versions != {SCHEMA}:
        raise other_schema(path, SCHEMA, shown(", ".join(sorted(map(str, versions)))))
    if other := other_types(rows):
        raise other_schema(path, other.expected, other.actual)
    if wrong := misfit(rows, study):
        raise refuse_rows(path, wrong)
    return rows


def refuse_rows(path: Path, wrong: Misfit) -> ReproError:
    """Return the error that rows cannot have been measured."""
    return ReproError(
        "rows that cannot have been measured",
        where=path,
        expected=wrong.expected,
        actual=wrong.actual,
        todo="measure again; where they are a record's, take the file from a copy, or from git",
    )


def _is_text(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def other_schema(path: Path, expected: object, actual: object) -> ReproError:
    """Return the error that rows have other columns than those that are read."""
    return ReproError(
        "rows of another schema",
        where=path,
        expected=expected,
        actual=actual,
        todo="measure again with this version, or read them with the version that wrote them",
    )


def _folder(problem: str, precision: str) -> tuple[str, ...]:
    """Return the folder that a case is measured into: the parts of its problem's name, and its precision."""
    return (*problem.split("/"), precision)


def read_case(study: Path, step: str, problem: str, precision: str) -> list[dict[str, Any]]:
    """Read a step of one problem in one precision, merged or not; a row a mapping, absent values None.

    Parameters
    ----------
    study, step
        As `read_rows`.

    Raises
    ------
    ReproError
        As `read_rows`.
    """
    path = study / check_name(problem, study) / precision / f"{step}.parquet"
    rows = _read(path, study.name) if os.path.lexists(path) else read_rows(study, step)
    if not rows.num_rows:
        return []
    return [row for row in rows.to_pylist() if (row["problem"], row["precision"]) == (problem, precision)]


def recorded_studies(raw: Path) -> list[str]:
    """Return the names of the studies that a campaign's `raw` holds anything of."""
    return sorted(path.name for path in raw.iterdir() if path.is_dir() and path.name not in SHARED)


def check_folders(raw: Path, studies: Iterable[str]) -> None:
    """Refuse a campaign that has something else where a folder of a study, or of records, should be.

    Raises
    ------
    ReproError
        It has.
    """
    for name in (*SHARED, *studies):
        if (raw / name).exists() and not (raw / name).is_dir():
            raise ReproError(
                "a file is where a folder should be", where=raw / name, todo="take the folder from a copy, or from git"
            )
