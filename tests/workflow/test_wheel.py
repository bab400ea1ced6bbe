"""A wheel of the project, installed for itself and used in an empty folder, away from any checkout."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from repro.campaign.receipts import code_hash
from repro.codegen import opencl_runtime
from support.checkouts import QUICK, REPOSITORY
from support.snakemake_report import SnakemakeReport

pytestmark = [pytest.mark.workflow, pytest.mark.medium]

#: Folders of the repository that go into a wheel, and where.
PACKED = {
    "src/repro": "repro",
    **{
        name: f"repro/files/{name}"
        for name in ("kernels", "config", "include", "workflow/rules", "workflow/report", "profiles")
    },
}
MULTIPLY = """
import numpy as np, scipy.sparse as sp
import repro
A = sp.random_array((300, 300), density=0.05, rng=1, format="csr")
x = np.arange(300.0)
assert np.allclose(repro.operator(A, device="opencl") @ x, A @ x)
print(repro.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the packages of this environment; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ["pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, REPOSITORY]
    subprocess.run([sys.executable, "-m", *words], check=True)
    [path] = folder.glob("*.whl")
    return path


def replays(path: Path) -> bool:
    """Whether a file is the configuration of a record, whose rows no wheel has."""
    return path.match("config/*.yaml") and yaml.safe_load(path.read_text()).get("replay", False)


class Installed:
    """An environment that has the wheel, and all else from the environment of the tests; an empty folder to use it in.

    The tests' own copy of the project is not seen: it is behind a `.pth` file, and those of a folder that is itself
    named by one are not read.
    """

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.prefix, self.folder = folder / "venv", folder / "empty"
        self.folder.mkdir()
        # as a user's folders often are, in a repository of something else
        author = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
        for words in (["init", "--quiet"], [*author, "commit", "--quiet", "--allow-empty", "--message", "Begin"]):
            subprocess.run(["git", "-C", folder, *words], check=True)
        venv.create(self.prefix, symlinks=True)
        python = self.prefix / "bin/python"
        words = ["pip", "--python", python, "install", "--no-deps", "--no-index", "--no-compile", wheel]
        subprocess.run([sys.executable, "-m", *words], check=True)
        [packages] = self.prefix.glob("lib/python*/site-packages")
        (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
        without = {"PYTHONPATH", "REPRO_MIRROR", "PYTHONDONTWRITEBYTECODE"}
        self.environment = {name: os.environ[name] for name in os.environ.keys() - without}
        # as if the environment were not activated: what calls `repro` has to find this one
        self.environment |= {
            "PATH": "/usr/bin:/bin",
            "REPRO_CACHE": str(folder / "cache"),
            "CUDA_VISIBLE_DEVICES": "-1",
        }
        if library := opencl_runtime.find_library():  # it lies in the tests' environment, which is another's prefix
            (folder / "vendors").mkdir()
            (folder / "vendors/cpu.icd").write_text(f"{library}\n")
            self.environment["OCL_ICD_VENDORS"] = str(folder / "vendors")

    def run(self, name: str, *words: str, code: int = 0) -> str:
        """Run a program of the environment in the folder; return what it prints."""
        command = [self.prefix / "bin" / name, *words]
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, cwd=self.folder, env=self.environment, text=True, check=False, **out)
        assert done.returncode == code, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


def test_a_wheel_holds_what_a_campaign_reads_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {f"repro/files/{name}" for name in ("Snakefile", "environment.yml", "environment-cuda.yml")}
    for source, target in PACKED.items():
        for path in (REPOSITORY / source).rglob("*"):
            if path.is_file() and path.suffix != ".pyc" and not replays(path):
                expected.add(f"{target}/{path.relative_to(REPOSITORY / source)}")
    assert names == expected


@pytest.mark.git
def test_a_source_archive_holds_all_that_git_has(tmp_path: Path) -> None:
    """The tests and the records among it, so that a distributor can run them; in a copy, without what lies about."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    tracked = [name for name in listed.split("\0") if name and (REPOSITORY / name).is_file()]
    for name in tracked:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).symlink_to(REPOSITORY / name)
    words = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", tmp_path]
    subprocess.run(words, cwd=tmp_path / "copy", check=True)
    [path] = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {*tracked, "PKG-INFO"}


def test_a_matrix_is_multiplied(installed: Installed) -> None:
    file = installed.run("python", "-W", "ignore", "-c", MULTIPLY).strip()
    assert Path(file).is_relative_to(installed.prefix)


def test_a_kernel_is_printed(installed: Installed) -> None:
    said = installed.run("repro", "render", "compound_spmv", "paper/block3-double/ELL-SoA-AoS", "--target", "sm_90")
    assert "__global__" in said


def test_a_kernel_is_exported(installed: Installed) -> None:
    words = ["--variant", "Sl-32-SoA-AoS/static-256-4", "--entry", "quaternion", "--precision", "double"]
    installed.run("repro", "export", *words, "--to", "quaternions")
    assert (installed.folder / "quaternions/CMakeLists.txt").is_file()


def test_the_code_is_what_it_is_in_a_checkout(installed: Installed) -> None:
    module = "repro.problems.registry"  # it names a file that the wheel has in the package
    words = f"from repro.campaign.receipts import code_hash; print(code_hash('{module}'))"
    assert installed.run("python", "-c", words).strip() == code_hash(module)


def test_what_is_missing_is_installed_by_the_command_that_messages_name(installed: Installed, wheel: Path) -> None:
    """Of the wheel that is there, without an index that knows it: all that `cpu` brings is there already."""
    said = installed.run("python", "-c", "from repro.package_data import install; print(install('cpu'))")
    assert said == f"pip install 'sparse-repro[cpu] @ {wheel.as_uri()}'\n"
    words = shlex.split(said)
    assert "Would install" not in installed.run("python", "-m", *words, "--dry-run", "--no-index")


@pytest.mark.wording
def test_what_is_installed_is_not_written_over(installed: Installed, tmp_path: Path) -> None:
    said = installed.run("repro", "resolve", "coo_papers", "--index", str(tmp_path / "ssstats.csv"), code=1)
    assert "belongs to the installed package" in said


@pytest.mark.exhaustive
def test_a_campaign_for_a_gpu_of_ones_own_is_planned_without_the_recorded_one(installed: Installed) -> None:
    """A wheel has no records; the file says what to write then."""
    words = ["--config", "config/second.yaml", "--cores", "1", "--", "--dry-run", "--config", "device=opencl"]
    said = installed.run("repro", "run", *words, code=1)
    assert "no such campaign to stand beside this one" in said
    assert "--config 'beside=[]'" in said
    assert "Measuring qc324, double, of compound_spmv" in installed.run("repro", "run", *words, "beside=[]")


@pytest.mark.exhaustive
def test_a_campaign_is_run(installed: Installed) -> None:
    study = {
        "problems": ["tiny/helmholtz"],
        "precisions": ["double"],
        "layouts": ["ELL-SoA-AoS"],
        "artifacts": ["table-1"],
        "timing": QUICK,
    }
    data = {"campaign": "mine", "device": "opencl", "studies": {"compound_spmv": study}}
    (installed.folder / "mine.yaml").write_text(yaml.safe_dump(data))
    installed.run("repro", "run", "--config", "mine.yaml", "--cores", "2")
    results = installed.folder / "results/mine"
    assert "published" in (results / "tables/compound_spmv/table-1.csv").read_text()
    assert (results / "report.html").is_file()
    assert "complete" in (results / "complete").read_text()
    # what it was run with names nothing of this environment: it can be given to others
    assert str(installed.prefix) not in (results / "config.yaml").read_text()
    [environment] = (results / "raw/environment").glob("*.json")
    assert yaml.safe_load(environment.read_text())["commit"] is None

    installed.run("repro", "run", "--config", "mine.yaml", "--", "--report", "shown.html")
    shown = SnakemakeReport.read(installed.folder / "shown.html")
    assert "results/mine/tables/compound_spmv/table-1.csv" in shown.results
