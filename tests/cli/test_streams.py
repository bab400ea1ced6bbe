"""Standard streams that are closed, full or read no more: one message at most, and the exit code in any case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.medium

REPOSITORY = Path(__file__).parents[2]
CLOSED = (
    "error: standard output is closed, and there is something to print\n"
    "  what to do: leave it open, or send it to a file or to /dev/null\n"
)
FULL = "error: a file cannot be read or written\n  where: standard output\n  actual: No space left on device\n"
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


def shell(line: str, unbuffered: bool = False) -> tuple[int, str, str]:
    """Run a line of bash in which `repro` is the command; return its exit code and what it wrote."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1" if unbuffered else ""}
    function = f'set -o pipefail; repro() {{ "{sys.executable}" -m repro "$@"; }}; '
    command = ["bash", "-c", function + line]
    said = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return said.returncode, said.stdout, said.stderr


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("words", ["list entries", "--version", "--help"])
def test_a_closed_output_is_one_message(words: str, unbuffered: bool) -> None:
    assert shell(f"repro {words} >&-", unbuffered) == (1, "", CLOSED)


@needs_dev_full
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("words", ["list entries", "--version", "--help"])
def test_a_full_output_is_one_message(words: str, unbuffered: bool) -> None:
    code, _, said = shell(f"repro {words} > /dev/full", unbuffered)
    assert code == 1
    assert said.startswith(FULL)
    assert said.count("\n") == 3


def test_closed_errors_and_input_take_nothing_from_what_is_printed() -> None:
    expected = shell("repro list entries")
    assert expected[0] == 0
    assert shell("repro list entries <&- 2>&-") == expected


def test_with_all_closed_the_exit_code_says_how_it_went() -> None:
    assert shell("repro list entries <&- >&- 2>&-") == (1, "", "")
    assert shell("repro config --config no-such.yaml <&- >&- 2>&-") == (1, "", "")
    assert shell("repro no-such-command <&- >&- 2>&-") == (2, "", "")


@needs_dev_full
def test_what_cannot_be_told_keeps_its_exit_code() -> None:
    assert shell("repro config --config no-such.yaml 2> /dev/full") == (1, "", "")
    assert shell("repro compare no-such another 2> /dev/full") == (2, "", "")
    assert shell("repro no-such-command 2> /dev/full") == (2, "", "")


@pytest.mark.parametrize("words", ["list entries", "--help"])
def test_nobody_who_has_read_enough_is_told(words: str) -> None:
    """Here nobody reads from the start: what comes after the pipe is gone at once."""
    code, out, said = shell(f"(sleep 0.05; repro {words}) | :")
    assert (code, out, said) == (1, "", "")
    assert shell(f"repro {words} 2>&1 | head -n 1")[1].count("\n") == 1


def test_a_file_does_not_come_to_lie_in_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library or a child then writes to standard output would go into it."""
    code = (
        "import os, sys\nfrom repro.cli.console import open_streams\nopen_streams()\n"
        f"file = open({str(tmp_path / 'result')!r}, 'w')\n"
        "file.write(str(file.fileno() > 2))\nfile.flush()\nos.system('echo from a child; echo and so >&2')\n"
    )
    subprocess.run(["bash", "-c", f'"{sys.executable}" -c "$0" <&- >&- 2>&-', code], check=True, timeout=60)
    assert (tmp_path / "result").read_text() == "True"


def test_letters_that_the_encoding_lacks_are_no_failure() -> None:
    for encoding in ("ascii", "latin-1"):
        assert shell(f"PYTHONIOENCODING={encoding} repro list entries > /dev/null") == (0, "", "")
