"""Kernels of large modules, each compiled by itself when it is first used."""

import numpy as np
import pytest

from repro.codegen import nvrtc
from repro.codegen.targets import get_target
from repro.devices.base import LaunchError
from repro.operators.runtime import KernelsOnDemand, kernel_names, with_kernel
from repro.sparse.dynamic import kernels as dynamic
from repro.sparse.multigrid import kernels as multigrid
from repro.sparse.spgemm import kernels as spgemm
from support.emulated_cuda import needs_compiler
from support.emulated_runtime import EmulatedRuntime

TARGET = get_target("sm_90")
RENDERED = {
    **{name: dynamic.render_module for name in dynamic.TEMPLATES},
    **{name: spgemm.render_spgemm for name in spgemm.MODULES},
    **{name: multigrid.render_multigrid for name in multigrid.MODULES},
}


def source_of(templates, module):
    return RENDERED[module](templates, f"double/{module}", TARGET, "test")


@pytest.mark.parametrize("module", RENDERED)
def test_all_kernels_of_a_module_are_known(templates, module):
    source = source_of(templates, module)
    begun = [line for line in source.splitlines() if line.startswith(("KERNEL(", "WARP_KERNEL("))]
    names = kernel_names(source)
    assert len(names) == len(set(names)) == len(begun) > 0
    alone = with_kernel(source, names[-1])
    assert kernel_names(alone) == names[-1:]
    assert all(f" {name}(" in alone for name in names)


@pytest.mark.skipif(not nvrtc.is_installed(), reason="NVRTC is not installed")
@pytest.mark.parametrize("module", ["arrays", "sort", "csr-exact"])
def test_a_kernel_compiled_by_itself_is_that_of_the_module(templates, tmp_path, module):
    source = source_of(templates, module)
    names = kernel_names(source)
    for file, text in {"all": source, "one": with_kernel(source, names[0])}.items():
        (tmp_path / f"{file}.cu").write_text(text)
    whole, alone = (nvrtc.build(tmp_path / f"{file}.cu", tmp_path / f"{file}.cubin", TARGET) for file in ("all", "one"))
    assert set(whole) == set(names)
    assert alone == {names[0]: whole[names[0]]}


@needs_compiler
@pytest.mark.medium
def test_a_kernel_is_compiled_once_and_when_it_is_used(templates, monkeypatch, built_folder):
    runtime = EmulatedRuntime(monkeypatch, built_folder / "emulated")
    compiled = []

    def load(source, name):
        compiled.append(name)
        return runtime.program(source, name)

    program = KernelsOnDemand(source_of(templates, "arrays"), "dynamic/arrays", load)
    assert not compiled
    device = runtime.device
    found = device.host_words(1)
    for value, expected in ((1.0, 0), (np.inf, 1)):
        values = device.upload(np.array([2.0, value]))
        device.fill(found.buffer, 0)
        device.bind(program.kernel("find_not_finite"), 1, 256, [np.int32(2), values, found.buffer])()
        assert found.read()[0] == expected
    assert compiled == ["dynamic/arrays-find_not_finite"]
    with pytest.raises(LaunchError, match="no kernel nonsense in the module dynamic/arrays"):
        program.kernel("nonsense")


def test_some_kernels_can_be_compiled_before_they_are_used(templates):
    loaded = {}
    program = KernelsOnDemand(source_of(templates, "smoothing"), "amg/smoothing", lambda *of: loaded.update([of[::-1]]))
    ahead = program.sources(r".*_w(2|4)")
    assert sorted(ahead) == sorted(
        f"amg/smoothing-{step}_prolongator_w{width}" for step in ("lay_out", "fill") for width in (2, 4)
    )
    program.having("fill_prolongator_w2")
    assert loaded.items() <= ahead.items()
