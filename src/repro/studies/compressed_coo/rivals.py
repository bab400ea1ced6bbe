"""Rivals for products of real matrices."""

from __future__ import annotations

from repro.results.rivals import Contest, register
from repro.studies.compressed_coo import STUDY_NAME
from repro.studies.compressed_coo.results import COMPRESSED_COO, LIBRARY, OURS

register(STUDY_NAME, [Contest("SpMV", (OURS, COMPRESSED_COO), LIBRARY)])
