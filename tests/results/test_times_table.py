"""The tables that a study without tables has."""

import re
from pathlib import Path

import pytest

from repro.results.campaign_data import Method
from repro.results.common_tables import BASELINES, TIMES, register_common_tables, times_table
from repro.results.published import Published
from repro.results.registry import artifacts, get_artifact
from repro.results.tables import Table
from repro.sparse.operands import ProductRow
from support.campaigns import Recorder

METHODS = [Method(name, name, columns={"name": name}) for name in ("right", "broken", "slower")]
BASE = Method("baseline", "fastest baseline", columns={"kind": "baseline"})


def test_a_time_that_is_missing_has_its_reason(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for problem in ("a", "b"):
        recorder.record(problem, entry="real", n=10, nnz=20)
    why = {"status": "compile_error", "message": "no ;\nat 3"}
    broken = recorder.row("a", "double", "variant", "broken", None, **why)
    recorder.write("a", "double", "search", [broken, recorder.row("a", "double", "variant", "slower", 12.0)])
    timed = [recorder.row("a", "double", "variant", "right", 10.0, phase="report"),
             recorder.row("a", "double", "baseline", "csr", 30.0, ["host"], phase="report")]  # fmt: skip
    recorder.write("a", "double", "report", timed)
    recorder.write("b", "double", "report", [recorder.unavailable("b", "double", "no network")])
    recorder.environment()

    table = times_table(recorder.load(), Published({}, []), METHODS, BASE, "event")
    line, failed = ({column.key: cell for column, cell in zip(table.columns, row, strict=True)} for row in table.rows)
    assert line["right_us"].value == 10
    reasons = {key: cell.notes for key, cell in line.items() if cell.value is None and cell.notes}
    assert reasons == {
        "floor_us": ("floor: not tried",),
        "baseline_us": ("fastest baseline: not timed by the event clock",),
        "broken_us": ("broken: compile error (no ;)",),
        "slower_us": ("slower: timed in the search, but not among those timed again",),
    }
    # of a case without any time, the name has the reason
    assert {key: cell.notes for key, cell in failed.items() if cell.notes} == {"problem": ("no network",)}


def test_the_table_of_the_page_on_studies_has_a_column_of_the_studys_own(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/add-a-study.md").read_text()
    (code,) = (block for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "@table" in block)
    exec(code, {})
    made = get_artifact("transposed", "table-ways")

    recorder = Recorder(tmp_path, own=ProductRow.own_columns())
    recorder.record("a", entry="real", n=10, nnz=20)
    told = {"phase": "report", "matrix_bytes": 400}
    ways = [recorder.row("a", "double", "variant", name, 10.0, **told) for name in ("gather", "scatter")]
    library = recorder.row("a", "double", "baseline", "csr", 30.0, phase="report")
    recorder.write("a", "double", "report", [*ways, library])
    recorder.environment()
    table = made.make(recorder.load(), Published({}, []))
    assert isinstance(table, Table)
    line = {column.key: cell.value for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert line["gather_speedup"] == line["scatter_speedup"] == pytest.approx(3)
    assert [*line.items()][-1] == ("stored_bytes", 400)


@pytest.mark.parametrize("name", [TIMES, BASELINES])
def test_cold_times_which_events_alone_have_do_not_choose_the_clock_of_warm_ones(tmp_path: Path, name: str) -> None:
    recorder = Recorder(tmp_path)
    recorder.record("a", entry="real", n=10, nnz=20)
    timed = [("variant", "w16", 9.0), ("variant", "w4", 10.0), ("baseline", "csr", 30.0)]
    warm = [recorder.row("a", "double", *row, phase="report") for row in timed]
    cold = [recorder.row("a", "double", *row, clocks=["event"], phase="report", cache="cold") for row in timed]
    recorder.write("a", "double", "report", [*warm, *cold])
    recorder.environment()
    if not artifacts("of_no_tables"):
        register_common_tables("of_no_tables")
    (made,) = (artifact for artifact in artifacts("of_no_tables") if artifact.name == name)
    table = made.make(recorder.load(), Published({}, []))
    assert isinstance(table, Table)
    if name == TIMES:  # w4 comes before w16
        assert [column.key for column in table.columns if column.key.startswith("w")][:2] == ["w4_us", "w16_us"]
    assert "the graph clock" in table.caption or "the clock graph" in table.caption


def test_what_is_unsupported_in_every_case_is_one_line_of_all_baselines(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.record("a", entry="real", n=10, nnz=20)
    timed = [("variant", "right", 10.0), ("baseline", "csr", 30.0)]
    rows = [recorder.row("a", "double", *row, phase="report") for row in timed]
    failed = {"new-alg1": "unsupported", "new-alg2": "unsupported", "wrong": "incorrect"}
    rows += [recorder.row("a", "double", "baseline", name, None, status=status) for name, status in failed.items()]
    recorder.write("a", "double", "report", rows)
    recorder.environment()
    if not artifacts("of_no_tables"):
        register_common_tables("of_no_tables")
    (made,) = (artifact for artifact in artifacts("of_no_tables") if artifact.name == BASELINES)
    table = made.make(recorder.load(), Published({}, []))
    assert isinstance(table, Table)
    assert [row[1].shown for row in table.rows] == ["csr", "right", "wrong", "2 others, unsupported"]
    assert table.rows[-1][2].notes == ("unsupported in all cases: new-alg1, new-alg2",)
