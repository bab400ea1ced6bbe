"""What every study's table of targets says of the device that the wanted numbers were set for."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.results.claims import NO_TARGET, WANTED_ON
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.studies import get_study, load_artifacts, study_names
from support.campaigns import Recorder


@pytest.mark.parametrize(
    ("backend", "device", "said"),
    [
        ("cuda", WANTED_ON, ""),
        ("cuda", "NVIDIA H100 80GB HBM3", f"was set for an {WANTED_ON}, and for no other device."),
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
    table = get_artifact(study, "table-targets").make(maker.load(), published)
    assert ("What was wanted" in table.caption) == bool(said)
    assert said in table.caption
    wanted = [column.key for column in table.columns].index("wanted")
    asked = [row[wanted] for row in table.rows]
    assert any(cell.text == NO_TARGET for cell in asked) == bool(said)
    assert any(cell.value is not None for cell in asked) != bool(said)
