"""The environment record."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from repro.bench import environment
from repro.bench.environment import describe_environment, package_hash, record
from repro.bench.runnable import Workspace
from repro.campaign.workflow import report_commit
from repro.cli.doctor import check_python
from repro.codegen.build_cache import Module
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClDevice
from repro.problems.matrix import Matrix
from repro.sparse.operands import make_operands


def test_the_compiler_is_the_one_that_made_the_modules(
    cpu_device: OpenClDevice, modules_folder: Path, small_problem: Callable[..., Matrix], tmp_path: Path
) -> None:
    modules = shutil.copytree(modules_folder, tmp_path / "modules")
    manifest = modules / "cpu" / "common.json"
    replace(Module.load(manifest), compiler="another one", flags=("-O9",)).save(manifest)
    workspace = Workspace(Devices([cpu_device]), make_operands(small_problem("real"), "double", 1), modules)
    described = describe_environment(workspace)
    assert (described["compiler"], described["flags"]) == ("another one", ["-O9"])
    assert described["target"] == "cpu"
    # times by the host clock depend on the host
    assert described["host_cpus"] == os.cpu_count() and described["kernel"] == platform.release()
    assert {"host_cpu", "cpus_allowed", "host_memory_bytes", "os", "libc", "container"} <= described.keys()
    workspace.release()


def test_the_commit_is_that_of_the_code_wherever_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_here() -> dict[str, object]:
        return environment._commit.__wrapped__()

    there = of_here()
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    assert of_here() == there
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))  # as within one of its hooks
    assert of_here() == there
    monkeypatch.delenv("GIT_DIR")
    # a copy of the files within another repository is of no commit
    (tmp_path / "copy").mkdir()
    monkeypatch.setattr(environment, "CHECKOUT", tmp_path / "copy")
    assert of_here() == {"commit": None, "dirty": None}


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """Git is asked by each call, not once."""
    for function in (environment._commit, environment.checkout, environment.commit_refusal):
        function.cache_clear()
    yield
    for function in (environment._commit, environment.checkout, environment.commit_refusal):
        function.cache_clear()


@pytest.mark.git
@pytest.mark.usefixtures("asked_anew")
def test_the_commit_of_a_checkout_of_another_owner_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that mounts it; the variable is git's own, for its tests."""
    commit = environment._commit.__wrapped__()
    assert commit["commit"]
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    words = ["git", "-C", str(environment.CHECKOUT), "rev-parse", "HEAD"]
    assert "dubious ownership" in subprocess.run(words, capture_output=True, text=True, check=False).stderr
    environment.checkout.cache_clear()
    assert environment._commit() == commit
    assert environment.commit_refusal() is None


@pytest.mark.git
@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize(
    ("git", "reason"), [("#!/bin/sh\necho 'fatal: no' >&2; exit 128\n", "fatal: no"), ("", "started")]
)
def test_a_commit_that_git_does_not_say_is_missed_in_words(
    git: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `repro doctor` and by each run; git is too old to take a folder of another owner, damaged, or not there."""
    if git:
        (tmp_path / "git").write_text(git)
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reason in str(environment.commit_refusal())
    (finding,) = (finding for finding in check_python() if finding.what == "commit")
    assert not finding.good
    assert reason in finding.found
    assert "safe.directory" in finding.todo
    report_commit()
    assert reason in capsys.readouterr().err


def test_a_study_s_own_packages_are_recorded(
    cpu_device: OpenClDevice, modules_folder: Path, small_problem: Callable[..., Matrix]
) -> None:
    workspace = Workspace(Devices([cpu_device]), make_operands(small_problem("real"), "double", 1), modules_folder)
    assert "pytest" not in describe_environment(workspace)["packages"]
    assert describe_environment(workspace, ("pytest", "no-such-package"))["packages"]["pytest"] == pytest.__version__
    workspace.release()


@pytest.mark.parametrize("edited", ["common/module.j2", "dialects/cuda.h"])
def test_the_source_is_another_one_where_a_template_was_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    for folder in ("common", "dialects"):
        shutil.copytree(f"kernels/{folder}", tmp_path / "kernels" / folder)
    monkeypatch.chdir(tmp_path)
    # not as the process has it, which looks once
    before = package_hash.__wrapped__()
    assert package_hash.__wrapped__() == before
    template = tmp_path / "kernels" / edited
    template.write_text(template.read_text() + "\n")
    assert package_hash.__wrapped__() != before


def test_a_damaged_record_is_deleted_and_one_that_cannot_be_read_now_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, own, damaged = (tmp_path / f"{record({'device': name}, tmp_path)}.json" for name in "abc")
    damaged.write_text("{}")
    reading = Path.read_bytes

    def read(path: Path) -> bytes:
        if path in (kept, own):
            raise OSError("stale file handle")
        return reading(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert record({"device": "b"}, tmp_path) == own.stem
    assert sorted(tmp_path.iterdir()) == sorted([kept, own])
