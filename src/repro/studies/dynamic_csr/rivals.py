"""Rivals for products of the matrix before it grows."""

from __future__ import annotations

from repro.results.rivals import Contest, register
from repro.studies.dynamic_csr import STUDY_NAME
from repro.studies.dynamic_csr.results import ADAPTIVE, LIBRARY, OURS

register(STUDY_NAME, [Contest("SpMV", (OURS, ADAPTIVE), LIBRARY)])
