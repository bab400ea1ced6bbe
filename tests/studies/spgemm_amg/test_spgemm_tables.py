"""Tables of products, their memory, phases and bins, on a campaign that was never measured."""

from __future__ import annotations

import pytest

from repro.results.problem_lines import OF_NO_PAPER
from repro.results.significance import geometric_mean
from repro.studies.spgemm_amg.tables import SEARCHED
from support.amg_campaign import NONZEROS, PRODUCTS, ROWS, Maker, lines, table, values

OOM = "AA/coordinates: out of memory (2 GiB more)"


def test_times_and_ratios_of_a_product(amg_campaign_of_some):
    line = lines(table(amg_campaign_of_some, "table-products"), "product")["poisson/7pt_64", "RAP"]
    # twice as large a product, twice as slow a problem, and three times as much by the host's clock
    expected = {
        "products": 2 * PRODUCTS,
        "nonzeros": 2 * NONZEROS,
        "compression": 4.0,
        "ours_us": 100 * 2 * 2 * 3,
        "paper_us": 300 * 12,
        "coordinates_us": 840 * 12,
        "library_us": 250 * 12,
        "paper_over_ours": 3.0,
        "coordinates_over_ours": 8.4,
        "library_over_ours": 2.5,
        "gflops": 2 * 2 * PRODUCTS / 1200e-6 * 1e-9,
        "library_gflops": 2 * 2 * PRODUCTS / 3000e-6 * 1e-9,
        "refill_us": 40 * 4,
        "reuse_us": 60 * 4,
        "reuse_over_refill": 1.5,
    }
    assert {key: line[key].value for key in expected} == pytest.approx(expected)
    assert (line["ours"].shown, line["refill"].shown) == ("one phase, tuned", "tuned")
    assert values(line, "ours", "library") == ["RAP/one-tuned", "ALG2"]


def test_a_numeric_phase_has_a_whole_product_as_its_set_up(amg_campaign_of_some):
    line = lines(table(amg_campaign_of_some, "table-setup-costs"), "product")["poisson/7pt_64", "R·(A·P)"]
    # a whole product takes 1200 µs, a numeric phase 160 and the library's 240
    assert values(line, "ours_setup_ms", "gain_us") == pytest.approx([1.2, 80])
    assert line["pays_from"].value in (15, 16)


def test_a_way_that_failed_and_a_problem_that_is_not_there_have_their_reasons(amg_campaign_of_some):
    made = table(amg_campaign_of_some, "table-products")
    by_product = lines(made, "product")
    failed = by_product["large", "AA"]
    assert failed["coordinates_us"].value is failed["coordinates_over_ours"].value is None
    assert failed["coordinates_us"].notes == (OOM,)
    assert failed["ours_us"].value == pytest.approx(300)
    gone = by_product["gone", None]
    assert all(cell.value is None for key, cell in gone.items() if key not in ("problem", "precision"))
    assert gone["problem"].notes == ("unavailable: no such file",)
    assert "Unavailable" in made.caption
    assert len(by_product) == 3 * 3 + 1 + 1


def test_means_and_worst_of_all_and_of_the_papers(amg_campaign_of_some):
    made = table(amg_campaign_of_some, "table-products")
    keys = [column.key for column in made.columns]
    by_name = {row[0].value: dict(zip(keys, row, strict=True)) for row in made.summary}
    parts = ("", ", the paper’s problems", ", other problems")
    assert list(by_name) == [f"{statistic}{part}" for part in parts for statistic in ("geometric mean", "worst")]
    # GFLOPS do not depend on the product: 2 M operations in 300 µs, times the problem's weight
    rates = [2e6 / 300e-6 * 1e-9 / weight for weight in (1, 2, 4)]
    mean = geometric_mean([rate for rate in rates for _ in range(3)] + [rates[0]])
    assert by_name["geometric mean"]["gflops"].value == pytest.approx(mean)
    assert by_name["worst"]["gflops"].value == pytest.approx(rates[2])
    assert by_name["worst, the paper’s problems"]["gflops"].value == pytest.approx(rates[1])
    assert by_name["worst, other problems"]["gflops"].value == pytest.approx(rates[2])
    assert by_name["worst"]["coordinates_over_ours"].value == pytest.approx(8.4)
    assert by_name["worst"]["ours_us"].value is None


def test_the_cpu_has_scipy_and_no_numeric_phase_of_it(tmp_path):
    maker = Maker(tmp_path, "opencl")
    maker.case("poisson/5pt_512")
    made = table(maker.load(), "table-products")
    line = lines(made, "product")["poisson/5pt_512", "AA"]
    assert values(line, "library", "reuse_us", "reuse_over_refill") == ["csr", None, None]
    assert line["library_over_ours"].value == pytest.approx(0.7)
    assert not line["reuse_us"].notes
    assert "SciPy has none" in made.caption
    assert len(made.summary) == 2


