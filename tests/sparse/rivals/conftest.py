"""Libraries of rivals that do right and of rivals that go wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.sparse.rivals.files import include_folder
from support.spoilt_forms import HERE


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile `spoilt.c`, or another file, to a shared library that goes wrong in a way."""
    folder = tmp_path_factory.mktemp("libraries")

    def build(spoilt: str, file: str = "spoilt", own: int = 0) -> Path:
        path = folder / f"lib{file}-{spoilt.lower()}-{own}.so"
        if not path.exists():
            words = ["gcc", "-shared", "-fPIC", "-O1", f"-DSPOILT={spoilt}", f"-DOWN={own}", f"-I{include_folder()}"]
            subprocess.run([*words, "-o", path, HERE / f"{file}.c"], check=True)
        return path

    return build
