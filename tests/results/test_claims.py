"""Claims of the papers: each number is the papers', and a verdict comes out of rows by the rule."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.artifacts import published_of
from repro.errors import ReproError
from repro.results.campaign_data import Campaign
from repro.results.claims import (
    COLUMNS,
    WORDS,
    Claim,
    Verdict,
    claims_table,
    close_calls,
    judge,
    load_claims,
    reasons_of,
    tally,
    verdict_count,
)
from repro.results.comparisons import CaseNumber, Measured, MissingCase, Quantity
from repro.results.registry import OURS
from repro.studies import get_study, study_names
from repro.studies.compound_spmv import results as compound_spmv
from repro.studies.compressed_coo import results as compressed_coo
from repro.studies.dg_postprocessing import claims as dg_postprocessing
from repro.studies.dynamic_csr import claims as dynamic_csr
from repro.studies.spgemm_amg import results as spgemm_amg
from support.campaigns import REPOSITORY

#: The papers' claims; a claim that is ours is in no paper, so no test compares it with one.
CLAIMS = [(study, claim) for study in study_names() for claim in load_claims(study) if claim.place != OURS]
#: Said in words, without a number that a file could hold.
IN_WORDS = {
    "complex_slower", "complex_inner", "complex_outer", "aos_preferred", "ell_quaternion", "quaternion_inner",
    "quaternion_vector", "blocks_over_bsr", "blocks_inner", "blocks_vector", "dynamic_sensitive", "joint_tuning",
    "hamilton", "expansion", "csr_least", "consistency", "repeats", "second_csr", "k_suffices", "gpus", "bicgstab_all",
    "bicgstab_damped", "csr_almost", "coo_almost", "coo_least", "alike", "iterative_amazon", "dynamic_figure",
    "memory_csr", "threads", "row_order", "element_variance", "rates_fall", "patches", "devices",
    "tiling", "width_p1_best", "vectorized_p1", "full_width_p1", "width_p2_best", "width_p2_48", "width_p2_128",
    "full_width_p2", "streaming_all", "streaming_all_any", "batches_all", "batches_all_any", "iterative_all",
    "adaptive_many", "memory_2", "layout_gain_k2000", "complex_gpus", "quaternion_soa", "quaternion_gpus",
    "blocks_gpus", "dynamic_table", "peak_threads", "tuned_as_one", "overhead_time", "similar_layouts",
    "unit_quaternions", "search_width", "values_read", "cells", "element_degree", "integration", "cpu_gain",
    "more_patches", "reduction", "structured", "mesh_size", "width_cache", "width_p2_half", "binned", "by_size_cache",
    "long_rows_2", "small_2", "linear_8", "hyb_memory", "rebuild", "galerkin_largest", "product_long_rows",
    "shared_memory", "coo_to_csr", "coo_to_dcsr", "coo_to_hyb", "csr_to_dcsr", "csr_to_hyb", "dcsr_to_csr",
    "defragmentation_products", "sort_products",
}  # fmt: skip


def published_numbers(study: str, reference: str, gpu: str) -> set[float]:
    """Return the numbers of the papers that one reference of a claim names."""
    name, _, wanted = reference.partition(": ")
    quantity, _, conditions = wanted.partition(" @ ")
    where = dict(pair.split("=") for pair in conditions.split())
    with (REPOSITORY / f"config/published/{study}/{name}.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    column = quantity if quantity in lines[0] else "value"
    lines = [
        line
        for line in lines
        if all(line[key] == value for key, value in where.items())
        and (column == quantity or line["quantity"] == quantity)
        and ("gpu" in where or column == quantity or line["gpu"] in ("", *gpu.split(", ")))
    ]
    assert lines, f"{study}: no line for {reference!r}"
    return {float(end) for line in lines for end in line[column].split(" to ")}


@pytest.mark.parametrize(("study", "claim"), [pytest.param(*one, id=f"{one[0]}-{one[1].id}") for one in CLAIMS])
def test_the_number_is_the_papers(study: str, claim: Claim) -> None:
    if not claim.number:
        todo = "name its line of config/published in `number`, add it to IN_WORDS, or call it ours in `place`"
        assert claim.id in IN_WORDS, f"{claim.id} has no number of a paper: {todo}"
        return
    numbers = set[float]().union(
        *(published_numbers(study, reference, claim.gpu) for reference in claim.number.split("; "))
    )
    assert {claim.least, claim.most} == {min(numbers), max(numbers)}


def test_every_study_of_a_paper_has_claims_with_places() -> None:
    assert {study for study, _ in CLAIMS} == {name for name in study_names() if get_study(name).published}
    assert all(claim.place and claim.claim for _, claim in CLAIMS)
    assert "both" not in {claim.gpu for _, claim in CLAIMS}, "both of which GPUs?"


#: Quantities that no function measures: each would need a measurement that was not made.
UNMEASURED = {
    "hamilton_chain", "random_over_row_order", "tests_of_kernels", "integration_share", "cpu_over_gpu",
    "reduction_share", "unstructured_over_structured", "patches_over_pipelined", "cache_hits", "thousand_updates",
    "thousand_updates_hyb", "galerkin_share", "galerkin_share_7pt", "galerkin_over_next",
    "long_rows_over_sort", "global_over_shared",
}  # fmt: skip
MEASURED: Mapping[str, Mapping[str, object]] = {
    "compound_spmv": compound_spmv.CLAIM_QUANTITIES,
    "compressed_coo": compressed_coo.CLAIM_QUANTITIES,
    "dg_postprocessing": dg_postprocessing.CLAIM_QUANTITIES,
    "dynamic_csr": dynamic_csr.CLAIM_QUANTITIES,
    "spgemm_amg": spgemm_amg.CLAIM_QUANTITIES,
}


def test_what_no_function_measures_is_known_and_says_why() -> None:
    unmeasured = [claim for study, claim in CLAIMS if claim.quantity not in MEASURED[study]]
    assert {claim.quantity for claim in unmeasured} == UNMEASURED
    assert all(claim.note for claim in unmeasured)


CLAIM = Claim(
    id="faster", place="section 1", claim="ours is faster", gpu="K20c", least=2.0, most=3.0, unit="ratio", number="",
    basis="rows", relation="equal", better="more", tolerance=0.1, neutral=1.0, quantity="speedup",
    variants="as_published",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "value", "verdict"),
    [
        ({}, 2.5, Verdict.HOLDS),
        ({}, 1.81, Verdict.HOLDS),  # within the tolerance of 10 %
        ({}, 3.29, Verdict.HOLDS),
        ({}, 1.5, Verdict.WEAKER),
        ({}, 3.4, Verdict.STRONGER),
        ({}, 0.9, Verdict.REVERSED),
        ({}, None, Verdict.NOT_TESTABLE),
        ({"neutral": None}, 0.9, Verdict.WEAKER),
        ({"relation": "at least"}, 30.0, Verdict.HOLDS),
        ({"relation": "at most"}, 0.1, Verdict.HOLDS),
        # of a time the better direction is down
        ({"better": "less", "least": 0.5, "most": 0.5}, 0.4, Verdict.STRONGER),
        ({"better": "less", "least": 0.5, "most": 0.5}, 0.8, Verdict.WEAKER),
        ({"better": "less", "least": 0.5, "most": 0.5}, 1.2, Verdict.REVERSED),
        # a share beyond either end bears the claim out less
        ({"better": "neither"}, 3.4, Verdict.WEAKER),
        ({"better": "neither", "neutral": None}, 0.5, Verdict.WEAKER),
        ({"relation": "same GPU"}, 2.5, Verdict.HOLDS),
        # as slow as the other is what is published: there is no opposite on that side
        ({"least": 1.0, "most": 1.0, "tolerance": 0.05}, 0.9, Verdict.REVERSED),
        ({"least": 0.9, "most": 0.9}, 0.5, Verdict.WEAKER),
        # what could not have failed is counted apart, whatever its value
        *(({"basis": "construction"}, value, Verdict.BY_CONSTRUCTION) for value in (0.9, 2.5, 3.4)),
        ({"basis": "construction"}, None, Verdict.NOT_TESTABLE),
        ({"basis": "published"}, 1.5, Verdict.WEAKER),
    ],
)
def test_the_rule(changes: Mapping[str, object], value: float | None, verdict: Verdict) -> None:
    assert replace(CLAIM, **changes).verdict(value) is verdict  # type: ignore[arg-type]


def variants_alone(campaign: Campaign, variants: str) -> str:
    """Return, as what was measured, whose kernels are asked for."""
    return variants


@pytest.fixture
def campaign() -> Campaign:
    return Campaign.load(CampaignFolder(REPOSITORY / "results/h100"), "compressed_coo")


def quantities(*numbers: float) -> dict[str, Quantity[str]]:
    """Return a quantity that is measured by the tuned kernels alone."""

    def measure(variants: str) -> Measured:
        if variants == "as_published":
            return Measured([], [MissingCase("a", "not launched")])
        return Measured([CaseNumber(value, f"case {at}") for at, value in enumerate(numbers)])

    return {"speedup": Quantity(measure, "median")}


def test_other_kernels_stand_in_and_are_named(campaign: Campaign) -> None:
    table = claims_table(campaign, [CLAIM], quantities(2.0, 2.6, 2.8, 2.5, 2.7), variants_alone)
    cells = {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert cells["verdict"].value == "holds"
    assert cells["measured"].value == 2.6
    assert cells["cases"].value == 5
    assert (cells["worst"].value, cells["worst_case"].value) == (2.0, "case 0")
    assert cells["kernels"].value == "the paper’s, tuned further"
    assert cells["kernels"].notes == ("those as published were not measured",)
    low, high = cells["measured"].interval or (0, 0)
    assert 2.0 <= low <= 2.6 <= high <= 2.8


def test_kernels_to_the_letter_of_another_campaign_judge_first(campaign: Campaign) -> None:
    letter = replace(campaign, name="letter")

    def to_the_letter(measured: Campaign, variants: str) -> float | None:
        if variants == "as_published":
            return 1.5 if measured.name == "letter" else None
        return 2.5

    measure = {"speedup": Quantity(lambda value: Measured([CaseNumber(value, "a")]))}
    claims = [CLAIM, replace(CLAIM, id="tuned", variants="paper_tuned")]
    table = claims_table(replace(campaign, as_published=letter), claims, measure, to_the_letter)
    keys = [column.key for column in table.columns]
    first, tuned = (dict(zip(keys, row, strict=True)) for row in table.rows)
    assert (first["verdict"].value, first["measured"].value, first["kernels"].value) == ("weaker", 1.5, "as published")
    assert first["kernels"].notes == ("by the rows of campaign letter",)
    # kernels that are tuned further, too, are the letter's, where both sides had the same to choose from
    assert (tuned["verdict"].value, tuned["kernels"].notes) == ("holds", ("by the rows of campaign letter",))
    assert "2 of the 2 claims are judged by campaign letter" in table.caption


def test_what_the_campaigns_own_cases_give_stands_beside_the_letters(campaign: Campaign) -> None:
    letter = replace(campaign, name="letter")
    numbers = {"letter": [CaseNumber(0.8, "a")], campaign.name: [CaseNumber(0.8, "a"), CaseNumber(4.2, "b")]}
    measure = {"speedup": Quantity(lambda name: Measured(numbers[name]), "arithmetic mean")}
    table = claims_table(
        replace(campaign, as_published=letter), [CLAIM], measure, lambda measured, variants: measured.name
    )
    cells = {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert (cells["verdict"].value, cells["measured"].value, cells["cases"].value) == ("reversed", 0.8, 1)
    assert cells["kernels"].notes[1:] == (
        "this campaign’s own rows of these kernels have other cases: 2.5 of 2 cases, the verdict would be: holds",
    )


def test_where_two_campaigns_differ_the_table_says_so(campaign: Campaign) -> None:
    def by_campaign(measured: Campaign, variants: str) -> float:
        return 1.5 if measured.beside else 2.5

    other = replace(campaign, name="other")
    measure = {"speedup": Quantity(lambda value: Measured([CaseNumber(value, "a")]))}
    table = claims_table(replace(campaign, beside=(other,)), [CLAIM], measure, by_campaign)
    cells = {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert (cells["verdict"].value, cells["other_verdict"].value, cells["other_measured"].value) == (
        "weaker",
        "holds",
        2.5,
    )
    assert cells["other_verdict"].notes == ("another verdict here",)


def test_a_rate_of_another_gpu_judges_nothing_and_is_shown(campaign: Campaign) -> None:
    rate = replace(CLAIM, relation="same GPU", variants="none")
    there, here = judge([rate, replace(rate, gpu="H100")], campaign, quantities(2.5), variants_alone)
    assert (there.verdict, there.value) == (Verdict.NOT_TESTABLE, 2.5)
    assert "a GPU other than" in there.reason
    assert (here.verdict, here.reason) == (Verdict.HOLDS, "")


def test_an_interval_that_reaches_another_verdict_is_noted(campaign: Campaign) -> None:
    numbers = [CaseNumber(value, str(value)) for value in (1.9, 1.2, 2.5, 1.8, 1.95)]
    measure = {"speedup": Quantity(lambda value: Measured(numbers), "median")}
    table = claims_table(campaign, [replace(CLAIM, note="of two")], measure, variants_alone)
    cells = {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert (cells["verdict"].value, cells["verdict"].shown) == ("holds", "holds, close")
    assert cells["verdict"].notes == ("its interval reaches: weaker",)
    assert close_calls(table) == {"holds": 1}
    assert cells["claim"].notes == ("of two",)


def test_cases_that_are_too_few_for_an_interval_have_a_range(campaign: Campaign) -> None:
    measure = {"speedup": Quantity(lambda value: Measured([CaseNumber(1.9, "a"), CaseNumber(2.4, "b")]), "median")}
    (judgement,) = judge([CLAIM], campaign, measure, variants_alone)
    assert (judgement.interval, judgement.range, judgement.undecided) == (None, (1.9, 2.4), ())
    wide = {"speedup": Quantity(lambda value: Measured([CaseNumber(0.9, "a"), CaseNumber(4.4, "b")]), "median")}
    table = claims_table(campaign, [CLAIM], wide, variants_alone)
    cells = {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert (cells["verdict"].shown, cells["interval"].shown) == ("holds, close", "range 0.9 to 4.4")
    assert cells["verdict"].notes == ("its range reaches: reversed, stronger",)
    assert cells["measured"].interval is None


def test_what_cannot_be_judged_says_why(campaign: Campaign) -> None:
    missing, unknown = judge([CLAIM, replace(CLAIM, quantity="other")], campaign, quantities(), variants_alone)
    assert (missing.verdict, missing.reason) == (Verdict.NOT_TESTABLE, "a: not launched")
    assert (unknown.verdict, unknown.reason) == (Verdict.NOT_TESTABLE, "no recorded quantity measures it")
    [mistyped] = judge([replace(CLAIM, quantity="spedup")], campaign, quantities(), variants_alone)
    assert mistyped.reason == "no recorded quantity measures it; did you mean speedup?"


def test_a_cpu_judges_what_no_gpu_was_measured_for(campaign: Campaign) -> None:
    for frame in (campaign.report, campaign.search):
        frame["backend"] = "opencl"
    campaign = replace(campaign, report=campaign.report, search=campaign.search)
    gpus, none = judge([CLAIM, replace(CLAIM, gpu="")], campaign, quantities(2.5), variants_alone)
    assert (gpus.verdict, none.verdict) == (Verdict.NOT_TESTABLE, Verdict.HOLDS)
    assert "dry run" in gpus.reason


def of_own(campaign: Campaign, *names: str) -> Campaign:
    """The campaign, of whose problems those with these names are files of the user's own."""
    records = {
        name: replace(record, origin={"source": "own"}) if name in names else record
        for name, record in campaign.problems.items()
    }
    return replace(campaign, problems=records)


