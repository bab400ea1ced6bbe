"""Which kernels were chosen for the bins of a product, and the choices themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from repro.bench.rows import Row
from repro.codegen.targets import Target
from repro.sparse.spgemm.plan import Plan, plan_for_any, plan_products
from repro.studies.spgemm_amg.paper import ProductName
from repro.studies.spgemm_amg.variant_id import BinMode, KernelId, Shape
from repro.tuning.choose import Choice, pick

#: The clock that kernels of bins are chosen by: the one that they have.
CLOCK = "event"
#: The tuning that a case is counted by: what most rows of the first product of the set-up are in; where there is no
#: set-up, those of A A.
HEADLINE = "headline"


@dataclass(frozen=True)
class Plans:
    """What was chosen for the rows of one product.

    Attributes
    ----------
    shapes
        By mode and bin; what is not there is done as is expected to be best.
    """

    shapes: Mapping[tuple[BinMode, int], Shape] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(f"{mode}/{bin}/{shape}" for (mode, bin), shape in sorted(self.shapes.items(), key=str))

    def on(self, target: Target, scalar_bytes: int, mode: BinMode) -> Plan:
        """Return the plan for rows that are binned by their products, or by their entries."""
        usual = plan_products(target, scalar_bytes) if mode == "one" else plan_for_any(target, scalar_bytes)
        return Plan(tuple(self.shapes.get((mode, bin), shape) for bin, shape in enumerate(usual.shapes)))


def tuning_of(product: ProductName, mode: BinMode, bin: int) -> str:
    """Return the name of a choice: `AP/one/b1`."""
    return f"{product}/{mode}/b{bin}"


def choose_kernels(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return the fastest kernel of each bin of each product, of the paper's (`paper/AP/one/b1`) and of all."""

    def asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        tunings: dict[str, list[Row]] = {}
        for row in timed:
            tuning = tuning_of(row["product"], row["mode"], row["bin"])
            tunings.setdefault(tuning, []).append(row)
            if row.space == "paper":
                tunings.setdefault(f"paper/{tuning}", []).append(row)
        main = _main_bin(timed)
        return {HEADLINE: main, **tunings} if main else tunings

    return pick([row for row in rows if row["what"] == "bin"], tie, asked)


def _main_bin(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of the bin that most of a product is in, in one phase: of A P, or of A A."""
    in_one = [row for row in rows if row["mode"] == "one" and row["product"] in ("AP", "AA")]
    of_first = [row for row in in_one if row["product"] == "AP"] or in_one
    most = max((row["products"] or 0 for row in of_first), default=0)
    return [row for row in of_first if row["products"] == most]


def plans_of(choices: Iterable[Choice]) -> dict[ProductName, Plans]:
    """Return what was chosen, product by product."""
    shapes: dict[ProductName, dict[tuple[BinMode, int], Shape]] = {}
    for choice in choices:
        id = KernelId.parse(choice.name)
        if choice.clock == CLOCK and choice.tuning == tuning_of(id.product, id.mode, id.bin):
            shapes.setdefault(id.product, {})[id.mode, id.bin] = id.shape
    return {product: Plans(of_bins) for product, of_bins in shapes.items()}
