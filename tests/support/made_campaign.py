"""A campaign whose steps are said to be made: every output is there, with a receipt, and nothing was measured."""

from __future__ import annotations

from typing import Any

from repro.campaign.configuration import resolve
from repro.campaign.plan import Plan, make_plan
from repro.campaign.receipts import record_step
from repro.campaign.steps import steps


def plan_of(study: dict[str, Any] | None = None, **keys: Any) -> Plan:
    """Plan a campaign of one small problem and one layout on the CPU."""
    small = {"problems": ["dirac_torus"], "precisions": ["single"], "layouts": ["CSR-AoS-AoS"]}
    return make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": small | (study or {})}, **keys}))


def make_all(plan: Plan) -> None:
    """Write the outputs that are not there, and the receipts of all steps."""
    for step in steps(plan):
        for path in step.outputs:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{step.name} {path.name}")
        with record_step(step):
            pass