def test_rows_of_own_problems_judge_no_claim(campaign: Campaign) -> None:
    def cases(measured: Campaign, variants: str) -> list[str]:
        return sorted(set(measured.report.problem))

    def numbers(problems: list[str]) -> Measured:
        return Measured([CaseNumber(2.5, problem) for problem in problems])

    every = sorted(campaign.problems)
    assert len(every) > 1
    quantity = {"speedup": Quantity(numbers, "median")}
    [some] = judge([CLAIM], of_own(campaign, every[0]), quantity, cases)
    assert [number.case for number in some.numbers] == every[1:]
    [none] = judge([CLAIM], of_own(campaign, *every), quantity, cases)
    assert (none.verdict, none.reason) == (Verdict.NOT_TESTABLE, "no problem is a paper’s")


def test_why_claims_are_not_judged_is_told_once_for_all_of_one_reason(campaign: Campaign) -> None:
    claims = [replace(CLAIM, id=name, quantity=name) for name in ("speedup", "one", "two")]
    table = claims_table(campaign, claims, quantities(2.5), variants_alone)
    assert reasons_of(table) == {"no recorded quantity measures it": ["one", "two"]}


def test_the_tally_counts_every_claim_once(campaign: Campaign) -> None:
    half = replace(CLAIM, id="half", neutral=None, least=5, most=5)
    defined, none = replace(CLAIM, id="defined", basis="construction"), replace(CLAIM, id="none", quantity="?")
    claims = [half, CLAIM, defined, none]
    told = tally(claims_table(campaign, claims, quantities(2.5), variants_alone))
    assert told == {
        "reversed": [],
        "weaker": ["half"],
        "holds": ["faster"],
        "stronger": [],
        "by construction": ["defined"],
        "not testable here": ["none"],
    }
    assert tally(claims_table(campaign, claims, quantities(2.5), variants_alone), "claim")["holds"] == [CLAIM.claim]


