"""Conjugate gradients on the GPU as rows: on the chip in one launch, and in a graph over cuSPARSE and ours."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from repro.bench.timing import SamplingPlan
from repro.campaign.measurement import measure
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.templates import render_common
from repro.config.models import Config, StudySettings, Timing
from repro.errors import Unsupported
from repro.problems.generators import generate
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, describe_pattern
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import VariantId
from repro.sparse.library import for_problem
from repro.sparse.library.cusparse import lacks_spmvop
from repro.sparse.library.cusparse_bindings import load, version
from repro.sparse.solvers.conjugate_gradients import PersistentCgRun, ProductCgRun
from repro.sparse.solvers.kernels import render_solver_key, solver_key
from repro.sparse.solvers.persistent import kept_on
from repro.studies import get_study
from support.benches import QUICK
from support.persistent_solves import dominant, laplacian

pytestmark = pytest.mark.gpu

EFFORT = SamplingPlan(20, 5, 5)
#: By entry two variants of ours, of other orders of vectors, one with a counter to reset, and one of pairs.
VARIANTS = {
    "real": ("Sl-32-SoA-AoS/dynamic-128-8",),
    "complex": ("Sl-32-SoA-SoA/dynamic-128-8", "Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2"),
    "quaternion": ("Sl-32-SoA-SoA/dynamic-128-8", "Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2"),
    "block3": ("CSR-AoS-Padded/direct-256-4-w8-u2", "Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2"),
}


@pytest.fixture(scope="module")
def module(gpu, templates, tmp_path_factory):
    """Return the module of a key, compiled for the GPU once, and the folder of its manifest."""
    folder = tmp_path_factory.mktemp("conjugate-gradients")
    made = {}

    def compiled(key):
        if key not in made:
            source = render_solver_key(templates, key, gpu.target)
            made[key] = compile_module(source, gpu.target, folder / f"{key}.json")
            assert made[key].binary, made[key].message
        return made[key], (folder / f"{key}.json").parent

    return compiled


@pytest.fixture
def products(gpu, templates, tmp_path):
    """Return cuSPARSE's products that this version has, and ours."""

    def make(entry, precision):
        try:
            load()
        except Unsupported as error:
            pytest.skip(str(error))
        library = [p for p in for_problem(entry, "cuda") if "spmvop" not in p.name or not lacks_spmvop(version())]
        ours = []
        for text in VARIANTS[entry]:
            id = VariantId.parse(text)
            source = render_module(templates, entry, precision, id.layout.stored, [id.schedule], gpu.target, "tests")
            built = compile_module(source, gpu.target, tmp_path / f"{id.layout}.json")
            assert built.binary, built.message
            ours.append(Variant(id, built, tmp_path))
        return library, ours

    return make


def check(row):
    print(f"{row.name} {row.precision}: error {row.error} {row['iterations']} of {row['to_tolerance']} iterations, "
          f"event {row.event_median} graph {row.graph_median}")  # fmt: skip
    assert row.status == "ok", row.message
    assert 0 < row.error <= 1
    assert row.event_median > 0
    assert row.graph_median is not None, row.message


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", VARIANTS)
def test_all_solve_to_the_tolerance_and_are_captured(make_gpu_bench, module, products, gpu, entry, precision):
    problem = laplacian(60, 3) if entry == "real" else dominant(
        entry, {"block3": "symmetric"}.get(entry, "hermitian"), 20_000
    )  # fmt: skip
    bench = make_gpu_bench(problem, precision, "compound_spmv")
    library, ours = products(entry, precision)
    chip = bench.try_once(PersistentCgRun(*module(solver_key("cg", precision, entry))), "report", EFFORT)
    check(chip)
    assert 0 < chip["kept_bytes"] <= chip["matrix_bytes"]
    assert chip["chip_bytes"] == gpu.sm_count * (gpu.target.shared_bytes - 2048)
    for product in [*library, *ours]:
        row = bench.try_once(ProductCgRun(product, *module(solver_key("cg", precision))), "report", EFFORT)
        check(row)
        assert abs(row["to_tolerance"] - chip["to_tolerance"]) <= 0.05 * chip["to_tolerance"] + 2


def test_a_matrix_larger_than_the_chip_is_kept_in_part(make_gpu_bench, module, gpu):
    bench = make_gpu_bench(laplacian(120, 3), "double", "compound_spmv")
    row = bench.try_once(PersistentCgRun(*module(solver_key("cg", "double", "real"))), "report", EFFORT)
    check(row)
    assert 0 < row["kept_bytes"] < row["matrix_bytes"]
    # a table of values stands for more bytes of the matrix than it takes on the chip
    assert kept_on(bench.workspace).max_bytes * gpu.sm_count <= row["chip_bytes"]


@pytest.mark.slow
@pytest.mark.alone
def test_the_study_times_them_beside_each_other(gpu, templates, tmp_path, monkeypatch):
    study, name = get_study("compound_spmv"), "body"
    settings = StudySettings(
        problems=(name,), space=("extended",), layouts=("Sl-8-AoSoA-AoS",), precisions=("double",),
        timing=Timing(**{**QUICK, "gpu_budget": 0.05}),
    )  # fmt: skip
    for key in study.modules(settings, Outline(name, entry="block3"), "double", gpu.target):
        source = study.render(templates, key, gpu.target)
        compile_module(source, gpu.target, manifest_path(gpu.target.name, study.name, key, tmp_path / "modules"))
    compile_module(
        render_common(templates, gpu.target), gpu.target, tmp_path / f"modules/{gpu.target.name}/common.json"
    )
    monkeypatch.chdir(tmp_path)
    made = generate("elasticity_box", cells=[10, 12, 30])
    statistics, origin = describe_pattern(made.indptr, made.indices), {"semidefinite": True}
    Matrix(name, "block3", made.n, made.indptr, made.indices, made.values, statistics=statistics, origin=origin).save(
        Path(f"results/c/problems/{name}.npz")
    )
    config = Config(campaign="c", device="cuda:0", studies={study.name: settings})
    report = {path.stem: pd.read_parquet(path) for path in measure(config, study.name, name, "double", print)}["report"]
    solvers = report[report.kind == "solver"].set_index("name")
    assert set(solvers.status) == {"ok"}, solvers.message.tolist()
    # on the chip, and over at least one product of ours and one of the library's; one variant may win by all tunings
    assert "cg/persistent" in solvers.index
    assert solvers.layout.notna().any()
    assert solvers.representation.notna().any()
    iteration = solvers.graph_median / solvers.iterations
    print(iteration)
    assert iteration["cg/persistent"] > 0
