"""`repro doctor`: which parts it finds, which it misses, and when it fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.cli import doctor
from repro.codegen import nvcc, nvrtc, opencl_runtime
from repro.devices import selection
from repro.devices.selection import Gpu
from repro.errors import ReproError

REPOSITORY = Path(__file__).parents[2]
GPU = Gpu(0, "NVIDIA Test", "sm_90", "GPU-1")


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


def no_opencl() -> list[object]:
    raise ReproError("no OpenCL runtime was found")


def test_the_cpu_is_enough(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "find_gpus", list)
    doctor.doctor()
    said = capsys.readouterr().out
    assert "campaigns can run here: opencl:0" in said
    for what in ("Python", "configuration", "GPU", "nvcc", "cuSPARSE", "OpenCL runtime", "mirror", "disk", "gmsh"):
        assert what in said


def test_on_80_columns_no_line_is_wider(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(selection, "find_gpus", list)
    long = doctor.Finding("a part", f"found at /{'folder/' * 8}and no longer", False, "install it, or do without it")
    monkeypatch.setattr(doctor, "CHECKS", (*doctor.CHECKS, lambda: iter([long])))
    doctor.doctor()
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    # what can be copied is in one piece
    assert f"/{'folder/' * 8}and" in said
    assert "to do: on a machine with an NVIDIA GPU: " in said


@pytest.mark.wording
def test_no_device_is_a_failure_that_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "find_gpus", list)
    monkeypatch.setattr(opencl_runtime, "find_devices", no_opencl)
    monkeypatch.setattr(opencl_runtime, "find_library", lambda: None)
    with pytest.raises(ReproError, match=r"no usable device(.|\n)*\[cpu\](.|\n)*\[cuda\]"):
        doctor.doctor()
    assert "pip install -e '.[cpu]'" in capsys.readouterr().out


def test_a_gpu_without_its_compiler_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "find_gpus", lambda: [GPU])
    monkeypatch.setattr(nvcc, "find", lambda: None)
    monkeypatch.setattr(nvrtc, "is_installed", lambda: False)
    monkeypatch.setattr(selection, "has_bindings", lambda: True)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = {finding.what: finding for finding in doctor.check_cuda()}
    assert not found["cuda:0"].good
    assert "lacks a compiler" in found["cuda:0"].found
    assert not found["cuSPARSE"].good


def test_nvrtc_is_compiler_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "find_gpus", lambda: [GPU])
    monkeypatch.setattr(nvcc, "find", lambda: None)
    monkeypatch.setattr(nvrtc, "is_installed", lambda: True)
    monkeypatch.setattr(nvrtc, "version", lambda: "NVRTC 13.0")
    monkeypatch.setattr(selection, "has_bindings", lambda: True)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = {finding.what: finding for finding in doctor.check_cuda()}
    assert found["cuda:0"].good and found["NVRTC"].found == "13.0" and found["nvcc"].optional


def test_a_gpu_with_all_it_needs_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "find_gpus", lambda: [GPU])
    monkeypatch.setattr(nvcc, "find", lambda: Path("/opt/bin/nvcc"))
    monkeypatch.setattr(nvcc, "version", lambda: "nvcc 12")
    monkeypatch.setattr(selection, "has_bindings", lambda: True)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = {finding.what: finding for finding in doctor.check_cuda()}
    assert found["cuda:0"].good
    assert found["cuda:0"].device
    assert "NVIDIA Test, sm_90" in found["cuda:0"].found
    assert found["nvcc"].found == "nvcc 12 at /opt/bin/nvcc"


@pytest.mark.parametrize(("version", "found"), [((12, 6, 3), "; SpMVOp needs 12.8.1, "), ((12, 9, 4), None)])
def test_an_older_cusparse_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], found: str | None
) -> None:
    cusparse = SimpleNamespace(get_property=lambda part: version[part])
    monkeypatch.setitem(sys.modules, "nvmath", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "nvmath.bindings", SimpleNamespace(cusparse=cusparse))
    monkeypatch.setattr(doctor, "find_spec", lambda name: object() if name == "nvmath" else None)
    finding = {finding.what: finding for finding in doctor.check_cuda()}["cuSPARSE"]
    text = f"{'.'.join(map(str, version))} through nvmath-python"
    assert finding.good and finding.found.startswith(text + (found or ""))
    assert bool(found) == (finding.found != text)


def test_a_mirror_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRO_MIRROR", str(tmp_path / "gone"))
    assert "is not a folder" in next(doctor.check_inputs()).found
    monkeypatch.setenv("REPRO_MIRROR", str(tmp_path))
    assert next(doctor.check_inputs()).good


def test_gmsh_without_its_system_libraries_names_debian_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: object() if name == "gmsh" else None)
    monkeypatch.setattr(doctor, "missing_libraries", lambda: ["libGLU.so.1", "libXft.so.2"])
    gmsh, tetgen, *_ = doctor.check_mesh()
    assert gmsh.found == "lacks libGLU.so.1, libXft.so.2"
    assert {"apt-get", "libglu1-mesa", "libxft2"} <= set(gmsh.todo.split())
    assert "[mesh]" in tetgen.todo and tetgen.optional


def test_missing_libraries_are_read_from_the_loader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libgmsh.so.4.15").touch()
    tool = tmp_path / "ldd"
    tool.write_text("#!/bin/sh\necho '\tlibGLU.so.1 => not found'\necho '\tlibc.so.6 => /lib/libc.so.6 (0x1)'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(doctor.sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert doctor.missing_libraries() == ["libGLU.so.1"]


def test_outside_the_repository_the_default_is_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = {finding.what: finding for finding in doctor.check_python()}
    assert found["configuration"].good
    assert str(REPOSITORY / "config/config.yaml") in found["configuration"].found
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("bogus: 1\nstudies: {}\n")
    found = {finding.what: finding for finding in doctor.check_python()}
    assert not found["configuration"].good
    assert "bogus" in found["configuration"].found
