"""Table 4.1: the paper's machine beside the device of the campaign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.artifacts.cells import digits
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.paper import PAPER, STUDY
from repro.studies.dg_postprocessing.peak import peak_of
from repro.studies.dg_postprocessing.width_times import CLOCK

NOT_SAID = "the device does not say"
KILO, MEGA, GIGA = 1e3, 1e6, 1e9


@table(STUDY, "table-4-1", title="The machine", numbering=f"Table 4.1 of {PAPER}")
def machine(campaign: Campaign, published: Published) -> Table:
    """A line a property: the paper's CPU, its GPU, and the device of the campaign."""
    records = published.tables.get("machine", [])
    cpu, gpu = next(((item["cpu"], item["value"]) for item in records if item["quantity"] == "model"), ("", ""))
    columns = (
        Column("quantity", "", numeric=False),
        Column("unit", "unit", numeric=False),
        Column("cpu", cpu, "published"),
        Column("gpu", gpu, "published"),
        Column("ours", campaign.column, "ours"),
    )
    measured = _measured(campaign)
    rows = []
    for item in records:
        if item["quantity"] == "model":
            continue
        value = measured.get(item["quantity"])
        if value is None:
            cell = Cell(notes=(NOT_SAID,))
        else:
            cell = Cell(value, f"{value:.0f}" if value.is_integer() else digits(value))
        head = Cell(item["quantity"]), Cell(item["unit"])
        rows.append((*head, *(Cell(float(item[key]), item[key]) for key in ("cpu", "value")), cell))
    caption = [
        "Published: as printed. Ours: what the device says of itself, the cache its last level; its bandwidth is that",
        "of the fastest copy of the campaign, which reads and writes, and no peak. Clock: the highest; peak: of two",
        "operations a cycle and a lane for double precision. The text has CUDA 5.0 in one place, nvcc 5.5 in another.",
    ]
    return Table(columns, rows, sentences(caption))


def _measured(campaign: Campaign) -> dict[str, float | None]:
    """Return what is known of the campaign's device, by the quantities of the paper's table."""
    record: Mapping[str, Any] = next(iter(campaign.environments.values()), {})
    copies = campaign.report[(campaign.report["kind"] == "copy") & (campaign.report["status"] == "ok")]
    speeds = (copies["bytes"] / copies[f"{CLOCK}_median"]).dropna()
    cache = record.get("cache_bytes")
    multiprocessors, clock, peak = record.get("multiprocessors"), record.get("max_sm_clock_mhz"), peak_of(record)
    return {
        "multiprocessors": float(multiprocessors) if multiprocessors else None,
        "clock": clock / KILO if clock else None,
        "cache": cache / MEGA if cache else None,
        "peak, double precision": peak / KILO if peak else None,
        "bandwidth": float(speeds.max()) / GIGA if len(speeds) else None,
    }
