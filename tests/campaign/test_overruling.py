"""Receipts replace Snakemake's file times: which jobs are forced, and which outputs Snakemake does not compare."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.campaign.workflow import overrule


class Graph:
    """What Snakemake has of jobs, as far as it is overruled."""

    def __init__(self) -> None:
        self.forcefiles = {"incomplete"}
        self.judged: list[str] = []

    async def check_output_mtime(self, job: str, outputs: list[str]) -> None:
        self.judged.append(job)


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    plan = SimpleNamespace(results="results/mine", figures="figures/mine")
    overrule(graph, plan, [Path("results/mine/tables/a.csv"), "results/mine/batches/0000"])
    return graph


def test_what_is_stale_is_forced_beside_what_is_so_already(graph: Graph) -> None:
    assert graph.forcefiles == {"incomplete", "results/mine/tables/a.csv", "results/mine/batches/0000"}


@pytest.mark.parametrize(
    ("outputs", "judged"),
    [
        (["results/mine/report.html"], False),
        (["figures/mine/a.pdf", "figures/mine/a.svg"], False),
        (["modules/cpu/common.json"], False),
        (["results/mine_too/report.html"], True),
        (["results/mine/report.html", "elsewhere"], True),
    ],
)
def test_jobs_of_other_workflows_are_judged_as_ever(graph: Graph, outputs: list[str], judged: bool) -> None:
    asyncio.run(graph.check_output_mtime("it", outputs))
    assert graph.judged == (["it"] if judged else [])
