"""What comes before the products, and from which product on it has paid."""

from pathlib import Path

import pytest

from repro.bench.rows import Row
from repro.results.campaign_data import Case, Selection
from repro.results.common_tables import ANALYSIS, NO_ANALYSIS, NOT_RECORDED, SetupCosts, setup_costs_table
from repro.results.problem_lines import MethodTimes, ProblemLine
from repro.results.tables import Cell, Table
from support.campaigns import Recorder

# microseconds by the event clock
CSR, SLICED, OURS = 30.0, 25.0, 20.0


def rows(recorder: Recorder, ours: float, packing: float | None) -> list[Row]:
    return [
        recorder.row("a", "double", "baseline", "csr", CSR, preprocess=1e-4, phase="report"),
        recorder.row("a", "double", "baseline", "sell", SLICED, preprocess=3e-4, phase="report"),
        recorder.row("a", "double", "variant", "ours", ours, packing=packing, preprocess=9.0, phase="report"),
    ]


def made(tmp_path: Path, ours: float = OURS, packing: float | None = 0.001, **replaced: object) -> Table:
    recorder = Recorder(tmp_path)
    recorder.record("a", entry="real", n=10, nnz=20)
    recorder.write("a", "double", "report", rows(recorder, ours, packing))
    recorder.environment()
    campaign = recorder.load()
    line = ProblemLine("a", "real", None, campaign.problems["a"])
    case = MethodTimes(line, Case(campaign, "a", "double"))

    def time(name: str):
        return Selection([row for row in case.case.rows if row.name == name]).fastest("event")

    costs = SetupCosts.packed(case, time("sell"), time("csr"), time("ours"))
    if replaced:
        costs = SetupCosts(**{**vars(costs), **replaced})
    return setup_costs_table(campaign, [costs], "cuSPARSE", "event", "Set-up: packing.", ANALYSIS)


def cells(table: Table) -> dict[str, Cell]:
    return {column.key: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}


def test_packing_pays_from_the_first_product_that_makes_up_for_it(tmp_path: Path) -> None:
    line = cells(made(tmp_path, packing=0.00101))
    assert line["library"].value == "sell" and line["library_preprocess_ms"].value == pytest.approx(0.3)
    assert line["ours_setup_ms"].value == pytest.approx(1.01)
    assert line["gain_us"].value == pytest.approx(CSR - OURS)
    assert line["pays_from"].value == 102  # 101 products gain 1.01 ms, which is what packing takes


@pytest.mark.parametrize("ours", [CSR, 40.0])
def test_packing_never_pays_where_a_product_is_not_faster(tmp_path: Path, ours: float) -> None:
    line = cells(made(tmp_path, ours))
    assert line["pays_from"].value is None and line["pays_from"].shown == "never"


def test_rows_of_before_have_a_dash_and_say_why(tmp_path: Path) -> None:
    line = cells(made(tmp_path, packing=None))
    assert line["ours_setup_ms"].shown == line["pays_from"].shown == "–"
    assert line["ours_setup_ms"].notes == (NOT_RECORDED,)
    assert line["gain_us"].value == pytest.approx(CSR - OURS)  # it needs no packing


def test_an_analysis_that_is_not_apart_has_a_dash(tmp_path: Path) -> None:
    line = cells(made(tmp_path, library_seconds=None))
    assert line["library_preprocess_ms"].shown == "–" and line["library_preprocess_ms"].notes == (NO_ANALYSIS,)


def test_a_column_names_the_product_where_there_are_several(tmp_path: Path) -> None:
    assert "product" not in cells(made(tmp_path))
    assert cells(made(tmp_path, product="A·A"))["product"].value == "A·A"
