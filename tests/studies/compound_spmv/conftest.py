"""Fixtures: the synthetic campaign on a GPU and on a CPU, and the published numbers."""

from pathlib import Path

import pytest

from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.studies import get_study, load_artifacts
from support.synthetic_campaign import PROBLEMS, STUDY, Maker

ROOT = Path(__file__).parents[3]
load_artifacts(STUDY)


@pytest.fixture(scope="session")
def published() -> Published:
    study = get_study(STUDY)
    return Published.load(STUDY, study.published, study.targets, ROOT / "config")


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Maker(tmp_path_factory.mktemp("gpu"), "cuda").all()


@pytest.fixture(scope="session")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Maker(tmp_path_factory.mktemp("cpu"), "opencl").all(PROBLEMS[1:2] + PROBLEMS[4:5])


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Maker(tmp_path_factory.mktemp("extended"), "cuda", extended=True).all()


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path, "cuda")
