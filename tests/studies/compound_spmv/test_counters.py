"""The table of counters: rows that were recorded, and none."""

from __future__ import annotations

import pandas as pd
import pytest
from test_tables import make

from repro.bench.ncu import COLUMNS
from repro.bench.rows import SCHEMA
from repro.errors import ReproError
from repro.results.campaign_data import Campaign
from repro.results.output import as_csv, as_latex
from repro.results.published import Published
from support.synthetic_campaign import PROBLEMS, STUDY, Maker

GIVEN = PROBLEMS[5]


def recorded(maker: Maker, *lacking: str) -> Campaign:
    """A campaign with counters of two kernels: the i-th column's value is i, of the second kernel without registers."""
    maker.environment()
    maker.problem(GIVEN)
    maker.case(GIVEN, "single")
    common = {"study": STUDY, "problem": GIVEN.name, "entry": GIVEN.entry, "precision": "single", "profiler": "ncu 1"}
    common["schema"] = SCHEMA
    rows = [
        {**common, "kind": kind, "name": name, **{column: float(i) for i, column in enumerate(COLUMNS)}}
        for kind, name in (("floor", "floor/256-4"), ("variant", "CSR-AoS-AoS/static-64-2"))
    ]
    rows[1]["registers"] = float("nan")
    frame = pd.DataFrame(rows).drop(columns=list(lacking))
    frame.to_parquet(maker.case_folder(GIVEN.name, "single") / "counters.parquet")
    return maker.load()


def test_counters_are_a_line_each(maker: Maker, published: Published) -> None:
    table = make(recorded(maker), published, "table-counters")
    floor, variant = (dict(zip((c.key for c in table.columns), row, strict=True)) for row in table.rows)
    assert [cell.value for cell in (floor["problem"], floor["precision"], floor["name"])] == [
        GIVEN.name,
        "single",
        "floor/256-4",
    ]
    assert floor["dram_read_MB"].value == pytest.approx(COLUMNS.index("dram_read_bytes") * 1e-6)
    assert floor["l1_hit_percent"].shown == f"{COLUMNS.index('l1_hit_percent')} %"
    assert floor["registers"].shown == str(COLUMNS.index("registers"))
    assert variant["registers"].shown == "–"
    assert "Read by ncu 1 on NVIDIA H200." in table.caption
    assert all(column.split("_")[0] in as_csv(table) for column in ("gpu_us", "waves"))
    assert as_latex(table, "counters", "Counters").count(r"\\") >= 4


def test_a_campaign_without_counters_says_so(gpu: Campaign, published: Published) -> None:
    table = make(gpu, published, "table-counters")
    assert table.rows == []
    assert "No counters were recorded" in table.caption


@pytest.mark.wording
def test_counters_of_another_schema_are_one_message(maker: Maker) -> None:
    with pytest.raises(ReproError, match="the rows have a different schema"):
        recorded(maker, "waves")
