"""Numbers of recorded tables lead to the recorded rows that they are from, by the column `keys`."""

from pathlib import Path

import pandas as pd
import pytest

from repro.bench.recorded import read_rows

#: A profiler's rows have no key: their table has what they are known by.
TABLES = sorted(path for path in Path("results").glob("h200*/tables/*/*.csv") if path.stem != "table-counters")
MEDIANS = ["event_median", "graph_median", "host_median"]
#: The ends of columns with a time that is a row's own median, and what it is in seconds.
TIMES = {"_us": 1e-6, "_ms": 1e-3}
#: Times in these are sums over rows, stages of one, or a row's over a number of its own.
DERIVED = ("table-phases", "table-levels", "table-setup", "table-solve", "table-crossover", "table-devices",
           "table-exchange")  # fmt: skip


def rows_of(table: Path) -> pd.DataFrame:
    """Return all rows of a table's study by their keys."""
    raw = table.parents[2] / "raw" / table.parent.name
    columns = ["key", "problem", *MEDIANS]
    return pd.concat([read_rows(raw, step).select(columns).to_pandas() for step in ("search", "report")]).set_index(
        "key"
    )


@pytest.fixture(scope="module")
def recorded() -> dict[Path, pd.DataFrame]:
    return {folder: rows_of(folder / "any") for folder in {table.parent for table in TABLES}}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: "/".join(table.parts[1:]))
def test_every_time_of_a_line_is_one_of_a_row_that_the_line_names(table: Path, recorded) -> None:
    rows = recorded[table.parent]
    lines = pd.read_csv(table, dtype={"keys": str})
    timed = {
        column: scale
        for column in lines.columns
        for end, scale in TIMES.items()
        if column.endswith(end) and not column.startswith("published")
    }
    for line in lines.to_dict("records"):
        keys = [] if pd.isna(line["keys"]) else line["keys"].split()
        of_line = rows.loc[keys]  # KeyError: there is no such row
        if "problem" in line and keys:
            assert set(of_line["problem"]) == {line["problem"]}
        medians = of_line[MEDIANS].to_numpy(dtype=float)
        for column, scale in timed.items():
            if pd.notna(line[column]):
                assert keys, (line, column)
                if table.stem not in DERIVED:
                    assert (abs(medians / (scale * line[column]) - 1) < 1e-9).any(), (line, column)
