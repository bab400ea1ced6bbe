import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from repro.cli import doctor
from repro.codegen import nvcc, nvrtc
from repro.codegen.build_cache import (
    DamagedBinary,
    Module,
    check_binary,
    compile_module,
    compiled_before,
    source_hash,
    target_compiler,
    target_environment,
)
from repro.codegen.targets import get_target
from repro.codegen.templates import render_common
from repro.errors import ReproError
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.variants import Layout, Schedule
from support.non_files import IN_PLACE_OF_A_FILE, put

CPU, GPU = get_target("cpu"), get_target("sm_90")
needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
needs_nvrtc = pytest.mark.skipif(not nvrtc.is_installed(), reason="NVRTC is not installed")
EMPTY = "__kernel void empty(int unused) {}\n"


def test_a_module_and_its_manifest_are_written(tmp_path):
    module = compile_module(EMPTY, CPU, tmp_path / "m.json")
    assert module.status == "ok"
    assert Module.load(tmp_path / "m.json") == module
    assert (tmp_path / module.binary).stat().st_size > 0


def test_a_binary_that_is_there_is_used_again(tmp_path):
    first = compile_module(EMPTY, CPU, tmp_path / "a.json")
    written = (tmp_path / first.binary).stat().st_mtime_ns
    second = compile_module(EMPTY, CPU, tmp_path / "b.json")
    assert second == first
    assert (tmp_path / second.binary).stat().st_mtime_ns == written


def spoil(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("gone", [False, True])
def test_a_damaged_binary_is_made_again(tmp_path, gone):
    first = compile_module(EMPTY, CPU, tmp_path / "m.json")
    binary = tmp_path / first.binary
    assert first.binary_digest == digest(binary)
    if gone:
        binary.unlink()
    else:
        spoil(binary)
    second = compile_module(EMPTY, CPU, tmp_path / "m.json")
    assert second.binary_digest == digest(binary)
    check_binary(binary)
    assert not [path for path in binary.parent.iterdir() if path.name.startswith(".")]


@pytest.fixture
def without_nvrtc(monkeypatch):
    monkeypatch.setattr(nvrtc, "is_installed", lambda: False)


@needs_nvcc
@pytest.mark.parametrize("suffix", [".cubin", ".log", ".sha256"])
def test_a_damaged_log_is_made_again_too(tmp_path, suffix):
    first = compile_module('extern "C" __global__ void k() {}', GPU, tmp_path / "m.json")
    assert first.resources.keys() == {"k"}
    (tmp_path / first.binary).with_suffix(suffix).write_text("")
    second = compile_module('extern "C" __global__ void k() {}', GPU, tmp_path / "m.json")
    assert second.resources == first.resources
    assert second.binary_digest == digest(tmp_path / second.binary)


def test_a_binary_that_does_not_fit_its_manifest_is_refused_and_not_loaded_again(tmp_path):
    module, other = (compile_module(EMPTY + text, CPU, tmp_path / f"{len(text)}.json") for text in (" ", ""))
    twin = compile_module(EMPTY + " ", CPU, tmp_path / "twin.json")
    binary = tmp_path / module.binary
    check_binary(binary)
    spoil(binary)
    with pytest.raises(DamagedBinary, match=f"damaged: {binary} is not what was compiled"):
        check_binary(binary)
    assert not binary.exists()
    for name in ("1", "twin"):
        said = Module.load(tmp_path / f"{name}.json")
        assert (said.status, said.binary, said.hash) == ("compile_error", None, twin.hash)
        assert "damaged" in said.message
    assert Module.load(tmp_path / "0.json") == other
    with pytest.raises(DamagedBinary, match="is gone"):
        check_binary(binary)


def test_what_was_compiled_before_is_known_by_source_compiler_and_content(tmp_path, monkeypatch):
    manifest = tmp_path / "m.json"
    assert compiled_before(EMPTY, CPU, manifest) is None
    module = compile_module(EMPTY, CPU, manifest)
    assert compiled_before(EMPTY, CPU, manifest) == module
    assert compiled_before(EMPTY + " ", CPU, manifest) is None
    with monkeypatch.context() as patch:
        patch.setenv("PYOPENCL_BUILD_OPTIONS", "-DANOTHER")
        assert compiled_before(EMPTY, CPU, manifest) is None
    spoil(tmp_path / module.binary)
    assert compiled_before(EMPTY, CPU, manifest) is None


def test_without_a_cuda_compiler_the_source_tells_what_was_compiled_before(tmp_path, monkeypatch, without_nvrtc):
    (tmp_path / "objects").mkdir()
    binary, manifest = tmp_path / "objects/abc.cubin", tmp_path / "m.json"
    binary.write_bytes(b"code")
    binary.with_suffix(".cu").write_text("the source")
    module = Module("ok", "hash", "nvcc", (), "objects/abc.cubin", binary_digest=digest(binary))
    module.save(manifest)
    monkeypatch.setattr(nvcc, "find", lambda: None)
    assert compiled_before("the source", GPU, manifest) == module
    assert compiled_before("another source", GPU, manifest) is None
    assert compiled_before("the source", GPU, tmp_path / "other.json") is None
    binary.write_bytes(b"rubbish")
    assert compiled_before("the source", GPU, manifest) is None


def test_a_damaged_manifest_of_another_module_does_not_matter(tmp_path):
    module = compile_module(EMPTY, CPU, tmp_path / "m.json")
    (tmp_path / "bad.json").write_text("{")
    check_binary(tmp_path / module.binary)
    assert Module.load(tmp_path / "m.json") == module


def test_the_hash_follows_the_source():
    assert source_hash(EMPTY, CPU) != source_hash(EMPTY + " ", CPU)


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        (CPU, "PYOPENCL_BUILD_OPTIONS", "-cl-fast-relaxed-math"),
        (CPU, "CL_CONFIG_CPU_VECTORIZER_MODE", "1"),
        (CPU, "DPCPP_CPU_NUM_CUS", "1"),
        (CPU, "POCL_WORK_GROUP_METHOD", "loopvec"),
        (GPU, "NVCC_APPEND_FLAGS", "--use_fast_math"),
        (GPU, "NVCC_PREPEND_FLAGS", "-DX=1 -DY=2"),
        (GPU, "NVCC_CCBIN", "/usr/bin/clang++"),
    ],
)
def test_flags_of_the_environment_are_in_hash_and_flags(target, name, value, monkeypatch, without_nvrtc):
    monkeypatch.setattr(nvcc, "version", lambda: "nvcc 13")
    monkeypatch.delenv(name, raising=False)
    plain, without = source_hash(EMPTY, target), target_compiler(target)[1]
    monkeypatch.setenv(name, value)
    assert target_compiler(target)[1] == (*without, f"{name}={value}")
    assert target_environment(target) == (f"{name}={value}",)
    changed = source_hash(EMPTY, target)
    assert changed != plain
    monkeypatch.setenv(name, f"{value}0")
    assert source_hash(EMPTY, target) not in (plain, changed)
    monkeypatch.setenv(name, "")
    assert source_hash(EMPTY, target) == plain


