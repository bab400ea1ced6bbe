"""The study of fields on the CPU: what it refuses, which modules it asks for, and its steps in two and three."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.measurement import measure
from repro.campaign.profiler import launch
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU, get_target
from repro.codegen.templates import render_common
from repro.config.models import Config, StudySettings, Timing
from repro.devices.opencl import OpenClDevice
from repro.errors import ReproError
from repro.problems.generated_fields import generate_field
from repro.problems.problem import Outline
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.studies import load_artifacts
from repro.studies.dg_postprocessing.ids import WIDTHS, FilterMethod, full_width
from repro.studies.dg_postprocessing.regions import SHORT_LIST, region_count
from repro.studies.dg_postprocessing.study import STUDY
from support.benches import QUICK
from support.region_campaign import RegionMaker

pytestmark = pytest.mark.medium

FLAT, SOLID = "siac/flat", "siac/solid"
WAY = "edges-t16-c1-b16"
TIMING = Timing(**{**QUICK, "cpu_budget": 0.01})
REPOSITORY = Path(__file__).parents[3]


def settings(**keys) -> StudySettings:
    return StudySettings(
        **{"space": "extended", "problems": (FLAT, SOLID), "precisions": ("double",), "timing": TIMING, **keys}
    )


def config(device: str = "opencl", **keys) -> Config:
    return Config(campaign="f", device=device, studies={STUDY.name: settings(**keys)})


def outline(kind: str, degree: int | None) -> Outline:
    parameters = {} if degree is None else {"parameters": {"degree": degree}}
    return Outline("any", "field", definition={"kind": kind, **parameters})


def test_single_precision_is_refused_before_anything_is_written():
    with pytest.raises(ReproError, match="double precision only"):
        STUDY.check(settings(precisions=("single", "double")), [])
    STUDY.check(settings(), [outline("cubes", 2), outline("delaunay", 3), outline("field", None)])


@pytest.mark.parametrize(("kind", "degree"), [("cubes", 3), ("cubes", 0), ("delaunay", 4)])
def test_degrees_without_kernels_are_refused(kind, degree):
    with pytest.raises(ReproError, match="does not support"):
        STUDY.check(settings(), [outline(kind, degree)])


def test_modules_are_those_of_the_dimension_and_of_the_target():
    flat = STUDY.modules(settings(), outline("delaunay", 2), "double", CPU)
    assert flat and all(key.startswith("plane/") and key.endswith("p2") for key in flat)
    on_gpu = STUDY.modules(settings(), outline("cubes", 2), "double", get_target("sm_90"))
    assert {f"p2/vector-w{width}" for width in WIDTHS[2]} | {"p2/ours", "p2/clip", "double/sort"} == set(on_gpu)
    on_cpu = STUDY.modules(settings(), outline("cubes", 2), "double", CPU)
    assert set(on_cpu) < set(on_gpu) and "p2/vector-w150" not in on_cpu
    assert "p2/clip" not in STUDY.modules(settings(parts=("sums",)), outline("cubes", 2), "double", CPU)
    of_a_file = STUDY.modules(settings(), outline("field", None), "double", CPU)
    assert set(flat) < set(of_a_file) and {key.partition("/")[0] for key in of_a_file} == {"plane"}


def test_a_list_is_long_on_the_papers_mesh_alone():
    assert (region_count(6000), region_count(162)) == (2**20, SHORT_LIST)


@pytest.mark.wording
def test_a_file_of_tetrahedra_is_refused():
    field = generate_field("cubes", cubes=1, degree=1)
    object.__setattr__(field, "origin", {"checksum": {"state": "own"}})
    with pytest.raises(ReproError, match="must come from the registry"):
        STUDY.operands(field, "double", 1)


@pytest.fixture(scope="module")
def field_modules(tmp_path_factory, templates):
    """All modules of both problems, and the common one, for the CPU."""
    folder = tmp_path_factory.mktemp("fields")
    for item in (outline("delaunay", 1), outline("cubes", 1)):
        for key in STUDY.modules(settings(), item, "double", CPU):
            compile_module(STUDY.render(templates, key, CPU), CPU, manifest_path(CPU.name, STUDY.name, key, folder))
    compile_module(render_common(templates, CPU), CPU, folder / "cpu/common.json")
    return folder


@pytest.fixture
def field_campaign(field_modules, monkeypatch, tmp_path, templates):
    """A folder with modules and problems; what is measured goes there."""
    (tmp_path / "modules").symlink_to(field_modules)
    (tmp_path / "kernels").symlink_to(templates)
    monkeypatch.chdir(tmp_path)
    for name, field in (
        (FLAT, generate_field("delaunay", triangles=12, degree=1)),
        (SOLID, generate_field("cubes", cubes=2, degree=1)),
    ):
        object.__setattr__(field, "name", name)
        field.complete().save(Path(f"results/f/problems/{name}.npz"))


def steps(name: str, **keys) -> dict[str, pd.DataFrame]:
    paths = measure(config(**keys), STUDY.name, name, "double", lambda *_: None)
    assert [path.stem for path in paths] == list(STUDY.outputs)
    return {path.stem: pd.read_parquet(path) for path in paths}


@pytest.mark.exhaustive
def test_ways_in_the_plane_are_searched_and_the_matrix_is_timed(field_campaign):
    tables = steps(FLAT)
    assert set(tables["search"].way) == set(get_args(FilterMethod)) and set(tables["search"].status) == {"ok"}
    assert {"joint", "paper", "edges", "paper/point"} <= set(tables["choices"].tuning)
    report = tables["report"].set_index("name")
    assert set(report.status) == {"ok"}
    for clock in ("event", "graph", "host"):  # what intervals are made of
        assert report[report[f"{clock}_median"].notna()][f"{clock}_samples"].notna().all()
    assert {"matrix/make", "matrix/apply-4", "matrix/stream-u4", "scipy/csr-16"} <= set(report.index)
    products = report[report.what.isin(["make", "apply", "library"])]
    assert (products.error <= 1).all() and set(products.fields.dropna()) == {1, 4, 16}
    sizes = report[report.what.isin(["make", "apply", "stream", "library"])]
    assert sizes.matrix_bytes.nunique() == 1 and sizes.matrix_bytes.notna().all()
    # the floor of a product with one field streams its bytes, but for what is no whole word
    assert 0 <= report.bytes["matrix/apply-1"] - report.bytes["matrix/stream-u4"] < 8 * 4
    # all ways with one h give the same, local h another
    filtered = report[report.what.isin(["filter", "make", "apply", "library"])]
    assert filtered.l2_error.notna().all() and np.ptp(filtered.l2_error) < 1e-12 * filtered.l2_error.max()
    local = report.loc["local-t64"]
    assert local.status == "ok" and local.error <= 1 and local.local_pairs < local.pairs
    assert local.l2_error != pytest.approx(filtered.l2_error.iloc[0])
    assert (tables["report"].dg_l2_error < tables["report"].dg_max_error).all()


@pytest.mark.wording
def test_a_routine_that_there_is_not_is_refused():
    with pytest.raises(
        ReproError, match=r"unknown baseline.*\n.*\n  expected: on this device among csr\n  actual: dense"
    ):
        STUDY.check_on(settings(baselines=("dense",)), [], CPU)
    STUDY.check_on(settings(baselines=("csr",)), [], CPU)
    STUDY.check_on(settings(baselines=("spmv-csr-alg1", "spmm-csr-alg3")), [], get_target("sm_90"))


@pytest.mark.exhaustive
def test_a_named_way_is_run_over_two_devices_and_nothing_else(field_campaign):
    if OpenClDevice().sm_count < 2:
        pytest.skip("the CPU has one core and cannot be split")
    tables = steps(FLAT, device="opencl:0/2", layouts=(WAY,), parts=("devices",))
    assert tables["search"].name.to_list() == [WAY] and set(tables["search"].protocol) == {"screen"}
    report = tables["report"][tables["report"].kind.isin(["variant", "several"])]
    assert sorted(report.name) == [WAY, f"filter-2/{WAY}", f"gather-2/{WAY}"]
    assert (
        set(report.status) == {"ok"}
        and report.graph_median.isna().all()
        and report.event_median.notna().all()
        and (report.error <= 1).all()
    )
    assert report.set_index("name").devices.to_dict() == {
        WAY: pytest.approx(np.nan, nan_ok=True), f"filter-2/{WAY}": 2, f"gather-2/{WAY}": 2
    }  # fmt: skip


def test_ways_that_there_are_not_are_refused():
    named = settings(layouts=(WAY, "point-t16-c1-b1"))
    STUDY.check_on(named, [], CPU)
    assert STUDY.workload(named, outline("delaunay", 1), "double", CPU).variants == 2
    for wrong in ({"layouts": ("edges-t32-c1-b16",)}, {"layouts": (WAY,), "space": "paper"}, {"layouts": ()}):
        with pytest.raises(ReproError, match="unknown way to filter"):
            STUDY.check_on(settings(**wrong), [], CPU)
    listed = dict(STUDY.layouts())
    assert listed[WAY] == "extended on the CPU" and listed["element-t64-c0.5-b1"] == "paper"


@pytest.mark.slow
def test_widths_in_space_are_searched_and_shown(field_campaign):
    tables = steps(SOLID)
    search, report = tables["search"], tables["report"]
    assert set(search.status) == {"ok"} and (search.error <= 1).all()
    papers = search[search.method == "vector"]
    assert set(papers.vector_width) == set(WIDTHS[1]) and set(search.regions) == {SHORT_LIST}
    assert {"joint", "paper", "full", "lane", "matrix", "width/18"} <= set(tables["choices"].tuning)
    full = tables["choices"][tables["choices"].tuning == "full"].name
    assert set(papers.set_index("name").vector_width[full]) == {full_width(1)}
    assert {"filter", "clip"} <= set(report.kind) and report[report.kind == "clip"].stage_scan.notna().any()
    assert (report.error.dropna() <= 1).all()

    load_artifacts(STUDY.name)
    published = Published.load(STUDY.name, STUDY.published, folder=REPOSITORY / "config")
    campaign = Campaign.load(CampaignFolder.of("f"), STUDY.name, STUDY.columns)
    machine = get_artifact(STUDY.name, "table-4-1").make(campaign, published)
    assert [cell.value for cell in machine.rows[0]][2:4] == [6, 13]


@pytest.mark.exhaustive
def test_few_kernels_are_tried_where_a_campaign_is_recorded(field_campaign):
    recorded = RegionMaker(Path())
    recorded.cubes("siac/other", 1, cells=6000)
    with pytest.raises(ReproError, match="no recorded campaign to learn from"):
        predicted(SOLID)  # of a GPU: nothing is told of a CPU
    recorded = RegionMaker(Path(), "opencl")
    recorded.cubes("siac/other", 1, cells=162)
    tables = predicted(SOLID)
    assert list(tables["search"].name) == ["p1/vector-w18-r2-b1", "p1/matrix-w1-r16-b3"], "what was the fastest there"
    assert set(tables["search"].status) == {"ok"}
    assert "full" not in set(tables["choices"].tuning)


def predicted(name: str) -> dict[str, pd.DataFrame]:
    few = settings(search="predicted", budget=0.02, training="all")
    paths = measure(config().model_copy(update={"studies": {STUDY.name: few}}), STUDY.name, name, "double",
                    lambda *_: None)  # fmt: skip
    return {path.stem: pd.read_parquet(path) for path in paths}


def test_kernels_are_found_by_their_names(field_campaign):
    names = ["p1/vector-w18-r1-b1", "p1/lane-w1-r16-b1/filter", "floor"]
    rows = launch(config(), STUDY.name, SOLID, "double", names, 1)
    assert [row.name for row in rows[:2]] == names[:2] and all(row.error <= 1 for row in rows[:2])
    with pytest.raises(ReproError, match="unknown kernel of regions"):
        launch(config(), STUDY.name, SOLID, "double", ["p1/vector-w0-r1-b1"], 1)
