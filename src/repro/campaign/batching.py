"""Making what has to be made of a case, or of a batch of them, with its receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from repro.campaign.completeness import find_missing_of_case
from repro.campaign.freshness import Freshness
from repro.campaign.measuring import environments_of
from repro.campaign.plan import Plan
from repro.campaign.receipts import making
from repro.campaign.steps import building, measuring, until_measured


@contextmanager
def making_case(plan: Plan, study: str, problem: str, precision: str) -> Iterator[None]:
    """Let the body measure a case, and write the receipt of it in the end, which names what failed.

    Parameters
    ----------
    plan
        Of the campaign, or of its part that has the case.
    """
    step = measuring(plan, study, problem, precision)
    with making(step) as made:
        yield
        made.also(*environments_of(step.outputs))
        for part in find_missing_of_case(plan, study, problem, precision):
            if not part.remark:
                made.failed(part.reason)


def stale_problems(plan: Plan, problems: Sequence[str]) -> list[str]:
    """Return those of some problems that have to be built."""
    stale = Freshness(plan, [building(plan, name) for name in problems]).stale
    return [name for name in problems if f"problem {name}" in stale]


def stale_cases(plan: Plan, study: str, precision: str, problems: Sequence[str]) -> list[str]:
    """Return those of some problems that have to be measured in a study and a precision."""
    stale = Freshness(plan, until_measured(plan)).stale
    return [name for name in problems if measuring(plan, study, name, precision).name in stale]
