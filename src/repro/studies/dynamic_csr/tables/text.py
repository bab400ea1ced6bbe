"""What the paper's text states of all its graphs, beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Literal

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import Line, context, measured_on, ours, sentences, unavailable
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.device_times import devices_of
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of, timed
from repro.studies.dynamic_csr.over_hybrid import iterative, streamed
from repro.studies.dynamic_csr.paper import PAPER, PRODUCTS, STUDY
from repro.studies.dynamic_csr.printed import stated
from repro.studies.dynamic_csr.product_times import ADAPTIVE, DEFRAGMENTED, FRAGMENTED, ProductTimes, times_of
from repro.studies.dynamic_csr.product_times import CLOCK as PRODUCT_CLOCK
from repro.studies.dynamic_csr.shared_cells import facts_of, printed
from repro.studies.dynamic_csr.update_times import DCSR, sweeps_of

STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "largest": max}


@dataclass(frozen=True)
class Graphs:
    """The graphs of a campaign.

    Attributes
    ----------
    campaign
        Which.
    lines
        Of those whose batches are of one size, as the paper's are.
    """

    campaign: Campaign
    lines: list[Line]

    def cases(self, precision: str | None = None) -> Iterable[tuple[Line, Case]]:
        """Return each graph with its case, in a precision or in the one that updates are printed in."""
        precision = precision or precision_of(self.campaign)
        return [(line, Case(self.campaign, line.problem, precision)) for line in self.lines]

    def products(self) -> Iterable[ProductTimes]:
        """Return the products of each graph in each precision."""
        return [times_of(line, of, self.campaign) for of in self.campaign.precisions for line in self.lines]


Numbers = Iterable[float | None]


@dataclass(frozen=True)
class Statement:
    """One line.

    Attributes
    ----------
    what
        As printed.
    published, precision
        By which the paper's number is found.
    measure
        Returns ours, of each graph.
    statistic
        What is printed of them.
    """

    what: str
    published: str
    measure: Callable[[Graphs], Numbers]
    statistic: Literal["mean", "largest"] = "mean"
    precision: str = ""


def _by_case(number: Callable[[Case], float | None], graphs: Graphs) -> Numbers:
    return (number(case) for _, case in graphs.cases())


def _by_product(first: str, second: str, graphs: Graphs) -> Numbers:
    """Return the first of two times over the second, of each graph and precision."""
    return (ratio_of(getattr(times, first), getattr(times, second)) for times in graphs.products())


def _by_order(graphs: Graphs) -> Numbers:
    """Return the adaptive product in the order of the matrix's rows over the one in that of their sizes."""
    return (ratio_of(*(_streams(times.case, of) for of in ("defragmented", "sorted"))) for times in graphs.products())


def _streams(case: Case, state: str) -> Timed | None:
    asked = {"what": "product", "space": "paper", "schedule": "streams", "state": state}
    return fastest([row for row in case.rows if asked.items() <= row.items()], PRODUCT_CLOCK)


def _over_sort(case: Case) -> float | None:
    return ratio_of(timed(case, what="sort", format="hyb"), timed(case, what="defragment", format="dcsr"))


def _memory(graphs: Graphs) -> Numbers:
    counted = [facts_of(line).get("memory", {}).get("paper") for line in graphs.lines]
    return (sizes["DCSR-4"] / sizes["HYB"] for sizes in counted if sizes and sizes["HYB"])


def _on_two(precision: str, graphs: Graphs) -> Numbers:
    """Return the speedups of a launch each on two devices, without an exchange."""
    times = (devices_of(line, case) for line, case in graphs.cases(precision))
    return (of.speedup(of.alone(2, repeated=False), repeated=False) for of in times)


