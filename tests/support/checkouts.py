"""A copy of the repository in which tests run Snakemake, and readers of its output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
#: Bytes by which a CPU's bandwidth is measured.
COPIED = '"opencl": 1 << 26'
#: As few launches as the protocol allows.
QUICK = {
    "screen_launches": 3,
    "finalists": 4,
    "per_group": 1,
    "launches": 10,
    "graph_launches": 2,
    "graph_replays": 5,
    "search_graph_launches": 2,
    "search_graph_replays": 5,
    "cold_launches": 5,
    "cpu_budget": 0.002,
    "rounds": 2,
    "noise": 1e9,
    "cpu_disturbed": 1e9,
}


@dataclass(frozen=True)
class Said:
    """How a run of Snakemake ended, and all that it printed."""

    code: int
    text: str

    @property
    def jobs(self) -> dict[str, int]:
        """Jobs of each rule, from the table that Snakemake prints before it starts."""
        table = self.text.partition("Job stats:")[2].partition("\n\n")[0]
        return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)}

    @property
    def nothing_to_do(self) -> bool:
        """Whether Snakemake found everything up to date."""
        return self.code == 0 and "Nothing to be done" in self.text


def run_to_its_end(command: list[str], folder: Path, environment: dict[str, str]) -> Said:
    """Run a command in a folder; return how it ended."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        text=True,
        check=False,
        timeout=1800,  # for what hangs: a busy machine takes many times as long as an idle one
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return Said(done.returncode, done.stdout)


def count_compile(jobs: dict[str, int]) -> int:
    """Return how many jobs compile modules of studies; there is a rule for each study, space and entry."""
    return sum(count for rule, count in jobs.items() if rule.startswith("compile_com") and rule != "compile_common")


class Checkout:
    """A copy of the files of the repository that a campaign needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("workflow", "profiles", "kernels", "config"):
            shutil.copytree(REPOSITORY / name, folder / name)
        # a copy of the code as well, with what Python has compiled: somebody may edit it while the tests run
        shutil.copytree(REPOSITORY / "src", folder / "src", ignore=shutil.ignore_patterns("*.pyc.*", "*.egg-info"))
        # its full size takes most of a small campaign
        yardsticks = folder / "src/repro/bench/yardsticks.py"
        code = yardsticks.read_text()
        assert COPIED in code
        yardsticks.write_text(code.replace(COPIED, '"opencl": 1 << 20'))
        for name in ("Snakefile", "environment.yml", "environment-cuda.yml"):
            shutil.copy(REPOSITORY / name, folder / name)

    def command(self, *words: str, cores: bool = True) -> list[str]:
        """Return the command line that starts Snakemake."""
        return [sys.executable, "-m", "snakemake", *(["--cores", "2"] if cores else []), *words]

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Python finds the copy of `repro`, and no GPU and no mirror but its own.

        The environment of the tests is not on PATH. What one process has compiled of the copy the next ones read,
        whatever holds for the repository itself.
        """
        own = Path(sys.executable).parent
        path = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != own)
        kept = {name: os.environ[name] for name in os.environ.keys() - {"REPRO_MIRROR", "PYTHONDONTWRITEBYTECODE"}}
        return kept | {
            "PATH": path,
            "PYTHONPATH": str(self.folder / "src"),
            "REPRO_MIRROR": str(self.folder),
            "CUDA_VISIBLE_DEVICES": "-1",
            "NO_COLOR": "1",
        }

    def snakemake(self, *words: str, cores: bool = True, path: Path | None = None) -> Said:
        """Run Snakemake to its end, with another folder on PATH; where nothing is made it needs no number of cores."""
        environment = self.environment
        if path is not None:
            environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
        return run_to_its_end(self.command(*words, cores=cores), self.folder, environment)

    def configure(self, name: str, study: dict[str, Any], **keys: Any) -> str:
        """Write a configuration of one study with few launches; return its file."""
        settings = {"timing": QUICK, "precisions": ["double"], "layouts": ["ELL-SoA-AoS"], **study}
        data = {
            "campaign": name,
            "device": "opencl",
            "studies": {"compound_spmv": settings},
            **keys,
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path.name


def wait_for_rows(store: Path, process: subprocess.Popen[bytes], count: int, seconds: float) -> list[str]:
    """Wait until a store has a number of complete lines, and return them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        text = store.read_text() if store.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        if len(lines) >= count:
            return lines
        time.sleep(0.02)
    pytest.fail(f"no rows to kill a run at; it ended with {process.poll()}")