def test_memory_over_the_bytes_of_c(amg_campaign_of_some):
    made = table(amg_campaign_of_some, "table-memory")
    line = lines(made, "product")["poisson/5pt_512", "AP"]
    assert line["c_mb"].value == pytest.approx(1e-6 * (12 * NONZEROS / 2 + 4 * (ROWS + 1)))
    expected = {"coordinates": 20, "paper": 3, "one": 2, "one_tuned": 2, "two_tuned": 1, "alg1": 8, "reuse": 9}
    assert {key: line[f"{key}_over_c"].value for key in expected} == pytest.approx(expected)
    failed = lines(made, "product")["large", "AA"]
    assert failed["coordinates_over_c"].value is None
    assert failed["coordinates_over_c"].notes == (OOM,)
    worst = dict(zip([column.key for column in made.columns], made.summary[1], strict=True))
    assert worst["alg3_over_c"].value == pytest.approx(4)


def test_memory_that_was_not_counted_is_blank(tmp_path):
    maker = Maker(tmp_path, "opencl")
    maker.record("odd", entry="real", n=5, nnz=13)
    maker.write("odd", "double", "report", [
        maker.row("odd", "double", "variant", "AA/one", 1.0, ("host",), phase="report", what="product", product="AA",
                  mode="one", method="default", products=5, nonzeros=4),
    ])  # fmt: skip
    made = table(maker.load(), "table-memory")
    assert values(lines(made, "product")["odd", "AA"], "c_mb", "one_over_c") == [None, None]
    assert made.summary == []
    assert "no such pool" in made.caption


def test_one_phase_against_two(amg_campaign_of_some):
    line = lines(table(amg_campaign_of_some, "table-phases"), "product")["poisson/5pt_512", "AA"]
    expected = {
        "one_tuned_us": 300.0, "one_tuned_count_us": 10.0, "one_tuned_compute_us": 20.0, "one_tuned_settle_us": 3.0,
        "two_tuned_us": 330.0, "two_tuned_symbolic_us": 20.0, "two_tuned_place_us": 4.0, "two_tuned_numeric_us": 30.0,
        "refill_us": 40.0, "two_over_one": 1.1, "two_over_one_bytes": 0.5,
    }  # fmt: skip
    assert {key: line[key].value for key in expected} == pytest.approx(expected)


def test_the_winner_of_each_bin(amg_campaign_of_some):
    made = table(amg_campaign_of_some, "table-bins")
    by_bin = lines(made, "product", "mode", "bin")
    first = by_bin["elastic", "AP", "one", 1]
    assert values(first, "sort_us", "hash_us", "dense_us", "winner") == pytest.approx([33, 22, None, "hash"])
    assert first["lead"].value == pytest.approx(1.5)
    assert first["compression"].value == pytest.approx(5)
    assert (first["bin"].shown, first["hash_kernel"].shown) == ("33–64", "w4-s64-r64")
    assert first["hash_us"].notes == ()
    other = by_bin["elastic", "AP", "one", 5]
    # what was not chosen has its time of the search
    assert values(other, "sort_us", "hash_us", "dense_us", "winner") == pytest.approx([48, 60, 80, "sort"])
    assert other["hash_us"].notes == other["dense_us"].notes == (SEARCHED,)
    assert other["lead"].value == pytest.approx(60 / 48)
    alone = by_bin["elastic", "AP", "numeric", 0]
    assert values(alone, "hash_us", "winner", "lead") == pytest.approx([10, None, None])  # no other was tried
    assert "in the 6 bins of the one phase: sort 3, hash table 3" in made.caption
    assert by_bin["large", None, None, None]["problem"].notes == (OF_NO_PAPER, "no kernel of a bin was tried")
    assert by_bin["gone", None, None, None]["problem"].notes == ("unavailable: no such file",)


def test_a_method_all_of_whose_kernels_failed_says_so(tmp_path):
    maker = Maker(tmp_path)
    maker.record("odd", entry="real", n=5, nnz=13)
    rows = maker.bins("odd", "search")[:2]
    failed = maker.row("odd", "double", "variant", rows[0].name, None, phase="search", status="launch_error",
                       message="too many threads", what="bin", product="AP", mode="one", bin=1, method="sort", rows=3,
                       products=9, nonzeros=3)  # fmt: skip
    maker.write("odd", "double", "search", [failed, rows[1]])
    line = lines(table(maker.load(), "table-bins"), "bin")["odd", 1]
    assert line["sort_us"].value is line["lead"].value is None
    assert line["sort_us"].notes == (f"{rows[0].name}: launch error (too many threads)",)
    assert line["winner"].value == "hash"
