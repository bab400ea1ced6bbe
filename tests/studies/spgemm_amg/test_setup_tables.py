"""Tables of the set-up, its levels and of solutions, on a campaign that was never measured."""

from __future__ import annotations

import pytest

from repro.results.problem_lines import OF_NO_PAPER
from support.amg_campaign import UNKNOWNS, Maker, lines, table, values

OOM = "setup/default: out of memory (1 GiB more)"


def test_set_up_by_three_kinds_of_products(amg_campaign_of_some):
    made = table(amg_campaign_of_some, "table-setup")
    line = lines(made)[("poisson/7pt_64",)]
    expected = {
        "unknowns": UNKNOWNS, "levels": 3, "complexity": 1.25, "default_ms": 6.0, "sort_ms": 8.4,
        "coordinates_ms": 12.6, "coordinates_over_default": 2.1, "coordinates_over_sort": 1.5,
        "published_speedup": 1.4, "ns_an_unknown": 6e6 / UNKNOWNS, "peak_mb": 100.0, "galerkin_ms": 1.0,
        "transpose_ms": 0.4, "galerkin_share": 100 * 5 / 15,
    }  # fmt: skip
    assert {key: line[key].value for key in expected} == pytest.approx(expected)
    assert line["published_share"].shown == "30–50 %"
    assert values(lines(made)[("elastic",)], "published_speedup", "published_share") == [None, None]
    keys = [column.key for column in made.columns]
    worst = dict(zip(keys, made.summary[1], strict=True))
    assert worst["ns_an_unknown"].value == pytest.approx(12e6 / UNKNOWNS)
    assert worst["coordinates_over_default"].value == pytest.approx(2.1)


def test_what_failed_is_blank_with_its_reason(amg_campaign_of_some):
    by_name = lines(table(amg_campaign_of_some, "table-setup"))
    failed = by_name[("large",)]
    assert failed["default_ms"].notes == (OOM,)
    assert failed["sort_ms"].notes == ("not timed",)
    assert values(failed, "default_ms", "unknowns", "galerkin_share", "ns_an_unknown") == [None] * 4
    assert by_name[("gone",)]["problem"].notes == ("unavailable: no such file",)
    assert not by_name[("gone",)]["default_ms"].notes


def test_level_by_level(amg_campaign_of_some):
    made = table(amg_campaign_of_some, "table-levels")
    by_level = lines(made, "level")
    line = by_level["poisson/5pt_512", 0]
    expected = {"rows": UNKNOWNS, "whole_ms": 1.8, "galerkin_ms": 0.4, "radius_ms": 0.1, "galerkin_share": 400 / 9}
    assert {key: line[key].value for key in expected} == pytest.approx(expected)
    assert by_level["poisson/5pt_512", 1]["galerkin_share"].value == pytest.approx(100 / 6)
    assert by_level["large", None]["problem"].notes == (OF_NO_PAPER, "not timed")
    assert len(made.rows) == 3 * 2 + 2


def test_shares_need_all_levels_and_all_phases(tmp_path):
    maker = Maker(tmp_path)
    for name, left_out in (("short", "setup/level-1"), ("bare", None)):
        maker.record(name, entry="real", n=5, nnz=13)
        rows = [row for row in maker.setup(name) if row.name != left_out]
        if left_out is None:
            rows = [
                maker.row(name, "double", "variant", row.name, 1.0, ("host",), phase="report",
                          **{k: v for k, v in row.own.items() if v is not None and not k.startswith("stage_")})
                for row in rows
            ]  # fmt: skip
        maker.write(name, "double", "report", rows)
    made = maker.load()
    for name in ("short", "bare"):
        assert values(lines(table(made, "table-setup"))[(name,)], "galerkin_share", "radius_ms") == [None, None]
    assert lines(table(made, "table-levels"), "level")["bare", 1]["galerkin_share"].value is None


def test_set_up_and_solution(amg_campaign_of_some):
    by_name = lines(table(amg_campaign_of_some, "table-solve"))
    expected = {
        "unknowns": UNKNOWNS, "levels": 3, "iterations": 10, "setup_ms": 12.0, "solve_ms": 6.0, "sum_ms": 18.0,
        "iteration_ms": 0.6, "ns_an_unknown": 18e6 / UNKNOWNS,
    }  # fmt: skip
    assert {key: by_name[("elastic",)][key].value for key in expected} == pytest.approx(expected)
    failed = by_name[("large",)]
    assert failed["setup_ms"].notes == (OOM,)
    assert failed["solve_ms"].notes == ("not timed",)
    assert values(failed, "unknowns", "sum_ms", "iteration_ms") == [None] * 3