def test_our_own_claims_are_judged_and_not_counted(campaign: Campaign) -> None:
    own = replace(CLAIM, id="own", place=OURS)
    table = claims_table(campaign, [CLAIM, own], quantities(1.2, 2.9), variants_alone)
    assert [row[0].shown for row in table.rows] == ["faster", "own"]
    assert tally(table)["holds"] == ["faster"]
    assert close_calls(table) == {"holds": 1}
    assert "Claims that are ours are not counted: own." in table.caption


def statement_of(claim: Claim) -> str:
    return claim.reading_of or claim.id


def faults_of_readings(claims: Sequence[Claim]) -> list[str]:
    """Return the claims that judge the number of another one, and the readings of no claim."""
    # a quantity has several lines if each is judged on its own GPU only
    judged = [(claim.quantity, claim.variants, claim.gpu * (claim.relation == "same GPU")) for claim in claims]
    first = {claim.id for claim in claims if not claim.reading_of}
    return [
        *(f"two verdicts: {number[0]}" for number, lines in Counter(judged).items() if lines > 1),
        *(f"no claim: {claim.reading_of}" for claim in claims if statement_of(claim) not in first),
    ]


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({}, ["two verdicts: speedup"]),
        ({"least": 3.0}, ["two verdicts: speedup"]),
        ({"variants": "ours", "reading_of": "faster"}, []),
        ({"quantity": "other", "reading_of": "slower"}, ["no claim: slower"]),
        ({"quantity": "other", "reading_of": "again"}, ["no claim: again"]),
        ({"relation": "same GPU", "gpu": "V100"}, []),
    ],
)
def test_a_second_verdict_of_one_number_is_found(changes: Mapping[str, object], faults: Sequence[str]) -> None:
    assert faults_of_readings([CLAIM, replace(CLAIM, id="again", **changes)]) == faults  # type: ignore[arg-type]


