"""The example package of a layout, installed and run in a campaign beside ours; its edits are noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from support.checkouts import REPOSITORY, Checkout, Said, count_compile, run_to_its_end

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

LAYOUT = "CSR4-AoS-AoS"


class WithPackage(Checkout):
    """The project in an environment that has the package, which pip has built and put into a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.site = folder / "site"
        options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
        words = [sys.executable, "-m", "pip", "install", *options, "--target", self.site]
        subprocess.run([*words, REPOSITORY / "examples/aligned-rows"], check=True, cwd=folder)

    @property
    def environment(self) -> dict[str, str]:
        given = super().environment
        return given | {"PYTHONPATH": f"{given['PYTHONPATH']}{os.pathsep}{self.site}"}

    def repro(self, *words: str) -> Said:
        return run_to_its_end([sys.executable, "-m", "repro", *words], self.folder, self.environment)


@pytest.mark.exhaustive
def test_a_layout_of_a_package_outside_runs_in_a_campaign(tmp_path: Path) -> None:
    checkout = WithPackage(tmp_path)
    assert LAYOUT in checkout.repro("list", "layouts").text
    study = {"problems": ["tiny/poisson"], "layouts": ["CSR-AoS-AoS", LAYOUT], "artifacts": ["table-baselines"]}
    config = checkout.configure("c", study)
    done = checkout.snakemake("all", "--configfile", config)
    assert done.code == 0, done.text
    raw = checkout.folder / "results/c/raw/compound_spmv/tiny/poisson/double"
    rows = pd.read_parquet(raw / "search.parquet")
    assert set(rows.layout) == {"CSR-AoS-AoS", LAYOUT}
    outside = rows[rows.layout == LAYOUT]
    assert (outside.status == "ok").all()
    assert (outside.error <= 1).all()
    # each row has its last slots for nothing: they are read
    assert outside.matrix_bytes.min() > rows[rows.layout == "CSR-AoS-AoS"].matrix_bytes.max()
    table = (checkout.folder / "results/c/tables/compound_spmv/table-baselines.csv").read_text()
    assert LAYOUT in table
    assert checkout.snakemake("all", "--configfile", config).nothing_to_do

    with (checkout.site / "aligned_rows/layout.py").open("a") as file:
        file.write("#\n")
    again = checkout.snakemake("all", "--configfile", config, "--dry-run")
    assert count_compile(again.jobs) == 1
    assert any(rule.startswith("measure") for rule in again.jobs)
    (checkout.site / "aligned_rows/layout.py").write_text("import no_such_package\n")
    refused = checkout.repro("plan", "--config", config)
    assert refused.code == 1
    assert "an extension cannot be imported" in refused.text
    assert "aligned-rows 1.0: entry point aligned_rows = aligned_rows.layout of repro.layouts" in refused.text
    assert "Traceback" not in refused.text
