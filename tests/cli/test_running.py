"""`repro run`: the command that it starts, and its folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.cli import app

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Give words to `repro run` in an empty folder; return the command line that it starts."""
    monkeypatch.chdir(tmp_path)

    def start(*words: str) -> list[str]:
        calls = []
        monkeypatch.setattr(os, "execv", lambda path, command: calls.append(command))
        with pytest.raises(SystemExit) as ended:
            app.run(["run", *words])
        assert ended.value.code == 0
        [call] = calls
        return call

    return start


def test_the_workflow_is_the_packages_whatever_the_folder_has(started, tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text("not ours")
    command = started("--cores", "3")
    assert command == [
        *(sys.executable, "-P", "-m", "snakemake"),
        *("--snakefile", str(REPOSITORY / "Snakefile"), "--cores", "3"),
    ]


def test_all_cores_that_it_may_use_are_used(started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 5, 7})
    command = started()
    assert command[-2:] == ["--cores", "3"]


def test_configurations_are_the_folders_or_the_packages_and_words_are_snakemakes(started, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("campaign: mine\n")
    words = ["--config", "config/paper.yaml", "--config", "mine.yaml", "--cores", "1", "--", "--dry-run", "report"]
    command = started(*words)
    files = [str(REPOSITORY / "config/paper.yaml"), "mine.yaml"]
    assert command[-7:] == ["--cores", "1", "--dry-run", "report", "--configfile", *files]
    assert started("mine.yaml", "--cores", "1", "report")[-5:] == [
        "--cores",
        "1",
        "report",
        "--configfile",
        "mine.yaml",
    ]


def test_a_configuration_that_is_not_there_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        app.run(["run", "--config", "no-such.yaml"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.splitlines()[:2] == [
        "error: no such configuration file",
        "  where: no-such.yaml",
    ]


def test_a_campaigns_name_in_place_of_its_file_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config", "demo.yaml").touch()
    with pytest.raises(SystemExit) as ended:
        app.run(["run", "demo"])
    assert ended.value.code == 1
    assert "what to do: repro run config/demo.yaml" in capsys.readouterr().err


@pytest.mark.sampled(1)
@pytest.mark.medium
@pytest.mark.parametrize("command", [["repro", "plan", "../mine.yaml"], ["repro", "run", "../mine.yaml", "--", "-n"],
                                     ["snakemake", "-n", "--cores", "1", "--configfile", "../mine.yaml"]])  # fmt: skip
def test_a_folder_with_an_umlaut_in_the_locale_c(command: list[str], tmp_path: Path) -> None:
    """The package lies there too; Python keeps to ASCII, in which the folder's name is not."""
    repository = Path(__file__).parents[2]
    folder = tmp_path / "Mühle"
    folder.mkdir()
    (folder.parent / "mine.yaml").write_text("device: opencl\nstudies: {compound_spmv: {problems: [tiny/dirac]}}\n")
    for name in ("src", "kernels", "config", "workflow", "profiles", "include", "Snakefile"):
        (folder / name).symlink_to(repository / name)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))},
        **{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(folder / "src")},
    }
    words = [sys.executable, "-P", "-m", *command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)
    text = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, text
    assert "Traceback" not in text
    assert "PanicException" not in text
