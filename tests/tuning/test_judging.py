"""Replaying searches on what was recorded, and the promises that `search: predicted` makes."""

from pathlib import Path

import numpy as np
import pytest

from repro.artifacts.data import Campaign
from repro.artifacts.searched import SPACES, searched
from repro.artifacts.table_predicted import BUDGET
from repro.tuning.judging import judge, replay
from repro.tuning.strategies.exhaustive import Exhaustive

ROOT = Path(__file__).parents[2]
RECORDED = sorted(path for path in ROOT.glob("results/h200*/raw") if (path / "compound_spmv").is_dir())


def cases_of(raw):
    """Problems and precisions of a campaign, by the folders of their searches."""
    study = raw / "compound_spmv"
    folders = [path.parent.relative_to(study) for path in study.rglob("search.parquet")]
    return {(folder.parent.as_posix(), folder.name) for folder in folders}


@pytest.mark.parametrize("raw", RECORDED, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("space", SPACES)
def test_predicted_keeps_its_promises_on_recorded_campaigns(raw, space):
    recordings = searched(Campaign.load(raw, "compound_spmv"), space)
    if not recordings:
        pytest.skip(f"{raw.parent.name} has nothing of {SPACES[space]}")
    assert {(one.problem, one.precision) for one in recordings} == cases_of(raw), "some were not searched in full"
    judged = judge(recordings, BUDGET)
    losses = np.array([one.problem_unknown[-1] for one in judged])
    random = np.array([one.random[-1] for one in judged])
    assert all(one.tried <= BUDGET * len(one.recording.seconds) for one in judged)
    assert np.median(losses) <= 0.02
    assert losses.max() <= 0.10
    assert losses.mean() < random.mean()
    complete = replay(Exhaustive(), recordings[0])
    assert recordings[0].losses(complete)[-1] == 0


def test_what_cannot_be_learnt_from_is_not(monkeypatch):
    seen = []

    class Spy:
        def __init__(self, recordings, features, budget):
            seen.append({(each.problem, each.entry) for each in recordings})

        def __call__(self, space, measure):
            measure(0)

    monkeypatch.setattr("repro.tuning.judging.Predicted", Spy)
    recordings = searched(Campaign.load(RECORDED[0], "compound_spmv"), "paper") if RECORDED else []
    if not recordings:
        pytest.skip("no recorded campaign")
    judge(recordings[:1] + recordings, BUDGET)
    one = recordings[0]
    assert (one.problem, one.entry) not in seen[0]
    assert one.entry not in {entry for _, entry in seen[1]}
    assert one.entry in {entry for _, entry in seen[0]}
