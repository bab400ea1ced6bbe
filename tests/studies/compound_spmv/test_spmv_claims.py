"""Claims on compound entries: which numbers of a synthetic campaign, or of the papers' tables, judge each."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from repro.results.campaign_data import Campaign
from repro.results.claims import Judgement, judge, load_claims
from repro.results.published import Published
from repro.results.significance import geometric_mean
from repro.studies.compound_spmv.results import CLAIM_QUANTITIES, OVER_CHOICE, claim_cases
from support.synthetic_campaign import MEMORY, N_B, N_T, STUDY, Given, Maker, spread

NX_MOTOR = Given("fem/NX_MotorH67k", "block3", 66840, 899478)
LONG_ROWS = Given("like_fem_filter", "complex", 74062, 1731206, origin={"stand_in": "fem_filter"})
BUNNY = Given("fem/bunny2.4M", "block3", 27112, 284846)


def judged(campaign: Campaign, published: Published) -> dict[str, Judgement]:
    judgements = judge(
        load_claims(STUDY),
        campaign,
        CLAIM_QUANTITIES,
        lambda source, variants: claim_cases(source, published, variants),
    )
    return {judgement.claim.id: judgement for judgement in judgements}


def test_the_papers_tables_alone_decide_on_their_gpus(gpu: Campaign, published: Published) -> None:
    def gain(card: str, entry: str) -> float:
        lines = [line for line in published["layouts"] if (line["gpu"], line["entry"]) == (card, entry)]
        assert lines
        return geometric_mean([float(line["speedup"]) for line in lines]) or 0.0

    expected = {
        "layout_gain_k2000": min(
            gain("K2000", entry) / max(gain("GTX 980", entry), gain("GP100", entry))
            for entry in ("complex", "quaternion", "block3")
        ),
        "complex_gpus": gain("GP100", "complex") / gain("GTX 980", "complex"),
        "quaternion_gpus": gain("GP100", "quaternion") / gain("GTX 980", "quaternion"),
        "blocks_gpus": min(
            gain("K2000", "block3") / gain("GTX 980", "block3"), gain("GTX 980", "block3") / gain("GP100", "block3")
        ),
    }
    judgements = judged(gpu, published)
    assert {id: judgements[id].value for id in expected} == pytest.approx(expected)
    bunny = (243410 * (4 + 16 * 8) + 4 * 34835) / (243410 * (4 + 4 * 8) + 4 * 34835)
    assert {number.case: number.value for number in judgements["memory_library"].numbers}[
        "surfaces/bunny"
    ] == pytest.approx(bunny)


def test_threads_are_counted_on_a_multiprocessor(maker: Maker, published: Published) -> None:
    judgements = judged(maker.all((NX_MOTOR,)), published)
    assert judgements["peak_threads"].value == 1  # both layouts are fastest with the same threads
    products: dict[int, list[float]] = {}
    for n_t, n_b in ((n_t, n_b) for n_t in N_T for n_b in N_B if n_t * n_b < 2048):
        products.setdefault(n_t * n_b, []).append(spread(n_t, n_b, "static"))
    spreads = [max(of) / min(of) for of in products.values() if len(of) > 1]
    one = judgements["tuned_as_one"]
    assert (len(one.numbers), one.value) == (2 * len(spreads), pytest.approx(median(spreads)))


def test_no_statement_on_one_matrix_is_judged_by_another(gpu: Campaign, published: Published) -> None:
    judgements = judged(gpu, published)
    for id in ("peak_threads", "tuned_as_one", "registers_most"):
        assert judgements[id].reason == "fem/NX_MotorH67k: not searched in this campaign"


def test_a_preference_is_compared_matrix_by_matrix(maker: Maker, published: Published) -> None:
    # on the GP100 dynamic schedules win on bunny2.4M in double precision alone
    dynamic = Given("fem/bunny2.4M", "block3", 27112, 284846, dynamic={"single": 0.8, "double": 0.8})
    judgement = judged(maker.all((dynamic, NX_MOTOR)), published)["dynamic_table"]
    assert [(number.case, number.value) for number in judgement.numbers] == [("fem/bunny2.4M (DP)", 1)]
    static = replace(dynamic, dynamic={"single": 0.8, "double": 1.1})
    assert judged(maker.all((static, NX_MOTOR)), published)["dynamic_table"].verdict == "reversed"


def test_a_stand_in_has_no_memory_to_judge_by(maker: Maker, published: Published) -> None:
    judgement = judged(maker.all((LONG_ROWS, BUNNY)), published)["memory_ell"]
    assert [(number.case, number.value) for number in judgement.numbers] == [
        ("fem/bunny2.4M", MEMORY["ELL"] / MEMORY["CSR"])
    ]


def test_layouts_are_compared_of_the_same_entries_and_precision(gpu: Campaign, published: Published) -> None:
    judgement = judged(gpu, published)["similar_layouts"]
    assert [number.case for number in judgement.numbers] == [
        f"surfaces/bunny ({precision}) and surfaces/dragon_dithered ({precision})" for precision in ("SP", "DP")
    ]
    assert judgement.value == 1


def test_the_overhead_of_ell_is_timed_on_long_rows_alone(maker: Maker, published: Published) -> None:
    judgement = judged(maker.all((LONG_ROWS, NX_MOTOR)), published)["overhead_time"]
    assert [number.case for number in judgement.numbers] == ["like_fem_filter (SP)", "like_fem_filter (DP)"]
    assert judgement.value == pytest.approx(1)  # ELL-SoA-AoS is the fastest of all


def test_a_quantity_on_all_problems_counts_generated_ones(maker: Maker, published: Published) -> None:
    campaign = maker.all((NX_MOTOR, Given("small/dirac", "complex", 4096, 28672)))
    cases = claim_cases(campaign, published, "none")
    assert cases is not None
    papers, every = (side.measure(cases).numbers for side in (OVER_CHOICE, OVER_CHOICE.on_all_problems()))
    assert [number.case for number in papers] == ["fem/NX_MotorH67k (SP)", "fem/NX_MotorH67k (DP)"]
    assert [number.case for number in every] == [*(n.case for n in papers), "small/dirac (SP)", "small/dirac (DP)"]
