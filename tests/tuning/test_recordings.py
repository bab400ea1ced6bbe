"""What campaigns remember, and the messages where there is nothing to remember."""

import json

import numpy as np
import pandas as pd
import pytest

from repro.errors import ReproError
from repro.tuning.recordings import Machine, Recording, features, load_recordings, recordings

STATISTICS = {"rows": 2048, "nonzeros": 16384, "ell_factor": 2.0, "bandwidth_percent": {"median": 25.0}}
ENVIRONMENT = {"target": "sm_90", "multiprocessors": 132, "cache_bytes": 62914560}


def rows(problem="p", backend="cuda", **columns):
    names = ["CSR-AoS-AoS/static-64-1", "CSR-AoS-AoS/static-64-2", "ELL-AoS-AoS/static-64-1"]
    return pd.DataFrame({
        "problem": problem, "entry": "complex", "precision": "single", "kind": "variant", "name": names,
        "status": ["ok", "noisy", "incorrect"], "protocol": ["screen", "full", "screen"],
        "event_median": [1e-6, 2e-6, np.nan], "backend": backend, "environment": "e", **columns,
    })  # fmt: skip


def campaign(root, name, **columns):
    raw = root / name / "raw"
    folder = raw / "study" / "p" / "single"
    folder.mkdir(parents=True)
    rows(**columns).to_parquet(folder / "search.parquet")
    for path, content in (("problems/p.json", {"name": "p", "statistics": STATISTICS}),
                          ("environment/e.json", ENVIRONMENT)):  # fmt: skip
        (raw / path).parent.mkdir()
        (raw / path).write_text(json.dumps(content))


def test_features_have_no_units():
    machine = Machine.of(ENVIRONMENT)
    got = features(STATISTICS, "complex", "single", machine)
    bytes_ = 16384 * 12 + 2048 * 4
    expected = [2048 / (132 * 2048), 8, 2, bytes_ / 62914560, 8, 2, 2, 4]
    assert got == pytest.approx([*np.log2(expected), 0.25])
    # twice the problem on twice the machine is the same problem
    doubled = {**STATISTICS, "rows": 4096, "nonzeros": 32768}
    machine = Machine(2 * machine.n_s, machine.threads_per_sm, 2 * machine.cache_bytes)
    assert features(doubled, "complex", "single", machine) == pytest.approx(got)


def test_an_environment_that_says_nothing_makes_no_difference():
    assert Machine.of({}) == Machine(1, 1, 1)


def test_rows_become_a_recording():
    (one,) = recordings(rows(), {"p": STATISTICS}, {"e": ENVIRONMENT})
    assert (one.problem, one.entry, one.precision, one.backend) == ("p", "complex", "single", "cuda")
    assert [*one.seconds.values()] == [1e-6, 2e-6, None]
    assert one.fastest == "CSR-AoS-AoS/static-64-2"  # the only one of the full protocol
    assert not recordings(rows(), {}, {})
    assert not recordings(rows(status="incorrect"), {"p": STATISTICS}, {})


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
    found = load_recordings(tmp_path, "study", "cuda", None, without="own")
    assert [one.backend for one in found] == ["cuda"]
    assert len(load_recordings(tmp_path, "study", "cuda", ["first", "own"], without="own")) == 2


def test_a_campaign_of_unavailable_problems_holds_nothing(tmp_path):
    folder = tmp_path / "a" / "raw" / "study" / "p" / "single"
    folder.mkdir(parents=True)
    rows(status="unavailable", event_median=np.nan).to_parquet(folder / "search.parquet")
    with pytest.raises(ReproError, match="no recorded campaign to learn from"):
        load_recordings(tmp_path, "study", "cuda", None, without="own")


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ReproError, match="no recorded campaign to learn from") as error:
        load_recordings(tmp_path, "study", "cuda", None, without="own")
    assert "search: exhaustive" in str(error.value)
    campaign(tmp_path, "first")
    with pytest.raises(ReproError, match="no such campaign to learn from") as error:
        load_recordings(tmp_path, "study", "cuda", ["frist"], without="own")
    assert "first" in str(error.value) and "frist" in str(error.value)
    with pytest.raises(ReproError, match="rows of study on opencl"):
        load_recordings(tmp_path, "study", "opencl", None, without="own")
