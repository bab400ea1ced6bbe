"""Rivals for products of the matrix before it grows, and for its updates."""

from __future__ import annotations

from dataclasses import replace

from repro.results.rivals import Contest, register
from repro.studies.dynamic_csr import STUDY_NAME
from repro.studies.dynamic_csr.results import (
    ADAPTIVE,
    ANY_UNIQUE,
    DCSR,
    GEAM,
    LIBRARY,
    OPERATION_CLOCK,
    OURS,
    SORTED_UNIQUE,
    UpdateProtocol,
)

#: Updates in which rivals take part, as the table says it.
UPDATES = {"stream": "all at once", "insert": "batches of {batch:,}", "batch": "a batch of {batch:,}"}


def _contest(what: str, title: str, protocol: UpdateProtocol) -> Contest:
    alike = {"what": what, **protocol._asdict()}
    ours = replace(DCSR, columns={**DCSR.columns, **alike})
    library = replace(GEAM, columns={**GEAM.columns, **alike}, clock="host")
    words = f"{title}, {'by row' if protocol.order == 'sorted' else 'any order'}"
    return Contest(words, (ours,), library, OPERATION_CLOCK, alike, ("batch",))


register(
    STUDY_NAME,
    [
        Contest("SpMV", (OURS, ADAPTIVE), LIBRARY, columns={"what": None}),
        *(_contest(what, title, order) for what, title in UPDATES.items() for order in (ANY_UNIQUE, SORTED_UNIQUE)),
    ],
)
