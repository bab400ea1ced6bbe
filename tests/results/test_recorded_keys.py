"""Numbers of recorded tables lead to the recorded rows that they are from, by the column `keys`.

Those of a campaign that stands beside another lead to its own rows, by a column `keys_<campaign>`.
"""

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from repro.bench.store import read_rows
from support.campaigns import RESULTS, recorded_campaigns

pytestmark = pytest.mark.medium

#: A profiler's rows have no key: their table has what they are known by. Baselines' times are statistics over cases.
TABLES = [
    path
    for campaign in recorded_campaigns()
    for path in sorted((RESULTS / campaign).glob("tables/*/*.csv"))
    if path.stem not in ("table-counters", "table-baselines")
]
#: The last is of a product that waits for the host: its one stage, between events.
MEDIANS = ["event_median", "graph_median", "host_median"]
WHOLE = "stage_whole"
#: The ends of columns with a time that is a row's own median, and what it is in seconds.
TIMES = {"_us": 1e-6, "_ms": 1e-3}
#: Times in these are sums or differences over rows, stages of one, or a row's over a number of its own.
DERIVED = ("table-phases", "table-levels", "table-setup", "table-setup-costs", "table-solve", "table-crossover",
           "table-devices", "table-exchange", "table-conjugate-gradients")  # fmt: skip


@cache
def rows_of(campaign: str, study: str) -> pd.DataFrame:
    """Return all rows of a study of a campaign by their keys."""
    raw = RESULTS / campaign / "raw" / study
    steps = [read_rows(raw, step) for step in ("search", "report")]
    columns = ["key", "problem", *MEDIANS, *({WHOLE} & set(steps[1].column_names))]
    return pd.concat([rows.select(columns).to_pandas() for rows in steps]).set_index("key")


def rows_named(line: dict[str, Any], table: Path) -> pd.DataFrame:
    """Return the rows that a line of a table names, of the campaign's own and of those that stand beside it."""
    campaign, study = table.parts[-4], table.parent.name
    named = [rows_of(campaign, study).iloc[:0]]
    for column, keys in line.items():
        if (column == "keys" or column.startswith("keys_")) and pd.notna(keys):
            of = column.removeprefix("keys").removeprefix("_") or campaign
            named.append(rows_of(of, study).loc[keys.split()])  # KeyError: there is no such row
    return pd.concat(named)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: "/".join(table.parts[-4:]))
def test_every_time_of_a_line_is_one_of_a_row_that_the_line_names(table: Path) -> None:
    lines = pd.read_csv(table)
    timed = {
        column: scale
        for column in lines.columns
        for end, scale in TIMES.items()
        if column.endswith(end) and not column.startswith("published")
    }
    for line in lines.astype(object).to_dict("records"):
        of_line = rows_named(line, table)
        if "problem" in line and len(of_line):
            assert set(of_line["problem"]) == {line["problem"]}
        medians = of_line.drop(columns="problem").to_numpy(dtype=float)
        for column, scale in timed.items():
            if pd.notna(line[column]):
                assert len(of_line), (line, column)
                if table.stem not in DERIVED:
                    assert (abs(medians / (scale * line[column]) - 1) < 1e-9).any(), (line, column)
