"""Snakemake with the profile for Slurm, in a copy of the repository, by a Slurm of one node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.checkouts import Checkout
from support.one_node import CPUS, OneNode

#: The profile as it is, with what is this Slurm's: no accounting, so that the queue is asked, and that often.
WORDS = (
    "--workflow-profile", "profiles/slurm", "--cores", str(CPUS),
    "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "20",
)  # fmt: skip
#: Where packages lie that only PYTHONPATH names, such as the plugin's in an environment of its own.
ELSEWHERE = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def environment(slurm: OneNode, checkout: Checkout) -> dict[str, str]:
    """Return the environment of a run: the copy of `repro`, the commands of this Slurm."""
    own = checkout.environment
    path = os.pathsep.join([str(slurm.folder / "bin"), own["PATH"]])
    packages = os.pathsep.join([own["PYTHONPATH"], *ELSEWHERE])
    return own | slurm.environment | {"PATH": path, "PYTHONPATH": packages}


def submit(slurm: OneNode, checkout: Checkout, said: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start Snakemake, its output in a file."""
    with said.open("wb") as out:
        return subprocess.Popen(
            checkout.command(*words, *WORDS, cores=False),
            cwd=checkout.folder, env=environment(slurm, checkout), stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
