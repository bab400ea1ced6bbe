"""An open GPU with the common module, for all tests of this folder; without a GPU they are skipped with the reason."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest

from repro.bench.runnable import Workspace
from repro.bench.trial import Bench
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.templates import render_common
from repro.config.models import Timing
from repro.devices.base import Program
from repro.devices.cuda import CudaDevice, open_cuda
from repro.devices.device_group import Devices
from repro.devices.selection import find_gpus, open_devices
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.operands import make_operands
from repro.studies import get_study
from support.device_memory import count_taken


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the end the tests that time a GPU, for each of which all others wait."""
    items.sort(key=is_alone)


def is_alone(item: pytest.Item) -> bool:
    """Say whether a test times the GPU, so that no other may use it."""
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    """Let fixtures of several processes share a GPU: they compile for long, and none is timed."""
    with held(fcntl.LOCK_SH):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Let tests of several processes share a GPU, but for those that time it."""
    with held(fcntl.LOCK_EX if is_alone(item) else fcntl.LOCK_SH):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Share the GPU while its memory is given back."""
    with held(fcntl.LOCK_SH):
        return (yield)


@contextmanager
def held(kind: int) -> Iterator[None]:
    """Hold the lock of all GPU tests of this user, whichever process they run in.

    Who waits holds the door meanwhile, so that those who share it cannot keep out one who wants it alone.
    """
    folder = Path(tempfile.gettempdir())
    with (folder / f"gpu-tests-{getuser()}").open("a") as lock:
        with (folder / f"gpu-tests-{getuser()}-door").open("a") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(lock, kind)
        yield


@pytest.fixture(scope="session")
def gpu() -> Iterator[CudaDevice]:
    """The first GPU."""
    try:
        device = open_cuda(0)
    except ReproError as error:
        pytest.skip(" ".join(error.message.split()))
    yield device
    device.close()


@pytest.fixture(scope="session")
def gpu_modules(gpu: CudaDevice, templates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules with the common one, compiled for the GPU once."""
    folder = tmp_path_factory.mktemp("modules")
    compile_module(render_common(templates, gpu.target), gpu.target, folder / gpu.target.name / "common.json")
    return folder


@pytest.fixture(scope="session")
def gpu_module(gpu: CudaDevice, gpu_modules: Path) -> Program:
    """The common module, loaded; the device has taken its blocker from it."""
    manifest = gpu_modules / gpu.target.name / "common.json"
    program = gpu.load(manifest.parent / str(Module.load(manifest).binary))
    gpu.use_common(program)
    return program


@pytest.fixture
def taken(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Give how many bytes of the GPU a test holds; what is free there changes with whatever else runs on it."""
    return count_taken(monkeypatch, gpu)


@pytest.fixture(scope="module")
def gpus() -> Iterator[Devices]:
    """All GPUs, up to eight, where there are two."""
    count = len(find_gpus())
    if count < 2:
        pytest.skip("there are no two GPUs")
    devices = open_devices(f"cuda:{','.join(map(str, range(min(count, 8))))}")
    yield devices
    devices.close()


@pytest.fixture(scope="module")
def modules_of_gpus(gpus: Devices, templates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules with the common one; the first GPU has taken its blocker from it."""
    folder, target = tmp_path_factory.mktemp("modules"), gpus.first.target
    manifest = folder / target.name / "common.json"
    module = compile_module(render_common(templates, target), target, manifest)
    gpus.first.use_common(gpus.first.load(manifest.parent / str(module.binary)))
    return folder


@pytest.fixture
def make_gpu_bench(gpu: CudaDevice, gpu_module: Program, gpu_modules: Path) -> Iterator[Callable[..., Bench]]:
    """Open a bench on the GPU for a problem, timed with few launches; `study` says which columns its rows have."""
    benches: list[Bench] = []

    def make(problem: Matrix, precision: str, study: str = "compound_spmv", **timing: Any) -> Bench:
        operands = make_operands(problem, precision, 1)
        few = {"launches": 20, "graph_launches": 5, "graph_replays": 5, "rounds": 2, "noise": 1e9,
               "gpu_disturbed": 1e9}  # fmt: skip
        bench = Bench(
            Workspace(Devices([gpu]), operands, gpu_modules, kept_packings=16),
            study_name=study,
            problem_name=problem.name,
            timing=Timing(**{**few, **timing}),
            seed=1,
            own=get_study(study).columns,
            environment="test",
            software="test",
            code=str,
        )
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        bench.release()