def test_flags_of_the_environment_are_in_the_manifest_and_make_another_binary(tmp_path, monkeypatch):
    plain = compile_module(EMPTY, CPU, tmp_path / "m.json")
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-fast-relaxed-math")
    other = compile_module(EMPTY, CPU, tmp_path / "m.json")
    assert Module.load(tmp_path / "m.json").flags == (*plain.flags, "PYOPENCL_BUILD_OPTIONS=-cl-fast-relaxed-math")
    assert other.binary != plain.binary


@needs_nvcc
def test_flags_of_the_environment_reach_nvcc_once(tmp_path, monkeypatch):
    """They are nvcc's own to read: given again on the line, a definition would be there twice."""
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DNAME=twelve")
    compile_module(
        'extern "C" __global__ void twelve(int x) {}\n#ifndef NAME\n#error\n#endif\n', GPU, tmp_path / "m.json"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("kill -9 $$", "Killed"),
        ("echo \"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\" >&2; exit 9", "'cicc' died"),
    ],
)
def test_a_compiler_that_is_killed_has_not_refused_the_source(tmp_path, monkeypatch, without_nvrtc, script, said):
    """As it is for want of memory: the record of an error would stay when there is memory again."""
    compiler = tmp_path / "nvcc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(nvcc, "_nvcc", lambda: compiler)
    monkeypatch.setattr(nvcc, "version", lambda: "nvcc 13")
    with pytest.raises(ReproError, match=rf"the compiler was killed(.|\n)*{said}"):
        compile_module(EMPTY, GPU, tmp_path / "m.json", record_errors=True)
    assert not (tmp_path / "m.json").exists()


def test_a_source_that_does_not_compile_names_module_and_first_error(tmp_path):
    with pytest.raises(ReproError, match=r"does not compile\n.*m\.json(.*\n)*.*error") as caught:
        compile_module("__kernel void broken(int a) { a = nonsense; }", CPU, tmp_path / "m.json")
    assert "nonsense" in caught.value.message
    assert not (tmp_path / "m.json").exists()


def test_a_compile_error_can_be_recorded_instead(tmp_path):
    module = compile_module("__kernel void broken() { nonsense }", CPU, tmp_path / "m.json", record_errors=True)
    assert module.status == "compile_error"
    assert module.binary is None
    assert "error" in module.message


