"""Rows of many cases, read as one table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from repro.bench.rows import SCHEMA
from repro.bench.store import distinct_cases, join_cases, read_rows, write_table

#: In the order of their folders, which is not that of their names: `-` is before `/`.
ORDERED = [("a/b", "double"), ("a", "double"), ("a", "single"), ("a-b", "double"), ("b", "double")]


def table(cases: list[tuple[str, str]]) -> pa.Table:
    problems, precisions = zip(*cases, strict=True)
    return pa.table({"schema": [SCHEMA] * len(cases), "problem": problems, "precision": precisions,
                     "number": range(len(cases))})  # fmt: skip


def of(rows: pa.Table) -> list[tuple[str, str, int]]:
    return [(row["problem"], row["precision"], row["number"]) for row in rows.to_pylist()]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_rows_are_sorted_by_case_and_as_written_in_each(order: list[int]) -> None:
    cases = [ORDERED[place] for place in order for _ in range(2)]
    joined = of(join_cases([table(cases)], Path("rows")))
    assert [case for *case, _ in joined] == [list(case) for case in ORDERED for _ in range(2)]
    assert [number % 2 for *_, number in joined] == [0, 1] * len(ORDERED)
    assert sorted(distinct_cases(table(cases))) == sorted(ORDERED)


def test_a_case_measured_again_stands_in_the_place_of_its_kept_rows(tmp_path: Path) -> None:
    write_table(table(ORDERED), tmp_path / "search.parquet")
    write_table(table([("a/b", "double")] * 3), tmp_path / "a/b/double/search.parquet")
    rows = of(read_rows(tmp_path, "search"))
    kept = [(*case, number) for number, case in enumerate(ORDERED)]
    assert rows == [*(("a/b", "double", number) for number in range(3)), *kept[1:]]


def test_of_no_rows_there_is_no_case() -> None:
    assert distinct_cases(pa.table({})) == []
    assert join_cases([], Path("rows")).num_rows == 0
