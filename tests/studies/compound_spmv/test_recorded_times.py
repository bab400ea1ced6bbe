"""What the tables of products read of a case: the library's times, and layouts that tie with the winner's."""

import pytest

from repro.results.campaign_data import Campaign, Case
from repro.sparse.tuning_features import library_of, routine_text
from repro.studies.compound_spmv.results import tied_layouts
from support.synthetic_campaign import PROBLEMS

HELMHOLTZ = PROBLEMS[1]


def test_the_library_is_that_of_the_device(gpu: Campaign, cpu: Campaign) -> None:
    assert (library_of(gpu), library_of(cpu)) == ("cuSPARSE", "SciPy")


def test_layouts_within_the_tie_of_the_winner(gpu: Campaign) -> None:
    case = Case(gpu, HELMHOLTZ.name, "single")
    assert tied_layouts(case, case.winner("joint", "graph")) == ("Sl-32-SoA-AoS",)
    assert tied_layouts(case, case.winner("schedule", "graph")) == ()


def test_baselines(gpu: Campaign) -> None:
    case = Case(gpu, HELMHOLTZ.name, "double")
    baselines = case.select(kind="baseline", ordering="natural")
    fastest, papers = baselines.fastest("event"), baselines.select(papers_choice=True).fastest("event")
    assert fastest and papers
    assert (fastest.name, fastest.seconds) == ("cusparse/spmv-csr-alg1/real", pytest.approx(22.5e-6))
    assert (papers.name, papers.seconds) == ("cusparse/bsrmv/real", pytest.approx(37.5e-6))
    assert (routine_text(fastest), routine_text(papers)) == ("spmv-csr-alg1/real", "bsrmv/real")
