"""Which steps of a campaign have to be made, and why: the plan held against the receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from repro.campaign.plan import Plan
from repro.campaign.receipts import Receipt, Step, why_stale
from repro.campaign.steps import steps

#: Reasons that a message names; the others are counted.
NAMED = 20
#: Why a step is stale that is so for the sake of another.
AHEAD = "has to be made first"


class Freshness:
    """A campaign as it lies on disk, held against its plan; looked at once, and nothing is written.

    Parameters
    ----------
    plan
        What the campaign should be.
    part
        The steps to look at, each after those that it depends on; None: all.
    """

    def __init__(self, plan: Plan, part: Iterable[Step] | None = None) -> None:
        self._steps = steps(plan) if part is None else [*part]
        read = {step.receipt: Receipt.read(step.receipt) for step in self._steps}
        self._receipts = {path: receipt for path, receipt in read.items() if isinstance(receipt, Receipt)}
        self._damaged = {path: how for path, how in read.items() if isinstance(how, str)}

    @property
    def steps(self) -> Sequence[Step]:
        """All steps that are looked at, in their order."""
        return self._steps

    @property
    def total(self) -> int:
        """How many steps the campaign has."""
        return len(self._steps)

    @cached_property
    def stale(self) -> Mapping[str, str]:
        """By the names of all steps that have to be made, in their order: why."""
        names = {step.receipt: step.name for step in self._steps}
        reasons: dict[str, str] = {}
        for step in self._steps:
            ahead = next((names[path] for path in step.after if names[path] in reasons), None)
            reason = f"{ahead} {AHEAD}" if ahead else why_stale(step, self._receipts, self._damaged)
            if reason:
                reasons[step.name] = reason
        return reasons

    @property
    def stale_outputs(self) -> list[Path]:
        """All that the stale steps write."""
        return [path for step in self._steps if step.name in self.stale for path in step.outputs]

    @cached_property
    def unlike(self) -> Mapping[str, str]:
        """Of the stale steps those that are not what the plan asks for: neither failed nor made from what failed."""
        failed = {receipt.step for receipt in self._receipts.values() if receipt.failed}
        return {
            name: reason for name, reason in self.stale.items() if name not in failed and not reason.endswith(AHEAD)
        }

    @cached_property
    def outdated(self) -> Mapping[str, str]:
        """Of the stale steps those with outputs that have to be made again: what Snakemake would take for made."""
        return {
            step.name: self.stale[step.name]
            for step in self._steps
            if step.name in self.stale and any(path.exists() for path in step.outputs)
        }

    def described(self) -> list[str]:
        """Return what is outdated and why, those of one reason on one line; what only follows from them is counted."""
        by_reason: dict[str, list[str]] = {}
        follow = 0
        for name, reason in self.outdated.items():
            if reason.endswith(AHEAD):
                follow += 1
            else:
                by_reason.setdefault(reason, []).append(name)
        lines = [
            f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
            for reason, names in by_reason.items()
        ]
        if len(lines) > NAMED:
            lines[NAMED:] = [f"and {len(lines) - NAMED} more reasons"]
        return [*lines, *([f"and {follow} more, which are made from what is made again"] if follow else [])]
