"""The table of times that a study without tables has."""

from pathlib import Path

from repro.results.campaign_data import Method
from repro.results.common_tables import times_table
from repro.results.published import Published
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