@pytest.mark.parametrize("study", sorted({study for study, _ in CLAIMS}))
def test_one_number_has_one_verdict(study: str) -> None:
    assert faults_of_readings(load_claims(study)) == []


with (REPOSITORY / "config/published/places.csv").open(newline="") as _file:
    #: The parts of the papers, and the section that contains each if it is known.
    PLACES = {(line["work"], line["place"]): line["within"] for line in csv.DictReader(_file)}


def faults_of_place(text: str) -> list[str]:
    """Return the parts that the work does not have, and tables and figures of other sections than those named."""
    work, _, rest = text.partition(", ")
    parts, kind = [], ""
    for part in re.split(", | and | to ", rest):
        numbered = re.fullmatch(r"(?:([a-z]+?)s? )?(\d[\d.]*)", part)
        kind = (numbered[1] or kind) if numbered else kind
        parts.append(f"{kind} {numbered[2]}" if numbered else part)
    sections = [part for part in parts if part.startswith("section")]
    faults = []
    for part in parts:
        within = PLACES.get((work, part))
        if within is None:
            faults.append(f"no {part}")
        elif part not in sections and sections and within:
            contains = any(f"{within}.".startswith(f"{section}.") for section in sections)
            faults += [] if contains else [f"{part} is in {within}"]
    return faults


