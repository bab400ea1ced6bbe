"""How many processes take turns at a GPU: one that packs an operand on the host lends it, and another one measures."""

from __future__ import annotations

from repro.campaign.plan import Plan
from repro.studies import get_study


def turns_at(plan: Plan, study: str, limit: int | None) -> int:
    """Return how many processes that measure cases of a study take turns at the devices.

    Parameters
    ----------
    limit
        GPUs that all jobs of this machine may claim at a time, Snakemake's resource `gpu`; None where nobody says, or
        where a cluster gives each job its own.
    """
    return _at_once(plan, limit) if get_study(study).lends else 1


def claimed(plan: Plan, study: str, limit: int | None) -> int:
    """Return how many GPUs a job claims that measures cases of a study.

    One of a study that lends nothing leaves room for one other job at the most: some of its times are by the host's
    clock, and those who pack keep the host busy.

    Parameters
    ----------
    limit
        As for `turns_at`.
    """
    return plan.gpus * (1 if get_study(study).lends else max(1, _at_once(plan, limit) - 1))


def _at_once(plan: Plan, limit: int | None) -> int:
    return max(1, limit // plan.gpus) if plan.on_gpu and limit else 1
