"""Which kernel is the fastest for the rows of a bin: a sort, a hash table, or a sum for every column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.lineup import Line
from repro.sparse.spgemm.shapes import LIMITS
from repro.studies.spgemm_amg.paper import PRODUCTS, ProductName
from repro.studies.spgemm_amg.times import EVENT, ProblemTimes, failure
from repro.studies.spgemm_amg.variant_id import BinMode

METHODS = {"sort": "sort", "hash": "hash table", "dense": "a sum a column"}
MODES: Mapping[BinMode, str] = {"one": "one phase", "numeric": "numeric phase"}
#: Of what has times of bins.
OF_THE_SEARCH = "A kernel that was not chosen was not timed again: its time is the search’s."


@dataclass(frozen=True)
class BinTimes:
    """The times of the rows of one bin.

    Attributes
    ----------
    line, case
        Of which problem.
    product, mode, bin
        Which rows: binned by products in one phase, by entries in the numeric one.
    rows, products, nonzeros
        How many, what they are the sum of, and their entries in C.
    by_method
        The fastest kernel of each method that has a time, by the event clock.
    searched
        The methods of it whose time is the search's: they were not chosen, and so not timed again.
    failures
        Of the methods without a time what became of a kernel.
    """

    line: Line
    case: Case
    product: ProductName
    mode: BinMode
    bin: int
    rows: int
    products: int
    nonzeros: int
    by_method: Mapping[str, Timed]
    searched: frozenset[str]
    failures: Mapping[str, str]

    @property
    def title(self) -> str:
        """The least and the most products, or entries, of its rows."""
        least = LIMITS[self.bin - 1] + 1 if self.bin else 1
        return f"{least:,}–{LIMITS[self.bin]:,}" if self.bin < len(LIMITS) else f"{least:,} and more"

    @property
    def compression(self) -> float | None:
        """Products that an entry is the sum of, in the mean."""
        return self.products / self.nonzeros if self.nonzeros else None

    @property
    def winner(self) -> str | None:
        """The method of the fastest kernel."""
        return min(self.by_method, key=lambda name: self.by_method[name].seconds, default=None)

    @property
    def lead(self) -> float | None:
        """Time of the next best method over that of the best; None of a single one."""
        seconds = sorted(timed.seconds for timed in self.by_method.values())
        return seconds[1] / seconds[0] if len(seconds) > 1 else None

    @property
    def sort_over_hash(self) -> float | None:
        """Time of the fastest sort over that of the fastest hash table."""
        sort, hashed = self.by_method.get("sort"), self.by_method.get("hash")
        return sort.seconds / hashed.seconds if sort and hashed else None


def bins_of(times: ProblemTimes) -> list[BinTimes]:
    """Return the bins of a problem that kernels were tried for: by product, mode and bin."""
    return list(_bins(times))


def _bins(times: ProblemTimes) -> Iterator[BinTimes]:
    searched = times.case.campaign.search_rows(times.line.problem, times.case.precision)
    rows = [row for row in (*times.rows, *searched) if row["what"] == "bin"]
    for product in PRODUCTS:
        for mode in get_args(BinMode):
            of_mode = [row for row in rows if (row["product"], row["mode"]) == (product, mode)]
            for bin in sorted({int(row["bin"]) for row in of_mode}):
                yield _bin(times, product, mode, bin, [row for row in of_mode if row["bin"] == bin])


def _bin(
    times: ProblemTimes, product: ProductName, mode: BinMode, bin: int, rows: Sequence[Mapping[str, Any]]
) -> BinTimes:
    by_method: dict[str, Timed] = {}
    searched, failures = set(), {}
    for method in METHODS:
        of_method = [row for row in rows if row["method"] == method]
        again = fastest([row for row in of_method if row["phase"] == "report"], EVENT)
        timed = again or fastest(of_method, EVENT)
        if timed:
            by_method[method] = timed
            if again is None:
                searched.add(method)
        elif of_method:
            failures[method] = failure(of_method[0])
    return BinTimes(
        line=times.line,
        case=times.case,
        product=product,
        mode=mode,
        bin=bin,
        rows=_size(rows, "rows"),
        products=_size(rows, "products"),
        nonzeros=_size(rows, "nonzeros"),
        by_method=by_method,
        searched=frozenset(searched),
        failures=failures,
    )


def _size(rows: Sequence[Mapping[str, Any]], column: str) -> int:
    return next((int(row[column]) for row in rows if row[column] is not None), 0)
