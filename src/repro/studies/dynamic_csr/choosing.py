"""Which products are chosen, and which are timed again beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from repro.bench.rows import TIMED, Row
from repro.errors import ReproError
from repro.sparse.dynamic.schedules import Schedule
from repro.studies.dynamic_csr.states import State
from repro.studies.dynamic_csr.variant_id import VariantId
from repro.tuning.choose import Choice, pick


def choose_products(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return the best products of searched rows.

    Of the paper's variants own CSR (`csr`), the segments by vectors (`fragmented`, `defragmented`), rows in bins
    (`adaptive`), and HYB (`hyb`); and where ours were tried, the best of all variants of CSR, of the fragmented matrix,
    and of the one in one segment a row: `ours-csr`, `ours-fragmented`, `ours-defragmented`.
    """

    def asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        products = [row for row in timed if row["what"] == "product"]
        papers = [row for row in products if row.space == "paper"]
        dcsr = [row for row in papers if row["format"] == "dcsr"]
        vector = [row for row in dcsr if row["schedule"] == "vector"]
        choices = {
            "csr": [row for row in papers if row["format"] == "csr"],
            "fragmented": [row for row in vector if row["state"] == "fragmented"],
            "defragmented": [row for row in vector if row["state"] == "defragmented"],
            "adaptive": [row for row in dcsr if row["schedule"] == "streams"],
            "hyb": [row for row in products if row["format"] == "hyb"],
        }
        if not any(row.space == "extended" for row in products):
            return choices
        segments = [row for row in products if row["format"] == "dcsr"]
        return {
            **choices,
            "ours-csr": [row for row in products if row["format"] == "csr"],
            "ours-fragmented": [row for row in segments if row["state"] == "fragmented"],
            "ours-defragmented": [row for row in segments if row["state"] != "fragmented"],
        }

    return pick(rows, tie, asked)


def twins(name: str) -> list[str]:
    """Return the variants that have a variant's schedule in the other states and in CSR, as far as there are any.

    A ratio of states, or of formats, is one of times under one schedule. What relies on exact segments stands beside
    what does not in states that have no such segments.
    """
    id = VariantId.parse(name)
    plain, exact = replace(id.schedule, exact=False), replace(id.schedule, exact=True)
    places: Sequence[tuple[State | None, Schedule]] = [
        (None, plain),
        ("fragmented", plain),
        ("defragmented", plain),
        ("defragmented", exact),
        ("sorted", plain),
        ("sorted", exact),
    ]
    made = (VariantId("csr" if state is None else "dcsr", state, schedule) for state, schedule in places)
    return [str(twin) for twin in made if twin.possible and twin != id]


def names_to_report(rows: Sequence[Row], choices: Sequence[Choice]) -> list[str]:
    """Return the names of the chosen products, and of their twins that were timed."""
    timed: Mapping[str, Row] = {row.name: row for row in rows if row.status in TIMED}
    names = dict.fromkeys(choice.name for choice in choices)
    for name in list(names):
        try:
            names |= dict.fromkeys(twin for twin in twins(name) if twin in timed)
        except ReproError:  # HYB's is none of these variants
            continue
    return list(names)
