"""What every study's table of targets says of the device that the wanted numbers were set for."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.targets import WANTED_ON
from repro.studies import get_study, load_artifacts, study_names
from support.campaigns import Recorder


@pytest.mark.parametrize(
    ("backend", "device", "said"),
    [
        ("cuda", WANTED_ON, ""),
        ("cuda", "NVIDIA H100 80GB HBM3", f"was set for an {WANTED_ON}."),
        ("opencl", "Some CPU", "the CPU’s numbers are a rehearsal."),
    ],
)
@pytest.mark.parametrize("study", study_names())
def test_numbers_that_were_wanted_of_another_device_are_called_so(
    tmp_path: Path, study: str, backend: str, device: str, said: str
) -> None:
    contract = get_study(study)
    load_artifacts(study)
    maker = Recorder(tmp_path, backend, study, contract.columns)
    maker.device = device
    maker.environment()
    maker.record("grid", entry="real", n=1000, nnz=7000)
    maker.write("grid", "double", "report", [maker.row("grid", "double", "empty", "empty", 3.0, phase="report")])
    published = Published.load(study, contract.published, contract.targets)
    caption = get_artifact(study, "table-targets").make(maker.load(), published).caption
    assert ("What was wanted" in caption) == bool(said)
    assert said in caption
