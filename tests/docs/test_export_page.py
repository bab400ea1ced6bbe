"""What docs/export.md says is done as written; its C++ is compiled and run on the host in place of a GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from pages import REPOSITORY, blocks
from test_pages import words

from repro.cli import app
from repro.codegen import nvcc

PAGE = REPOSITORY / "docs/export.md"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's exports were made."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("config", "kernels", "results"):
        (folder / name).symlink_to(REPOSITORY / name)
    calls = [call for call in words(PAGE, "repro") if "--to" in call]
    assert len(calls) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for call in calls:
            with pytest.raises(SystemExit) as stopped:
                app.run(call)
            assert not stopped.value.code
    return folder / "kernels-of-mine"


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_program_of_the_page_runs(exported: Path, tmp_path: Path) -> None:
    (program,) = (block for block in blocks(PAGE) if block.language == "cpp")
    source = (exported / "dirac/quaternion_double.cu").read_text()
    launch = "kernel<<<grid, block, 0, stream>>>(static_cast<Parameters>(arguments)...);"
    assert launch in source
    on_host = "host::run<Parameters...>(kernel, grid, block, static_cast<Parameters>(arguments)...);"
    (tmp_path / "quaternion_double.cpp").write_text(source.replace(launch, on_host))
    (tmp_path / str(program.path)).write_text(program.text)
    host = REPOSITORY / "tests/export/host_cuda"
    options = ["-std=c++20", "-pthread", "-I", host, "-I", exported / "dirac", "-o", "main"]
    subprocess.run(["g++", *options, "main.cpp", "quaternion_double.cpp"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


@pytest.mark.slow
@pytest.mark.skipif(nvcc.find() is None or shutil.which("cmake") is None, reason="nvcc or CMake is not installed")
def test_the_commands_of_the_page_build_the_example(exported: Path) -> None:
    lines = [line for block in blocks(PAGE) if block.language == "sh" for line in block.text.splitlines()]
    builds = [line for line in lines if line.startswith("cmake")]
    assert len(builds) == 2
    for line in builds:
        subprocess.run(line.split(), cwd=exported.parent, check=True)
    assert (exported / "dirac/build/example").exists()
