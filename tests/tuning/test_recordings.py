"""What campaigns remember, and the messages where there is nothing to remember."""

import json

import numpy as np
import pandas as pd
import pytest

from repro.bench.rows import SCHEMA
from repro.bench.store import read_rows
from repro.errors import ReproError
from repro.sparse.tuning_features import features
from repro.tuning.recordings import Machine, Recording, load_recordings, recordings

QUANTILES = {"min": 0.0, "q1": 20.0, "median": 25.0, "q3": 30.0, "max": 50.0, "mean": 25.0}
STATISTICS = {"rows": 2048, "nonzeros": 16384, "ell_factor": 2.0, "bandwidth_percent": QUANTILES,
              "row_length": QUANTILES}  # fmt: skip
RECORD = {"name": "p", "kind": "matrix", "entry": "complex", "statistics": STATISTICS}
ENVIRONMENT = {"target": "sm_90", "multiprocessors": 132, "cache_bytes": 62914560}


def rows(problem="p", backend="cuda", **columns):
    names = ["CSR-AoS-AoS/static-64-1", "CSR-AoS-AoS/static-64-2", "ELL-AoS-AoS/static-64-1"]
    return pd.DataFrame({
        "problem": problem, "entry": "complex", "precision": "single", "kind": "variant", "name": names,
        "status": ["ok", "noisy", "incorrect"], "message": [None, None, "wrong"],
        "protocol": ["screen", "full", "screen"], "event_median": [1e-6, 2e-6, np.nan],
        "backend": backend, "environment": "e", "schema": SCHEMA, **columns,
    })  # fmt: skip


def campaign(root, name, **columns):
    raw = root / name / "raw"
    folder = raw / "study" / "p" / "single"
    folder.mkdir(parents=True)
    rows(**columns).to_parquet(folder / "search.parquet")
    for path, content in (("problems/p.json", RECORD),
                          ("environment/e.json", ENVIRONMENT)):  # fmt: skip
        (raw / path).parent.mkdir()
        (raw / path).write_text(json.dumps(content))


def load(results, backend, campaigns):
    return load_recordings(results, "study", backend, campaigns, excluded="own", features_of=features)


def test_features_have_no_units():
    machine = Machine.of(ENVIRONMENT)
    got = features(RECORD, "single", machine)
    bytes_ = 16384 * 12 + 2048 * 4
    expected = [2048 / (132 * 2048), 8, 2, bytes_ / 62914560, 8, 2, 2, 4]
    assert got == pytest.approx([*np.log2(expected), 0.25])
    # twice the problem on twice the machine is the same problem
    doubled = {**STATISTICS, "rows": 4096, "nonzeros": 32768}
    machine = Machine(2 * machine.sm_count, machine.threads_per_sm, 2 * machine.cache_bytes)
    assert features({**RECORD, "statistics": doubled}, "single", machine) == pytest.approx(got)


def test_an_environment_that_says_nothing_makes_no_difference():
    assert Machine.of({}) == Machine(1, 1, 1)


def test_rows_become_a_recording():
    (one,) = recordings(rows(), {"p": RECORD}, {"e": ENVIRONMENT}, features)
    assert (one.problem, one.family, one.precision, one.backend) == ("p", "complex", "single", "cuda")
    assert [*one.seconds.values()] == [1e-6, 2e-6, None]
    assert one.fastest == "CSR-AoS-AoS/static-64-2"  # the only one of the full protocol
    assert not recordings(rows(), {}, {}, features)
    assert not recordings(rows(status="incorrect"), {"p": RECORD}, {}, features)


def test_what_a_search_would_not_try_is_left_out():
    ends = rows()["name"].iloc[1]
    (one,) = recordings(rows(), {"p": RECORD}, {"e": ENVIRONMENT}, features, lambda found: found["name"] == ends)
    assert len(one.seconds) == 2 and ends not in one.seconds


