"""Fixtures: the synthetic campaign on a GPU and on a CPU, and the published numbers."""

from pathlib import Path

import pytest
from synthetic_campaign import PROBLEMS, ROOT, STUDY, Maker

from repro.artifacts.data import Campaign
from repro.artifacts.published import Published


@pytest.fixture(scope="session")
def published() -> Published:
    return Published.load(ROOT / "config" / "published", STUDY)


@pytest.fixture(scope="session")
def gpu_raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Maker(tmp_path_factory.mktemp("gpu"), "cuda").all()


@pytest.fixture(scope="session")
def cpu_raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Maker(tmp_path_factory.mktemp("cpu"), "opencl").all(PROBLEMS[1:2] + PROBLEMS[4:5])


@pytest.fixture(scope="session")
def gpu(gpu_raw: Path) -> Campaign:
    return Campaign.load(gpu_raw, STUDY)


@pytest.fixture(scope="session")
def cpu(cpu_raw: Path) -> Campaign:
    return Campaign.load(cpu_raw, STUDY)


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign.load(Maker(tmp_path_factory.mktemp("extended"), "cuda", extended=True).all(), STUDY)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path, "cuda")
