"""Claims on compressed coordinates: what of a synthetic campaign judges each."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from repro.results.registry import get_artifact
from repro.results.tables import Cell, Table
from repro.studies import load_artifacts
from support import coo_campaign
from support.coo_campaign import PROBLEMS, PRODUCTS, STUDY, CooMaker, published_coo

load_artifacts(STUDY)


def claims(root: Path) -> dict[str, dict[str, Cell]]:
    """Return the cells of the table of claims by their ids."""
    made = cast(Table, get_artifact(STUDY, "table-claims").make(CooMaker(root, "cuda").all(), published_coo()))
    keys = [column.key for column in made.columns]
    return {str(row[0].value): dict(zip(keys, row, strict=True)) for row in made.rows}


def test_solvers_are_judged_beside_the_products_of_the_same_kernels(tmp_path: Path) -> None:
    lines = claims(tmp_path)
    solved = [given for given in PROBLEMS if given.n == coo_campaign.LARGE and given.solved]
    faster = [3200 / 2000 * given.faster > 1 for given in solved]
    assert 0 < sum(faster) < len(solved)
    assert lines["bicgstab_all"]["measured"].value == pytest.approx(sum(faster) / len(solved))
    assert lines["bicgstab_damped"]["measured"].value == pytest.approx((3200 / 2000) / (110 / 50))
    assert lines["bicgstab_damped"]["cases"].value == len(solved)


def test_matrices_below_the_memory_of_csr_are_counted(tmp_path: Path) -> None:
    line = claims(tmp_path)["memory_csr"]
    assert (line["measured"].value, line["cases"].value) == (5, 5)


def test_blocks_of_fewer_threads_are_compared_where_they_were_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert claims(tmp_path / "without")["threads"]["verdict"].value == "not testable here"
    monkeypatch.setitem(PRODUCTS, "CCOO/b128-k4-c1", (40.0, 0.6))
    monkeypatch.setitem(PRODUCTS, "CCOO/b128-k4-c2", (20.0, 0.6))  # two chunks a block are not the paper's
    line = claims(tmp_path / "with")["threads"]
    assert (line["measured"].value, line["verdict"].value) == (pytest.approx(40 / 50), "reversed")


def test_shares_and_least_speedups_are_those_of_the_medians(tmp_path: Path) -> None:
    lines = claims(tmp_path)
    for of in ("csr", "coo"):
        median, least, share = (lines[id]["measured"].value for id in (of, f"{of}_least", f"{of}_almost"))
        assert cast(float, least) <= cast(float, median)
        assert (share == 1) == (cast(float, least) > 1)
    over_csr, over_coo = (cast(float, lines[of]["measured"].value) for of in ("csr", "coo"))
    assert lines["alike"]["measured"].value == pytest.approx(over_coo / over_csr)


def test_one_printed_number_is_compared_with_the_larger_end_of_a_printed_range(tmp_path: Path) -> None:
    line = claims(tmp_path)["gpus"]
    assert line["measured"].value == pytest.approx(1.4 / 1.3)
    assert line["kernels"].value == "the published numbers alone"


def test_what_was_not_run_says_so(tmp_path: Path) -> None:
    line = claims(tmp_path)["row_order"]
    assert line["worst_case"].value == "no recorded quantity measures it"
