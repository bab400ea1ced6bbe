"""Every problem and precision: the products' times, and the ratios that were aimed at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro.artifacts.case import Timed
from repro.artifacts.cells import micro, ratio, speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, PROBLEM, launches, measured_on, sentences, unavailable
from repro.artifacts.numbers import median_of, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import library_of, routine_text
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.product_times import CLOCK, ProductTimes, all_times, stated_means

Pick = Callable[[ProductTimes], Timed | None]


@dataclass(frozen=True)
class Ratio:
    """A ratio of two times.

    Attributes
    ----------
    key, title
        Of its column.
    times
        Returns the two, None where there are none: the first over the second.
    worst
        Which of all is the worst: the largest of what should be small, the smallest of what should be large.
    """

    key: str
    title: str
    times: Callable[[ProductTimes], tuple[Timed | None, Timed | None] | None]
    worst: Callable[[Sequence[float]], float]

    def number(self, case: ProductTimes) -> float | None:
        """Return the ratio."""
        return ratio_of(*(self.times(case) or (None, None)))

    def cell(self, case: ProductTimes) -> Cell:
        """Return the ratio with its interval."""
        return speedup(*(self.times(case) or (None, None)))


RATIOS = (
    Ratio(
        "defragmented_over_csr", "defragmented over CSR",
        lambda case: case.csr_twins and (case.csr_twins[1], case.csr_twins[0]), max,
    ),
    Ratio("fragmented_over_defragmented", "fragmented over defragmented", lambda case: case.state_twins, max),
    Ratio("library_csr_over_ours", "library’s CSR over ours", lambda case: (case.library_csr, case.ours), min),
    Ratio("library_over_ours", "library over ours", lambda case: (case.library, case.ours), min),
)  # fmt: skip
PAPERS: tuple[tuple[str, str, Pick], ...] = (
    ("csr", "CSR", lambda case: case.csr),
    ("fragmented", "fragmented", lambda case: case.fragmented),
    ("defragmented", "defragmented", lambda case: case.defragmented),
    ("adaptive", "ADCSR", lambda case: case.adaptive),
    ("hyb", "HYB", lambda case: case.hyb),
)


@table(STUDY, "table-products", title="The products, problem by problem", numbering="ours")
def products(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision, the medians and the worst of the ratios below."""
    by_precision = [all_times(campaign, published, precision) for precision in campaign.precisions]
    cases = [case for cases in zip(*by_precision, strict=True) for case in cases]
    timed = [case for case in cases if case.ours or case.csr]
    marked = sum(case.case.mostly_launch(CLOCK, case.ours or case.csr) for case in timed)
    caption = [
        "y = A x with the grown matrix, the base and all batches. The paper’s: so many threads a row, the best number",
        "of them, for own CSR and for segments as the batches left them and with one segment a row; ADCSR: rows in",
        "bins by their sizes, a kernel a bin on a stream of its own, in the best state of the matrix; HYB. Ours: the",
        f"fastest of all in one launch, with one segment a row. {library_of(campaign)}: its fastest routine for CSR,",
        "and of all, of the matrix with entries of one place summed up. Ratios of times: defragmented over own CSR",
        "under the schedule that is the fastest for own CSR; fragmented over defragmented under the one that is the",
        "fastest for fragmented.",
        stated_means(published),
        measured_on(campaign, CLOCK),
        launches(marked, len(timed)),
        unavailable(campaign),
    ]
    rows = [_row(case) for case in cases]
    return Table(_columns(library_of(campaign)), rows, sentences(caption), _summary(cases))


def _columns(library: str) -> tuple[Column, ...]:
    return (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        *(Column(f"{key}_us", title, "the paper’s, µs") for key, title, _ in PAPERS),
        Column("ours", "variant", "ours", numeric=False),
        Column("ours_us", "µs", "ours"),
        Column("library_csr", "CSR", library, numeric=False),
        Column("library_csr_us", "µs", library),
        Column("library", "fastest", library, numeric=False),
        Column("library_us", "µs", library),
        *(Column(item.key, item.title, "ratios of times") for item in RATIOS),
    )


def _row(case: ProductTimes) -> tuple[Cell, ...]:
    there = case.line.record is not None and case.line.record.available
    why = (case.case.why_not(),) if there and case.ours is None and case.csr is None else ()
    return (
        case.line.cell,
        Cell(case.case.precision, ABBREVIATIONS[case.case.precision]),
        *(micro(pick(case)) for _, _, pick in PAPERS),
        Cell(case.ours.name if case.ours else None, notes=why),
        micro(case.ours, case.case),
        *_routine(case.library_csr),
        *_routine(case.library),
        *(item.cell(case) for item in RATIOS),
    )


def _routine(routine: Timed | None) -> tuple[Cell, Cell]:
    return (Cell(routine.name, routine_text(routine)) if routine else Cell()), micro(routine)


def _summary(cases: Sequence[ProductTimes]) -> list[tuple[Cell, ...]]:
    numbers = [[number for case in cases if (number := item.number(case)) is not None] for item in RATIOS]
    before = [Cell()] * (len(_columns("")) - len(RATIOS) - 1)
    worst = (item.worst(values) if values else None for item, values in zip(RATIOS, numbers, strict=True))
    return [
        (Cell("median"), *before, *(ratio(median_of(values)) for values in numbers)),
        (Cell("worst"), *before, *(ratio(value) for value in worst)),
    ]