def test_an_error_on_the_cpu_names_source_line_and_what_stands_there(tmp_path):
    code = "__kernel void broken(__global int* a)\n{\n    a[0] = 1\n}\n"
    message = compile_module(code, CPU, tmp_path / "m.json", record_errors=True).message
    source, line, _ = message.split(":", 2)
    assert (Path(source).read_text(), line) == (code, "3")
    assert message.endswith(": a[0] = 1")


def test_a_missing_or_damaged_manifest_is_one_message(tmp_path):
    with pytest.raises(ReproError, match="repro compile"):
        Module.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ReproError, match="damaged"):
        Module.load(tmp_path / "bad.json")


SOUND = {"status": "ok", "hash": "h", "compiler": "c", "flags": ["-O3"], "binary": "objects/a.clbin"}


@pytest.mark.wording
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"[" * 100_000, "nested more than 100 deep"),
        (b"[]", ""),
        (b"null", ""),
        (b"\xff\xfe", "decode"),
        (bytes(9), ""),
        ({**SOUND, "flags": 5}, "flags: input should be a valid tuple"),
        (
            {**SOUND, "resources": {"k": {"registers": "many"}}},
            "resources.k.registers: input should be a valid integer",
        ),
        ({**SOUND, "status": None}, "status: input should be a valid string"),
        *(
            ({**SOUND, "binary": name}, "binary: .* not a file in objects/")
            for name in ("../../x", "/etc/passwd", "objects/../../x", "objects/a\0", "objects/", ".", "objects/a/b", "")
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else repr(value)[:30],
)
def test_a_manifest_of_anything_else_is_one_message(tmp_path, content, reason):
    path = tmp_path / "m.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ReproError, match=rf"the manifest of a module is damaged[\s\S]*m.json\n  actual: .*{reason}"):
        Module.load(path)


@pytest.mark.wording
@pytest.mark.parametrize("kind", IN_PLACE_OF_A_FILE)
def test_what_is_in_the_place_of_a_manifest_is_not_waited_for(tmp_path, at_once, kind):
    put(kind, tmp_path / "m.json")
    with pytest.raises(ReproError, match=r"no such module\n.*m.json\n  actual: something else of that name"):
        Module.load(tmp_path / "m.json")


LOG = """ptxas info    : Compiling entry function 'spmv_static_32_1' for 'sm_90'
ptxas info    : Function properties for spmv_static_32_1
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
ptxas info    : Compiling entry function 'other' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers
"""


def test_registers_and_spills_are_read():
    assert nvcc.read_resources(LOG) == {
        "spmv_static_32_1": {"registers": 40, "spills": 20},
        "other": {"registers": 10, "spills": 0},
    }


def fake_nvcc(folder, script):
    path = folder / "bin/nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_nvcc_is_found_on_the_path_first_then_in_cuda_home(tmp_path, monkeypatch):
    home = fake_nvcc(tmp_path / "home", "exit 0")
    path = fake_nvcc(tmp_path / "path", "exit 0")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
    assert nvcc.find() == home
    monkeypatch.setenv("PATH", str(path.parent))
    assert nvcc.find() == path


def test_no_nvcc_says_where_it_was_looked_for(monkeypatch):
    nvcc._nvcc.cache_clear()
    monkeypatch.setattr(nvcc, "find", lambda: None)
    with pytest.raises(ReproError, match=r"nvcc not found\n.*CUDA_HOME(.*\n)*.*install"):
        nvcc._nvcc()
    nvcc._nvcc.cache_clear()


@pytest.fixture
def as_nvcc(tmp_path, monkeypatch):
    """Have a script be nvcc, with seconds that a test can wait for."""

    def install(script):
        path = fake_nvcc(tmp_path / "fake", script)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(nvcc, "ANSWERING", 0.5)
        monkeypatch.setattr(nvcc, "COMPILING", 0.5)
        nvcc._nvcc.cache_clear()
        nvcc.version.cache_clear()
        return path

    yield install
    nvcc._nvcc.cache_clear()
    nvcc.version.cache_clear()


RELEASE = "echo Cuda compilation tools, release 12.8, V12.8.93"
#: What is on PATH as nvcc: its script, what a message says, and what of it.
NO_NVCC = {
    "hangs": ("sleep 1000", "nvcc did not finish", "within 0.5 s"),
    "hangs-with-a-child": ("sleep 1000 & sleep 1000", "nvcc did not finish", "it was killed"),
    "says-nothing": ("exit 0", "nvcc does not print its version", "nothing, and exit code 0"),
    "fails": ("echo no licence >&2; exit 7", "nvcc does not print its version", "no licence"),
    "is-another": ("echo gcc 13.2", "nvcc does not print its version", "gcc 13.2"),
    "garbage": (r"printf '\377\033[2J\000\n'", "nvcc does not print its version", "actual"),
    "garbage-without-end": ("cat /dev/zero", "nvcc did not finish", "within 0.5 s"),
}


