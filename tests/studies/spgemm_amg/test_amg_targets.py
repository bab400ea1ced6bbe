"""Targets and what was reached, on a campaign that was never measured."""

from __future__ import annotations

import pytest

from repro.results.tables import Cell
from repro.studies.spgemm_amg.results import TARGET_QUANTITIES
from support.amg_campaign import NOTHING_PUBLISHED, NUMBERS, PRODUCTS, Maker, table


def reached(campaign) -> dict[str, dict[str, Cell]]:
    """Return the line of each quantity."""
    made = table(campaign, "table-targets")
    keys = [column.key for column in made.columns]
    names = [item["quantity"] for item in NUMBERS.targets]
    return {name: dict(zip(keys, row, strict=True)) for name, row in zip(names, made.rows, strict=True)}


def test_every_target_is_measured_and_nothing_else():
    assert [item["quantity"] for item in NUMBERS.targets] == list(TARGET_QUANTITIES)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    maker = Maker(tmp_path_factory.mktemp("complete"))
    for place, problem in enumerate(NUMBERS.problems):
        maker.case(problem, 2.0 if place == 7 else 1.0)
    maker.case("elastic", 100.0)  # of no target
    maker.case("bunny_closed", 100.0)
    maker.case("rajat01", 100.0)
    return maker.load()


def test_every_quantity_of_a_complete_campaign(complete):
    by_name = reached(complete)
    slow = 2 ** (1 / 8)  # one of eight problems takes twice as long
    expected = {
        "library_worst": 2.5,
        "library_mean": 2.5,
        "library_event_worst": None,
        "library_event_mean": None,
        "elasticity_worst": 2.5,
        "squares_worst": 2.5,
        "squares_mean": 2.5,
        "whole_over_reuse_mean": 60 / (100 * 3),
        "numeric_mean": 1.5,
        "numeric_worst": 1.5,
        "graph_numeric_mean": 1.5,
        "coordinates_mean": 8.4,
        "gflops_mean": 2 * PRODUCTS / 300e-6 * 1e-9 / slow,
        "best_worst": 2.5,
        "setup_27pt_128": 6.0,
        "setup_large": 3.0,
        "setup_small": 3.0,
        "setup_over_coordinates": 2.1,
        "setup_over_coordinates_mean": 2.1,
        "solve_ms": 3.0,
    }
    assert {name: line["measured"].value for name, line in by_name.items()} == pytest.approx(expected)
    cases = {name: line["cases"].value for name, line in by_name.items()}
    assert cases["library_mean"] == cases["best_worst"] == 24
    assert [cases[name] for name in ("setup_27pt_128", "setup_large", "setup_small", "solve_ms")] == [1, 3, 4, 8]
    verdicts = {name: line["reached"].value for name, line in by_name.items()}
    assert [name for name, verdict in verdicts.items() if verdict == "no"] == [
        "library_mean", "whole_over_reuse_mean", "numeric_mean", "gflops_mean", "setup_over_coordinates_mean"
    ]  # fmt: skip
    assert by_name["setup_27pt_128"]["wanted"].shown == "≤ 11"
    assert by_name["gflops_mean"]["worst"].value == pytest.approx(2 * PRODUCTS / 600e-6 * 1e-9)
    assert by_name["gflops_mean"]["worst_case"].value.startswith("poisson/27pt_128, ")
    assert by_name["solve_ms"]["worst_case"].value == "poisson/27pt_128"
    partly = {name: line["cases"].shown for name, line in by_name.items() if line["cases"].notes}
    assert partly == {"elasticity_worst": "3 of 9", "squares_worst": "1 of 8", "squares_mean": "1 of 8"}


def test_the_best_of_all_may_be_the_papers(tmp_path):
    maker = Maker(tmp_path)
    name = "poisson/7pt_64"
    maker.record(name, entry="real", n=5, nnz=13)
    rows = [row for row in maker.product(name, "AA") if row.kind == "variant" and row.name != "AA/paper"]
    faster = maker.row(name, "double", "variant", "AA/paper", 90.0, ("host",), phase="report", what="product",
                       product="AA", mode="one", method="sort")  # fmt: skip
    maker.write(name, "double", "report", [*rows, faster])
    line = reached(maker.load())["best_worst"]
    assert line["measured"].value == pytest.approx(0.9)
    assert (line["reached"].value, line["worst_case"].value) == ("no", "poisson/7pt_64, A·A")


def test_the_kernel_of_a_product_is_beside_the_library_s_by_events(tmp_path):
    maker, name = Maker(tmp_path), "poisson/7pt_64"
    maker.record(name, entry="real", n=5, nnz=13)
    of_product = {"phase": "report", "what": "product", "product": "AA"}
    kernel = maker.row(name, "double", "variant", "AA/single-kernel", 20.0, ("event",), mode="single",
                       method="kernel", **of_product)  # fmt: skip
    library = maker.row(name, "double", "baseline", "AA/ALG1", 110.0, ("host",), routine="ALG1",
                        stage_whole=100e-6, **of_product)  # fmt: skip
    maker.write(name, "double", "report", [kernel, library])
    line = reached(maker.load())["library_event_worst"]
    assert line["measured"].value == pytest.approx(5)
    assert (line["reached"].value, line["cases"].shown) == ("yes", "1 of 24")


def test_some_of_the_cases_are_told_and_named(amg_campaign_of_some):
    line = reached(amg_campaign_of_some)["library_mean"]
    assert line["measured"].value == pytest.approx(2.5)
    assert line["cases"].shown == "6 of 24"
    assert "poisson/27pt_64, poisson/5pt_1024" in line["cases"].notes[0]
    assert "not in this campaign" in line["cases"].notes[0]


def test_what_failed_is_named_with_its_reason(tmp_path):
    maker = Maker(tmp_path)
    name = "poisson/27pt_128"
    maker.record(name, entry="real", n=5, nnz=13)
    failed = maker.row(name, "double", "variant", "AA/coordinates", None, status="out_of_memory", phase="report",
                       what="product", product="AA", mode="coordinates", method="coordinates")  # fmt: skip
    maker.write(name, "double", "report", [*maker.product(name, "AA")[1:], *maker.product(name, "AP"), failed])
    by_name = reached(maker.load())
    line = by_name["coordinates_mean"]
    assert line["cases"].shown == "1 of 24"
    assert "poisson/27pt_128, A·A: AA/coordinates: out of memory" in line["cases"].notes[0]
    assert "poisson/27pt_128, R·(A·P): not timed" in line["cases"].notes[0]
    none = by_name["setup_27pt_128"]
    assert (none["measured"].value, none["reached"].value) == (None, None)
    assert none["worst_case"].value == "poisson/27pt_128: not timed"


def test_without_published_numbers_there_is_no_target(amg_campaign_of_some):
    assert table(amg_campaign_of_some, "table-targets", NOTHING_PUBLISHED).rows == []


def test_a_dry_run_on_the_cpu_is_called_so(tmp_path):
    maker = Maker(tmp_path, "opencl")
    maker.case("odd")
    assert "a dry run" in table(maker.load(), "table-targets").caption
