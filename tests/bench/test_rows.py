"""Rows: the columns that all have, those of a study beside them, and the files that hold both."""

from __future__ import annotations

import json
from dataclasses import replace
from types import UnionType
from typing import ClassVar, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from repro.bench.row_tables import schema_of
from repro.bench.rows import COMMON_COLUMNS, RecordedRow, Row, split_columns
from repro.bench.runnable import Runnable
from repro.bench.store import write_rows
from repro.bench.timing import SamplingPlan
from repro.errors import ReproError
from repro.studies import get_study, study_names

VALUES: dict[type, object] = {list: [[1.5, 2.5], []], str: "text", int: 2**40, float: 0.1, bool: True}
OWN = {"layout": str, "n_t": int, "stage_fill": float, "clustered": bool}


class Fake(Runnable):
    kind = name = "variant"

    def __init__(self, **columns):
        self._columns = columns

    @property
    def columns(self):
        return self._columns

    def launch(self):
        pass


@pytest.fixture
def bench(make_bench, small_problem):
    bench = make_bench(small_problem("real"))
    yield bench
    bench.release()


def values(columns):
    return {name: VALUES[get_args(kind)[0] if isinstance(kind, UnionType) else kind] for name, kind in columns.items()}


NEEDED = Row("k", "s", "p", "single", "variant", "n", "ok")


@pytest.mark.parametrize("own", [{}, {"n_t": 64}, {"n_t": None}, values(OWN)], ids=str)
@pytest.mark.parametrize("row", [NEEDED, Row(**values(COMMON_COLUMNS))], ids=["empty", "full"])
def test_a_row_is_read_back_from_its_columns(row, own):
    row = replace(row, own=own)
    data = row.as_dict()
    assert Row.from_dict(data) == row
    assert Row.from_dict(json.loads(json.dumps(data))) == row  # as the store holds it
    assert [row[name] for name in OWN] == [data.get(name) for name in OWN]
    assert data.keys() == COMMON_COLUMNS.keys() | own.keys()


def test_the_columns_of_all_rows_are_the_fields_of_a_row():
    assert list(NEEDED.as_dict()) == list(COMMON_COLUMNS)
    assert "own" not in COMMON_COLUMNS
    assert {COMMON_COLUMNS[name] for name in ("bytes", "schema", "event_launches", "operations")} == {int}
    assert {COMMON_COLUMNS[name] for name in ("error", "host_median", "sm_clock")} == {float}
    assert {COMMON_COLUMNS[name] for name in ("key", "throttle", "space")} == {str}


def test_columns_that_a_study_does_not_declare_are_an_error(bench):
    effort = SamplingPlan(3)
    with pytest.raises(
        ReproError, match=r"does not declare the columns odd\n.*spmv, variant variant\n(.|\n)*`odd: int \| None`$"
    ):
        bench.row(Fake(odd=1, layout="CSR"), "search", effort, "ok")
    with pytest.raises(ReproError, match=r"does not declare the columns stage_fill\n"):
        bench.row(Fake(), "search", effort, "ok", stage_fill=1.0)
    with pytest.raises(ReproError, match="does not declare the columns odd\n"):
        bench.try_once(Fake(odd=1), "search", effort)
    with pytest.raises(ReproError, match="does not declare the columns a, b\n"):
        split_columns({"a": 1, "n_t": 2, "error": 0.5, "b": 3}, OWN)
    assert split_columns({"n_t": 2, "error": 0.5}, OWN) == ({"error": 0.5}, {"n_t": 2})


def test_what_a_runnable_says_goes_where_it_belongs(bench):
    row = bench.row(Fake(layout="CSR", registers=40, error=0.5), "search", SamplingPlan(3), "ok", error=2.0)
    assert (row.registers, row.error) == (40, 0.5)  # its own word comes first
    assert row.own == {"layout": "CSR", "entry": "real"}
    assert row["n_t"] is None


def test_a_recorded_row_has_the_types_of_the_row_that_was_written():
    written, recorded = get_type_hints(Row), get_type_hints(RecordedRow)
    columns = {name: kind for name, kind in recorded.items() if get_origin(kind) is not ClassVar}
    assert len(columns) > 20
    assert {name: kind for name, kind in columns.items() if written.get(name) != kind} == {}


@pytest.mark.parametrize("name", study_names())
def test_no_study_declares_a_column_that_all_rows_have(name):
    own = get_study(name).columns
    assert own
    assert not own.keys() & COMMON_COLUMNS.keys()


@pytest.mark.parametrize("name", study_names())
def test_a_studys_file_has_its_schema_exactly(tmp_path, name):
    study = get_study(name)
    measured = [replace(NEEDED, own=values(study.columns)), replace(NEEDED, key="other", status="unsupported")]
    for count in (2, 1, 0):  # also where a column, or the whole file, is empty
        path = write_rows(measured[:count], study.columns, tmp_path / f"{count}.parquet")
        table = pq.read_table(path)
        assert table.schema.equals(schema_of(study.columns), check_metadata=True)
        assert [*table.schema.names] == [*COMMON_COLUMNS, *study.columns]
        absent = dict.fromkeys(study.columns)
        assert table.to_pylist() == [{**absent, **row.as_dict()} for row in measured[:count]]


def test_a_value_of_another_type_is_not_written(tmp_path):
    row = replace(NEEDED, own={"n_t": "many"})
    path = tmp_path / "rows.parquet"
    with pytest.raises(pa.ArrowInvalid):
        write_rows([row], OWN, path)
    assert not path.exists()
