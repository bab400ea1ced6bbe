"""Shared by all tests: what is skipped where something is missing, and small configurations."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.bench import yardsticks
from repro.bench.runnable import Workspace
from repro.bench.trial import Bench, DeviceSamples
from repro.codegen import opencl_runtime
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU, Target
from repro.codegen.templates import render_common
from repro.config.models import Config, StudySettings, Timing
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClDevice
from repro.devices.selection import open_devices
from repro.entries import get_entry
from repro.filesystem import write_whole
from repro.problems.matrix import Matrix
from repro.sparse.operands import make_operands
from repro.studies import get_study
from support.sampled import mark_unsampled

pytest_plugins = ("pytester", "support.coverage_of_first_tests")
REPOSITORY = Path(__file__).parents[1]
#: Asked of the CPU's compiler beside the usual flags, unless REPRO_OPTIMISED is set.
UNOPTIMISED = () if os.environ.get("REPRO_OPTIMISED") else ("-cl-opt-disable",)

#: Bytes of modules that are kept for later runs; those of all tests take 40 MB.
KEPT_BYTES = 1 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # emulated GPUs are slow, and the precisions of a kernel differ by the name of a type
        given = getattr(item, "callspec", None)
        if given and (given.params.get("device"), given.params.get("precision")) == ("cuda", "single"):
            item.add_marker(pytest.mark.exhaustive)
    mark_unsampled(items)
    missing = {
        "mirror": (not os.environ.get("REPRO_MIRROR"), "REPRO_MIRROR does not point at a folder of real inputs"),
        "git": (not (REPOSITORY / ".git").exists(), "no git repository"),
    }
    for item in items:
        for name, (is_missing, reason) in missing.items():
            if is_missing and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
    # a file is dealt to one process (--dist loadfile): the longest first, so that none works alone at the end
    items.sort(key=lambda item: item.get_closest_marker("workflow") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect tests without garbage collection: they stay to the end."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have the garbage collector pass over the collected tests, which are thousands."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def mirror() -> Path:
    """The folder of real inputs; for tests marked `mirror`."""
    return Path(os.environ["REPRO_MIRROR"])


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let the processes that a test starts receive SIGINT, even if the test process ignores it.

    A shell makes background processes ignore SIGINT, and children inherit that.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.fixture
def at_once() -> Iterator[None]:
    """Fail a test that waits for what never comes."""

    def wait_no_longer(*_: object) -> None:
        raise AssertionError("it waits")

    earlier = signal.signal(signal.SIGALRM, wait_no_longer)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, earlier)


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., Config]:
    """Make a configuration with its download folder in `tmp_path`; `fetch=` adds to its keys."""

    def make(fetch: dict[str, Any] | None = None, **keys: Any) -> Config:
        settings = {"cache": str(tmp_path / "cache"), "timeout": 2.0, "retries": 0, **(fetch or {})}
        studies = {"compound_spmv": StudySettings()}
        return Config(
            fetch=settings, **{"registry": str(REPOSITORY / "config/problems.yaml"), "studies": studies, **keys}
        )

    return make


@pytest.fixture(scope="session")
def templates() -> Path:
    """The project's kernel templates."""
    return REPOSITORY / "kernels"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Delete what earlier runs have compiled where it has become much: most of it is of sources that are no more."""
    kept = _kept_folder(session.config)
    if kept is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        files = [path.stat().st_size for path in kept.rglob("*") if path.is_file()]
        if sum(files) > KEPT_BYTES:
            shutil.rmtree(kept)


def _kept_folder(config: pytest.Config) -> Path | None:
    """Return where modules are kept from one run to the next; None where pytest keeps nothing."""
    if not hasattr(config, "cache") or config.cache is None:
        return None
    return config.cache.mkdir("built") / ("unoptimised" if UNOPTIMISED else "optimised")


@pytest.fixture(scope="session")
def built_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules that all processes share, and later runs: what one of them has compiled the others take.

    Names are hashes of sources and compilers, or manifests say them, which are compared before a module is taken.
    """
    return _kept_folder(request.config) or tmp_path_factory.mktemp("built")


