"""The tables of fields in the plane, on a campaign that was never measured."""

from __future__ import annotations

import pytest

from repro.results.common_tables import NO_ANALYSIS
from repro.studies.dg_postprocessing import OVER_POINT, stated_number
from repro.studies.dg_postprocessing.operands import peak_gflops
from repro.studies.dg_postprocessing.results import NOT_TUNED
from support.dg_campaign import (
    APPLIES,
    MATRIX_BYTES,
    NOTHING_PUBLISHED,
    NUMBERS,
    OPERATIONS,
    PEAK,
    Maker,
    lines,
    table,
    values,
)


def test_counts_beside_the_published(dg_campaign_of_some):
    made = table(dg_campaign_of_some, "table-3-1")
    by_name = lines(made)
    assert list(by_name)[:5] == [item["problem"] for item in NUMBERS["tests"]]
    line = by_name["siac/low_4k_p1"]
    assert values(line, "published_per_point", "per_point", "per_element") == [6_647_394, 320 * 24_000, 170 * 24_000]
    assert values(line, "published_ratio", "ratio") == [1.886, pytest.approx(320 / 170)]
    assert line["point_over_published"].value == pytest.approx(320 * 24_000 / 6_647_394)
    assert line["element_over_published"].value == pytest.approx(170 * 24_000 / 3_525_297)
    assert by_name["siac/low_64k_p1"]["problem"].notes == ("not in this campaign",)
    assert values(by_name["tiny"], "published_per_point", "per_point", "triangles") == [None, 320 * 1800, 300]
    # other degrees and other dimensions are not of it
    assert not {"siac/high_4k_p2", "cubes"} & set(by_name)
    assert "too thin" in made.caption


def test_a_record_without_counts_says_so(tmp_path):
    maker = Maker(tmp_path)
    maker.record("siac/low_4k_p1", kind="field", dimension=2, cells=4000, degree=1)
    line = lines(table(maker.load(), "table-3-1"))["siac/low_4k_p1"]
    assert line["per_point"].value is None
    assert "has no counts" in line["problem"].notes[0]


def test_published_ratios_are_those_of_the_published_counts():
    for item in NUMBERS["tests"]:
        assert float(item["ratio"]) == pytest.approx(int(item["per_point"]) / int(item["per_element"]), abs=6e-4)


def test_what_the_text_states_by_family_and_degree():
    assert stated_number(NUMBERS, "GFLOPS of the methods, least", "low", 3) == 30
    assert stated_number(NUMBERS, OVER_POINT, "high") == 3
    assert stated_number(NUMBERS, OVER_POINT, "high", 3) is None
    assert stated_number(NOTHING_PUBLISHED, OVER_POINT, "high") is None


def test_ways_beside_ours(dg_campaign_of_some):
    made = table(dg_campaign_of_some, "table-filters")
    by_name = lines(made)
    # by family, degree and size
    assert list(by_name) == [
        "tiny", "siac/low_4k_p1", "siac/low_16k_p1", "siac/low_4k_p3", "siac/high_4k_p2", "gone"
    ]  # fmt: skip
    line = by_name["siac/low_4k_p1"]
    assert values(line, "variance", "degree", "triangles") == ["low", 1, 4000]
    times = values(line, "point_ms", "element_ms", "point_tuned_ms", "element_tuned_ms", "atomic_ms", "ours_ms")
    assert times == pytest.approx([24.0, 16.0, 20.0, 12.8, 6.4, 3.2])
    assert line["atomic_over_ours"].value == pytest.approx(2.0)
    assert "differ from launch to launch" in made.caption
    assert line["chosen"].value == "edges-t64-c0.5-b16"
    overs = values(line, "point_tuned_over_ours", "element_tuned_over_ours")
    assert overs == pytest.approx([6.25, 4.0])
    tried = "per element: 1 choice (128 threads, cells of 0.5, 4 patches)"
    assert tried in line["element_tuned_over_ours"].notes
    assert f"{tried}; not the same for both." in made.caption
    both = values(line, "element_over_point", "element_over_point_tuned")
    assert both == pytest.approx([1.5, 25 / 16])
    assert not line["element_over_point"].notes, "both have 64 threads"
    assert "point t128-c1-b8; " in line["element_over_point_tuned"].notes[0]
    assert line["ours_mpoints"].value == pytest.approx(24_000 / 3.2e-3 * 1e-6)
    rate = OPERATIONS * 24_000 / 3.2e-3 * 1e-9
    assert line["ours_gflops"].value == pytest.approx(rate)
    assert line["ours_peak"].value == pytest.approx(100 * rate / PEAK)
    assert by_name["gone"]["problem"].notes == ("unavailable: no such file",)
    means = dict(zip([column.key for column in made.columns], made.summary[0], strict=True))
    assert means["element_tuned_over_ours"].value == pytest.approx(4.0)
    assert "(28, 50, 78) per evaluation" in made.caption
    assert "33\N{NO-BREAK SPACE}454 GFLOPS" in made.caption


