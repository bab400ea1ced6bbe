"""Comparisons: one time over another, case by case, and statistics over the cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from repro.results.campaign_data import Method
from repro.results.comparisons import ABSENT, CaseNumber, Cases, Comparison, Measured, MissingCase, Quantity, no_notes
from repro.results.problem_lines import MethodTimes, times_of
from repro.results.published import Published
from support.campaigns import Recorder

LIBRARY = Method("library", "library", columns={"kind": "baseline"})
OURS = Method("ours", "ours", columns={"kind": "variant"})
SPEEDUP = Comparison[MethodTimes](LIBRARY, OURS)
#: Microseconds of the library and of ours, by problem.
TIMES = {"a": (20.0, 10.0), "b": (30.0, 10.0), "c": (10.0, 20.0), "d": (10.0, None)}


@pytest.fixture
def cases(tmp_path: Path) -> Cases[MethodTimes]:
    recorder = Recorder(tmp_path)
    for problem, (library, ours) in TIMES.items():
        recorder.record(problem, entry="real", n=10, nnz=20)
        rows = [recorder.row(problem, "double", "baseline", "csr", library, ("event", "graph"), phase="report")]
        if ours:
            rows.append(recorder.row(problem, "double", "variant", "ours", ours, ("event", "graph"), phase="report"))
        recorder.write(problem, "double", "report", rows)
    recorder.environment()
    campaign, published = recorder.load(), Published({}, [])
    return Cases(campaign, published, times_of(MethodTimes, campaign, published))


def value(quantity: Quantity[Cases[MethodTimes]], cases: Cases[MethodTimes]) -> float:
    return quantity.value(quantity.measure(cases).numbers)


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        (SPEEDUP.median(), 2), (SPEEDUP.mean(), 5.5 / 3), (SPEEDUP.geometric_mean(), 3 ** (1 / 3)),
        (SPEEDUP.least(), 0.5), (SPEEDUP.most(), 3), (SPEEDUP.total(), 5.5), (SPEEDUP.worst(), 0.5),
        (SPEEDUP.worst(at_most=True), 3), (SPEEDUP.share(), 2 / 3), (SPEEDUP.share(lambda ratio: ratio < 1), 1 / 3),
        (SPEEDUP.count(lambda ratio: ratio > 1), 2), (SPEEDUP.where(lambda case: case.line.problem != "c").least(), 2),
        (SPEEDUP.on("b").worst(), 3), (Comparison(OURS, unit=1e6).worst(is_time=True), 16),
        (Comparison(lambda case: float(len(case.line.problem))).total(), 4),
    ],
)  # fmt: skip
def test_a_quantity_is_a_statistic_of_the_cases_with_both_times(cases, quantity, expected):
    assert value(quantity, cases) == pytest.approx(expected)


def test_the_interval_of_a_ratio_has_the_unit_of_its_value(cases, monkeypatch):
    monkeypatch.setattr("repro.results.comparisons.interval_of_ratio", lambda above, below: (1.5, 2.5))
    number = replace(SPEEDUP, unit=100.0).of(next(iter(cases)))
    assert (number.value, number.interval) == (pytest.approx(200), (150, 250))


def test_a_time_is_wanted_to_be_at_most_and_longer_on_a_slower_device():
    quantity = Comparison[MethodTimes](OURS).worst(is_time=True)
    assert quantity.at_most and quantity.is_time and not SPEEDUP.worst().at_most


def test_cases_without_a_number_are_left_out_or_say_why(cases):
    assert SPEEDUP.measure(cases).missing == []
    because = replace(SPEEDUP, reason=lambda case: "not timed").measure(cases)
    assert because.missing == [MissingCase("d", "not timed")] and because.cases == 4
    assert because.missing_reasons == "d: not timed"
    silent = replace(SPEEDUP, reason=lambda case: "").measure(cases)
    assert silent.missing == []


def test_named_problems_count_in_their_order_and_absent_ones_are_missing(cases):
    named = replace(SPEEDUP, numbers=3).on("c", "elsewhere", "a").measure(cases)
    assert [number.case for number in named.numbers] == ["c", "a"]
    assert named.missing == [MissingCase("elsewhere", ABSENT, 3)]
    of_papers = replace(SPEEDUP, problems=lambda published: [*published.tables])
    assert of_papers.measure(cases).numbers == []  # the papers name none, which is not the same as all
    papers = replace(cases, published=Published({"b": []}, []))
    assert [number.case for number in of_papers.measure(papers).numbers] == ["b"]


def test_parts_of_a_case_are_compared_each(cases):
    halves = Comparison[tuple](
        lambda part: part[1],
        parts=lambda case: [(case, 1.0), (case, 2.0)],
        name=lambda part: f"{part[0].line.problem}/{part[1]:g}",
        notes=no_notes,
    )
    assert [number.case for number in halves.on("a").measure(cases).numbers] == ["a/1", "a/2"]


def test_conditions_add_up(cases):
    few = SPEEDUP.where(lambda case: case.line.problem != "a").where(lambda case: case.line.problem != "b")
    assert [number.case for number in few.measure(cases).numbers] == ["c"]
    assert few.where(lambda case: False, lambda case: 1 / 0 > 0).measure(cases).numbers == []


def test_kernels_of_which_the_numbers_are_not_have_none_and_no_reason(cases):
    tuned = replace(SPEEDUP, judged_by=("paper_tuned",), reason=lambda case: "not timed")
    assert tuned.measure(replace(cases, variants="as_published")) == Measured([])
    assert len(tuned.measure(replace(cases, variants="paper_tuned")).numbers) == 3


def test_another_clock_gives_other_times(cases):
    times = Comparison[MethodTimes](OURS, unit=1e6)
    assert value(times.by("event").most(), cases) == pytest.approx(20)
    assert value(times.most(), cases) == pytest.approx(16)  # a recorder's graphs take four fifths of that
    assert SPEEDUP.by("host").measure(cases).numbers == []


def test_no_case_at_all_says_so(cases):
    never = replace(SPEEDUP, counts=lambda case: False, empty_reason="nothing was streamed")
    assert never.measure(cases).missing_reasons == "nothing was streamed"
    named = replace(never, empty=MissingCase("enron", ABSENT))
    assert named.measure(cases).missing_reasons == f"enron: {ABSENT}"


def test_a_function_can_give_a_number_with_a_name_of_its_own(cases):
    own = Comparison[MethodTimes](lambda case: CaseNumber(1.5, "mine", ("a note",)))
    assert own.measure(cases).numbers[0] == CaseNumber(1.5, "mine", ("a note",))


def test_answers_drop_the_interval_and_keep_the_notes(cases):
    noted = replace(SPEEDUP, notes=lambda case, *times: tuple(time.name for time in times))
    (first, *_) = noted.share().measure(cases).numbers
    assert (first.value, first.interval, first.notes) == (1.0, None, ("csr", "ours"))


def test_one_number_of_all_cases_or_the_reason():
    assert Measured.one(2.0, "all").numbers == [CaseNumber(2.0, "all")]
    assert Measured.one(None, "all", "not timed").missing == [MissingCase("all", "not timed")]
    assert Measured.one(None, "all").cases == 0
    assert Measured.any_of([], "all", "not timed").missing_reasons == "all: not timed"
    assert Measured.any_of([CaseNumber(1.0, "a")], "all", "not timed").missing == []
