"""The speedups of the recorded campaign by each clock, computed here a second time from its rows alone."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

TABLES, RAW = (Path(f"results/h200/{folder}/compound_spmv") for folder in ("tables", "raw"))
CASE = ["problem", "precision"]


def speedups(clock: str, cache: str, chosen_by: str) -> pd.Series:
    """Return the fastest routine's time over that of what was chosen, case by case."""
    rows, choices = (pd.read_parquet(RAW / f"{step}.parquet") for step in ("report", "choices"))
    rows = rows[(rows["cache"] == cache) & rows["status"].isin(["ok", "noisy"])]
    chosen = choices[(choices["tuning"] == "extended") & (choices["clock"] == chosen_by)]
    ours = rows[rows["kind"] == "variant"].merge(chosen[[*CASE, "name"]], on=[*CASE, "name"])
    library = rows[(rows["kind"] == "baseline") & (rows["ordering"] == "natural")]
    return library.groupby(CASE)[f"{clock}_median"].min() / ours.set_index(CASE)[f"{clock}_median"]


@pytest.mark.parametrize(
    ("clock", "cache", "chosen_by", "words"),
    [
        ("graph", "warm", "graph", "graph clock"),
        ("event", "warm", "event", "event clock"),
        ("event", "cold", "graph", "cold cache, event clock"),
    ],
)
def test_speedups_by_each_clock(clock: str, cache: str, chosen_by: str, words: str) -> None:
    table = pd.read_csv(TABLES / "table-targets.csv").set_index("target")["ours"]
    values = speedups(clock, cache, chosen_by)
    assert len(values) == 36 and not values.isna().any()
    head = f"speedup over the fastest routine, {words}:"
    assert table[f"{head} geometric mean"] == pytest.approx(np.exp(np.log(values).mean()))
    assert table[f"{head} worst case"] == pytest.approx(values.min())
    line = pd.read_csv(TABLES / "table-problems.csv").set_index("problem")["notes"]
    added = line[line.astype(str).str.contains("of no paper")].index
    theirs = values[~values.index.get_level_values("problem").isin(added)]
    assert len(theirs) == 22
    assert table[f"{head} geometric mean, the papers’ own problems"] == pytest.approx(np.exp(np.log(theirs).mean()))
