"""The command line as a whole: help, versions, and one message for each failure that a user can cause."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
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
    said = subprocess.run([sys.executable, "-m", "repro", "--help"], capture_output=True, text=True, check=True)
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


@pytest.mark.parametrize("columns", [60, 80, 110, 160])
def test_help_fills_its_lines_at_any_width(columns: int, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """A line of a paragraph ends where the next word has no room, and an example is in a line of its own."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in ("measure", "check", "results"):
        assert run(name, "--help") == 0
        prose = capsys.readouterr().out.partition("Usage: ")[2].partition("\u256d")[0]
        lines = [line.strip() for line in prose.splitlines()[1:]]
        examples = lines[lines.index(next(line for line in lines if line.startswith("Example"))) :]
        assert all(line.startswith("repro ") or columns < 110 for line in examples[1:] if line)
        for line, following in pairwise(lines[: len(lines) - len(examples)]):
            if line and following:
                assert len(line) + 1 + len(following.split()[0]) > columns - 3, (name, line, following)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"sparse-repro {__version__}\n"


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mesure") == 2
    assert "mesure" in capsys.readouterr().err


def test_the_demo_is_a_target_of_make(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demo") == 2
    assert "`make demo` in a checkout" in capsys.readouterr().err
    assert run("--help") == 0
    assert "demo" not in capsys.readouterr().out


def test_a_failure_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "--config", "no-such.yaml") == 1
    said = capsys.readouterr()
    assert said.err == "error: no such configuration file\n  where: no-such.yaml\n  what to do: correct the path\n"
    assert said.out == ""


def test_a_word_that_is_no_choice_has_no_prefix_of_a_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "foo") == 2
    said = capsys.readouterr().err
    assert "'foo' is not one of" in said and "Value error" not in said


@pytest.mark.parametrize(
    "words", [["--debug", "config", "--config", "no.yaml"], ["config", "--config", "no.yaml", "--debug"]]
)
def test_debug_shows_the_traceback(words: list[str]) -> None:
    with pytest.raises(ReproError):
        app.run(words)


@pytest.mark.parametrize(
    ("number", "path"),
    [
        *((number, "results/x.parquet") for number in (errno.ENOSPC, errno.EACCES, errno.ENOENT, errno.ESTALE)),
        *((number, None) for number in (errno.ENOSPC, errno.EFBIG, errno.EMFILE)),
    ],
)
def test_failures_of_the_file_system_are_one_message(
    number: int, path: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number), path)

    with pytest.raises(typer.Exit) as stopped:
        app.report_errors(fail)()
    assert stopped.value.exit_code == 1
    said = capsys.readouterr().err
    assert "a file cannot be read or written" in said and os.strerror(number) in said
    assert path is None or path in said
    assert "Traceback" not in said


def test_a_bug_keeps_its_traceback() -> None:
    def fail() -> None:
        raise OSError(errno.EBADF, "bad file descriptor")

    with pytest.raises(OSError, match="bad file"):
        app.report_errors(fail)()


def test_an_interruption_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as stopped:
        app.report_errors(fail)()
    assert stopped.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.wording
def test_a_really_full_disk_ends_in_one_message(tmp_path: Path) -> None:
    """Linux's /dev/full fails every write as a full disk does."""
    target = tmp_path / "full"
    target.symlink_to("/dev/full")
    code = (
        "from repro.cli import app\n"
        "def write():\n"
        f"    with open({str(target)!r}, 'w') as file:\n"
        "        file.write('x')\n"
        "app.report_errors(write)()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "actual: No space left on device" in done.stderr


def test_a_limit_of_the_size_of_files_ends_in_one_message(tmp_path: Path) -> None:
    """What a batch system sets by `ulimit -f`."""
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from repro.cli import app\n"
        "app.run(['config', '--schema', '--folder', sys.argv[1]])"
    )
    # coverage would write a file of its own at the end
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "actual: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_lack_of_memory_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise MemoryError("Unable to allocate 1 TiB")

    with pytest.raises(typer.Exit):
        app.report_errors(fail)()
    assert capsys.readouterr().err.startswith("error: not enough memory\n  actual: Unable to allocate 1 TiB")