@pytest.mark.parametrize(
    ("place", "faults"),
    [
        ("King 2017, section 5.3, figure 7.9", ["no figure 7.9"]),
        ("King 2018, section 5.3", ["no section 5.3"]),
        ("King 2017, section 5.3.2, figure 5.3", ["figure 5.3 is in section 5.3.1"]),
        ("CGF 2020, sections 5.1 to 5.6", ["no section 5.6"]),
        ("CGF 2020, abstract and section 5.1, table 6", ["table 6 is in section 5.3"]),
        ("compressed COO 2020, section 5", ["no section 5"]),
        ("King 2017, sections 3.2.3 and 3.2.4", []),
    ],
)
def test_a_wrong_place_is_found(place: str, faults: Sequence[str]) -> None:
    assert faults_of_place(place) == faults


def test_every_place_is_one_of_the_papers() -> None:
    assert {claim.id: faults for _, claim in CLAIMS if (faults := faults_of_place(claim.place))} == {}
    assert {within for _, within in PLACES.items() if within} <= {place for _, place in PLACES}


def test_enough_statements_could_have_failed() -> None:
    constructed = {(study, statement_of(claim)) for study, claim in CLAIMS if claim.basis == "construction"}
    assert len({(study, statement_of(claim)) for study, claim in CLAIMS} - constructed) >= 140