def test_a_library_that_refuses_says_why(tmp_path):
    maker = Maker(tmp_path)
    maker.field("odd", "low", 1, 100)
    refused = [
        maker.row("odd", "double", "baseline", row.name, None, status="unsupported", phase="report", what="library",
                  message="CSR of scalars: too many entries", fields=row["fields"])
        if row.kind == "baseline" else row
        for row in maker.rows("odd", 1, 100)
    ]  # fmt: skip
    maker.measured("odd", refused)
    line = lines(table(maker.load(), "table-matrix"))["odd"]
    assert values(line, "library_1_ms", "over_library_16", "routine") == [None] * 3
    assert "unsupported (CSR of scalars: too many entries)" in line["library_1_ms"].notes[0]


def test_a_way_that_failed_says_why(tmp_path):
    maker = Maker(tmp_path)
    maker.field("odd", "low", 1, 100)
    failed = maker.row("odd", "double", "variant", "element-t64-c0.5-b1", None, status="out_of_memory",
                       message="2 GiB more", phase="report", what="filter", way="element", space="paper")  # fmt: skip
    rows = [row for row in maker.rows("odd", 1, 100) if row.name != failed.name]
    maker.measured("odd", [*rows, failed])
    line = lines(table(maker.load(), "table-filters"))["odd"]
    assert line["element_ms"].notes == ("element-t64-c0.5-b1: out of memory (2 GiB more)",)
    assert values(line, "element_ms", "element_over_point") == [None] * 2
    assert line["element_tuned_over_ours"].value == pytest.approx(4.0)


def test_where_no_tuned_kernel_was_measured_the_table_says_so(tmp_path):
    maker = Maker(tmp_path)
    maker.field("odd", "low", 1, 100)
    maker.measured("odd", [row for row in maker.rows("odd", 1, 100) if row.space != "paper_tuned"])
    campaign = maker.load()
    line = lines(table(campaign, "table-filters"))["odd"]
    for key in ("element_over_point_tuned", "point_tuned_over_ours", "element_tuned_over_ours"):
        assert (line[key].value, line[key].shown, line[key].notes) == (None, "not tuned", (NOT_TUNED,))
    assert line["point_tuned_ms"].notes == (NOT_TUNED,)
    assert line["element_over_point"].value == pytest.approx(1.5), "to the letter"
    assert lines(table(campaign, "table-local"))["odd"]["speedup"].shown == "not tuned"


def test_a_device_whose_peak_is_not_known_has_no_share_of_it(tmp_path):
    maker = Maker(tmp_path, "opencl")
    maker.case("odd", "low", 1, 100)
    made = table(maker.load(), "table-filters")
    assert not [column.key for column in made.columns if column.key.endswith("_peak")]
    assert "is unknown" in made.caption
    assert peak_gflops({"target": "sm_90", "multiprocessors": 132}) is None


def test_making_the_matrix_is_the_set_up_of_a_product(dg_campaign_of_some):
    by_name = lines(table(dg_campaign_of_some, "table-setup-costs"))
    line = by_name["siac/low_4k_p1"]
    assert values(line, "ours_setup_ms", "csr_us", "ours_us", "gain_us") == pytest.approx([12, 640, 400, 240])
    assert line["pays_from"].value in (50, 51)
    assert line["library_preprocess_ms"].notes == (NO_ANALYSIS,)


def test_the_matrix_and_from_when_on_it_pays(dg_campaign_of_some):
    by_name = lines(table(dg_campaign_of_some, "table-matrix"))
    line = by_name["siac/low_4k_p1"]
    assert values(line, "pairs", "gigabytes") == [2_400_000, MATRIX_BYTES / 1e9]
    assert values(line, "direct_ms", "make_ms", "make_over_direct") == pytest.approx([3.2, 12.0, 12 / 3.2])
    assert values(line, *(f"apply_{n}_ms" for n in APPLIES)) == pytest.approx([0.4, 0.48, 0.72])
    assert values(line, *(f"direct_over_apply_{n}" for n in APPLIES)) == pytest.approx([8, 3.2 * 4 / 0.48, 3.2 / 0.045])
    assert line["sixteen_over_one"].value == pytest.approx(1.8)
    assert values(line, "floor_ms", "floor_share") == pytest.approx([0.32, 80])
    assert values(line, *(f"library_{n}_ms" for n in APPLIES)) == pytest.approx([0.64, 0.96, 0.864])
    assert values(line, *(f"over_library_{n}" for n in APPLIES)) == pytest.approx([1.6, 2, 1.2])
    assert line["routine"].value == "spmv-csr-alg2"
    # 12 + 0.4 n < 3.2 n from n = 5 on
    assert line["pays_from"].value == 5
    assert by_name["tiny"]["pays_from"].value is None  # a product takes longer than filtering
    large = by_name["siac/low_4k_p3"]
    assert values(large, "make_ms", "apply_1_ms", "pays_from") == [None] * 3
    assert large["problem"].notes == ("matrix/make: unsupported (the matrix has 90 GB, and 70 are free)",)


def test_all_that_filters_or_multiplies_is_listed(dg_campaign_of_some):
    by_task = {}
    for row in table(dg_campaign_of_some, "table-baselines").rows:
        by_task.setdefault(row[0].value, []).append(row[1].value)
    assert by_task["filtering"] == ["atomic", "edges", "element", "point"]
    assert by_task["product with 1 field"] == ["cusparse/spmv-csr-alg1", "cusparse/spmv-csr-alg2", "matrix/apply"]
    assert by_task["product with 16 fields"] == ["cusparse/spmm-csr-alg3", "matrix/apply"]
