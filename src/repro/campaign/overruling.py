"""Snakemake's judgement of what has to be made, overruled by the receipts'.

Snakemake judges by times of files: a stale output that is dated 1970 is up to date to it, and a job fails whose inputs
are dated later than its outputs, which get the time of the clock. So jobs with a stale step are forced, as by
`--forcerun`, and no times are looked at when one has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from repro.campaign.plan import Plan
from repro.codegen.compile import MODULES


def overrule(dag: Any, plan: Plan, forced: Iterable[Path | str]) -> None:
    """Let a graph of jobs run those that write what is forced, and judge none of a campaign by times.

    Parameters
    ----------
    dag
        Snakemake's, before it looks what has to be run. Where the campaign is a module of another workflow it holds
        that one's jobs too, which are judged as ever.
    plan
        Of the campaign.
    forced
        Outputs of stale steps, and files of their batches. Unlike those of `--forcerun` they are no targets: of a run
        that asks for one table no other is made.
    """
    dag.forcefiles.update(map(str, forced))
    folders = (f"{plan.results}/", f"{plan.figures}/", f"{MODULES}/")
    judge = dag.check_output_mtime

    async def judge_others(job: Any, outputs: Sequence[Path | str]) -> None:
        if not all(str(path).startswith(folders) for path in outputs):
            await judge(job, outputs)

    dag.check_output_mtime = judge_others
