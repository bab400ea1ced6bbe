"""Rivals for products of compound entries."""

from __future__ import annotations

from repro.results.rivals import Contest, register
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.results import LIBRARY, OURS, PAPERS

register(STUDY_NAME, [Contest("SpMV", (OURS, PAPERS), LIBRARY)])
