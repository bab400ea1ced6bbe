"""Compiled modules that a driver does not load, on a GPU that only keeps books."""

import pytest

from repro.codegen import nvrtc
from repro.devices.base import LaunchError
from repro.devices.cuda import open_cuda
from repro.errors import ReproError
from support.fake_cuda import install


@pytest.mark.parametrize("compiler", ["NVRTC 13.0", "NVRTC 12.6"])
def test_a_driver_older_than_the_compiler_is_one_message(monkeypatch, tmp_path, compiler):
    install(monkeypatch, 1)
    device = open_cuda(0)

    def refuse(_):
        raise device._cuda.Error("no kernel image is available")

    monkeypatch.setattr(device._cuda, "module_from_file", refuse)
    monkeypatch.setattr(nvrtc, "is_installed", lambda: True)
    monkeypatch.setattr(nvrtc, "version", lambda: compiler)
    if compiler == "NVRTC 12.6":
        with pytest.raises(LaunchError, match="no kernel image"):
            device.load(tmp_path)
    else:
        with pytest.raises(
            ReproError, match=r"NVRTC 13\.0\n.*CUDA 12\.8: no kernel image[\s\S]*nvidia-cuda-nvrtc-cu12"
        ):
            device.load(tmp_path)
    device.close()