@pytest.fixture(scope="session", autouse=True)
def compiled_once(built_folder: Path) -> Iterator[None]:
    """Have the CPU's compiler asked once for a source, wherever a test compiles it to: titles and comments aside.

    It does not optimise, which takes up to 20 times as long; processes that tests start compile as users do.
    """
    build = opencl_runtime.build

    def once(source: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
        code = re.sub(r"^//.*\n", "", source.read_text(), flags=re.MULTILINE)
        compiler = (target.name, *opencl_runtime.build_identity(), *opencl_runtime.FLAGS, *opencl_runtime.environment())
        words = "\0".join([code, *compiler])
        kept = built_folder / "opencl" / f"{hashlib.sha256(words.encode()).hexdigest()}{binary.suffix}"
        if binary.exists():
            return {}
        if kept.exists():
            write_whole(binary, kept.read_bytes())
        else:
            build(source, binary, target, (*opencl_runtime.FLAGS, *UNOPTIMISED))
            write_whole(kept, binary.read_bytes())
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl_runtime, "build", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_copy() -> Iterator[None]:
    """Have the CPU copy a megabyte where its bandwidth is measured: its full size takes most of a small campaign."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(yardsticks.COPY_BYTES, "opencl", 1 << 20)
        yield


@pytest.fixture(scope="session")
def modules_folder(tmp_path_factory: pytest.TempPathFactory, templates: Path) -> Path:
    """A folder of modules with the common one, compiled for the CPU once."""
    folder = tmp_path_factory.mktemp("modules")
    compile_module(render_common(templates, CPU), CPU, folder / CPU.name / "common.json")
    return folder


@pytest.fixture(scope="session")
def cpu_device() -> OpenClDevice:
    """The CPU through OpenCL."""
    return OpenClDevice()


@pytest.fixture(scope="module")
def halves() -> Iterator[Devices]:
    """The CPU as two devices."""
    if OpenClDevice().sm_count < 2:
        pytest.skip("the CPU has one core and cannot be split")
    devices = open_devices("opencl:0/2")
    yield devices
    devices.close()


@pytest.fixture
def make_bench(cpu_device: OpenClDevice, modules_folder: Path) -> Callable[..., Bench]:
    """Open a bench on the CPU for a problem, timed with few launches; `study` says which columns its rows have."""

    def make(
        problem: Matrix,
        precision: str = "double",
        study: str = "compound_spmv",
        timed: dict[str, DeviceSamples] | None = None,
        **timing: Any,
    ) -> Bench:
        operands = make_operands(problem, precision, 1, rectangular=not problem.square)
        few = {"launches": 20, "graph_launches": 5, "graph_replays": 5, "cpu_budget": 0.01, "rounds": 2, "noise": 1e9,
               "cpu_disturbed": 1e9}  # fmt: skip
        return Bench(
            Workspace(Devices([cpu_device]), operands, modules_folder, kept_packings=16),
            study_name=study,
            problem_name=problem.name,
            timing=Timing(**{**few, **timing}),
            seed=1,
            own=get_study(study).columns,
            environment="test",
            software="test",
            code=str,
            device_samples=timed,
        )

    return make


@pytest.fixture
def small_problem() -> Callable[..., Matrix]:
    """Make a random problem of an entry, with empty rows and a long one."""

    def make(entry: str = "quaternion", n: int = 75) -> Matrix:
        random = np.random.default_rng(5)
        lengths = random.integers(0, 9, n)
        lengths[n // 2], lengths[::7] = n - 3, 0
        indices = [np.sort(random.choice(n, length, replace=False)) for length in lengths]
        return Matrix(
            f"small/{entry}",
            entry,
            n,
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            np.concatenate(indices).astype(np.int32),
            random.normal(size=(int(lengths.sum()), len(get_entry(entry).members))),
        )

    return make
