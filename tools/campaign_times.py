"""Measures what a campaign takes, beside what `repro plan` reckons: `make times`.

Each campaign runs in a folder of its own with nothing made before: no module, no problem, no row. Three are measured:
the first look (`config/demo.yaml`), the default campaign, and one matrix of a file, tuned by a predicted search where
there is a GPU, in the papers' space where there is none. Seconds of jobs are sums over a step's jobs; on several cores
jobs run side by side, so that a whole campaign takes less than their sum.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[1]
#: Rows of the grid whose matrix is tuned from a file.
GRID = 40
#: A line of Snakemake with the time of the next, and what begins and ends a job.
STAMP = re.compile(r"^\[(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]$")
FINISHED = re.compile(r"^Finished jobid: (\d+) \(Rule: (\w+)\)$")
BEGUN = re.compile(r"^Job (\d+): ")
#: Steps by the beginning of a rule's name; `conclude` is report and check.
STEPS = {
    "problem": "build",
    "compile": "compile",
    "measure": "measure",
    "tables": "show",
    "figures": "show",
    "report": "conclude",
    "check": "conclude",
}


def one_matrix(folder: Path) -> Path:
    """Write a matrix and a configuration that tunes it; return the configuration's name."""
    import numpy as np
    import scipy.io
    import scipy.sparse as sp

    from repro.codegen.opencl_runtime import processor
    from repro.devices.selection import find_gpus

    line = sp.diags_array([-np.ones(GRID - 1), 2 * np.ones(GRID), -np.ones(GRID - 1)], offsets=[-1, 0, 1])
    plane = sp.kron(line, sp.eye_array(GRID)) + sp.kron(sp.eye_array(GRID), line)
    scipy.io.mmwrite(folder / "grid.mtx", sp.coo_array(plane), symmetry="general")
    study: dict[str, object] = {"problems": [{"path": "grid.mtx"}], "precisions": ["double"]}
    if find_gpus():
        # the spaces that the record was searched for
        study |= {"search": "predicted", "training": ["h200"], "compile": "on_demand"}
        study["space"] = ["paper_tuned", "extended"]
        (folder / "results").mkdir()
        (folder / "results/h200").symlink_to(REPOSITORY / "results/h200")
    else:
        print(f"no GPU: the matrix is tuned in the papers' space on {processor()}", file=sys.stderr)
    (folder / "own.yaml").write_text(yaml.safe_dump({"campaign": "own", "studies": {"compound_spmv": study}}))
    return Path("own.yaml")


def repro(folder: Path, *words: str) -> str:
    """Run a command of this checkout in a folder; return what it printed."""
    before = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY / "src"), before)))}
    command = [sys.executable, "-P", "-m", "repro", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}:\n{done.stdout}{done.stderr}")
    return done.stdout if words[0] == "plan" else done.stdout + done.stderr


def seconds_of_jobs(log: str) -> Iterator[tuple[str, str, float, float]]:
    """Yield step, study, seconds and time of the end of each job, by the stamps of Snakemake's lines."""
    stamp, begun = 0.0, {}
    for line in log.splitlines():
        if found := STAMP.match(line):
            stamp = datetime.strptime(found[1], "%a %b %d %H:%M:%S %Y").timestamp()
        elif found := BEGUN.match(line):
            begun[found[1]] = stamp
        elif (found := FINISHED.match(line)) and found[1] in begun:
            kind, _, rest = found[2].partition("_")
            if kind in STEPS:
                yield STEPS[kind], rest, stamp - begun[found[1]], stamp


def study_of(rest: str, studies: Sequence[str]) -> str:
    """Return the study in the rest of a rule's name; the rest itself for none, such as the common module."""
    return next((study for study in studies if rest.removeprefix("batch_").startswith(study)), rest)


def times(name: str, config: Path, folder: Path, cores: int) -> list[tuple[str, str, str, str, str]]:
    """Run a campaign in an empty folder; return lines of a table: campaign, step, study, reckoned and taken seconds."""
    plan = json.loads(repro(folder, "plan", "--config", str(config), "--cores", str(cores), "--json"))
    start = time.time()
    log = repro(folder, "run", "--config", str(config), "--cores", str(cores))
    took = time.time() - start
    reckoned: dict[tuple[str, str], float] = {}
    for step, seconds in plan["jobs"].items():
        of_study = seconds if isinstance(seconds, Mapping) else {"": seconds}
        reckoned |= {(step, study): value for study, value in of_study.items()}
    taken, tuned = dict.fromkeys(reckoned, 0.0), start
    for step, rest, seconds, end in seconds_of_jobs(log):
        of = (step, "" if step in ("build", "conclude") else study_of(rest, [study for _, study in reckoned if study]))
        taken[of] = taken.get(of, 0.0) + seconds
        if step == "measure":
            tuned = max(tuned, end)
    lines = [(name, *of, f"{reckoned.get(of, 0):.0f}", f"{seconds:.0f}") for of, seconds in taken.items()]
    return [
        *lines,
        (name, "until all is measured", "", "", f"{tuned - start:.0f}"),
        (name, "in all", "", f"{plan['seconds']:.0f}", f"{took:.0f}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaigns", nargs="*", default=["demo", "own", "default"], help="of demo, own, default")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    head = ("campaign", "step", "study", "plan, s", "took, s")
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores, {given.cores} used\n")
    print(f"| {' | '.join(head)} |\n|---|---|---|---:|---:|", flush=True)
    for name in given.campaigns:
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as made:
            folder = Path(made)
            files = {"demo": "config/demo.yaml", "default": "config/config.yaml"}
            config = REPOSITORY / files[name] if name in files else one_matrix(folder)
            for line in times(name, config, folder, given.cores):
                print(f"| {' | '.join(line)} |", flush=True)
    print(f"\nload {' '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