def tolerance_of(claim: Claim) -> float:
    """Return the tolerance that the page on claims states for a line."""
    if claim.relation in ("at least", "at most"):
        return 0.05 if "within 5 %" in claim.note else 0
    if claim.unit in ("cases", "count") or (claim.unit, claim.neutral) == ("share", 0.5):
        return 0
    is_over_printed = "measured over published" in claim.claim
    return 0.05 if claim.unit == "ratio" and claim.most < 1.25 and not is_over_printed else 0.1


def test_tolerances_are_those_of_the_page() -> None:
    by_rows = [claim for _, claim in CLAIMS if claim.basis != "construction"]
    assert {claim.id: claim.tolerance for claim in by_rows} == {claim.id: tolerance_of(claim) for claim in by_rows}


def test_one_claim_holds_and_several_hold() -> None:
    assert [verdict_count(Verdict.HOLDS, n) for n in (0, 1, 2)] == ["0 hold", "1 holds", "2 hold"]
    assert [verdict_count(Verdict.NOT_TESTABLE, n) for n in (1, 2)] == ["1 not testable here", "2 not testable here"]


GOOD = dict.fromkeys(COLUMNS, "") | {
    "id": "a", "place": "King 2017, section 5.3.1, figure 5.3", "claim": "c", "published": "1", "unit": "ratio",
    "basis": "rows", "relation": "equal", "better": "more", "tolerance": "0", "quantity": "q", "variants": "none",
}  # fmt: skip


def write_claims(folder: Path, *lines: Mapping[str, str]) -> Path:
    """Write a file of claims."""
    path = folder / "claims/mine.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(lines)
    return path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"relation": "about"}, "relation"),
        ({"basis": "belief"}, "basis"),
        ({"published": "much"}, "number"),
        ({"better": ""}, "better"),
        ({"tolerance": "10 %"}, "number"),
    ],
)
def test_a_bad_line_is_one_message(tmp_path: Path, line: Mapping[str, str], said: str) -> None:
    path = write_claims(tmp_path, GOOD | line)
    with pytest.raises(ReproError) as told:
        load_claims("mine", tmp_path)
    assert said in str(told.value) and str(path) in str(told.value)


def test_ids_are_told_apart(tmp_path: Path) -> None:
    write_claims(tmp_path, GOOD, GOOD)
    with pytest.raises(ReproError, match="the same id"):
        load_claims("mine", tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [('"a\n', "cannot be read"), ("id,place\n", "the wrong columns"), (",".join(COLUMNS) + "\na\n", "mine.csv:2")],
)
def test_a_damaged_file_of_claims_is_one_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "claims/mine.csv"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ReproError, match=said):
        load_claims("mine", tmp_path)


def contract_page() -> str:
    text: str = (REPOSITORY / "docs/study-contract.md").read_text()
    return text


def test_the_page_explains_every_column_and_word_of_a_claim() -> None:
    cells = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", contract_page(), re.MULTILINE))
    assert tuple(cells) == COLUMNS
    assert not {(key, word) for key, words in WORDS.items() for word in words if f"`{word}`" not in cells[key]}


def test_the_example_of_the_page_judges_its_claim(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[Any] = []
    monkeypatch.setattr("repro.results.claims.register_claims", lambda *arguments: registered.extend(arguments))
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", contract_page(), re.MULTILINE | re.DOTALL):
        exec(code, names)
    _, _, quantities, cases = registered
    (lines,) = re.findall(r"^```text\n(.*?)^```$", contract_page(), re.MULTILINE | re.DOTALL)
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims/mine.csv").write_text(lines)
    (judgement,) = judge(
        load_claims("mine", tmp_path),
        campaign,
        quantities,
        lambda source, variants: cases(source, published_of(campaign.study), variants),
    )
    assert judgement.verdict != Verdict.NOT_TESTABLE
    assert len(judgement.numbers) > 1
