"""A Slurm for all tests of a module, and what runs campaigns in it; skipped where it is not installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.one_node import OneNode, missing_packages

PLUGIN = "snakemake_executor_plugin_slurm"


@pytest.fixture(scope="module")
def slurm() -> Iterator[OneNode]:
    """A Slurm of one node with two GPUs; its folder's path is short, as one of a socket has to be."""
    missing = missing_packages()
    if missing:
        pytest.skip(f"not installed, of Debian's packages: {', '.join(missing)}")
    if find_spec(PLUGIN) is None:
        pytest.skip(f"not installed: {PLUGIN.replace('_', '-')} (the extra `cluster`)")
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder,
        OneNode(Path(folder)) as cluster,
    ):
        yield cluster
