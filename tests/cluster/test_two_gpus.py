"""Two GPUs of one node: Slurm deals them out, jobs hold the one they got and nobody waits for another's."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from support.checkouts import Checkout
from support.one_node import GPUS, OneNode
from support.submitted import submit

pytestmark = [pytest.mark.workflow, pytest.mark.medium]

#: As many jobs as each GPU gets two of, and seconds that each holds it.
JOBS, HELD = 2 * len(GPUS), 4
#: What `repro measure` does until it opens the device, on a node with as many GPUs as Slurm has.
HOLD = """
import json, sys, time
from pathlib import Path
from repro.devices import locks, nvml
from repro.devices.selection import identities, resolve_device
nvml.list_gpus = lambda: [("NVIDIA H100", "sm_90", f"GPU-{number}") for number in range(int(sys.argv[3]))]
locks.PLACES = (Path(sys.argv[1]).parent,)
devices = identities(resolve_device("cuda"))
with locks.lock_devices(devices, "a test"):
    start = time.time()
    time.sleep(float(sys.argv[2]))
    held = {"devices": devices, "start": start, "end": time.time()}
Path(sys.argv[1]).write_text(json.dumps(held))
"""
#: A rule that asks as those do that measure.
SNAKEFILE = """
rule all:
    input: expand("held/{{n}}.json", n=range({jobs}))

rule measure:
    output: "held/{{n}}.json"
    log: "{{n}}.log"
    resources: gpu=1, runtime=5, mem_mb=500
    shell: "{python} -P hold.py {{output}} {held} {gpus} > {{log}} 2>&1"
"""


def test_jobs_of_one_node_hold_a_gpu_each(slurm: OneNode, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    snakefile = SNAKEFILE.format(jobs=JOBS, python=sys.executable, held=HELD, gpus=len(GPUS))
    (tmp_path / "Snakefile").write_text(snakefile)
    (tmp_path / "hold.py").write_text(HOLD)
    (tmp_path / "held").mkdir(mode=0o1777)
    (tmp_path / "held").chmod(0o1777)  # where locks lie everyone can write
    process = submit(slurm, checkout, tmp_path / "said", "all")
    assert process.wait(180) == 0, (tmp_path / "said").read_text()
    held = [json.loads((tmp_path / f"held/{n}.json").read_text()) for n in range(JOBS)]
    # nobody was told that a device is held by somebody else
    assert [(tmp_path / f"{n}.log").read_text() for n in range(JOBS)] == [""] * JOBS
    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for one in held:
        [gpu] = one["devices"]
        by_gpu.setdefault(gpu, []).append((one["start"], one["end"]))
    assert sorted(by_gpu) == [f"GPU-{number}" for number in range(len(GPUS))]
    for times in map(sorted, by_gpu.values()):
        assert all(end <= start for (_, end), (start, _) in pairwise(times))
    first, second = by_gpu.values()
    assert any(a < d and c < b for a, b in first for c, d in second), "never two at the same time"
