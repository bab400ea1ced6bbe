"""Replayed searches on recorded campaigns, and the promises of `search: predicted`."""

import numpy as np
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.store import read_rows
from repro.results.campaign_data import Campaign
from repro.sparse.compound.variants import REFERENCE, VariantId
from repro.studies.compound_spmv.searches import SPACE_TITLES, recordings_of_space, replayed_searches
from repro.studies.compound_spmv.tables.search import BUDGET
from repro.tuning.strategies import Exhaustive, Predicted, covers_space, evaluate, replay, sample_note
from support.campaigns import RESULTS, recorded_campaigns

pytestmark = pytest.mark.medium

#: Campaigns that did not search their spaces in full: the searches of h100-solvers, h200-energy and
#: h200-uncertainty had a budget, h200-edges tried what lies beyond, and h200-real tried few layouts.
PARTIAL = ("h100-solvers", "h200-edges", "h200-energy", "h200-real", "h200-uncertainty")
#: The others.
RECORDED = [
    folder
    for folder in (CampaignFolder.of(name, RESULTS) for name in recorded_campaigns() if name not in PARTIAL)
    if folder.step_files("compound_spmv", "search")
]


def cases_of(folder):
    """Problems and precisions of a campaign, by the rows of their searches."""
    rows = read_rows(folder.study("compound_spmv"), "search")
    return set(zip(rows["problem"].to_pylist(), rows["precision"].to_pylist(), strict=True))


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
@pytest.mark.parametrize("space", SPACE_TITLES)
def test_predicted_keeps_its_promises_on_recorded_campaigns(folder, space):
    recordings = recordings_of_space(Campaign.load(folder, "compound_spmv"), space)
    if not recordings:
        pytest.skip(f"{folder.name} has nothing of {SPACE_TITLES[space]}")
    assert {(one.problem, one.precision) for one in recordings} == cases_of(folder), "some were not searched in full"
    judged = replayed_searches(Campaign.load(folder, "compound_spmv"), space, BUDGET)
    losses = np.array([one.problem_unknown[-1] for one in judged])
    random = np.array([one.random[-1] for one in judged])
    assert all(one.tried <= BUDGET * len(one.recording.seconds) for one in judged)
    assert np.median(losses) <= 0.02
    assert losses.max() <= 0.10
    assert losses.mean() < random.mean()
    complete = replay(Exhaustive(), recordings[0])
    assert recordings[0].losses(complete)[-1] == 0


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("space", ["paper_tuned", "extended"])
def test_a_predicted_search_waits_for_few_compilations_with_sixteen_compilers(space):
    """As docs/tuning.md says of every sixth search."""
    folder = next(folder for folder in RECORDED if folder.name == "h200")
    recordings = recordings_of_space(Campaign.load(folder, "compound_spmv"), space)
    for one in recordings[::6]:
        others = [other for other in recordings if other.problem != one.problem and covers_space(other, one.names)]
        batches = []

        def build(indices, batches=batches):
            batches.append(len(indices))

        build.width = 16
        tried = []
        strategy = Predicted(others, one.features, BUDGET, VariantId, str(REFERENCE))
        strategy(one.names, lambda at, one=one, tried=tried: tried.append(at) or one.seconds[one.names[at]], build)
        assert 6 <= len(batches) <= 11
        assert 2.5 <= sum(batches) / len(tried) <= 4.35


def test_what_cannot_be_learnt_from_is_not(monkeypatch):
    seen = []

    class Spy:
        def __init__(self, recordings, features, budget, id_class, reference):
            seen.append({(other.problem, other.family) for other in recordings})

        def __call__(self, space, measure):
            measure(0)

    monkeypatch.setattr("repro.tuning.strategies.Predicted", Spy)
    recordings = recordings_of_space(Campaign.load(RECORDED[0], "compound_spmv"), "paper_tuned")
    evaluate(recordings[:1] + recordings, BUDGET, VariantId, str(REFERENCE))
    one = recordings[0]
    assert (one.problem, one.family) not in seen[0]
    assert one.family not in {family for _, family in seen[1]}
    assert one.family in {family for _, family in seen[0]}


def test_of_many_problems_some_are_judged_and_all_are_learnt_from(monkeypatch):
    recordings = recordings_of_space(Campaign.load(RECORDED[0], "compound_spmv"), "paper_tuned")
    assert len(recordings) > 5
    whole = {id(one.recording): one for one in evaluate(recordings, BUDGET, VariantId, str(REFERENCE))}
    monkeypatch.setattr("repro.tuning.strategies.MAX_EVALUATED", 3)
    few = evaluate(recordings, BUDGET, VariantId, str(REFERENCE))
    assert len(few) == 3
    assert few[0].recording is recordings[0]
    assert few[-1].recording is recordings[-1]
    for one in few:
        assert np.array_equal(one.problem_unknown, whole[id(one.recording)].problem_unknown)
    assert sample_note([few[:2]]) == ""
    assert "At most 3 cases" in sample_note([few[:2], few])
