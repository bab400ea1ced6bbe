import json
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from repro.bench.environment import record
from repro.bench.records import is_record
from repro.bench.row_tables import schema_of
from repro.bench.rows import Row
from repro.bench.store import Store, copy_searches, count_rows, crashed_row, write_rows
from repro.cli.app import explain
from support.non_files import IN_PLACE_OF_A_FILE, put

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


def test_readers_without_the_lock_skip_an_incomplete_last_line_and_leave_the_file_unchanged(tmp_path):
    path, copy = tmp_path / "rows.jsonl", tmp_path / "copy.jsonl"
    with Store(path, "run") as store:
        store.add(ROW)
        store.add(replace(ROW, key="k2"))
        complete = path.read_bytes()
        path.write_bytes(complete[:-20])
        assert count_rows(path, "run") == 1
        assert copy_searches(path, copy) == "run"
        assert path.read_bytes() == complete[:-20]
    assert copy.read_bytes() == complete.splitlines(keepends=True)[0]


def change(line: str, **columns: object) -> str:
    """Return a line with the wrong columns, and their checksum."""
    data = json.loads(line)
    del data["_crc"]
    text = json.dumps(data | columns)[:-1]
    return f'{text}, "_crc": "{zlib.crc32(text.encode()):08x}"}}'


def test_a_damaged_line_is_left_out_and_named_and_the_others_count(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    with Store(path) as store:
        for number in range(4):
            store.add(replace(ROW, key=f"k{number}"))
    lines = path.read_text().splitlines()
    lines[1] = lines[1].replace("1e-06", "1e-07")
    lines[2] = "{broken"
    path.write_text("\n".join(lines) + "\n")
    with Store(path) as store:
        assert [store.get(f"k{number}") is None for number in range(4)] == [False, True, True, False]
        store.add(replace(ROW, key="k1"))
    said = capsys.readouterr().out
    assert f"{path}:2 (not what its checksum is of), {path}:3 (no row)" in said
    with Store(path) as store:
        assert store.get("k1").event_median == 1e-6


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "fine"},
        {"phase": "finish"},
        {"event_median": "fast"},
        {"event_median": True},
        {"event_launches": 2.5},
        {"event_median": -1.0},
        {"graph_max": float("inf")},
        {"host_q1": float("nan")},
        {"name": None},
        {"layout": ["CSR"]},
        {"_run": 7},
    ],
    ids=str,
)
def test_a_line_that_is_no_valid_row_is_left_out_and_named(tmp_path, capsys, columns):
    path = tmp_path / "rows.jsonl"
    with Store(path) as store:
        store.add(ROW)
    line = path.read_text().strip()
    path.write_text(change(line, event_median=2) + "\n")
    with Store(path) as store:
        assert store.get("k1").event_median == 2
    path.write_text(change(line, **columns) + "\n")
    with Store(path) as store:
        assert store.get("k1") is None
    assert f"{path}:1 (no valid row)" in capsys.readouterr().out


def test_a_line_without_a_checksum_is_left_out_and_many_are_counted(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text((json.dumps(ROW.as_dict()) + "\n") * 9)
    with Store(path) as store:
        assert store.get("k1") is None
    assert f"{path}:5 (without a checksum) and 4 more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "tried_again"),
    [
        ("ok", False),
        ("noisy", False),
        ("unsupported", False),
        ("launch_error", True),
        ("timeout", True),
        ("out_of_memory", True),
        ("incorrect", True),
        ("compile_error", True),
    ],
)
def test_a_failure_is_found_by_its_own_run_alone(tmp_path, status, tried_again):
    path = tmp_path / "rows.jsonl"
    with Store(path, "first") as store:
        store.add(replace(ROW, status=status))
        assert store.get("k1").status == status
    with Store(path, "first") as store:  # another process of the run
        assert store.get("k1").status == status
    for run in ("second", None):
        with Store(path, run) as store:
            assert (store.get("k1") is None) == tried_again


def test_what_a_later_attempt_stored_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    for status in ("timeout", "ok"):
        with Store(path) as store:
            assert store.get("k1") is None
            store.add(replace(ROW, status=status))
    with Store(path) as store:
        assert store.get("k1").status == "ok"


