"""Measures what README's first commands take in a fresh clone: `make minutes`.

Each appends a line to docs/sources/minutes.csv: date, processor, cores, command and minutes. The pages state the last
line of each command (`python docs/make_pages.py`). The environment that `make demo` makes is measured by itself.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
MINUTES = REPOSITORY / "docs/sources/minutes.csv"
ENVIRONMENT = "make environment"
#: Cores on which commands are measured, and the load of others beyond which they are not.
CORES, IDLE = 2, 0.3
#: Variables of an outer make, or of an environment that is active.
_OUTER = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH", "ARGS")


def start_commands(page: Path = REPOSITORY / "README.md") -> list[str]:
    """Return the commands of README's first block of a shell, without comments; the first clones the project."""
    block = re.search(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    if block is None:
        sys.exit(f"{page} has no block of a shell")
    return [line.partition(" #")[0].strip() for line in block[1].splitlines()]


def processor() -> str:
    """Return the name of this machine's processor."""
    text = Path("/proc/cpuinfo").read_text()
    named = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return named[1] if named else "unknown"


def run(command: str, folder: Path) -> None:
    """Run a shell command in a folder, as from a terminal; if it fails, exit with its output."""
    clean = {name: value for name, value in os.environ.items() if name not in _OUTER}
    done = subprocess.run(command, shell=True, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}:\n{done.stdout}{done.stderr}")


def measured(commands: list[str], folder: Path) -> list[tuple[str, float]]:
    """Run commands in a clone; return each with the minutes that it took."""
    minutes = []
    for command in commands:
        start = time.monotonic()
        run(command, folder)
        minutes.append((command, (time.monotonic() - start) / 60))
        print(f"{command}: {minutes[-1][1]:.1f} minutes", flush=True)
    return minutes


def append(minutes: list[tuple[str, float]], path: Path = MINUTES) -> None:
    """Append a line for each command."""
    with path.open("a", newline="", encoding="utf-8") as file:
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        csv.writer(file, lineterminator="\n").writerows(
            (today, processor(), CORES, command, f"{taken:.1f}") for command, taken in minutes
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", help="those to measure; by default all of README, the environment first")
    parser.add_argument("--busy", action="store_true", help="measure although the machine has other work")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    if load > IDLE and not given.busy:
        sys.exit(f"error: this machine is not idle, its load is {load:.1f}: measure later")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory(prefix="clone-") as made:
        clone = Path(made, "sparse-repro")
        run(f"git clone --quiet {REPOSITORY} {clone}", Path(made))
        append(measured([ENVIRONMENT, *(given.commands or start_commands()[1:])], clone))


if __name__ == "__main__":
    main()
