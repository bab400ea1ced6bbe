"""A copy of the repository for all tests of a module."""

from __future__ import annotations

import pytest

from support.checkouts import Checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One copy for all tests of a module."""
    return Checkout(tmp_path_factory.mktemp("checkout"))
