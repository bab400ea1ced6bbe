"""What the pages say of a repeated campaign, and of one on a slower machine, is what `repro compare` prints of it."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from statistics import geometric_mean

import pandas as pd
import pytest

from repro.cli.results import compare

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The outputs of the commands that the page names, run where it says."""
    return [_printed(command) for command in commands()]


def _printed(command: str) -> str:
    program, name, first, second = command.split()
    assert (program, name) == ("repro", "compare")
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.chdir(ROOT)
        compare(first, second)
    return out.getvalue()


def section() -> str:
    text = (ROOT / "docs/reading-the-tables.md").read_text()
    return text.partition("### From run to run\n")[2].partition("\n### ")[0]


def commands() -> list[str]:
    """Return the command of a repetition, and that of another machine."""
    lines = [line.strip() for line in section().splitlines() if line.startswith("    repro ")]
    assert len(lines) == 2
    return lines


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("which", "end", "count"),
    [(0, "Small matrices", 20), (1, "An empty kernel", 8)],
    ids=["repetition", "slower-machine"],
)
def test_every_number_of_a_paragraph_is_printed_by_its_command(
    which: int, end: str, count: int, printed: list[str]
) -> None:
    prose = section().partition(commands()[which])[2].partition(end)[0]
    said = re.findall(r"\d+(?:\.\d+)?", prose)
    assert len(said) >= count
    shown = set(re.findall(r"\d+(?:\.\d+)?", printed[which]))
    assert [number for number in said if number not in shown] == []


@pytest.mark.exhaustive
@pytest.mark.wording
def test_the_choices_are_those_that_are_printed(printed: list[str]) -> None:
    prose = " ".join(section().split())
    [choices] = re.findall(
        r"winners: (\d+) choices in both; (\d+) are the same variant, (\d+) a tie, (\d+) apart", printed[0]
    )
    assert "Of {} choices, {} are the same variant, {} a tie and {} another one".format(*choices) in prose


def test_what_the_slower_machine_adds_is_that_of_the_rows() -> None:
    keys = ["problem", "precision", "kind", "name", "cache"]
    first, last = (
        pd.read_parquet(ROOT / f"results/{campaign}/raw/compound_spmv/report.parquet", columns=[*keys, "graph_median"])
        for campaign in ("first-h200", "h200")
    )
    both = first.merge(last, on=keys, suffixes=("_first", "_last")).dropna()
    before, now = (1e6 * both[f"graph_median_{name}"] for name in ("first", "last"))
    empty, kernels = both["kind"] == "empty", ~both["kind"].isin(["empty", "copy"])
    short, long = kernels & (before < 10), kernels & (before >= 40)
    [(empty_now, empty_before, longer, percent)] = re.findall(
        r"takes ([\d.]+) µs there and ([\d.]+) µs on the first machine \(graph clock\)\. Kernels below 10 µs "
        r"take ([\d.]+) µs longer \(median\), and kernels of 40 µs or more ([\d.]+) % longer",
        " ".join(section().split()),
    )
    assert empty_now == f"{now[empty].median():.2f}" and empty_before == f"{before[empty].median():.2f}"
    assert longer == f"{(now - before)[short].median():.2f}"
    assert percent == f"{100 * (geometric_mean((now / before)[long]) - 1):.1f}"


def test_the_results_round_what_is_printed(printed: list[str]) -> None:
    [(low, high)] = re.findall(r"of 95 % of the rows from ([\d.]+) to ([\d.]+)", printed[0])
    prose = " ".join((ROOT / "docs/results.md").read_text().split())
    [within] = re.findall(r"In two earlier runs, on other H200s, 95 % of the times were within (\d+) %", prose)
    assert 1 - int(within) / 100 <= float(low) and float(high) <= 1 + int(within) / 100
    assert 1 - (int(within) - 1) / 100 > float(low) or float(high) > 1 + (int(within) - 1) / 100
