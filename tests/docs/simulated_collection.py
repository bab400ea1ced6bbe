"""What docs/collection.md reckons with: an index of the collection's form, its sizes drawn, and plans made of it.

The collection's own index is asked over the network, which tests and pages have to do without. What is public of it,
and how far this one is like it, is in docs/collection.md.

    python tests/docs/simulated_collection.py

writes docs/collection.csv anew; a test holds the file against what is reckoned now.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from repro.campaign.configuration import resolve
from repro.campaign.estimate import RATES, Estimate, estimate
from repro.campaign.plan import Plan, make_plan
from repro.codegen.targets import get_target
from repro.config import read_yaml
from repro.problems.registry import Indexed, load_collection, read_csv

REPOSITORY = Path(__file__).parents[2]
RECKONED = REPOSITORY / "docs/collection.csv"
CONFIG = REPOSITORY / "config/collection.yaml"
SEED = 1
#: Matrices in all, and the square ones among them.
MATRICES, SQUARE = 2893, 2126
#: Shares of the kinds of values; an assumption.
VALUES = {"real": 0.75, "binary": 0.22, "complex": 0.03}
#: Mean and standard deviation of the decimal logarithms of non-zeros, and of non-zeros a row; an assumption.
NONZEROS, A_ROW = (4.95, 1.2), (0.95, 0.35)
#: The largest ones: group, name, thousands of rows, millions of non-zeros.
LARGEST = (
    ("Sybrandt", "MOLIERE_2016", 30_240, 6_669),
    ("GAP", "GAP-urand", 134_218, 4_295),
    ("GAP", "GAP-kron", 134_218, 4_223),
    ("Schenk", "nlpkkt240", 28_000, 761),
    ("Schenk", "nlpkkt200", 16_200, 440),
    ("VLSI", "stokes", 11_400, 349),
    ("Janna", "Queen_4147", 4_100, 316),
    ("Fluorem", "HV15R", 2_000, 283),
    ("Schenk", "nlpkkt160", 8_300, 225),
)
#: Of the machine that is reckoned with: an H200's generation, and cores beside it.
TARGET, CORES = "sm_90", 16
GPUS = (1, 2, 4, 8)


def simulated() -> list[Indexed]:
    """Draw the index: the largest matrices as they are, all others by chance, the same each time."""
    random = np.random.default_rng(SEED)
    count = MATRICES - len(LARGEST)
    nonzeros = 10 ** random.normal(*NONZEROS, count)
    rows = np.maximum(nonzeros / 10 ** random.normal(*A_ROW, count), np.sqrt(nonzeros))  # no fuller than full
    square = random.permutation(count) < SQUARE - len(LARGEST)
    columns = np.where(square, rows, rows * 10 ** random.uniform(0.1, 1, count))
    values = random.choice(list(VALUES), count, p=list(VALUES.values()))
    known = [
        Indexed(group, name, 1000 * thousands, 1000 * thousands, 1_000_000 * millions, "real", "known")
        for group, name, thousands, millions in LARGEST
    ]
    drawn = [
        Indexed("Drawn", f"matrix_{number}", *(int(np.ceil(size)) for size in sizes), str(value), "drawn")
        for number, (*sizes, value) in enumerate(zip(rows, columns, nonzeros, values, strict=True))
    ]
    return [*known, *drawn]


def write_index(path: Path) -> None:
    """Write the drawn index as a file of the form of `ssstats.csv`."""
    lines = [
        f"{m.group},{m.name},{m.rows},{m.columns},{m.nonzeros},{int(m.dtype != 'complex')},{int(m.dtype == 'binary')},"
        f"0,0,0,0,{m.kind}"
        for m in simulated()
    ]
    path.write_text("\n".join([str(len(lines)), "drawn", *lines]) + "\n")


def make_folder(folder: Path) -> None:
    """Lay out a folder with the repository's configurations whose set of square matrices is resolved by that index."""
    shutil.copytree(REPOSITORY / "config", folder / "config")
    write_index(folder / "ssstats.csv")
    matrices, dated = read_csv(folder / "ssstats.csv")
    file = folder / "config/collections/square.yaml"
    load_collection(REPOSITORY / file.relative_to(folder)).resolve(matrices, "ssstats.csv", dated, "drawn").write(file)
    for study, settings in read_yaml(CONFIG)["studies"].items():
        for campaign in settings.get("training", ()):  # no search is taken, so that nothing has to be learnt
            (folder / "results" / campaign / "raw" / study).mkdir(parents=True)


