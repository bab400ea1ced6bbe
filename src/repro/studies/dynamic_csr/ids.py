"""The id of a product (format, state and schedule), the space of all products, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from repro.bench.rows import TIMED, RecordedRow, Row
from repro.bench.variant_id import BaseId, SearchPoint
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.sparse.dynamic.schedules import Schedule, schedules
from repro.studies.dynamic_csr.operands import STATES, State
from repro.tuning.search import Choice, pick
from repro.words import EXTENDED, PAPER, PAPER_TUNED, TUNED, Space


class DynamicRow(RecordedRow):
    """A row of a product, an update, a conversion, a primitive, or a step over several devices."""

    what: str | None
    format: str | None
    state: str | None
    schedule: str | None
    width: int | None
    per_thread: int | None
    unroll: int | None
    load: str | None
    exact: bool | None
    routine: str | None
    representation: str | None
    papers_choice: bool | None
    matrix_bytes: int | None
    ordering: str | None
    segments: int | None
    slack: int | None
    #: For published updates: the interpretation of the incomplete text, one of `READINGS`.
    reading: str | None
    #: Number of defragmentations during the update.
    defragmentations: int | None
    mode: str | None
    order: str | None
    #: Entries per batch; the mean if a launch inserts several batches.
    batch: int | None
    to_format: str | None
    devices: int | None
    exchange: str | None
    steps: int | None
    #: Seconds of each stage of a launch.
    stage_update: float | None
    stage_sort: float | None


ProductFormat = Literal["dcsr", "csr"]
#: Threads per row in the paper's products with the schedule `vector`.
PAPERS_WIDTH = 4
#: Maximum mean number of entries per thread that we try; threads per row are also at most twice the mean row size.
MAX_ENTRIES_PER_THREAD = 32


@dataclass(frozen=True)
class ProductId(BaseId):
    """A format in a state with a schedule, spelt `dcsr-fragmented/vector-w8-u2`, `csr/vector-w8`.

    CSR has no states; its rows never have free space, so CSR's schedules are not marked as exact.
    """

    format: ProductFormat
    state: State | None
    schedule: Schedule

    def __str__(self) -> str:
        return f"{self.format}-{self.state}/{self.schedule}" if self.state else f"{self.format}/{self.schedule}"

    @classmethod
    def _read(cls, text: str) -> ProductId:
        format_text, _, schedule_text = text.partition("/")
        states = {"csr": None, **{f"dcsr-{state}": state for state in STATES}}
        if format_text not in states:
            raise ReproError(
                "unknown format or state of a product", expected=f"one of {', '.join(states)}", actual=format_text
            )
        state = states[format_text]
        # chunks require exact segments; CSR rows always are, so its names omit it
        is_default = state is None and schedule_text.startswith("chunks") and not schedule_text.endswith("exact")
        schedule = Schedule.parse(f"{schedule_text}-exact" if is_default else schedule_text)
        id = cls("dcsr" if state else "csr", state, replace(schedule, exact=False) if is_default else schedule)
        if not id.is_possible:
            raise ReproError("unknown product", expected="a schedule that fits the state", actual=text)
        return id

    @property
    def is_possible(self) -> bool:
        """Whether the state fits the schedule, which may require exact segments (without free space) or sorted rows."""
        kind, exact = self.schedule.kind, self.schedule.exact
        if self.format == "csr":
            return kind in ("vector", "mixed", "chunks") and not exact
        if kind == "chunks":
            return exact and self.state == "defragmented"
        if kind in ("vector", "mixed"):
            return self.state != "sorted" and not (exact and self.state == "fragmented")
        return not exact or (kind == "adaptive" and self.state != "fragmented")

    @property
    def space(self) -> Space:
        """`paper` for four threads per row as in the paper's code (its text states no number), or the paper's bins."""
        if not self.schedule.is_papers:
            return EXTENDED
        return PAPER if self.schedule.width in (0, PAPERS_WIDTH) else PAPER_TUNED

    @property
    def columns(self) -> dict[str, Any]:
        """Recorded columns of the product: all parts of the id."""
        schedule = self.schedule
        return {
            "what": "product",
            "format": self.format,
            "state": self.state,
            "schedule": schedule.kind,
            "width": schedule.width or None,
            "per_thread": schedule.per_thread or None,
            "unroll": schedule.in_flight,
            "load": schedule.load,
            "exact": schedule.exact,
        }

    @property
    def point(self) -> SearchPoint:
        """The variant's position in its space: words, and binary logarithms of sizes."""
        schedule = self.schedule
        sizes = (max(schedule.width, 1), max(schedule.per_thread, 1), schedule.in_flight)
        tokens = (schedule.kind, schedule.load, str(schedule.exact))
        return SearchPoint.of(f"{self.format}-{self.state}", tokens, sizes)


