"""What docs/export.md says is done as written; its C++ is compiled and run on the host in place of a GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from test_pages import words

from repro.cli import app
from repro.codegen import nvcc
from support.pages import REPOSITORY, blocks

pytestmark = pytest.mark.medium

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


def run_on_host(folder: Path, program: str, exported: Path, name: str) -> None:
    """Compile a program and an exported kernel for the host, and run them."""
    source = (exported / f"{name}.cu").read_text()
    launch = "kernel<<<grid, block, 0, stream>>>(static_cast<Parameters>(arguments)...);"
    assert launch in source
    on_host = "host::run<Parameters...>(kernel, grid, block, static_cast<Parameters>(arguments)...);"
    (folder / f"{name}.cpp").write_text(source.replace(launch, on_host))
    (folder / "main.cpp").write_text(program)
    host = REPOSITORY / "tests/export/host_cuda"
    options = ["-std=c++20", "-pthread", "-I", host, "-I", exported, "-o", "main"]
    subprocess.run(["g++", *options, "main.cpp", f"{name}.cpp"], cwd=folder, check=True)
    subprocess.run([folder / "main"], check=True)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_program_of_the_page_runs(exported: Path, tmp_path: Path) -> None:
    program, _ = (block for block in blocks(PAGE) if block.language == "cpp")
    assert str(program.path) == "main.cpp"
    run_on_host(tmp_path, program.text, exported / "dirac", "quaternion_double")


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_two_matrices_of_the_page_share_the_order_of_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    call = [
        "export",
        "--precision",
        "single",
        "--entry",
        "real",
        "--name",
        "clusters",
        "--to",
        str(tmp_path / "kernel"),
    ]
    with pytest.raises(SystemExit) as stopped:
        app.run([*call, "--variant", "Sl-4-AoSoA-AoS@clustered/direct-32-2"])
    assert not stopped.value.code
    _, snippet = (block for block in blocks(PAGE) if block.language == "cpp")
    program = f"""
        #include "clusters.h"
        using namespace clusters;
        int main()
        {{
            const int n = 3, row_pointers[] = {{0, 1, 3, 3}}, columns[] = {{2, 0, 1}};
            const MatrixEntry values[] = {{1, 2, 3}}, other_values[] = {{4, 5, 6}};
            const cudaStream_t stream = nullptr;
            {snippet.text}
            return A.slots() == 8 && A.bytes() == B.bytes() && order == std::vector<int>{{1, 0, 2}} ? 0 : 1;
        }}
    """
    run_on_host(tmp_path, program, tmp_path / "kernel", "clusters")


@pytest.mark.exhaustive
@pytest.mark.skipif(nvcc.find() is None or shutil.which("cmake") is None, reason="nvcc or CMake is not installed")
def test_the_commands_of_the_page_build_the_example(exported: Path) -> None:
    lines = [line for block in blocks(PAGE) if block.language == "sh" for line in block.text.splitlines()]
    builds = [line for line in lines if line.startswith("cmake")]
    assert len(builds) == 2
    for line in builds:
        subprocess.run(line.split(), cwd=exported.parent, check=True)
    assert (exported / "dirac/build/example").exists()