def plan(batch: int | None = None, **compound_spmv: Any) -> Plan:
    """Plan the shipped campaign, with other settings of it and its first study; in a folder of `make_folder`."""
    config = read_yaml(CONFIG)
    config["studies"]["compound_spmv"].update(compound_spmv)
    config["batch"] = batch or config["batch"]
    return make_plan(resolve({**config, "device": "opencl"}))  # reckoned with another target


def reckon() -> dict[str, str]:
    """Return all that the page states, by a line's name."""
    index = simulated()
    sizes = np.array([matrix.nonzeros for matrix in index])
    square = [matrix for matrix in index if matrix.rows == matrix.columns]
    with TemporaryDirectory() as folder, chdir(folder):
        make_folder(Path(folder))
        taken = load_collection(Path("config/collections/square.yaml")).problems
        target = get_target(TARGET)
        needs, exhaustive = estimate(plan(), target), estimate(plan(search="exhaustive"), target)
        unbatched = estimate(plan(batch=1), target)
    shares = (5, 25, 50, 75, 95, 99)
    said: dict[str, float] = {
        "matrices": len(index),
        "square": len(square),
        "square, real, of 1,000 to 100,000 rows and less than 2 million non-zeros": sum(
            m.dtype == "real" and 1000 <= m.rows <= 100_000 and m.nonzeros < 2_000_000 for m in square
        ),
        "billions of non-zeros": sizes.sum() / 1e9,
        "bytes a non-zero where all files have 750 GB": 750e9 / sizes.sum(),
        **{f"non-zeros, {share} %": value for share, value in zip(shares, np.percentile(sizes, shares), strict=True)},
        "taken": len(taken),
        **{f"taken, {values}": sum(m.values == values for m in taken) for values in VALUES},
        "too large": len(square) - len(taken),
        "billions of non-zeros taken": sum(m.nonzeros for m in taken) / 1e9,
        "percent of all non-zeros taken": 100 * sum(m.nonzeros for m in taken) / sizes.sum(),
        "cases": len(needs.jobs),
        "modules": needs.modules[0],
        "minutes to compile": max(sum(needs.compile_seconds) / CORES, *needs.compile_seconds) / 60,
        "minutes to build": max(sum(needs.build_seconds) / CORES, *needs.build_seconds) / 60,
        "GiB on disk": needs.disk_bytes / 2**30,
        "GiB of device memory": needs.device_bytes / 2**30,
        "million variants": sum(job.variants for job in needs.jobs) / 1e6,
        "million tried": sum(job.tried for job in needs.jobs) / 1e6,
        "variants of a case, compressed_coo": max(job.variants for job in needs.jobs if job.study == "compressed_coo"),
        "jobs that measure": needs.made[1],
        "hours to start them": needs.made[1] * RATES["cuda"].start / 3600,
        "hours saved by batches": (unbatched.measuring() - needs.measuring()) / 3600,
        **_of_studies(needs, "measuring"),
        **_of_studies(exhaustive, "measuring, exhaustive"),
        "hours saved": (exhaustive.measuring() - needs.measuring()) / 3600,
        **{f"hours, {gpus} GPUs": needs.seconds(CORES, gpus) / 3600 for gpus in GPUS},
        **{f"hours, {gpus} GPUs, exhaustive": exhaustive.seconds(CORES, gpus) / 3600 for gpus in GPUS},
        "seconds of the median case": float(np.median([job.seconds for job in needs.jobs])),
        "minutes of the longest case": max(job.seconds for job in needs.jobs) / 60,
        "percent of hours in the tenth of the longest cases": _in_the_longest(needs, 0.1),
    }
    return {name: f"{value:.6g}" for name, value in said.items()}


def _of_studies(needs: Estimate, what: str) -> Mapping[str, float]:
    studies = dict.fromkeys(job.study for job in needs.jobs)
    hours = {study: sum(job.seconds for job in needs.jobs if job.study == study) / 3600 for study in studies}
    return {f"hours of {what}, {study}": number for study, number in hours.items()}


def _in_the_longest(needs: Estimate, share: float) -> float:
    seconds = sorted((job.seconds for job in needs.jobs), reverse=True)
    return 100 * sum(seconds[: round(share * len(seconds))]) / sum(seconds)


def write(path: Path) -> None:
    """Write what is reckoned, a line each."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["line", "value"])
        writer.writerows(reckon().items())


if __name__ == "__main__":
    write(RECKONED)