_STREAMED = partial(_by_case, lambda case: ratio_of(*streamed("sorted")(case)))
_ITERATED = partial(_by_case, lambda case: ratio_of(*iterative(DCSR)(case)))
_TWO = "speedup of two GPUs, mean"
STATEMENTS = (
    Statement("streaming updates: speedup over HYB, mean", "speedup of streaming updates over HYB, mean", _STREAMED),
    Statement("streaming updates: speedup over HYB, largest", "speedup of streaming updates over HYB, largest",
              _STREAMED, "largest"),
    Statement("iterative updates: speedup over HYB, largest", "speedup of iterative updates over HYB, largest",
              _ITERATED, "largest"),
    Statement("defragmentation: speedup over the sort of HYB, mean",
              "speedup of defragmentation over the sort of HYB, mean", partial(_by_case, _over_sort)),
    Statement("product: time of fragmented over defragmented, mean", FRAGMENTED,
              partial(_by_product, "fragmented", "defragmented")),
    Statement("product: time of defragmented over CSR, mean", DEFRAGMENTED,
              partial(_by_product, "defragmented", "csr")),
    Statement("product: speedup of ADCSR over HYB, mean", ADAPTIVE, partial(_by_product, "hyb", "adaptive")),
    Statement("product: speedup of ADCSR by rows in the order of their sizes, mean",
              "speedup of the product by rows in the order of their sizes", _by_order),
    Statement("memory: four segments a row over HYB, mean", "memory of four segments over HYB, mean", _memory),
    Statement("product on two devices: speedup in single precision, mean", _TWO, partial(_on_two, "single"),
              precision="single"),
    Statement("product on two devices: speedup in double precision, mean", _TWO, partial(_on_two, "double"),
              precision="double"),
)  # fmt: skip


@table(STUDY, "table-text", title="What the paper’s text states, beside ours", numbering=f"text of {PAPER}")
def text(campaign: Campaign, published: Published) -> Table:
    """A line a statement: the paper's number, ours, and the least and the largest of ours."""
    sweeps = {sweep.line.problem for sweep in sweeps_of(campaign, published)}
    graphs = Graphs(campaign, [line for line in ours(campaign, published) if line.problem not in sweeps])
    columns = (
        Column("statement", "statement", numeric=False),
        Column("published", "K20c", "published"),
        Column("ours", "ours", campaign.column),
        Column("least", "least", campaign.column),
        Column("largest", "largest", campaign.column),
        Column("cases", "cases", campaign.column),
    )
    caption = [
        f"What the text of {PAPER} states of all its graphs, and the same of ours; graphs whose batches are of growing",
        "sizes are not among them. Streaming: the whole matrix as one batch, by row, into an empty one, HYB’s sort",
        f"included. Iterative: batches, each followed by {PRODUCTS} products, as in Figure 5.3. Products: by the",
        "paper’s schedules, each with the best number of threads a row, ADCSR in its best state; a case is a graph in",
        "a precision. In the order of their sizes: ADCSR, defragmented, over the same with its rows stored by size.",
        "Memory: counted as the paper does, before the first batch; it depends on no device. Two devices: a launch",
        "each, without an exchange.",
        f"Updates and defragmentation: {precision_of(campaign)} precision; the paper does not say in which.",
        measured_on(campaign, CLOCK),
        f"Products, also on two devices: by the {PRODUCT_CLOCK} clock.",
        context(campaign),
        unavailable(campaign),
    ]
    return Table(columns, [_row(item, graphs, published) for item in STATEMENTS], sentences(caption))


def _row(item: Statement, graphs: Graphs, published: Published) -> tuple[Cell, ...]:
    record = stated(published, item.published, item.precision)
    theirs = printed(record["value"] if record else None)
    numbers = [number for number in item.measure(graphs) if number is not None]
    if not numbers:
        return (Cell(item.what), theirs, Cell(notes=("of no graph was this measured",)), Cell(), Cell(), Cell(0))
    values = (STATISTICS[item.statistic](numbers), min(numbers), max(numbers))
    return (Cell(item.what), theirs, *(Cell(value, f"{value:.2f}") for value in values), Cell(len(numbers)))
