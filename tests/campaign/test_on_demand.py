"""With `compile: on_demand` a search compiles only the variants that it tries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from repro.campaign.configuration import resolve
from repro.campaign.measurement import measure
from repro.campaign.plan import make_plan
from repro.campaign.problem_files import record_of
from repro.campaign.steps import measuring as measuring_step
from repro.codegen import opencl_runtime
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.codegen.templates import render_common
from repro.problems.matrix import Matrix
from repro.problems.problem import describe_pattern
from repro.sparse.compound.device_csr import DeviceCsr
from repro.sparse.compound.device_packing import DevicePacker, PackedOnDevice
from repro.sparse.compound.variants import Layout
from support.small_case import NAME, STUDY, config, quiet, run

pytestmark = pytest.mark.medium

#: Modules of one variant each.
SINGLE = Path("modules/cpu", STUDY, "single/complex-single")
PART = {"space": "paper", "layouts": ("ELL-SoA-AoS",), "compile": "on_demand"}


@pytest.fixture
def problem(
    templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_problem: Callable[..., Matrix]
) -> Matrix:
    """A folder with a problem, and no module but the common one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").symlink_to(templates)
    compile_module(render_common(templates, CPU), CPU, Path("modules/cpu/common.json"))
    made = small_problem("complex")
    made = replace(made, statistics=describe_pattern(made.indptr, made.indices))
    for campaign in ("first", "c"):
        made.save(Path(f"results/{campaign}/problems/{NAME}.npz"))
    return made


def compiled() -> set[str]:
    return {str(path.relative_to(SINGLE).with_suffix("")) for path in SINGLE.rglob("*.json")}


@pytest.mark.slow
def test_what_is_tried_is_compiled_and_nothing_again(problem: Matrix) -> None:
    first = run(search="random", budget=0.1, **PART)["search"]
    assert set(first["status"]) == {"ok"} and set(first["ordering"]) == {"natural"}
    assert compiled() == set(first["name"])
    before = {path: path.stat().st_mtime_ns for path in SINGLE.rglob("*.clbin")}
    again = run(search="random", budget=0.1, **PART)["search"]
    assert list(again["key"]) == list(first["key"])  # rows of the store, as after a killed run
    assert before == {path: path.stat().st_mtime_ns for path in SINGLE.rglob("*.clbin")}


def test_the_host_packs_nothing_that_the_device_packs(problem: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, uploaded = set(), []
    pack, upload = DevicePacker.pack, DeviceCsr.upload.__func__

    def noted(self: DevicePacker, matrix: DeviceCsr, layout: Layout, *rest: Any) -> PackedOnDevice:
        packed.add(layout.ordering)
        return pack(self, matrix, layout, *rest)

    for name in ("pack", "pack_pairs"):
        monkeypatch.setattr(f"repro.sparse.compound.product.{name}", lambda *_: pytest.fail("the host packs"))
    monkeypatch.setattr(DevicePacker, "pack", noted)
    monkeypatch.setattr(DeviceCsr, "upload", classmethod(lambda *given: uploaded.append(given) or upload(*given)))
    kept = np.repeat(problem.row_lengths < 20, problem.row_lengths)  # with the long row, slices are mostly padding
    indptr = np.concatenate([[0], np.cumsum(kept)])[problem.indptr].astype(np.int32)
    short = replace(problem, indptr=indptr, indices=problem.indices[kept], values=problem.values[kept])
    short.save(Path(f"results/c/problems/{NAME}.npz"))
    layouts = ("Sl-8-AoSoA-AoS", "Sl-8-AoSoA-AoS@clustered", "Sl-32-AoSoA-AoS@sigma")
    search = run(search="random", budget=0.05, compile="on_demand", layouts=layouts)["search"]
    assert set(search["status"]) == {"ok"} and search["packing"].min() > 0
    assert (search.groupby("layout")["packing"].nunique() == 1).all()  # each is packed once
    assert {"natural", "clustered", "sigma", "rcm"} <= packed
    assert len(uploaded) == len(packed - {"clustered", "sigma"})  # a matrix for each order of the unknowns


@pytest.mark.exhaustive
def test_a_predicted_search_compiles_what_it_tries(problem: Matrix) -> None:
    record = Path(f"results/first/raw/problems/{NAME}.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(record_of(problem)))
    half = config(search="random", budget=0.6, **PART).model_copy(update={"campaign": "first"})
    [search, *_] = measure(half, STUDY, NAME, "single", quiet)
    shutil.rmtree(SINGLE)
    found = run(search="predicted", budget=0.1, **PART)["search"]
    assert compiled() == set(found["name"])
    assert len(found) < len(pd.read_parquet(search)) / 4


@pytest.mark.exhaustive
def test_a_kernel_that_does_not_compile_is_a_row(problem: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repro.studies.compound_spmv.study.render_module", lambda *_: "no kernel")
    found = run(search="random", budget=0.05, **PART)["search"]
    assert set(found["status"]) == {"compile_error"}


def test_such_a_case_waits_for_no_module_and_is_measured_again_with_other_flags(
    problem: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step() -> tuple[list[str], object]:
        study = {"problems": ["dirac_torus"], "precisions": ["double"], "compile": "on_demand"}
        planned = make_plan(resolve({"device": "opencl", "studies": {STUDY: study}}))
        made = measuring_step(planned, STUDY, "dirac_torus", "double")
        return [group.name for group in planned.module_groups], made.values["modules"]

    (Path.cwd() / "config").symlink_to(Path(__file__).parents[2] / "config")
    groups, before = step()
    assert groups == []
    monkeypatch.setattr(opencl_runtime, "FLAGS", ("-cl-std=CL1.2",))
    assert step()[1] != before
