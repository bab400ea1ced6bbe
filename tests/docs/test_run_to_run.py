"""What the pages say of a repeated campaign is what `repro compare` prints of it."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repro.cli.comparing import compare

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def printed() -> str:
    """The output of the command that the page names, run where it says."""
    program, name, first, second = command().split()
    assert (program, name) == ("repro", "compare")
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.chdir(ROOT)
        compare(first, second)
    return out.getvalue()


def paragraph() -> str:
    text = (ROOT / "docs/reading-the-tables.md").read_text()
    return text.partition("### From run to run\n")[2].partition("\n### ")[0]


def command() -> str:
    [line] = [line.strip() for line in paragraph().splitlines() if line.startswith("    repro ")]
    return line


def test_every_number_of_the_paragraph_is_printed_by_its_command(printed: str) -> None:
    prose = paragraph().partition(command())[2].partition("So a time of")[0]
    said = re.findall(r"\d+(?:\.\d+)?", prose)
    assert len(said) >= 18
    shown = set(re.findall(r"\d+(?:\.\d+)?", printed))
    assert [number for number in said if number not in shown] == []


def test_the_choices_are_those_that_are_printed(printed: str) -> None:
    prose = " ".join(paragraph().split())
    [choices] = re.findall(
        r"winners: (\d+) choices in both; (\d+) are the same variant, (\d+) a tie, (\d+) apart", printed
    )
    assert "of {} choices {} are the same variant again, {} a tie and {} another one".format(*choices) in prose


def mean_speedup(campaign: str) -> float:
    """Return how many times faster than the library's best the choice of all variants is, by the graph clock, warm."""
    folder = ROOT / "results" / campaign / "raw/compound_spmv"
    case = ["problem", "precision"]
    rows = pd.read_parquet(folder / "report.parquet").query("cache == 'warm'")
    chosen = pd.read_parquet(folder / "choices.parquet").query("tuning == 'extended' and clock == 'graph'")
    ours = chosen[[*case, "name"]].merge(rows, on=[*case, "name"]).set_index(case)["graph_median"]
    routines = rows[(rows["kind"] == "baseline") & ~rows["name"].str.contains("@")]  # in the order that it came in
    return float(np.exp(np.log(routines.groupby(case)["graph_median"].min() / ours).mean()))


def test_the_means_that_differ_are_those_of_the_rows() -> None:
    [(second, first)] = re.findall(
        r"([\d.]+) times as fast as cuSPARSE by the graph clock, where that in `results/h200` is ([\d.]+) times",
        " ".join(paragraph().split()),
    )
    assert (first, second) == (f"{mean_speedup('h200'):.2f}", f"{mean_speedup('repeat-h200'):.2f}")


def test_the_readme_rounds_what_is_printed(printed: str) -> None:
    [(low, high)] = re.findall(r"of 95 % of the rows from ([\d.]+) to ([\d.]+)", printed)
    [within] = re.findall(r"On another H200 95 % of the times were within (\d+) %", (ROOT / "README.md").read_text())
    assert 1 - int(within) / 100 <= float(low) and float(high) <= 1 + int(within) / 100
    assert 1 - (int(within) - 1) / 100 > float(low) or float(high) > 1 + (int(within) - 1) / 100
