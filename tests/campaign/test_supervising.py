"""Restarts of a measuring process: after which exits, which rows are stored, and when supervision gives up."""

import signal
import sys

import pytest

from repro.bench.rows import Row
from repro.bench.store import Store
from repro.bench.worker import signals_held
from repro.campaign.measurement import supervise
from repro.errors import ReproError

pytestmark = pytest.mark.medium

#: Tries three things, of which `failing` says what they do; what is stored is left out.
MEASURING = """
import os, sys
from pathlib import Path
from repro.bench.rows import Row
from repro.bench.store import Store

path, run, *ends = sys.argv[1:]
with Store(Path(path), run) as store:
    for number, end in enumerate(ends):
        row = Row(f"k{number}", "study", "p", "single", "variant", f"variant-{number}", "launch_error")
        if store.get(row.key):
            continue
        with store.journal(row):
            if end.isdigit():
                os.kill(os.getpid(), int(end))
            if end == "again":
                store.add(row)
                os._exit(75)
            row.status = "ok"
            store.add(row)
print("done", flush=True)
"""


def run(path, *ends, script=MEASURING):
    with signals_held():
        return supervise([sys.executable, "-c", script, str(path), "run", *map(str, ends)], lambda: path, "run")


def stored(path, count):
    with Store(path, "run") as store:
        rows = [store.get(f"k{number}") for number in range(count)]
    return [(row.status, row.message) for row in rows]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (11, "the process was ended by SIGSEGV (Segmentation fault)"),
        (6, "the process was ended by SIGABRT (Aborted)"),
        (7, "the process was ended by SIGBUS (Bus error)"),
        (4, "the process was ended by SIGILL (Illegal instruction)"),
        (8, "the process was ended by SIGFPE (Floating point exception)"),
        (9, "the process was ended by SIGKILL (Killed), as Linux does where memory runs out"),
    ],
)
def test_a_crash_costs_one_row_and_the_rest_goes_on(tmp_path, capfd, number, words):
    path = tmp_path / "rows.jsonl"
    assert run(path, "ok", number, "ok") == 0
    assert stored(path, 3) == [("ok", None), ("launch_error", words), ("ok", None)]
    said = capfd.readouterr().out
    assert "while variant-1 was tried; going on in a new one" in said
    assert said.endswith("done\n")


def test_several_crashes_cost_as_many_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert run(path, 11, 6, "ok") == 0
    assert [status for status, _ in stored(path, 3)] == ["launch_error", "launch_error", "ok"]


def test_a_process_that_asks_for_another_has_it(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert run(path, "ok", "again", "ok") == 0
    assert stored(path, 3) == [("ok", None), ("launch_error", None), ("ok", None)]


def test_what_a_torn_line_was_to_say_does_not_spoil_the_row_of_the_crash(tmp_path):
    path = tmp_path / "rows.jsonl"
    script = MEASURING.replace("os.kill", "store._file.write('{torn'); store._file.flush(); os.kill")
    assert run(path, "ok", 11, "ok", script=script) == 0
    assert [status for status, _ in stored(path, 3)] == ["ok", "launch_error", "ok"]


@pytest.mark.wording
@pytest.mark.parametrize("end", ["os.abort()", "os._exit(75)"])
def test_where_nothing_new_is_stored_it_is_given_up(tmp_path, end):
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ReproError, match=r"makes no progress[\s\S]*rows\.jsonl"):
        run(path, script=f"import os; {end}")


def test_where_what_crashed_is_tried_again_and_again_it_is_given_up(tmp_path):
    path = tmp_path / "rows.jsonl"
    stubborn = MEASURING.replace("if store.get(row.key)", "if False")
    with pytest.raises(ReproError, match="SIGSEGV"):
        run(path, 11, script=stubborn)
    assert [status for status, _ in stored(path, 1)] == ["launch_error"]


def test_what_another_run_left_in_flight_is_nobodys_crash(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = Row("k0", "study", "p", "single", "variant", "variant-0", "launch_error")
    path.with_suffix(".inflight").write_text("")
    with Store(path, "another") as store, store.journal(row):
        left = path.with_suffix(".inflight").read_bytes()
    path.with_suffix(".inflight").write_bytes(left)
    with pytest.raises(ReproError, match="makes no progress"):
        run(path, script="import os; os.abort()")
    assert path.read_text() == ""


@pytest.mark.parametrize(
    ("script", "code"),
    [("raise SystemExit(1)", 1), ("raise SystemExit(130)", 130), ("import os; os.kill(os.getpid(), 15)", 128 + 15)],
)
def test_any_other_end_is_the_end(tmp_path, script, code):
    assert run(tmp_path / "rows.jsonl", script=script) == code


def test_what_was_asked_to_end_is_not_started_again(tmp_path):
    script = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"
    assert run(tmp_path / "rows.jsonl", script=script) == 128 + signal.SIGTERM
