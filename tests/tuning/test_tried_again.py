"""A search over several runs: which variants are measured again, which are not, and which are given up."""

import time
from pathlib import Path

import pytest
from test_final_timing import TIMING, Fake

from repro import containment
from repro.bench.store import Store, crashed_row
from repro.bench.worker import ContextLost
from repro.devices.base import LaunchError
from repro.errors import Unsupported
from repro.tuning import search
from repro.tuning.search import Search


@pytest.fixture
def bench(make_bench, small_problem):
    bench = make_bench(small_problem("real"), **TIMING)
    yield bench
    bench.release()


def screened(bench, path, fakes, run=None):
    with Store(path, run) as store:
        return {row.name: row.status for row in Search(bench, store, cold=False).screen_candidates(fakes)}


def test_a_run_tries_again_what_failed_in_another_and_only_that(bench, tmp_path):
    path = tmp_path / "rows.jsonl"
    fails = {"fail": LaunchError("refused"), "at": "launch"}
    absent = {"fail": Unsupported("no such format"), "at": "prepare"}
    first = [Fake("good"), Fake("mended", **fails), Fake("absent", **absent)]
    assert screened(bench, path, first) == {"good": "ok", "mended": "launch_error", "absent": "unsupported"}
    second = [Fake("good"), Fake("mended"), Fake("absent")]
    assert screened(bench, path, second) == {"good": "ok", "mended": "ok", "absent": "unsupported"}
    assert [fake.prepared for fake in second] == [0, 1, 0]


def test_a_search_goes_on_where_a_variant_cannot_be_packed(bench, tmp_path):
    fakes = [Fake("large", fail=MemoryError("no room"), at="both"), Fake("good")]
    assert screened(bench, tmp_path / "rows.jsonl", fakes) == {"large": "out_of_memory", "good": "ok"}


def test_another_process_of_the_same_run_does_not_try_it_again(make_bench, small_problem, tmp_path):
    path = tmp_path / "rows.jsonl"
    fatal = Fake("fatal", fail=LaunchError("illegal address", sticky=True), at="launch")
    with pytest.raises(ContextLost):
        screened(make_bench(small_problem("real"), **TIMING), path, [fatal], "run")
    again = Fake("fatal")
    assert screened(make_bench(small_problem("real"), **TIMING), path, [again], "run") == {"fatal": "launch_error"}
    assert again.prepared == 0


def test_a_variant_is_given_up_after_the_configured_time(make_bench, small_problem, tmp_path, monkeypatch):
    reasons = []
    monkeypatch.setattr(search, "restart", lambda reason: reasons.append((reason, time.monotonic() - began)))
    bench = make_bench(small_problem("real"), **{**TIMING, "timeout": 0.4})
    hung = Fake("hung")
    ended = []
    hung.prepare = lambda workspace: (Fake.prepare(hung, workspace), time.sleep(1.2), ended.append(len(reasons)))
    began = time.monotonic()
    screened(bench, tmp_path / "rows.jsonl", [hung])
    [(reason, seconds)] = reasons
    assert reason == "hung did not end within 0.4 s"
    assert seconds >= 0.4
    assert ended == [1], "it is given up before it ends"


def test_what_hangs_on_a_full_disk_ends_too(make_bench, small_problem, tmp_path, monkeypatch):
    reasons = []
    monkeypatch.setattr(containment, "has_run", False)  # else the store takes the full disk for a rival's deed
    bench = make_bench(small_problem("real"), **{**TIMING, "timeout": 0.2})
    with pytest.raises(OSError, match="No space"), Path("/dev/full").open("a") as full, Store(tmp_path / "r") as store:
        file, store._file = store._file, full

        def mend(reason):
            reasons.append(reason)
            store._file = file

        monkeypatch.setattr(search, "restart", mend)
        hung = Fake("hung")
        hung.prepare = lambda workspace: (Fake.prepare(hung, workspace), time.sleep(0.6))
        Search(bench, store, cold=False).screen_candidates([hung])
    assert len(reasons) == 1
    assert "which cannot be stored: [Errno 28] No space left" in reasons[0]


def test_what_is_tried_is_noted_before_it_is_prepared(bench, tmp_path):
    path, noted = tmp_path / "rows.jsonl", []

    class Noting(Fake):
        def prepare(self, workspace):
            noted.append(crashed_row(path, "run"))
            super().prepare(workspace)

    screened(bench, path, [Noting("one"), Noting("other")], "run")
    assert [(row.name, row.status) for row in noted] == [("one", "launch_error"), ("other", "launch_error")]
    assert crashed_row(path, "run") is None
