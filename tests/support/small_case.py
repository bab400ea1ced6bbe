"""One small case to measure on the CPU: its configuration, and the files that are written."""

from __future__ import annotations

from typing import Any

import pandas as pd

from repro.campaign.measurement import measure
from repro.config.models import Config, StudySettings, Timing
from support.benches import QUICK

STUDY, NAME = "compound_spmv", "small/complex"
LAYOUTS = ("ELL-SoA-AoS", "Sl-8-AoSoA-AoS")
FILES = ["search", "baseline", "report", "choices"]


def quiet(*_: object) -> None:
    pass


def config(**study: Any) -> Config:
    settings = {"space": "extended", "layouts": LAYOUTS, "cache": "warm", "timing": Timing(**QUICK), **study}
    return Config(campaign="c", device="opencl", studies={STUDY: StudySettings(**settings)})


def run(**study: Any) -> dict[str, pd.DataFrame]:
    """Measure it, here; return the rows of each step."""
    paths = measure(config(**study), STUDY, NAME, "single", quiet)
    assert [path.stem for path in paths] == FILES
    return {path.stem: pd.read_parquet(path) for path in paths}
