"""GPUs that are stated where there are none: a login node plans for them, and a process with its own believes those."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repro.devices import nvml
from repro.devices import selection as opening
from repro.devices.selection import identities, models, resolve_device, target_of, write_gpus
from repro.errors import ReproError
from support.non_files import IN_PLACE_OF_A_FILE, put

LISTED = [("NVIDIA H100", "sm_90", "GPU-a"), ("NVIDIA H100", "sm_90", "GPU-b")]


def machine(monkeypatch: pytest.MonkeyPatch, gpus: list[tuple[str, str, str]], driver: str | None) -> None:
    monkeypatch.setattr(nvml, "list_gpus", lambda: gpus)
    monkeypatch.setattr(nvml, "driver_version", lambda: driver)


@pytest.fixture
def stated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that a job with both GPUs of a node wrote, and which is named; on this machine there are no GPUs."""
    path = tmp_path / "gpus.json"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine(monkeypatch, LISTED, "570.1")
    write_gpus(path)
    machine(monkeypatch, [], None)
    monkeypatch.setenv("REPRO_GPUS", str(path))
    monkeypatch.setattr(opening, "find_spec", lambda name: object())
    return path


def test_a_machine_without_gpus_plans_for_those_of_the_cluster(stated: Path) -> None:
    assert resolve_device("auto") == "cuda:0"
    assert resolve_device("cuda:all") == "cuda:0,1"
    assert target_of("cuda:0").name == "sm_90"
    assert models("cuda:0,1") == ["NVIDIA H100", "NVIDIA H100", "driver 570.1"]


@pytest.mark.parametrize("hidden", ["", "NoDevFiles", "-1"])
def test_a_job_that_was_given_no_gpu_plans_as_well(stated: Path, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing but the variable keeps it from the GPUs of its node."""
    machine(monkeypatch, LISTED, "570.1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert models(resolve_device("cuda")) == ["NVIDIA H100", "driver 570.1"]


def test_a_process_believes_its_own_gpu_more(stated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, [("NVIDIA A100", "sm_80", "GPU-x"), ("NVIDIA A100", "sm_80", "GPU-y")], "565.2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert (target_of("cuda:0").name, identities("cuda:0")) == ("sm_80", ["GPU-y"])
    assert models("cuda:0") == ["NVIDIA A100", "driver 565.2"]


def test_nothing_is_stated_where_nothing_is_named(stated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPRO_GPUS")
    assert resolve_device("auto") == "opencl:0"
    with pytest.raises(ReproError, match="no such GPU"):
        resolve_device("cuda")


@pytest.mark.wording
@pytest.mark.parametrize(
    "text",
    [
        None, "", "[]", '{"driver": "1"}', '{"driver": "1", "gpus": [{"name": "H100"}]}', "[" * 100_000, "\0",
        '{"driver": 5, "gpus": []}', '{"driver": "1", "gpus": 5}', '{"driver": "1", "gpus": [5]}',
        '{"driver": "1", "gpus": [{"ordinal": "x", "name": [], "capability": "sm_90", "uuid": "u"}]}',
    ],
    ids=lambda text: str(text)[:30],
)  # fmt: skip
def test_a_file_that_states_nothing_is_one_message(stated: Path, text: str | None) -> None:
    if text is None:
        stated.unlink()
    else:
        stated.write_text(text)
    with pytest.raises(ReproError, match=r"cannot be read\n[\s\S]*REPRO_GPUS=.*gpus\.json[\s\S]*repro doctor --gpus"):
        resolve_device("cuda")


@pytest.mark.parametrize("kind", IN_PLACE_OF_A_FILE)
def test_what_is_in_the_place_of_the_file_is_not_waited_for(stated: Path, at_once: None, kind: str) -> None:
    put(kind, stated)
    with pytest.raises(ReproError, match=rf"cannot be read\n[\s\S]*{IN_PLACE_OF_A_FILE[kind]}"):
        resolve_device("cuda")


def test_where_there_are_none_none_are_written_down(stated: Path, tmp_path: Path) -> None:
    before = json.loads(stated.read_text())
    with pytest.raises(ReproError, match="no GPUs to list"):
        write_gpus(stated)
    assert json.loads(stated.read_text()) == before
