"""What tables and figures of several devices share: times of a step over so many devices, and their speed-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from repro.artifacts.case import Case, Timed, fastest, median
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import Line, ours
from repro.artifacts.published import Published
from repro.bench.runnable import Clock

CLOCK: Clock = "graph"
#: Said where nothing was measured.
NOTHING = "This campaign ran on one device: there is no time over several."
#: Devices by the word that the published numbers have for them.
NUMBERS = {"two": 2, "four": 4, "eight": 8}
#: The graphs whose speed-ups the paper's text states one by one.
STATED = ("internet", "enron")
#: The ways in which a result gets to all devices, and how tables name them.
WAYS = {"copies": "copies", "stores": "stores", "nccl": "NCCL"}
#: The ways in which that happens during the product.
OVERLAPPED = {"overlapped": "copies", "fused": "stores"}


class Step(NamedTuple):
    """The time of one step of a launch, seconds, and the row that it is of."""

    seconds: float
    row: Mapping[str, Any]

    @property
    def timed(self) -> Timed:
        """The same as tables and their notes take times."""
        return Timed(str(self.row["name"]), self.seconds, self.row["status"] == "noisy", (), self.row)

    @property
    def way(self) -> str:
        """How the result got to all devices."""
        return {**WAYS, **OVERLAPPED}.get(self.row["exchange"], "")

    @property
    def rate(self) -> float:
        """Bytes of a launch over its time, GB/s."""
        return float(1e-9 * self.row["bytes"] / (self.seconds * self.row["steps"]))


@dataclass(frozen=True)
class DeviceTimes:
    """The times over several devices of one problem at one precision.

    Attributes
    ----------
    line, case
        Which.
    rows
        Of the kind `several`, with a time.
    """

    line: Line
    case: Case
    rows: tuple[Mapping[str, Any], ...]

    @property
    def counts(self) -> list[int]:
        """Over how many devices something was timed, beside the one of the baseline."""
        return sorted({int(row["devices"]) for row in self.rows} - {1})

    @property
    def variant(self) -> Timed | None:
        """The fastest of all products of dynamic CSR on one device, whatever its schedule: what a user has there."""
        wanted = ("variant", "product", "dcsr")
        return fastest((row for row in self.case.rows if (row["kind"], row["what"], row["format"]) == wanted), CLOCK)

    def alone(self, devices: int, repeated: bool = True) -> Step | None:
        """Return the product whose result stays distributed: steps that follow each other in a launch, or one."""
        return self._fastest("product", ("none",), devices, repeated)

    def exchanged(self, devices: int) -> Step | None:
        """Return the product whose result is brought to all devices before the next, in the fastest way."""
        return self._fastest("product", tuple(WAYS), devices, True)

    def overlapped(self, devices: int) -> Step | None:
        """Return the product during which results are brought to all devices, in the faster of two ways."""
        return self._fastest("product", tuple(OVERLAPPED), devices, True)

    def exchange(self, devices: int, way: str | None = None) -> Step | None:
        """Return the exchange without a product, in one way or in the fastest."""
        return self._fastest("exchange", (way,) if way else tuple(WAYS), devices, True)

    def speedup(self, step: Step | None, repeated: bool = True) -> float | None:
        """Return how many times faster a step is than the product on one device, launched in the same manner."""
        base = self.alone(1, repeated)
        return base.seconds / step.seconds if base and step else None

    def cost(self, devices: int) -> float | None:
        """Return the share of a step with an exchange, in the fastest way, that is no product alone."""
        alone = self.alone(devices)
        steps = [step for step in (self.exchanged(devices), self.overlapped(devices)) if step]
        if alone is None or not steps:
            return None
        fastest = min(step.seconds for step in steps)
        return 1 - alone.seconds / fastest

    def _fastest(self, what: str, ways: tuple[str, ...], devices: int, repeated: bool) -> Step | None:
        steps = [
            Step(seconds / row["steps"], row)
            for row in self.rows
            if (row["what"], row["devices"], row["steps"] > 1) == (what, devices, repeated)
            and row["exchange"] in ways
            and (seconds := median(row, CLOCK)) is not None
        ]
        return min(steps, key=lambda step: step.seconds, default=None)


def device_times(campaign: Campaign, published: Published, precision: str) -> list[DeviceTimes]:
    """Return all of a campaign at one precision, in the paper's order, then by growing size."""
    return [devices_of(line, Case(campaign, line.problem, precision)) for line in ours(campaign, published)]


def devices_of(line: Line, case: Case) -> DeviceTimes:
    """Return the times of one case."""
    rows = tuple(row for row in case.rows if row["kind"] == "several" and median(row, CLOCK) is not None)
    return DeviceTimes(line, case, rows)


def stated_speedups(published: Published, problem: str | None) -> list[tuple[int, str]]:
    """Return the paper's speed-ups of a problem with iterations within the kernel, by the number of devices."""
    quantities = {f"speedup of {word} GPUs, iterations within the kernel, {problem}": n for word, n in NUMBERS.items()}
    return [
        (quantities[item["quantity"]], item["value"])
        for item in published.tables.get("text", [])
        if problem and item["quantity"] in quantities
    ]


def stated_of_graphs(published: Published) -> str:
    """Return the sentence with the paper's speed-ups of single graphs, empty where nothing is published."""
    words = []
    for problem in STATED:
        points = stated_speedups(published, problem)
        if points:
            words.append(f"{problem} {', '.join(f'{value} over {devices}' for devices, value in points)}")
    return f"Published of Tesla M2090, iterations within the kernel: {'; '.join(words)}." if words else ""
