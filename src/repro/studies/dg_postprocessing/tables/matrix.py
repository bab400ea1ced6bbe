"""The filter as a matrix: making it, products of one field and of several, libraries', and from when on it pays."""

from __future__ import annotations

from repro.artifacts.cells import count, share, speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.filter_times import OURS, Filtering, all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, HOST, PRODUCT_CLOCK, STUDY
from repro.studies.dg_postprocessing.shared_cells import (
    FIELD,
    GIGA,
    heads,
    milli,
    milli_of,
    summary,
    three_digits,
)

#: Numbers of fields where nothing was timed, so that the table has its columns.
FIELDS = (1, 4, 16)


@table(STUDY, "table-matrix", title="The filter as a matrix", numbering="ours")
def matrix(campaign: Campaign, published: Published) -> Table:
    """A line a field; geometric means and the least of ratios below."""
    fields = all_fields(campaign, published)
    counts = sorted({number for field in fields for number in field.fields}) or list(FIELDS)
    columns = (
        *FIELD,
        Column("pairs", "pairs"),
        Column("gigabytes", "GB"),
        Column("direct_ms", "direct, ms"),
        Column("make_ms", "ms", "made in"),
        Column("make_over_direct", "over direct", "made in"),
        *(Column(f"apply_{number}_ms", f"{number}", "product with fields, ms") for number in counts),
        *(Column(f"direct_over_apply_{number}", f"{number}", "direct over product, a field") for number in counts),
        Column("sixteen_over_one", f"{counts[-1]} fields over {counts[0]}"),
        Column("floor_ms", "floor, ms"),
        Column("floor_share", "of the floor"),
        *(Column(f"library_{number}_ms", f"{number}", "library’s product, ms") for number in counts),
        *(Column(f"over_library_{number}", f"{number}", "ours over the library") for number in counts),
        Column("routine", "routine", numeric=False),
        Column("pays_from", "pays from field"),
    )
    rows = [_row(field, counts) for field in fields]
    caption = [
        "The filter as a matrix with a block of modes a pair of a point and a triangle, applied to several fields at",
        "once. Direct: the fastest by contours. Made in: counted, its memory taken, and computed. Direct over product:",
        "of so many fields, one after the other filtered directly. Floor: a kernel that only reads the bytes of the",
        "matrix and of a field and writes those of a result; of the floor: its time over that of the product. Library:",
        "the fastest routine that multiplies with the same matrix as scalars in CSR, the routine that of one field;",
        "ours over the library: how many times as fast our product is. Pays from: the first field that making the",
        "matrix and applying it to one field after the other is faster from than filtering each directly; none where",
        "a product is not faster.",
        measured_on(campaign, PRODUCT_CLOCK),
        f"Filtering directly by the {CLOCK} clock, making by the {HOST} clock.",
        unavailable(campaign),
    ]
    keys = tuple(f"{ratios}_{number}" for ratios in ("direct_over_apply", "over_library") for number in counts)
    return Table(columns, rows, sentences(caption), summary(columns, rows, keys))


def _row(field: Filtering, counts: list[int]) -> tuple[Cell, ...]:
    make, direct = field.make, field.time(OURS)
    applies = [field.apply(number) for number in counts]
    libraries = [field.library(number) for number in counts]
    of_one = libraries[0]
    why_no_library = (field.why_no_matrix("library"),) if make else ()
    over = [
        number * direct.seconds / timed.seconds if direct and timed else None
        for number, timed in zip(counts, applies, strict=True)
    ]
    nbytes, pays = field.number("matrix_bytes"), field.pays_from
    return (
        *heads(field, "" if make else field.why_no_matrix()),
        count(field.number("matrix_pairs")),
        _gigabytes(nbytes),
        milli_of(field, OURS),
        milli(make),
        speedup(make, direct),
        *map(milli, applies),
        *map(three_digits, over),
        speedup(applies[-1], applies[0]),
        milli(field.floor),
        share(field.floor, field.apply(1)),
        *(milli(timed, why_no_library) for timed in libraries),
        *(speedup(*times) for times in zip(libraries, applies, strict=True)),
        Cell(of_one.row["routine"] if of_one else None),
        count(pays),
    )


def _gigabytes(nbytes: int | None) -> Cell:
    if nbytes is None:
        return Cell()
    value = nbytes / GIGA
    return Cell(value, f"{value:.3f}" if value < 1 else f"{value:.1f}")
