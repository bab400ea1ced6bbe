"""What thousands of small problems take: a dry run and a whole campaign of each number, in batches, on the CPU.

    PYTHONPATH=tests python tests/workflow/many_problems.py 300 3000
    PYTHONPATH=tests python tests/workflow/many_problems.py 300 3000 --dry-run --batch 1

Problems are generated, of some hundred rows, each of other values; times are as short as the protocol allows, so that
what is seen is the harness. Processor time stands beside time on the clock, since others may use the machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml

from support.checkouts import QUICK, Checkout

#: Precisions of all problems, a case each.
PRECISIONS = ("double",)


class Spent(NamedTuple):
    """Seconds of a command and of all that it started: on the clock, and of processors."""

    clock: float
    processors: float


def registered(count: int) -> list[dict[str, object]]:
    """Return as many tiny problems, in the form of the registry."""
    return [
        {
            "name": f"many/{number:04}",
            "source": "generated",
            "entry": "real",
            "kind": "diffusion",
            "parameters": {"points": [8 + number % 9, 12], "stencil": 5, "coefficients": "variable", "seed": number},
            "sets": ["many"],
        }
        for number in range(count)
    ]


def configure(checkout: Checkout, count: int, batch: int) -> str:
    """Write the registry of so many problems, and a campaign of them; return its file."""
    registry = checkout.folder / f"many{count}-problems.yaml"
    registry.write_text(yaml.safe_dump({"problems": registered(count)}))
    study = {"problems": "many", "precisions": [*PRECISIONS], "timing": QUICK}
    return checkout.configure(f"many{count}", study, registry=registry.name, batch=batch)


def run(checkout: Checkout, config: str, *words: str) -> Spent:
    """Run the workflow; print the end of what it says where it fails.

    Raises
    ------
    SystemExit
        It failed.
    """
    said = checkout.folder / "said"
    before, began = _processors(), time.monotonic()
    with said.open("wb") as out:
        command = checkout.command("all", "--configfile", config, *words)
        code = subprocess.run(
            command, cwd=checkout.folder, env=checkout.environment, stdout=out, stderr=out, check=False
        ).returncode
    if code:
        raise SystemExit(said.read_text()[-5000:])
    return Spent(time.monotonic() - began, _processors() - before)


def _processors() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Read the command line and run; a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", type=int, nargs="+", help="of problems")
    parser.add_argument("--batch", type=int, default=100, help="problems of a job at the most (100)")
    parser.add_argument("--dry-run", action="store_true", help="only plan")
    arguments = parser.parse_args()
    runs = {"dry run": ["--dry-run"]} | ({} if arguments.dry_run else {"whole": []})
    print(f"batch {arguments.batch}, {len(PRECISIONS)} precisions, {os.cpu_count()} processors")
    for what, words in runs.items():
        for count in arguments.counts:
            with tempfile.TemporaryDirectory(prefix="many-", ignore_cleanup_errors=True) as folder:
                checkout = Checkout(Path(folder))
                config = configure(checkout, count, arguments.batch)
                load = os.getloadavg()[0]
                spent = run(checkout, config, *words)
            print(
                f"{what:8} {count:5} problems: {spent.clock:7.1f} s, {spent.clock / count:.3f} a problem; "
                f"{spent.processors:7.1f} s of processors; load {load:.1f} before, {os.getloadavg()[0]:.1f} after",
                flush=True,
            )
    sys.exit(0)


if __name__ == "__main__":
    main()
