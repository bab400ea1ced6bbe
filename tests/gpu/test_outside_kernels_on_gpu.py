"""Rivals on a GPU, of all three forms: what is right is timed, and what goes wrong is a row that says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.templates import render_common
from repro.config.models import Config, Rival, StudySettings, Timing
from repro.devices.base import Program
from repro.devices.cuda import CudaDevice
from repro.devices.device_group import Devices
from repro.entries import entries
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline
from repro.sparse.rivals.forms import compile_source
from repro.sparse.rivals.runnables import RivalProduct
from repro.sparse.rivals.trial import Trial, try_rival
from repro.studies import get_study
from repro.studies.dynamic_csr.runnables_updates import RivalUpdate
from support import rival_sources as sources
from support.benches import QUICK, graph_benches
from support.update_problems import PROBLEMS

pytestmark = pytest.mark.gpu

EFFORT = SamplingPlan(5, 2, 5)
EXAMPLES = Path(__file__).parents[2] / "examples/rivals"
WARP = {"source": str(EXAMPLES / "warp_per_row.cu"), "kernel": "warp_per_row", "threads_per_row": 32}
VECTOR = {"source": str(EXAMPLES / "warp_library.cu")}
ONE = Trial("block3", "double")


@pytest.fixture
def tried(
    make_gpu_bench: Callable[..., Bench],
    small_problem: Callable[..., Matrix],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., object]:
    """Try a rival on a small matrix, and return its row; what is compiled goes to a folder of the test."""
    monkeypatch.chdir(tmp_path)

    def attempt(rival: Rival, entry: str = "quaternion", precision: str = "double") -> object:
        bench = make_gpu_bench(small_problem(entry), precision)
        return bench.try_once(RivalProduct(rival, entry), "report", EFFORT)

    return attempt


@pytest.fixture
def make_graph_bench(gpu: CudaDevice, gpu_module: Program, gpu_modules: Path) -> Iterator[Callable[..., Bench]]:
    yield from graph_benches(Devices([gpu]), gpu_modules)


def written(text: str, name: str = "mine.cu") -> str:
    Path(name).write_text(text)
    return name


FORMS = ("source", "library", "python")


def of_form(form: str, name: str, gpu: CudaDevice, precision: str, spoilt=("", ""), *, leaking: bool = False) -> Rival:
    """A rival of a form, in files of its name, that goes wrong in a way."""
    source = Rival(name=name, source=written(sources.library(*spoilt, leaking=leaking), f"{name}.cu"))
    if form == "library":
        return Rival(name=name, library=str(compile_source(source, gpu.target, precision, 1).resolve()))
    if form == "source" and leaking:
        return source
    kernel = Rival(name=name, source=written(sources.kernel(*spoilt), f"{name}-kernel.cu"), kernel="product")
    if form == "source":
        return kernel
    cubin = compile_source(kernel, gpu.target, precision, 1).resolve()
    return Rival(name=name, python=f"{written(sources.python(cubin, leaking=leaking), f'{name}.py')}:Product")


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_the_examples_in_cuda_are_right(tried, entry, precision) -> None:
    for rival in (
        Rival(name="warp", **WARP),
        Rival(name="wide", offsets=64, **WARP),
        Rival(name="vector", **VECTOR),
    ):
        row = tried(rival, entry, precision)
        assert (row.status, row.message, row.kind) == ("ok", None, "outside")
        assert row.error <= 1
        assert 0 < row.graph_median < 1e-3
        assert 0 < row.event_median < 1e-3
        assert row.preprocess > 0
    assert row["routine"] == "vector (vector 1.0)"


def test_a_source_that_is_compiled_by_hand_is_a_library(tried, gpu) -> None:
    binary = compile_source(Rival(name="vector", **VECTOR), gpu.target, "double", 1)
    row = tried(Rival(name="mine", library=str(binary.resolve())))
    assert (row.status, row.message) == ("ok", None)


def test_blocks_stay_blocks(tried) -> None:
    text = sources.kernel().replace("y[row] = sum;", "").replace("  repro_rival_real sum = 0;\n", "")
    body = """for (int i = 0; i < REPRO_RIVAL_BLOCK; i++) {
      repro_rival_real sum = 0;
      for (repro_rival_offset at = offsets[row]; at < offsets[row + 1]; at++)
        for (int j = 0; j < REPRO_RIVAL_BLOCK; j++)
          sum += values[(at * REPRO_RIVAL_BLOCK + i) * REPRO_RIVAL_BLOCK + j] * x[indices[at] * REPRO_RIVAL_BLOCK + j];
      y[row * REPRO_RIVAL_BLOCK + i] = sum;
    }"""
    start = text.index("for (repro_rival_offset")
    text = text[:start] + body + text[text.index("\n", start) :]
    row = tried(Rival(name="mine", source=written(text), kernel="product", format="bsr"))
    assert (row.status, row.message, row["format"]) == ("ok", None, "bsr")


def test_python_gets_arrays_on_the_gpu_and_the_stream(tried, gpu) -> None:
    row = tried(of_form("python", "mine", gpu, "double"))
    assert (row.status, row.message) == ("ok", None)
    assert row.graph_median > 0


def test_pytorchs_example_is_right(tried) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    row = tried(Rival(name="torch", python=f"{EXAMPLES / 'products.py'}:TorchCsr"))
    assert row.status == "ok", row.message


@pytest.mark.parametrize("name", sorted(sources.SPOILT))
def test_what_goes_wrong_is_a_row_that_says_so(tried, name) -> None:
    spoilt, status, message = sources.SPOILT[name]
    row = tried(Rival(name=name, source=written(sources.kernel(*spoilt)), kernel="product"))
    assert row.status == status
    assert message in row.message
    assert row.event_median is None


@pytest.mark.parametrize("form", ["library", "python"])
@pytest.mark.parametrize("name", ["wrong", "outside", "inputs", "idle"])
def test_so_it_is_in_each_form(tried, gpu, form, name) -> None:
    spoilt, status, message = sources.SPOILT[name]
    row = tried(of_form(form, name, gpu, "double", spoilt))
    assert row.status == status
    assert message in row.message
    assert row.event_median is None


def test_a_kernel_that_is_not_there_is_named(tried) -> None:
    row = tried(Rival(name="mine", source=written(sources.kernel()), kernel="products"))
    assert row.status == "compile_error"
    assert "no kernel products" in row.message


def test_one_that_waits_is_timed_by_the_hosts_clock(tried) -> None:
    source = written(sources.library(waiting=True))
    row = tried(Rival(name="mine", source=source, waits=True))
    assert (row.status, row.event_median) == ("ok", None)
    assert row.host_median > 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.alone
def test_memory_of_the_gpu_that_stays_is_a_leak(gpu, tmp_path, monkeypatch, form) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = try_rival(of_form(form, "mine", gpu, "double"), ONE, Devices([gpu]))
    assert outcome.status == "ok", outcome
    outcome = try_rival(of_form(form, "leaking", gpu, "double", leaking=True), ONE, Devices([gpu]))
    assert outcome.status == "leak"
    assert "GPU memory stay" in outcome.message


@pytest.mark.slow
def test_what_crashes_and_what_hangs_costs_its_row_in_a_campaign(
    gpu: CudaDevice, templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_problem
) -> None:
    study, case, layout = "compound_spmv", "small/complex", "ELL-SoA-AoS"
    monkeypatch.chdir(tmp_path)
    Path("config").symlink_to(templates.parent / "config")
    rivals = (
        Rival(name="warp", **WARP),
        *(of_form(form, f"crashing-{form}", gpu, "single", sources.CRASHING) for form in FORMS),
        *(of_form(form, f"hanging-{form}", gpu, "single", sources.HANGING) for form in FORMS),
        Rival(name="vector", **VECTOR),
    )
    settings = StudySettings(layouts=(layout,), timing=Timing(**{**QUICK, "timeout": 10.0}))
    config = Config(campaign="c", device="cuda:0", studies={study: settings}, rivals=rivals)
    Path("c.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    small_problem("complex").save(Path(f"results/c/problems/{case}.npz"))
    compile_module(render_common(templates, gpu.target), gpu.target, Path("modules", gpu.target.name, "common.json"))
    for key in get_study(study).modules(settings, Outline(case, "matrix", "complex"), "single", gpu.target):
        source = get_study(study).render(templates, key, gpu.target)
        compile_module(source, gpu.target, manifest_path(gpu.target.name, study, key))
    words = [sys.executable, "-m", "repro", "measure", study, case, "single", "--config", "c.yaml"]
    done = subprocess.run(words, text=True, check=False, timeout=480, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    report = pd.read_parquet(f"results/c/raw/{study}/{case}/single/report.parquet")
    warm = report[report.cache == "warm"].set_index("name")
    assert dict(warm[warm.kind == "outside"].status) == {
        "rival/warp": "ok",
        **{f"rival/crashing-{form}": "launch_error" for form in FORMS},
        **{f"rival/hanging-{form}": "timeout" for form in FORMS},
        "rival/vector": "ok",
    }
    assert np.isfinite(warm.graph_median["rival/warp"])
    # cuSPARSE does not support every routine for this problem
    assert set(warm[warm.kind == "baseline"].status) <= {"ok", "disturbed", "unsupported"}
    assert set(warm[~warm.kind.isin(["outside", "baseline"])].status) <= {"ok", "disturbed"}


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("of", ["spgemm", "solve"])
@pytest.mark.alone
def test_products_of_two_matrices_and_solutions(gpu, tmp_path, monkeypatch, of, precision) -> None:
    monkeypatch.chdir(tmp_path)
    rival = Rival(name="mine", source=written(sources.TASKS), of=of)
    outcome = try_rival(rival, Trial("real", precision), Devices([gpu]))
    assert (outcome.status, outcome.message) == ("ok", "")
    wrong = sources.TASKS.replace("bool there = false;", "bool there = column == 3;").replace("sum / diagonal", "sum")
    rival = Rival(name="mine", source=written(wrong, "wrong.cu"), of=of)
    assert try_rival(rival, Trial("real", precision), Devices([gpu])).status == "incorrect"


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("factor", "status"), [("1", "ok"), ("2", "incorrect")])
@pytest.mark.alone
def test_batches_of_updates(gpu, make_graph_bench, tmp_path, monkeypatch, factor, status, precision) -> None:
    monkeypatch.chdir(tmp_path)
    rival = Rival(name="mine", source=written(sources.UPDATES.replace("@factor@", factor)), of="updates")
    outcome = try_rival(rival, Trial("real", precision), Devices([gpu]))
    assert outcome.status == status, outcome
    bench = make_graph_bench(PROBLEMS["several batches"], precision)
    row = bench.try_once(RivalUpdate(rival, "insert", "any"), "report", EFFORT)
    assert row.status == status, row.message
    assert (row.event_median is not None) == (status == "ok")
    assert row["batch"] == 70