def product_ids(target: Target, space: str, mean: float | None) -> list[ProductId]:
    """Return the variants of a space, grouped by format and state.

    Our products are tried with numbers of threads per row that are reasonable for the mean row size, unless it is None.
    """
    ids: list[ProductId] = []
    for format in get_args(ProductFormat):
        for state in STATES if format == "dcsr" else (None,):
            id_schedules = schedules(target)
            if format == "csr":
                id_schedules = [*dict.fromkeys(replace(schedule, exact=False) for schedule in id_schedules)]
            for id in (ProductId(format, state, schedule) for schedule in id_schedules):
                width = id.schedule.width
                is_sensible = not width or mean is None or mean / MAX_ENTRIES_PER_THREAD <= width <= max(2.0, 2 * mean)
                if id.is_possible and id.space == space and (is_sensible or space != EXTENDED):
                    ids.append(id)
    return ids


#: Candidates of each tuning among the paper's variants: products in our own CSR, segments with schedule `vector`, rows
#: in bins.
PAPERS_TUNINGS: Mapping[str, Callable[[DynamicRow], bool]] = {
    "csr": lambda row: row.format == "csr",
    "fragmented": lambda row: (row.schedule, row.state) == ("vector", "fragmented"),
    "defragmented": lambda row: (row.schedule, row.state) == ("vector", "defragmented"),
    "adaptive": lambda row: row.schedule == "streams",
}
#: Candidates of each tuning among all variants, if ours were tried: CSR, the fragmented matrix, one segment per row.
OUR_TUNINGS: Mapping[str, Callable[[DynamicRow], bool]] = {
    "ours-csr": lambda row: row.format == "csr",
    "ours-fragmented": lambda row: row.format == "dcsr" and row.state == "fragmented",
    "ours-defragmented": lambda row: row.format == "dcsr" and row.state != "fragmented",
}


def choose_products(rows: Sequence[Row], tie: float, ids: Iterable[ProductId] = ()) -> list[Choice]:
    """Return the best product for each tuning.

    Tunings among the paper's products as published have plain names. If numbers of threads were tuned further,
    `tuned_csr`, `tuned_fragmented` and `tuned_defragmented` choose among all these numbers. `hyb` is the product in
    HYB. If our variants were tried, the tunings of `OUR_TUNINGS` choose among all variants.
    """

    def candidates_by_tuning(timed_rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        products = [(product_row, row) for row in timed_rows if (product_row := DynamicRow.of(row)).what == "product"]
        spaces_in_use = {product_row.space for product_row, _ in products}

        def among(spaces: Collection[str], tunings: Mapping[str, Callable[[DynamicRow], bool]]) -> dict[str, list[Row]]:
            space_products = [(product_row, row) for product_row, row in products if product_row.space in spaces]
            return {
                name: [row for product_row, row in space_products if fits(product_row)]
                for name, fits in tunings.items()
            }

        vectors = {name: fits for name, fits in PAPERS_TUNINGS.items() if name != "adaptive"}
        tuned_candidates = among((PAPER, PAPER_TUNED), vectors) if PAPER_TUNED in spaces_in_use else {}
        return {
            **among((PAPER,), PAPERS_TUNINGS),
            **{f"{TUNED}{name}": rows for name, rows in tuned_candidates.items()},
            "hyb": [row for product_row, row in products if product_row.format == "hyb"],
            **(among((PAPER, PAPER_TUNED, EXTENDED), OUR_TUNINGS) if EXTENDED in spaces_in_use else {}),
        }

    return pick(rows, tie, candidates_by_tuning, ids)


def twins(id: ProductId) -> list[ProductId]:
    """Return the possible variants with the same schedule in the other states and in CSR.

    Ratios of states or formats compare times under the same schedule. If a state has no exact segments, an exact
    schedule is compared with the same schedule that is not exact.
    """
    plain_schedule, exact_schedule = replace(id.schedule, exact=False), replace(id.schedule, exact=True)
    states_and_schedules: Sequence[tuple[State | None, Schedule]] = [
        (None, plain_schedule),
        ("fragmented", plain_schedule),
        ("defragmented", plain_schedule),
        ("defragmented", exact_schedule),
        ("sorted", plain_schedule),
        ("sorted", exact_schedule),
    ]
    twin_ids = (
        ProductId("csr" if state is None else "dcsr", state, schedule) for state, schedule in states_and_schedules
    )
    return [twin for twin in twin_ids if twin.is_possible and twin != id]


def reported_names(rows: Sequence[Row], choices: Sequence[Choice]) -> list[str]:
    """Return the names of the chosen products, and of their timed twins."""
    timed_rows: Mapping[str, Row] = {row.name: row for row in rows if row.status in TIMED}
    names = dict.fromkeys(choice.name for choice in choices)
    for choice in choices:
        if isinstance(choice.id, ProductId):
            names |= dict.fromkeys(name for name in map(str, twins(choice.id)) if name in timed_rows)
    return list(names)