def test_a_journaled_row_is_found_by_its_run_alone_until_it_landed(tmp_path):
    path = tmp_path / "rows.jsonl"
    tried = replace(ROW, status="launch_error")
    assert crashed_row(path, "run") is None
    with Store(path, "run") as store:
        with store.journal(tried):
            assert crashed_row(path, "run") == tried
            assert crashed_row(path, "another") is None
        assert crashed_row(path, "run") is None
        with store.journal(replace(tried, key="k2")):
            assert crashed_row(path, "run").key == "k2"
    assert crashed_row(path, "run") is None
    assert not path.exists() or path.read_text() == ""


def test_rows_are_counted_by_their_run(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert count_rows(path, "one") == 0
    for run, keys in (("one", ("a", "b")), ("two", ("a",))):
        with Store(path, run) as store:
            for key in keys:
                store.add(replace(ROW, key=key))
    assert (count_rows(path, "one"), count_rows(path, "two")) == (2, 1)


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


def test_a_row_without_its_environment_record_is_measured_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    with Store(path) as store:
        store.add(replace(ROW, environment="a"))
        store.add(replace(ROW, key="k2", environment=record({"driver": 1}, tmp_path)))
        store.add(replace(ROW, key="k3", environment=record({"driver": 2}, tmp_path)))
        damaged = tmp_path / f"{store.get('k3').environment}.json"
    damaged.write_text(damaged.read_text()[:-3])
    with Store(path, environments=tmp_path) as store:
        assert store.get("k1") is None
        assert store.get("k2") is not None
        assert store.get("k3") is None
    with Store(path) as store:
        assert store.get("k1") is not None
    record({"driver": 3}, tmp_path)
    assert not damaged.exists()


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000, b'{"a":' * 100_000, b"[1, 2]", b"null", b"5", b'"schema"', b"", b"\xff\xfe", bytes(20),
        b'{"schema": 3, "schema": 3}', b'{"schema": {}}', b'{"schema": 3, "_crc": ["x"]}',
        b'{"schema": 1' + b"0" * 5000,
        b'{"schema": 3, "key": "\\ud800", "_crc": "0"}', b'{"schema": 3, "bytes": 1e999, "_crc": "0"}',
    ],
    ids=lambda line: repr(line[:20]),
)  # fmt: skip
def test_a_line_of_anything_else_is_named_once_and_measured_again(tmp_path, capsys, line):
    path = tmp_path / "rows.jsonl"
    with Store(path) as store:
        store.add(ROW)
    path.write_bytes(line + b"\n" + path.read_bytes())
    with Store(path) as store:
        assert store.get("k1") == ROW
    said = capsys.readouterr().out.splitlines()
    if line == b'{"schema": {}}':  # of a different schema
        assert said == []
    else:
        assert len(said) == 1
        assert said[0].startswith(f"damaged lines of the store, measured again: {path}:1 (")
    path.with_suffix(".inflight").write_bytes(line)
    assert crashed_row(path, "run") is None


@pytest.mark.parametrize("kind", IN_PLACE_OF_A_FILE)
@pytest.mark.parametrize("ending", [".jsonl", ".inflight", ".lock"])
def test_what_is_in_the_place_of_a_store_is_not_waited_for(tmp_path, at_once, kind, ending):
    path = tmp_path / "rows.jsonl"
    put(kind, path.with_suffix(ending))
    with pytest.raises(OSError, match=IN_PLACE_OF_A_FILE[kind]) as caught, Store(path):
        pass
    explained = explain(caught.value)
    assert explained is not None
    assert explained.where == str(path.with_suffix(ending))


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


def test_parquet_says_by_which_schema_it_was_written(tmp_path):
    path = write_rows([ROW], OWN, tmp_path / "rows.parquet")
    assert pq.read_schema(path).metadata == {b"schema": b"3"}


def test_the_record_of_an_environment_is_looked_at_once_for_all_its_rows(tmp_path, monkeypatch):
    name = record({"device": "GPU"}, tmp_path / "environment")
    path = tmp_path / "rows.jsonl"
    with Store(path) as store:
        for number in range(3):
            store.add(replace(ROW, key=f"k{number}", environment=name))
    looked = []
    monkeypatch.setattr("repro.bench.store.is_record", lambda path: looked.append(path) or is_record(path))
    with Store(path, environments=tmp_path / "environment") as store:
        assert store.get("k2")
    assert looked == [tmp_path / "environment" / f"{name}.json"]
