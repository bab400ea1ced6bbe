"""A study of a product in four files: its campaign laid over a checkout, and what tells A from its transpose."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import yaml
from numpy.typing import NDArray

from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.config.models import StudySettings
from repro.devices.base import Device
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.operands import KernelProduct, ProductOperands, entry_rows
from repro.studies import get_study
from support.checkouts import QUICK, REPOSITORY, Checkout

FOLDER = REPOSITORY / "tests/product_study"
FILES = [path for path in FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
WAYS = ("gather", "scatter")
BASELINES = {"scipy/csc/real", "scipy/csr/real"}
STEPS = ("search", "baseline", "report", "choices")
EFFORT = SamplingPlan(3)


def test_the_study_is_four_files_of_120_lines_and_none_of_the_projects_own() -> None:
    assert 0 < len(FILES) <= 4
    assert sum(len(path.read_text().splitlines()) for path in FILES) <= 120
    assert not [path for path in FILES if (REPOSITORY / path.relative_to(FOLDER)).exists()]


@pytest.fixture
def study() -> ModuleType:
    """The module of the study, which is none of the project's."""
    spec = importlib.util.spec_from_file_location("transposed", FOLDER / "src/repro/studies/transposed/study.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def built(study: ModuleType, templates: Path, tmp_path: Path) -> Callable[..., ModuleFile]:
    """Compile the study's module of a precision for the CPU, with `more` kernels."""
    shutil.copytree(templates / "dialects", tmp_path / "kernels/dialects")
    shutil.copytree(FOLDER / "kernels", tmp_path / "kernels", dirs_exist_ok=True)

    def build(precision: str, more: str = "") -> ModuleFile:
        source = study.STUDY.render(tmp_path / "kernels", f"products/{precision}", CPU) + more
        return ModuleFile(compile_module(source, CPU, tmp_path / f"{precision}.json"), tmp_path)

    return build


def symmetric(matrix: Matrix) -> Matrix:
    """Return the sum of a matrix of real numbers and its transpose."""
    csr = sp.csr_array((matrix.values[:, 0], matrix.indices, matrix.indptr), shape=matrix.shape)
    both = (csr + csr.T).tocsr()
    return replace(matrix, indptr=both.indptr, indices=both.indices, values=both.data[:, None])


def test_a_slip_of_one_variant_is_a_row_that_says_what_to_do(
    study: ModuleType,
    built: Callable[..., ModuleFile],
    make_bench: Callable[..., Bench],
    small_problem: Callable[..., Matrix],
) -> None:
    module, bench = built("double"), make_bench(small_problem("real"), study="compressed_coo")
    slips = {
        "scatters": ("launch_error", "no kernel scatters in the module"),
        "scatter": ("incorrect", "some are NaN, with which y is filled .*; a kernel that adds to y needs `adds=True`"),
    }
    for name, (status, message) in slips.items():
        row = bench.try_once(study.CsrProduct(name, module, study.BLOCK_SIZE), "search", EFFORT)
        assert (row.status, bool(re.search(message, row.message or ""))) == (status, True), row.message
    bench.release()


@pytest.mark.medium
@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_wrong_transpose_is_wrong_where_the_matrix_is_not_symmetric(
    study: ModuleType,
    built: Callable[..., ModuleFile],
    make_bench: Callable[..., Bench],
    small_problem: Callable[..., Matrix],
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
) -> None:
    module, matrix = built(precision), small_problem("real")
    found: dict[tuple[str, str, bool], str] = {}
    for kind, problem in (("any", matrix), ("symmetric", symmetric(matrix))):
        for right in (True, False):
            bench = make_bench(study.transposed(problem), precision, study="compressed_coo")
            with monkeypatch.context() as patched:
                if not right:
                    patched.setattr(study, "transposed", lambda matrix: matrix)
                for way in WAYS:
                    product = study.CsrProduct(way, module, study.BLOCK_SIZE, adds=way == "scatter")
                    row = bench.try_once(product, "search", EFFORT)
                    found[way, kind, right] = row.status
                    assert row["matrix_bytes"] == 4 * (problem.n + 1) + problem.nnz * (4 + bench.operands.x.itemsize)
            bench.release()
    wrong = {case for case, status in found.items() if status != "ok"}
    assert wrong == {("scatter", "any", False)}, found
    assert found["scatter", "any", False] == "incorrect"


ENTRIES = """
KERNEL(128, 1) entries(int n, int nnz, const GLOBAL int* rows, const GLOBAL int* columns, const GLOBAL scalar* values,
    const GLOBAL scalar* x, GLOBAL scalar* y)
{
    const int k = BLOCK * 128 + THREAD;
    if (k < nnz && rows[k] < n)
        add_to(y + columns[k], values[k] * x[rows[k]]);
}
"""


def test_a_kernel_of_a_thread_an_entry_says_which_sizes_it_takes(
    study: ModuleType,
    built: Callable[..., ModuleFile],
    make_bench: Callable[..., Bench],
    small_problem: Callable[..., Matrix],
) -> None:
    class PerEntry(KernelProduct):
        def sizes(self, operands: ProductOperands) -> tuple[int, int]:
            return operands.problem.n, operands.problem.nnz

        def blocks(self, operands: ProductOperands, device: Device) -> int:
            return -(-operands.problem.nnz // self.block_size)

        def arrays(self, operands: ProductOperands) -> dict[str, NDArray[Any]]:
            matrix = study.transposed(operands.problem)
            rows = entry_rows(matrix).astype(matrix.indices.dtype)
            return {"rows": rows, "columns": matrix.indices, "values": matrix.values.ravel()}

    bench = make_bench(study.transposed(small_problem("real")), "double", study="compressed_coo")
    row = bench.try_once(PerEntry("entries", built("double", ENTRIES), study.BLOCK_SIZE, adds=True), "search", EFFORT)
    assert row.status == "ok", row.message
    bench.release()


def test_a_matrix_of_other_entries_is_refused_before_anything_is_built(study: ModuleType) -> None:
    problems = [Outline("blocks", "matrix", "block3")]
    with pytest.raises(ReproError, match=r"problems: blocks(.|\n)*expected: real entries(.|\n)*block3"):
        study.STUDY.check(StudySettings(), problems)


def test_columns_of_a_product_are_those_of_every_study_of_products(study: ModuleType) -> None:
    for name in ("compound_spmv", "compressed_coo"):
        columns = get_study(name).columns
        assert {column: columns[column] for column in study.STUDY.columns} == dict(study.STUDY.columns)


@pytest.mark.exhaustive
@pytest.mark.workflow
@pytest.mark.slow
def test_the_whole_campaign_of_the_study(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    shutil.copytree(FOLDER, checkout.folder, dirs_exist_ok=True)
    config = yaml.safe_load((FOLDER / "config/transposed.yaml").read_text())
    config["studies"]["transposed"] |= {"precisions": ["double"], "timing": QUICK}
    (checkout.folder / "config/transposed.yaml").write_text(yaml.safe_dump(config))
    said = checkout.snakemake("all", "--configfile", "config/transposed.yaml")
    assert said.code == 0, said.text

    results, problems = checkout.folder / "results/transposed", config["studies"]["transposed"]["problems"]
    for problem in problems:
        steps = {step: rows(results / f"raw/transposed/{problem}/double/{step}.parquet") for step in STEPS}
        report = [row for row in steps["report"] if row["cache"] == "warm"]
        assert {row["name"]: row["status"] for row in report if row["kind"] in ("variant", "baseline")} == {
            name: "ok" for name in (*WAYS, *BASELINES)
        }
        assert {row["name"] for row in steps["search"]} == set(WAYS)
        assert {row["kind"] for row in steps["baseline"]} == {"floor", "copy", "empty"}
        assert {row["name"] for row in steps["choices"]} <= set(WAYS)
    times = (results / "tables/transposed/table-times.csv").read_text().splitlines()
    assert len(times) >= 1 + len(problems)
    assert all(f"{key}_us" in times[0] for key in (*WAYS, "baseline", "floor"))
    baselines = (results / "tables/transposed/table-baselines.csv").read_text()
    assert all(name in baselines for name in (*WAYS, *BASELINES))
    for table, clock in (("table-times", "the graph clock"), ("table-baselines", "the clock graph")):
        assert clock in (results / f"tables/transposed/{table}.tex").read_text()
    assert "table-times" in (results / "report.html").read_text()
    assert checkout.snakemake("all", "--configfile", "config/transposed.yaml").nothing_to_do


def rows(path: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(path).to_pylist())