def test_losses_are_against_the_answer_of_the_search():
    seconds = {"a": 2.0, "b": 1.0, "c": None, "d": 0.9, "e": 3.0}
    one = Recording("p", "real", "single", "cuda", np.zeros(1), seconds, frozenset("abe"))
    assert one.fastest == "b"
    assert list(one.losses("ceab")) == [np.inf, 2.0, 1.0, 0.0]
    assert list(one.losses("d")) == [0.0]  # a screened time below it is noise


def test_other_campaigns_are_loaded_by_backend(tmp_path):
    campaign(tmp_path, "first")
    campaign(tmp_path, "second", backend="opencl")
    campaign(tmp_path, "own")
    learnt = load(tmp_path, "cuda", None)
    assert [one.backend for one in learnt] == ["cuda"]
    assert len(load(tmp_path, "cuda", ["first", "own"])) == 2


def test_a_problem_that_was_measured_again_counts_once(tmp_path):
    campaign(tmp_path, "first")
    study = tmp_path / "first/raw/study"
    old = pd.concat([rows(name="old/static-64-1"), rows(problem="other")])
    old.to_parquet(study / "search.parquet")
    (one,) = load(tmp_path, "cuda", None)
    assert "old/static-64-1" not in one.seconds


def test_a_process_reads_a_campaign_once_and_again_where_it_has_changed(tmp_path, monkeypatch):
    campaign(tmp_path, "first")
    read = []
    monkeypatch.setattr("repro.bench.store.read_rows", lambda *where: read.append(where) or read_rows(*where))
    (before,), (same,) = load(tmp_path, "cuda", None), load(tmp_path, "cuda", ["first"])
    assert same is before and len(read) == 1
    record = tmp_path / "first/raw/problems/p.json"
    record.write_text(json.dumps(RECORD | {"entry": "quaternion"}))
    (after,) = load(tmp_path, "cuda", None)
    assert (before.family, after.family, len(read)) == ("complex", "quaternion", 2)


@pytest.mark.wording
def test_rows_of_another_schema_are_one_message(tmp_path):
    campaign(tmp_path, "first", schema=SCHEMA - 1)
    with pytest.raises(ReproError, match="rows have a different schema"):
        load(tmp_path, "cuda", None)


@pytest.mark.wording
def test_a_campaign_of_unavailable_problems_holds_nothing(tmp_path):
    folder = tmp_path / "a" / "raw" / "study" / "p" / "single"
    folder.mkdir(parents=True)
    rows(status="unavailable", event_median=np.nan).to_parquet(folder / "search.parquet")
    with pytest.raises(ReproError, match="no recorded campaign to learn from"):
        load(tmp_path, "cuda", None)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ReproError, match="no recorded campaign to learn from") as error:
        load(tmp_path, "cuda", None)
    assert "search: exhaustive" in str(error.value)
    campaign(tmp_path, "first")
    with pytest.raises(ReproError, match="no such campaign to learn from") as error:
        load(tmp_path, "cuda", ["frist"])
    assert "first" in str(error.value) and "frist" in str(error.value)
    with pytest.raises(ReproError, match="rows of study on opencl"):
        load(tmp_path, "opencl", None)
    (tmp_path / "first/raw/problems/p.json").unlink()
    with pytest.raises(ReproError, match=r"actual: first without \S+first/raw/problems"):
        load(tmp_path, "cuda", None)


@pytest.mark.parametrize("path", ["problems/p.json", "environment/e.json"])
@pytest.mark.parametrize("text", ["{", "[]", '{"name": 5, "packages": 5}'])
def test_what_is_no_record_is_said(tmp_path, path, text):
    campaign(tmp_path, "first")
    record = tmp_path / "first/raw" / path
    record.write_text(text)
    with pytest.raises(ReproError, match="cannot be read") as error:
        load(tmp_path, "cuda", None)
    assert str(record) in str(error.value)


def test_rows_that_lack_a_column_are_said(tmp_path):
    campaign(tmp_path, "first")
    path = tmp_path / "first/raw/study/p/single/search.parquet"
    pd.read_parquet(path).drop(columns=["protocol"]).to_parquet(path)
    with pytest.raises(ReproError, match=r"a different schema[\s\S]*first/raw/study[\s\S]*columns protocol"):
        load(tmp_path, "cuda", None)
