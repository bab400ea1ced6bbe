"""Intervals of times and ratios: of the samples that rows keep, in tables' CSV alone, and none where there are none."""

from __future__ import annotations

import csv
import io
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.bench.rows import RecordedRow
from repro.bench.store import read_rows
from repro.campaign.archive import pack
from repro.results.campaign_data import Case, ReportedTime
from repro.results.columns import microseconds, share, speedup
from repro.results.output import as_csv, as_markdown
from repro.results.significance import relative_interval
from repro.results.tables import Cell, Column, Table
from support.campaigns import Recorder

ROUNDS = [[1.0, 1.01, 0.99], [1.02, 1.03, 1.04], [0.97, 0.98, 0.96], [1.0, 1.0, 1.0], [1.1, 1.0, 1.05]]


def timed(seconds: float, rounds: Any = ()) -> ReportedTime:
    return ReportedTime(
        "a", seconds, False, (), RecordedRow(key="k"), [[seconds * sample for sample in part] for part in rounds]
    )


def test_an_interval_is_of_whole_rounds() -> None:
    rng = np.random.default_rng(0)
    drift = 1 + 0.02 * rng.standard_normal(5)
    rounds = [level + 0.001 * rng.standard_normal(64) for level in drift]
    low, high = relative_interval(rounds) or (nan, nan)
    assert drift.min() - 0.003 <= low * np.median(rounds) < 0.995 * np.median(rounds), "launches alone would say less"
    assert 1.005 * np.median(rounds) < high * np.median(rounds) <= drift.max() + 0.003
    assert relative_interval(rounds) == (low, high), "the same each time"


def test_three_rounds_give_about_the_least_and_the_largest_where_they_are_asked_for() -> None:
    three = [[1.0] * 9, [2.0] * 9, [4.0] * 9]
    assert relative_interval(three) is None, "no interval of 95 %"
    assert relative_interval(three, min_rounds=2) == pytest.approx((0.5, 2.0))


def test_a_ratio_takes_the_rounds_of_both_and_rounds_may_be_of_any_length() -> None:
    steady = [[1.0], [1.0, 1.0], [1.0], [1.0], [1.0]]
    alone = relative_interval(ROUNDS)
    assert relative_interval(ROUNDS, steady) == alone
    low, high = relative_interval(ROUNDS, ROUNDS) or (nan, nan)
    assert alone is not None
    assert low < alone[0] < 1 < alone[1] < high


@pytest.mark.parametrize("rounds", [[()], [ROUNDS[:4]], [ROUNDS, ()], [(), ROUNDS], [ROUNDS[:4], ROUNDS]])
def test_fewer_than_five_rounds_have_none(rounds: Any) -> None:
    assert relative_interval(*rounds) is None


def test_intervals_cover_what_is_the_same_in_all_rounds() -> None:
    """Of five rounds drawn from many, nominal 95 % is about 85 %: far more than launches drawn one by one cover."""
    rng, hits = np.random.default_rng(1), 0
    for _ in range(100):
        rounds = 1 + 0.02 * rng.standard_normal((5, 1)) + 0.01 * rng.standard_normal((5, 32))
        low, high = relative_interval(list(rounds)) or (nan, nan)
        hits += low * np.median(rounds) <= 1 <= high * np.median(rounds)
    assert 75 <= hits <= 95


def test_cells_have_their_interval_in_their_own_unit() -> None:
    ours, theirs = timed(1e-5, ROUNDS), timed(3e-5, ROUNDS)
    for cell in (microseconds(ours), speedup(theirs, ours), share(ours, theirs)):
        assert cell.interval is not None
        assert isinstance(cell.value, float)
        assert 0.9 < cell.interval[0] / cell.value < 1 < cell.interval[1] / cell.value < 1.1
    for cell in (microseconds(timed(1.0)), speedup(timed(1.0), ours), share(ours, None), speedup(None, None)):
        assert cell.interval is None


def test_the_csv_alone_has_two_more_columns_where_anything_has_an_interval() -> None:
    columns = (Column("name", "name"), Column("us", "µs"), Column("speedup", "speedup"))
    sure, unsure = Cell(2.0, "2.00", interval=(1.9, 2.2)), Cell(3.0, "3.00")
    table = Table(columns, [(Cell("a"), unsure, sure), (Cell("b"), unsure, Cell(notes=("failed",)))], "Caption.")
    head, first, second = csv.reader(io.StringIO(as_csv(table)))
    assert head == ["name", "us", "speedup", "speedup_low", "speedup_high", "notes", "keys"]
    assert (first, second) == (["a", "3.0", "2.0", "1.9", "2.2", "", ""], ["b", "3.0", "", "", "", "failed", ""])
    assert "1.9" not in as_markdown(table)
    without = Table(columns, [(Cell("a"), unsure, unsure)], "Caption.")
    assert as_csv(without).splitlines()[0] == "name,us,speedup,notes,keys"


def test_samples_come_back_from_what_was_recorded_merged_with_rows_that_have_none(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.environment()
    kept = [[sample * 4e-6 for sample in part] for part in ROUNDS]
    for problem, samples in (("old", None), ("new", kept)):
        row = recorder.row(problem, "double", "variant", "ours", 5.0, phase="report", graph_samples=samples)
        recorder.write(problem, "double", "report", [row])
        recorder.record(problem, entry="real", n=1, nnz=1)
    old = recorder.case_folder("old", "double") / "report.parquet"
    _without_samples(old)
    study = recorder.raw / recorder.study

    def read() -> list[ReportedTime | None]:
        return [Case(recorder.load(), problem, "double").reported_time("ours", "graph") for problem in ("old", "new")]

    before = read()
    pack(recorder.folder)
    assert "graph_samples" in read_rows(study, "report").column_names
    for times in (
        before,
        [Case(recorder.load(), problem, "double").reported_time("ours", "graph") for problem in ("old", "new")],
    ):
        assert times[0] is not None and times[1] is not None
        assert microseconds(times[0]).interval is None
        assert [len(part) for part in times[1].rounds] == [3] * 5
        assert microseconds(times[1]).interval == pytest.approx(microseconds(timed(4e-6, ROUNDS)).interval, rel=1e-6)


def _without_samples(path: Path) -> None:
    """Write a file as it was recorded before samples were kept."""
    from repro.bench.store import read_table, write_table

    table = read_table(path)
    write_table(table.drop_columns([name for name in table.column_names if name.endswith("_samples")]), path)
