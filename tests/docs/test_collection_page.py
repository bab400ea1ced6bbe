"""docs/collection.csv is what is reckoned now, and the drawn index is like what is public of the collection's."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from simulated_collection import CORES, RECKONED, make_folder, plan, reckon, simulated, write_index

from repro.campaign.estimate import estimate
from repro.campaign.steps import Freshness
from repro.cli.campaign import plan as plan_command
from repro.codegen.targets import get_target
from repro.problems.registry import read_csv

pytestmark = pytest.mark.medium


@pytest.mark.exhaustive
def test_the_file_is_what_is_reckoned() -> None:
    with RECKONED.open(newline="") as file:
        kept = {name: float(value) for name, value in list(csv.reader(file))[1:]}
    now = {name: pytest.approx(float(value), rel=1e-3) for name, value in reckon().items()}
    assert kept == now, "python tests/docs/simulated_collection.py; then python docs/make_pages.py"


def test_the_drawn_index_is_read_as_the_collections_own(tmp_path: Path) -> None:
    write_index(tmp_path / "ssstats.csv")
    assert read_csv(tmp_path / "ssstats.csv")[0] == simulated() == simulated()


def test_the_drawn_index_is_like_what_is_public_of_the_collections() -> None:
    index = simulated()
    square = [matrix for matrix in index if matrix.rows == matrix.columns]
    assert (len(index), len(square)) == (2893, 2126)
    assert all(m.nonzeros <= m.rows * m.columns for m in index)
    # 867 square, real ones of this size are not positive definite; how many are is not public
    fitting = [m for m in square if m.dtype == "real" and 1000 <= m.rows <= 100_000 and m.nonzeros < 2_000_000]
    assert 867 <= len(fitting) <= 1.3 * 867
    assert max(index, key=lambda matrix: matrix.nonzeros).name == "MOLIERE_2016"
    # all files: 750 GB; a line of Matrix Market text has two indices and a number
    assert 10 < 750e9 / sum(matrix.nonzeros for matrix in index) < 50


@pytest.mark.exhaustive
def test_thousands_of_cases_are_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    planned = plan()
    needs = estimate(planned, get_target("sm_90"))
    freshness = Freshness(planned)
    assert len(freshness.stale) == freshness.total > len(needs.jobs) > 5000

    Path("mine.yaml").write_text("device: opencl\n")
    plan_command([Path("config/collection.yaml"), Path("mine.yaml")], cores=CORES)
    said = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("compound_spmv", "compressed_coo")) for line in said) == 7
    assert len(said) <= 30
