import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from repro.bench.rows import SCHEMA, Row, schema_of
from repro.bench.store import Store, write_rows
from repro.errors import ReproError

OWN = {"layout": str, "n_t": int, "papers_choice": bool}
ROW = Row("k1", "study", "p", "single", "variant", "CSR/32", "ok", event_median=1e-6, own={"layout": "CSR"})


def test_rows_are_found_again_by_their_key(tmp_path):
    path = tmp_path / "rows.jsonl"
    with Store(path) as store:
        store.add(ROW)
    with Store(path) as store:
        assert store.get("k1") == ROW
        assert store.get("k2") is None


def test_a_torn_last_line_is_ignored_and_does_not_spoil_the_next_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    with Store(path) as store:
        store.add(ROW)
        store.add(replace(ROW, key="k2"))
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    with Store(path) as store:
        assert store.get("k1") == ROW
        assert store.get("k2") is None
        store.add(replace(ROW, key="k3"))
    with Store(path) as store:
        assert store.get("k3").key == "k3"


@pytest.mark.parametrize("line", ["{broken", "[1]", "null", json.dumps({"schema": SCHEMA}), "[" * 100_000])
def test_a_damaged_line_inside_is_one_message(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n" + json.dumps(ROW.as_dict()) + "\n")
    with pytest.raises(ReproError, match=r"damaged\n.*rows.jsonl:1"), Store(path):
        pass


def test_rows_of_another_schema_are_not_used(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({**ROW.as_dict(), "schema": 0, "other": 1}) + "\n")
    with Store(path) as store:
        assert store.get("k1") is None


def test_a_disk_that_fills_up_is_named_and_leaves_the_store_to_others(tmp_path):
    path = tmp_path / "rows.jsonl"
    failure = pytest.raises(OSError, match=r"No space left.*rows.jsonl")
    with failure, Path("/dev/full").open("a") as full, Store(path) as store:
        store._file = full  # every write to it fails as on a full disk
        store.add(ROW)
    with Store(path) as store:
        assert store.get("k1") is None


def test_there_is_one_writer_at_a_time(tmp_path):
    path = tmp_path / "rows.jsonl"
    script = (
        "import sys; from pathlib import Path; from repro.bench.store import Store\n"
        "with Store(Path(sys.argv[1])): print('in', flush=True)\n"
    )
    with Store(path):
        other = subprocess.Popen([sys.executable, "-c", script, str(path)], text=True, stdout=subprocess.PIPE)
        assert "waiting" in other.stdout.readline()
        time.sleep(0.2)
        assert other.poll() is None
    assert other.stdout.readline() == "in\n"
    assert other.wait(10) == 0


def test_parquet_keeps_rows_with_their_types(tmp_path):
    path = tmp_path / "sub/rows.parquet"
    own = {"layout": "CSR", "n_t": 32, "papers_choice": True}
    failed = replace(ROW, key="k2", status="incorrect", event_median=None, own=own)
    assert write_rows([ROW, failed], OWN, path) == path
    table = pq.read_table(path)
    assert table.schema == schema_of(OWN)
    whole = [replace(ROW, own={**dict.fromkeys(OWN), **ROW.own}), failed]
    assert [Row.from_dict(record) for record in table.to_pylist()] == whole
    assert not list(path.parent.glob(".*"))
