"""Modules of products and of multigrid, compiled for the GPU once."""

from collections.abc import Callable

import pytest

from repro.devices.base import Program
from support.sparse_modules import by_precision, loader


@pytest.fixture(scope="session")
def load(gpu, templates, tmp_path_factory) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    return by_precision(loader(gpu, templates, tmp_path_factory.mktemp("sparse")))
