"""Figures of compound entries: every module of this folder is imported and registers its own."""

from __future__ import annotations

from repro.plugins import import_all

import_all(__name__, __path__)
