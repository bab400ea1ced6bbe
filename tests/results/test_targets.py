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
        ("cuda", "NVIDIA H100 80GB HBM3", f"were set for an {WANTED_ON}; here times may be 1.35 times as long."),
        ("cuda", "NVIDIA L4", f"were set only for an {WANTED_ON}."),
        ("opencl", "Some CPU", "the CPU’s numbers are only a dry run."),
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
    assert ("The goals" in table.caption) == bool(said)
    assert said in table.caption
    wanted = [column.key for column in table.columns].index("wanted")
    asked = [row[wanted] for row in table.rows]
    elsewhere = bool(said) and "1.35" not in said
    assert any(cell.text == NO_TARGET for cell in asked) == elsewhere
    assert any(cell.value is not None for cell in asked) != elsewhere


def test_a_slower_device_is_allowed_longer_times_and_no_smaller_ratios(tmp_path: Path) -> None:
    contract = get_study("spgemm_amg")
    load_artifacts("spgemm_amg")
    published = Published.load("spgemm_amg", contract.published, contract.targets)
    asked = {}
    for device in (WANTED_ON, "NVIDIA H100 80GB HBM3"):
        maker = Recorder(tmp_path / device, "cuda", "spgemm_amg", contract.columns)
        maker.device = device
        maker.environment()
        maker.record("grid", entry="real", n=1000, nnz=7000)
        maker.write("grid", "double", "report", [maker.row("grid", "double", "empty", "empty", 3.0, phase="report")])
        rows = get_artifact("spgemm_amg", "table-targets").make(maker.load(), published).rows
        asked[device] = {str(row[0].value): row[1].value for row in rows if row[1].value is not None}
    here, there = asked.values()
    for target, wanted in here.items():
        assert there[target] == pytest.approx(wanted * (1.35 if "milliseconds" in target else 1))
