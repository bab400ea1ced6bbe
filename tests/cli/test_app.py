"""The command line as a whole: help, versions, and one message for each failure that a user can cause."""

from __future__ import annotations

import errno
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from repro import __version__
from repro.cli import app
from repro.errors import ReproError


@pytest.fixture(autouse=True)
def _without_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(app._state, "debug", False)


def run(*words: str) -> int:
    """Run the application in this process and return its exit code."""
    with pytest.raises(SystemExit) as stopped:
        app.run(words)
    return int(stopped.value.code or 0)


def test_help_names_every_command() -> None:
    said = subprocess.run([sys.executable, "-m", "repro.cli", "--help"], capture_output=True, text=True, check=True)
    assert all(f" {name} " in said.stdout for name in app.COMMANDS)


def test_help_is_quick_since_it_imports_no_command() -> None:
    code = (
        "import sys\n"
        "from repro.cli import app\n"
        "try:\n    app.run(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'scipy', 'pandas', 'pydantic', 'matplotlib') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--help") == 0
    assert f"repro {name}" in capsys.readouterr().out
    command = app.COMMANDS[name]
    function = getattr(import_module(f"repro.cli.{command.module}"), command.function)
    assert "Example" in function.__doc__


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"sparse-repro {__version__}\n"


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mesure") == 2
    assert "mesure" in capsys.readouterr().err


def test_a_failure_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "--config", "no-such.yaml") == 1
    said = capsys.readouterr()
    assert said.err == "error: no such configuration file\n  where: no-such.yaml\n"
    assert said.out == ""


@pytest.mark.parametrize(
    "words", [["--debug", "config", "--config", "no.yaml"], ["config", "--config", "no.yaml", "--debug"]]
)
def test_debug_shows_the_traceback(words: list[str]) -> None:
    with pytest.raises(ReproError):
        app.run(words)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EACCES, "no permission"),
        (errno.EROFS, "no permission"),
    ],
)
def test_failures_of_the_file_system_are_one_message(
    number: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError(number, "the system's words", "results/x.parquet")

    with pytest.raises(typer.Exit) as stopped:
        app.reported(fail)()
    assert stopped.value.exit_code == 1
    said = capsys.readouterr().err
    assert message in said
    assert "results/x.parquet" in said
    assert "Traceback" not in said


def test_a_bug_keeps_its_traceback() -> None:
    def fail() -> None:
        raise OSError(errno.EBADF, "bad file descriptor")

    with pytest.raises(OSError, match="bad file"):
        app.reported(fail)()


def test_an_interruption_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as stopped:
        app.reported(fail)()
    assert stopped.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_really_full_disk_ends_in_one_message(tmp_path: Path) -> None:
    """Linux's /dev/full fails every write as a full disk does."""
    target = tmp_path / "full"
    target.symlink_to("/dev/full")
    code = (
        "from repro.cli import app\n"
        "def write():\n"
        f"    with open({str(target)!r}, 'w') as file:\n"
        "        file.write('x')\n"
        "app.reported(write)()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "error: the disk is full" in done.stderr
