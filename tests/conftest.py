"""Shared by all tests: what is skipped where something is missing, and small configurations."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.config.models import Config, Study

REPOSITORY = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("REPRO_MIRROR"):
        skip = pytest.mark.skip(reason="REPRO_MIRROR does not point at a folder of real inputs")
        for item in items:
            if item.get_closest_marker("mirror"):
                item.add_marker(skip)


@pytest.fixture
def mirror() -> Path:
    """The folder of real inputs; for tests marked `mirror`."""
    return Path(os.environ["REPRO_MIRROR"])


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., Config]:
    """Make a configuration with its download folder in `tmp_path`; `fetch=` adds to its keys."""

    def make(fetch: dict[str, Any] | None = None, **keys: Any) -> Config:
        settings = {"cache": str(tmp_path / "cache"), "timeout": 2.0, "retries": 0, **(fetch or {})}
        keys = {"registry": str(REPOSITORY / "config/problems.yaml"), "studies": {"compound_spmv": Study()}} | keys
        return Config(fetch=settings, **keys)

    return make
