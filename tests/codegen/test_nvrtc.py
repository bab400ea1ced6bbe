"""CUDA sources compiled in this process, on a machine that needs neither a GPU nor a toolkit."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from repro.codegen import nvcc, nvrtc
from repro.codegen.build_cache import Module, compile_module, target_compiler
from repro.codegen.targets import TARGETS, get_target
from repro.codegen.templates import render_common
from repro.errors import ReproError
from support.rendered_modules import rendered_modules

pytestmark = pytest.mark.skipif(not nvrtc.is_installed(), reason="NVRTC is not installed")
GPU = get_target("sm_90")
KERNEL = 'extern "C" __global__ void k(float* y) { y[threadIdx.x] = 1; }'


def compiled(source: str, folder: Path, target: str = "sm_90", *, record_errors: bool = False) -> Module:
    return compile_module(source, get_target(target), folder / "m.json", record_errors=record_errors)


def test_a_source_is_compiled_without_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find", lambda: None)
    module = compiled(KERNEL, tmp_path)
    assert module.status == "ok" and module.compiler == nvrtc.version()
    assert (tmp_path / str(module.binary)).read_bytes().startswith(b"\x7fELF")
    resources = (module.resources or {})["k"]
    assert resources["spills"] == 0 and 0 < resources["registers"] < 255


def test_the_common_module_and_headers_of_the_runtime_compile(templates: Path, tmp_path: Path) -> None:
    assert compiled(render_common(templates, GPU), tmp_path).status == "ok"
    constants = 'extern "C" __global__ void c(float* y) { y[0] = INFINITY; y[1] = NAN; }'
    assert compiled(constants, tmp_path).status == "ok"
    source = f"#include <cooperative_groups.h>\n#include <cuda_pipeline_primitives.h>\n{KERNEL}"
    assert compiled(source, tmp_path).status == "ok"


def test_a_source_that_does_not_compile_is_one_message(tmp_path: Path) -> None:
    broken = KERNEL.replace("1;", "nonsense;")
    with pytest.raises(ReproError, match="a module does not compile") as caught:
        compiled(broken, tmp_path)
    assert "nonsense" in str(caught.value)
    assert "nonsense" in str(compiled(broken, tmp_path, record_errors=True).message)


def test_a_generation_that_the_compiler_has_left_behind_is_one_message(tmp_path: Path) -> None:
    if nvrtc.version() < "NVRTC 13":
        pytest.skip("this version compiles for all generations")
    with pytest.raises(ReproError, match=r"cannot compile for this GPU[\s\S]*sm_50[\s\S]*nvidia-cuda-nvrtc-cu12"):
        compiled(KERNEL, tmp_path, "sm_50")
    assert "sm_50" in TARGETS and not (tmp_path / "m.json").exists()


def test_flags_for_nvcc_choose_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "version", lambda: "nvcc 13")
    assert target_compiler(GPU)[0] == nvrtc.version()
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    assert target_compiler(GPU)[0] == "nvcc 13"


@pytest.mark.exhaustive
def test_modules_of_all_templates_compile(templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CUDA dialect: what `make nvrtc` compiles on a machine without GPU and toolkit."""
    monkeypatch.setattr(nvcc, "find", lambda: None)
    sources = rendered_modules(templates, GPU)

    def message(name: str) -> str | None:
        return compile_module(sources[name], GPU, tmp_path / f"{name}.json", record_errors=True).message

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        messages = dict(zip(sources, pool.map(message, sources), strict=True))
    assert len(messages) > 40
    assert {name: text for name, text in messages.items() if text} == {}