@pytest.mark.parametrize(("script", "what", "said"), NO_NVCC.values(), ids=NO_NVCC)
def test_what_is_no_nvcc_is_one_message(as_nvcc, at_once, script, what, said):
    path = as_nvcc(script)
    with pytest.raises(ReproError, match=rf"{what}\n  where: {path}[\s\S]*{said}") as caught:
        nvcc.version()
    assert len(str(caught.value)) < 1000
    assert str(caught.value).replace("\n", "").isprintable()
    found = {finding.what: finding for finding in doctor.check_cuda()}["nvcc"]
    assert not found.good
    assert what in found.found
    assert found.todo


def test_a_child_that_holds_the_compilers_output_is_not_waited_for(as_nvcc, at_once):
    as_nvcc(f"sleep 1000 & {RELEASE}; echo Build cuda_12.8")
    assert nvcc.version() == "nvcc Build cuda_12.8"


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("sleep 1000", "the compiler did not finish"),
        ("sleep 1000 & exit 0", "the compiler wrote no binary"),
        ("echo done", "the compiler wrote no binary"),
        ("kill -9 $$", "the compiler was killed"),
        (r"printf '\377 error \033[2J\n'; exit 1", "a module does not compile"),
    ],
)
def test_a_compiler_that_does_otherwise_is_one_message(as_nvcc, at_once, without_nvrtc, tmp_path, script, what):
    as_nvcc(f'case "$1" in --version) {RELEASE};; *) {script};; esac')
    with pytest.raises(ReproError, match=what) as caught:
        compile_module("source", GPU, tmp_path / "m.json")
    assert str(caught.value).replace("\n", "").isprintable()
    assert not list(tmp_path.glob("objects/*.cubin"))
    assert not (tmp_path / "m.json").exists()


@pytest.mark.wording
def test_what_is_called_nvcc_and_cannot_be_started_is_one_message(as_nvcc, at_once):
    as_nvcc("").write_bytes(bytes(20))
    with pytest.raises(ReproError, match="nvcc cannot be started"):
        nvcc.version()


def test_a_folder_called_nvcc_is_none(tmp_path, monkeypatch):
    (tmp_path / "home/bin/nvcc").mkdir(parents=True)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
    assert nvcc.find() != tmp_path / "home/bin/nvcc"


@needs_nvcc
@pytest.mark.parametrize(("entry", "layout"), [("quaternion", "Sl-16-SoA-AoS"), ("block3", "CSR-AoS-AoS")])
def test_cuda_modules_compile_without_a_gpu(tmp_path, templates, entry, layout):
    schedules = [Schedule("static", 128, 4), Schedule("dynamic", 1024, 2)]
    source = render_module(templates, entry, "double", Layout.parse(layout), schedules, GPU, "tests")
    module = compile_module(source, GPU, tmp_path / "m.json")
    assert module.resources.keys() == {"spmv_static_128_4", "spmv_dynamic_1024_2"}
    assert all(0 < kernel["registers"] <= 128 for kernel in module.resources.values())
    assert module.resources["spmv_dynamic_1024_2"]["registers"] <= 32


@needs_nvcc
def test_the_common_module_compiles_for_cuda(tmp_path, templates):
    module = compile_module(render_common(templates, GPU), GPU, tmp_path / "m.json")
    assert {"empty", "verify_single", "verify_double", "stream_128_1", "copy_1024_8"} <= module.resources.keys()


@needs_nvcc
def test_what_nvcc_refuses_is_reported_by_its_first_error(tmp_path):
    with pytest.raises(ReproError, match="nonsense"):
        compile_module('extern "C" __global__ void k() { nonsense; }', GPU, tmp_path / "m.json")
    assert not list(tmp_path.glob("objects/*.cubin"))


def test_a_missing_opencl_runtime_is_one_message(tmp_path):
    script = (
        "from repro.codegen import opencl_runtime as o; o.find_library = lambda: None\n"
        "from repro.errors import ReproError\n"
        "try: o.find_devices()\n"
        "except ReproError as error: print(error)\n"
    )
    environment = {**os.environ, "OCL_ICD_VENDORS": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", script], env=environment, text=True, capture_output=True, check=True)
    assert "OpenCL" in said.stdout
    assert "pip install" in said.stdout
