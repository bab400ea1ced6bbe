"""Files of a user's own by the examples of README.md, as they are written: run, solved with, and taken away.

One file that is refused costs the others nothing.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import sys
from typing import Any

import meshio
import pyarrow.parquet as pq
import pytest
import yaml

from repro.sparse.compound.defaults import RECORDED
from support.checkouts import QUICK, REPOSITORY, Checkout, Said, run_to_its_end

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

N = 40
HERMITIAN = "\n".join(
    ["%%MatrixMarket matrix coordinate complex hermitian", f"{N} {N} {2 * N - 1}"]
    + [f"{i} {i} {i}.5 0" for i in range(1, N + 1)]
    + [f"{i + 1} {i} 0.25 -{i}e-2" for i in range(1, N)]
)
PATTERN = "\n".join(
    ["%%MatrixMarket matrix coordinate pattern general", f"{N} {N} {2 * N}"]
    + [f"{i} {j}" for i in range(1, N + 1) for j in {i, i % N + 1}]
)
#: Both halves of a symmetric matrix, which would be added up.
BOTH = "%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 1\n2 1 5\n1 2 5\n"
POINTS = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
TETRAHEDRA = [[0, 1, 2, 3], [1, 2, 3, 4]]


def block_after(words: str) -> str:
    """Return the first block of code in README.md after some words."""
    text = (REPOSITORY / "README.md").read_text()
    block = re.search(r"^```\w+\n(.*?)^```$", text.partition(words)[2], re.MULTILINE | re.DOTALL)
    assert block is not None
    return block[1]


def example() -> dict[str, Any]:
    """Return the configuration that README.md shows for files of one's own."""
    data: dict[str, Any] = yaml.safe_load(block_after("## Your own matrix\n"))
    return data


def run_in(checkout: Checkout, *command: str) -> Said:
    """Run a command in the checkout, by the Python of the tests."""
    return run_to_its_end([sys.executable, "-P", *command], checkout.folder, checkout.environment)


@pytest.fixture(scope="module")
def configured(checkout: Checkout) -> dict[str, Any]:
    """README's configuration for few kernels, with its files and one that is refused, written into the checkout."""
    for folder in ("matrices", "meshes"):
        (checkout.folder / folder).mkdir()
    (checkout.folder / "matrices/cavity.mtx.gz").write_bytes(gzip.compress(f"{HERMITIAN}\n".encode()))
    (checkout.folder / "matrices/graph.mtx").write_text(f"{PATTERN}\n")
    (checkout.folder / "matrices/both.mtx").write_text(BOTH)
    meshio.write_points_cells(checkout.folder / "meshes/part.msh", POINTS, [("tetra", TETRAHEDRA)], file_format="gmsh")
    data = example()
    [(_study, settings)] = data["studies"].items()
    settings |= {
        "problems": [*settings["problems"], {"path": "matrices/both.mtx"}],
        "timing": QUICK,
        "precisions": ["double"],
        "layouts": ["ELL-SoA-AoS"],
        "space": "paper",
        "artifacts": ["table-problems"],
    }
    (checkout.folder / "mine.yaml").write_text(yaml.safe_dump(data | {"device": "opencl"}))
    return data


@pytest.fixture(scope="module")
def first_run(checkout: Checkout, configured: dict[str, Any]) -> Said:
    """The campaign's first run, with the file that is refused."""
    return checkout.snakemake("all", "--configfile", "mine.yaml")


def test_a_refused_file_costs_the_others_nothing(
    checkout: Checkout, configured: dict[str, Any], first_run: Said
) -> None:
    said, [study] = first_run, configured["studies"]
    assert said.code == 1
    assert "missing or failed: 1" in said.text
    assert "matrices/both.mtx" in said.text
    assert "line 5" in said.text
    begun, _, ended = said.text.rpartition("\ncheck, by logs/mine/check.log:\n")
    assert "matrices/both.mtx" in ended and "missing or failed: 1" in ended and "Error in rule" not in ended
    ended = begun.rpartition("Exiting because")[2]
    assert "results/mine/report.html" in ended
    for words in ("matrices/both.mtx, line 5", "remove one half"):
        assert said.text.count(words) == 1, words
    [inputs] = re.findall(r"^Error in rule check:\n(?:    .*\n)*?    input: (.*)$", said.text, re.MULTILINE)
    assert len(inputs.split(", ")) == 2  # what is wrong is not buried
    assert "repro export part" in ended or "repro export --variant" in ended  # what won of the others
    assert re.search(r"^logs of the steps  \S+\nSnakemake's own    \S+\.snakemake\.log$", said.text, re.MULTILINE)
    results = checkout.folder / "results" / configured["campaign"]
    table = (results / f"tables/{study}/table-problems.csv").read_text()
    for problem in ("cavity", "graph", "part"):
        choices = pq.read_table(results / f"raw/{study}/{problem}/double/choices.parquet").to_pylist()
        assert any(choice["tuning"] == "joint" for choice in choices), problem
        assert problem in table
    assert "both" in table
    assert (results / "report.html").exists()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("first_run")
def test_what_the_end_of_a_run_prints_works_as_printed(checkout: Checkout, configured: dict[str, Any]) -> None:
    """Once the refused file is mended."""
    [study] = configured["studies"]
    (checkout.folder / "matrices/both.mtx").write_text(BOTH.replace("2 2 3", "2 2 2").replace("1 2 5\n", ""))
    said = checkout.snakemake("all", "--configfile", "mine.yaml")
    assert said.code == 0, said.text
    assert said.jobs["problem"] == said.jobs[f"measure_{study}"] == 1
    for line in said.text.splitlines():  # the end of the run says what won
        if line.strip().startswith("repro export"):
            done = run_in(checkout, "-m", *shlex.split(line))
            assert done.code == 0, done.text
    told = run_in(checkout, "-m", "repro", "best", configured["campaign"], "--json")
    best = {won["problem"]: won for won in json.loads(told.text)["winners"]}
    for problem, entry in (("part", "block3"), ("graph", "real")):
        # a CPU's choice says nothing of a GPU: the default is exported
        won = best[problem]
        assert (checkout.folder / f"{problem}-double/{entry}_double.cu").exists(), problem
        assert won["export"] is not None and won["not_exported"] == "the choice of a CPU", problem
        # few rows of numbers share their threads in CSR
        assert won["exported"].startswith(RECORDED.get((entry, "double"), "CSR-AoSoA-AoS/direct-128-8")), problem
    done = run_in(checkout, "-c", block_after("or use it from Python"))
    assert done.code == 0, done.text
    lines = [line.strip() for line in said.text.partition("\npart\n")[2].splitlines()]
    done = run_in(checkout, "-c", "\n".join(line for line in lines if re.match("from |import |A = ", line)))
    assert done.code == 0, done.text
    assert checkout.snakemake("all", "--configfile", "mine.yaml").nothing_to_do
