"""Which files the steps of a campaign read: each is in a receipt, so that a change of it is noticed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro.campaign.receipts import Receipt
from support.checkouts import REPOSITORY, Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

#: A recorded campaign of the same study, which stands beside the one that is run.
BESIDE = "h100-solvers"
MATRIX = "%%MatrixMarket matrix coordinate complex general\n3 3 4\n1 1 2 0\n2 2 2 0\n3 3 2 0\n1 2 1 1\n"
#: Writes each file that any process opens to read, beside that process's command line.
TRACER = """
import json, os, sys

def trace(event, arguments):
    if event != "open" or not isinstance(arguments[0], str):
        return
    path, mode, flags = arguments
    if not flags & (os.O_WRONLY | os.O_RDWR):
        line = json.dumps([sys.orig_argv, os.path.abspath(path)]) + "\\n"
        file = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

sys.addaudithook(trace)
"""
#: Files whose content stands in the receipts as values: the configuration, and definitions of problems.
AS_VALUES = ("config/problems.yaml", "config/collections/", "config/studies/", "results/b/configs")
#: Files of the workflow itself: receipts, stores of rows that continue a killed job, times of compilations.
OF_THE_WORKFLOW = ("results/b/receipts", "results/b/store", "modules")


def receipt_of(command: list[str]) -> str | None:
    """Return the receipt that a job writes, below the campaign's folder; None for a process that is no job."""
    words = command[command.index("repro") + 1 :] if "repro" in command else []
    match words:
        case ["problem", name, *_]:
            return f"problem/{name}"
        case ["measure", study, problem, precision, *_]:
            return f"{study}/{problem}/{precision}"
        case ["table" | "figure" as kind, *rest]:
            return f"{kind}s/{rest[rest.index('--study') + 1]}"
        case ["report" | "check" as name, *_]:
            return name
    return None


def named_files(path: Path) -> Iterator[str]:
    """Yield the files that a receipt names, and those that earlier steps have made."""
    receipt = Receipt.load(path)
    assert receipt, path
    yield from (*receipt.files, *receipt.outputs)
    for earlier_path in receipt.after:
        earlier = Receipt.load(path.parents[len(path.parts) - 1] / earlier_path)
        assert earlier, earlier_path
        yield from (*earlier.outputs, *named_files(Path(earlier_path)))


@pytest.mark.exhaustive
def test_each_file_that_a_step_reads_is_in_a_receipt(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout.folder)
    Path("own.mtx").write_text(MATRIX)
    study = {"problems": ["tiny/dirac", {"path": "own.mtx"}], "artifacts": ["table-problems", "figure-3"]}
    shutil.copytree(REPOSITORY / "results" / BESIDE, Path("results", BESIDE))
    log = checkout.folder / "read"
    Path("src/sitecustomize.py").write_text(TRACER.format(log=str(log)))
    config = checkout.configure("b", study, beside=[BESIDE])
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text

    read: dict[str, set[str]] = {}
    for command, name in map(json.loads, log.read_text().splitlines()):
        path = Path(name)
        if (receipt := receipt_of(command)) and path.is_relative_to(checkout.folder):
            read.setdefault(receipt, set()).add(str(path.relative_to(checkout.folder)))
    data = ("config/", "results/", "inputs/", "own.mtx")
    unnamed = {
        receipt: sorted(
            path
            for path in paths - {*named_files(Path("results/b/receipts", f"{receipt}.json"))}
            if path.startswith(data) and not path.startswith((*AS_VALUES, *OF_THE_WORKFLOW))
        )
        for receipt, paths in read.items()
    }
    assert not {receipt: paths for receipt, paths in unnamed.items() if paths}
    assert {"problem/own", "compound_spmv/own/double", "tables/compound_spmv", "report", "check"} <= set(read)
    assert "own.mtx" in read["problem/own"]
    repeated_file = "results/b/raw/compound_spmv/tiny/dirac/double/repeat.parquet"
    assert repeated_file in read["tables/compound_spmv"]
    assert {f"results/{BESIDE}/commits.json", f"results/{BESIDE}/config.yaml"} <= read["report"]
