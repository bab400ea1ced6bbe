"""The pages in the repository are those that docs/make_pages.py makes, and state no measured number by themselves."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from repro.results.claims import load_claims
from support.measured import passages
from support.pages import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "docs"))
from history import RESULTS, history
from make_pages import (
    BY_READING,
    SOURCES,
    Table,
    claims,
    judged,
    page,
    page_of,
    table,
    tally,
    target_of,
    verdict,
    verdicts_of_statements,
)

pytestmark = pytest.mark.medium

#: Pages of results have their numbers filled in; in these no number looks measured, so that they have no source.
WITHOUT = ("products", "dynamic")
STATING = [*sorted(SOURCES.glob("*.md")), *(REPOSITORY / f"docs/{name}.md" for name in WITHOUT)]
#: The part of README.md that states results; what else it has are sizes and settings.
RESULT = "Result"

TABLE = Table(
    "of two problems",
    pd.DataFrame(
        {
            "problem": ["a", "b"],
            "precision": ["single", "double"],
            "speedup": [2.0, 8.0],
            "rows": [1234567, 89],
        }
    ),
)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("source", sorted(SOURCES.glob("*.md")), ids=lambda source: source.stem)
def test_the_page_is_made_of_its_source_and_the_tables(source: Path) -> None:
    assert target_of(source).read_text() == page_of(source), "python docs/make_pages.py"


@pytest.mark.parametrize("source", STATING, ids=lambda source: source.stem)
def test_every_number_that_looks_measured_is_filled_in_or_has_a_reason(source: Path) -> None:
    of_result = [
        passage
        for passage in passages(source.read_text())
        if source.name != "README.md" or passage.heading.startswith(RESULT)
    ]
    assert not {passage.text[:60]: passage.stated for passage in of_result if passage.stated and not passage.reason}


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (("speedup", "a"), "2.00"),
        (("max speedup",), "8.00"),
        (("geomean speedup",), "4.00"),
        (("rows", 'where precision == "single"', ",.0f"), "1,234,567"),
        (("100 * (1 - 1 / speedup)", "b", ".1f"), "87.5"),
    ],
)
def test_a_table_gives_the_number_that_is_named(arguments: tuple[str, ...], number: str) -> None:
    assert TABLE(*arguments) == number


def test_a_spread_leaves_out_one_problem_with_all_its_lines() -> None:
    frame = pd.DataFrame(
        {
            "problem": ["a", "a", "b", "c"],
            "precision": ["single", "double", "single", "single"],
            "speedup": [1.0, 4.0, 2.0, 16.0],
        }
    )
    table = Table("of three problems", frame)
    # without a: √(2·16) = 5.66; without b: ∛(1·4·16) = 4; without c: ∛(1·4·2) = 2
    assert table("spread geomean speedup") == "2.00 to 5.66"
    assert table("spread max speedup", 'where precision == "single"', ".0f") == "2 to 16"


@pytest.mark.parametrize("arguments", [("speedup",), ("speedup", "c"), ("speedup", "where rows > 1")])
def test_a_question_without_a_single_answer_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="numbers, not one"):
        TABLE(*arguments)


def test_paragraphs_are_filled_and_code_and_tables_are_left() -> None:
    source = f"# Title\n\n{'word ' * 40}\n\n- an item\n  in two lines\n- another\n\n{{# by hand: so #}}\n\n"
    kept = "```sh\na   b\n```\n\n| a |\n|---|\n\n    c   d"
    *lines, _ = page(source + kept, "a source").splitlines()
    assert max(map(len, lines)) <= 120
    assert "- an item in two lines" in lines and "- another" in lines
    assert page(source + kept, "a source").endswith(f"- another\n\n{kept}\n")


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("takes 12 µs for 1,000 and 2.5 for more", {"12", "2.5"}),
        ('takes {{ targets("ours", "a 3.5") }} µs and 2.5 for more', {"2.5"}),
        ("75 to 110 % of it, 3, 4 and 5 times", {"75", "110", "3", "4", "5"}),
        ("3×3 blocks of 8 × 4 on CUSP 0.5.1, chapter 6, doi 10.1145/25.30", set()),
        ("| 3.010e-02 | [two](x-1.5.md) `1.5` |", {"3.010e-02"}),
    ],
)
def test_what_looks_measured(text: str, stated: set[str]) -> None:
    (passage,) = passages(text)
    assert passage.stated == stated


def test_a_reason_stands_behind_its_paragraph() -> None:
    one, two = passages("takes 12 µs\n\n{# by hand: a trial #}\n\ntakes 13 µs")
    assert (one.reason, two.reason) == ("a trial", None)


def test_a_verdict_whose_interval_reaches_another_one_is_close() -> None:
    claim = {"verdict": "weaker", "measured": 1.234, "kernels": "ours", "notes": float("nan")}
    assert judged(pd.Series(claim)) == "weaker 1.23†"
    for ends in ("interval", "range"):
        assert judged(pd.Series(claim | {"notes": f"a; its {ends} reaches: holds"})) == "weaker, close 1.23†"


def test_a_claim_has_verdict_interval_and_cases_in_one_cell() -> None:
    recorded = pd.read_csv(REPOSITORY / "results/h200-products/tables/spgemm_amg/table-claims.csv")
    text = claims("spgemm_amg", "h200-products")
    one = recorded[recorded["interval"].notna()].iloc[0]
    interval = one["interval"].replace(" to ", "–")
    assert f"| {one['verdict']} {one['measured']:.3g} [{interval}], n={one['cases']:.0f} |" in text
    untested = recorded["measured"].isna()
    assert f"{untested.sum()} further claims cannot be tested here" in text
    assert [claim in text for claim in recorded["claim"]] == list(~untested)


def test_the_verdict_is_the_sum_of_what_the_studies_say() -> None:
    studies = ("compressed_coo", "spgemm_amg")
    of_each = [int(n) for study in studies for n in re.findall(r"\d+", tally(study, "h200"))]
    said = [int(n) for n in re.findall(r"\d+", verdict(*(f"h200/{study}" for study in studies)))]
    assert said[0] == sum(said[1:]) == sum(of_each)
    assert verdict("h200/spgemm_amg") == "Of 9 statements, 1 holds, 3 are stronger and 5 not testable here"


def test_readings_of_a_statement_are_counted_once() -> None:
    first = load_claims("spgemm_amg")[0]
    claims = [replace(first, id=id, reading_of=of) for id, of in (("a", ""), ("b", "a"), ("c", ""), ("d", "c"))]
    counted = verdicts_of_statements({"a": "holds", "b": "reversed", "c": "weaker", "d": "not testable here"}, claims)
    assert counted == {BY_READING: 1, "weaker": 1}
    assert verdicts_of_statements({"a": "holds", "b": "holds"}, claims) == {"holds": 1}, "a record without the others"
    assert re.search(r"\d depends? on the reading", verdict("h200/dynamic_csr"))


def test_what_could_not_have_failed_is_counted_apart() -> None:
    said, _, apart = verdict("h200/compound_spmv").partition("; ")
    assert apart == "3 more follow from definitions" and "3 by construction" in tally("compound_spmv", "h200")
    assert "construction" not in said
    total, *counts = [int(n) for n in re.findall(r"\d+", said)]
    assert total == sum(counts)


def test_the_history_has_a_line_for_each_record_of_a_study() -> None:
    heads, _, *lines = (line.strip("| ").split(" | ") for line in history("compound_spmv").splitlines())
    assert heads == ["measured until", "speedup", "GPU", "campaign", "code"]
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)
    records = {path.parents[2].name for path in RESULTS.glob("*/tables/compound_spmv/table-targets.csv")}
    assert {line[3].partition("]")[0].strip("[") for line in lines} <= records
    [h200] = [line for line in lines if "[h200]" in line[3]]
    row = "speedup over the fastest routine, graph clock: geometric mean"
    assert h200[1] == table("h200/tables/compound_spmv/table-targets")("ours", row)
    assert all(re.match(r"[0-9a-f]{12}|code that no commit", line[4]) for line in lines)
