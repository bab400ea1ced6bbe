"""The tables that a study without tables has."""

from pathlib import Path

import pytest

from repro.results.campaign_data import Method
from repro.results.common_tables import BASELINES, TIMES, register_common_tables, times_table
from repro.results.published import Published
from repro.results.registry import artifacts
from repro.results.tables import Cell, Table
from support.campaigns import Recorder

METHODS = [Method(name, name, columns={"name": name}) for name in ("right", "broken")]
BASE = Method("baseline", "fastest baseline", columns={"kind": "baseline"})


def cells(table: Table) -> dict[str, Cell]:
    return {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}


def test_a_time_that_is_missing_has_the_status_of_its_row(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.record("a", entry="real", n=10, nnz=20)
    recorder.write(
        "a", "double", "search", [recorder.row("a", "double", "variant", "broken", None, status="compile_error")]
    )
    timed = [("variant", "right", 10.0), ("baseline", "csr", 30.0)]
    recorder.write("a", "double", "report", [recorder.row("a", "double", *row, phase="report") for row in timed])
    recorder.environment()
    line = cells(times_table(recorder.load(), Published({}, []), METHODS, BASE, "event"))
    assert line["right_us"].value == 10 and line["right_speedup"].value == 3 and not line["right_us"].notes
    assert line["broken_us"].value is None and line["broken_us"].notes == ("broken: compile error",)


@pytest.mark.parametrize("name", [TIMES, BASELINES])
def test_cold_times_which_events_alone_have_do_not_choose_the_clock_of_warm_ones(tmp_path: Path, name: str) -> None:
    recorder = Recorder(tmp_path)
    recorder.record("a", entry="real", n=10, nnz=20)
    timed = [("variant", "right", 10.0), ("baseline", "csr", 30.0)]
    warm = [recorder.row("a", "double", *row, phase="report") for row in timed]
    cold = [recorder.row("a", "double", *row, clocks=["event"], phase="report", cache="cold") for row in timed]
    recorder.write("a", "double", "report", [*warm, *cold])
    recorder.environment()
    if not artifacts("of_no_tables"):
        register_common_tables("of_no_tables")
    (made,) = (artifact for artifact in artifacts("of_no_tables") if artifact.name == name)
    table = made.make(recorder.load(), Published({}, []))
    assert isinstance(table, Table)
    assert "the graph clock" in table.caption or "the clock graph" in table.caption
