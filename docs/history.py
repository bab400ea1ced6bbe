"""The headline number of each study in each record, in the order in which they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import code_of, read_commits, read_environments
from repro.bench.store import read_rows
from repro.results.significance import geometric_mean
from repro.studies import get_study

RESULTS = Path(__file__).parents[1] / "results"


def history(study: str) -> str:
    """Return the headline numbers of a study as Markdown, a line for each recorded campaign that has one."""
    result = get_study(study).result
    lines = []
    for path in sorted(RESULTS.glob(f"*/tables/{study}/{result['table']}.csv")):
        folder = CampaignFolder.of(path.parents[2].name, RESULTS)
        number, note = _headline(pd.read_csv(path), result)
        rows = read_rows(folder.study(study), "report").to_pandas()
        if number is None or rows.empty:
            continue
        rows = rows.sort_values("measured_at")
        environments = read_environments(folder)
        used = {name: environments[name] for name in rows["environment"].unique()[::-1]}
        last, *others = code_of(used, read_commits(folder))
        code = last.removeprefix("commit ") + (f" and {len(others)} earlier" if others else "")
        campaign = f"[{path.parents[2].name}](../results/{path.parents[2].name}/tables)"
        device = ", ".join(rows["device"].dropna().unique()).replace("NVIDIA ", "")
        lines.append([rows["measured_at"].iloc[-1][:10], f"{number:.2f}{note}", device, campaign, code])
    head = ["measured until", "speedup", "GPU", "campaign", "code"]
    table = [head, ["---", "---:", "---", "---", "---"], *sorted(lines)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in table)


def _headline(table: pd.DataFrame, result: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return the number of a table that a study names, or that of the papers' kernels alone, with a mark.

    The geometric mean below the lines of a table is not in its CSV.
    """
    if result["row"] == "geometric mean":
        return geometric_mean(table[result["column"]].dropna()), ""
    lines = table[table.iloc[:, 0].astype(str).str.startswith(result["row"])]
    for column, note in ((result["column"], ""), (result.get("fallback_column"), " †")):
        if column in table and len(values := lines[column].dropna()):
            return float(values.iloc[0]), note
    return None, ""
