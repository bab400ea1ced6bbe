"""`sampled` keeps some parameter sets of a function and makes the others exhaustive."""

from __future__ import annotations

import pytest

CONFTEST = """
from support.sampled import mark_unsampled
def pytest_configure(config):
    for marker in ("sampled(n): some stay", "exhaustive: the others"):
        config.addinivalue_line("markers", marker)
@__import__("pytest").hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_unsampled(items)
"""
FUNCTIONS = """
import pytest
pytestmark = pytest.mark.sampled(2)
never = pytest.param(6, marks=pytest.mark.exhaustive)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", range(8))
def test_some(n): pass
@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", range(3))
def test_one(n): pass
@pytest.mark.sampled(9)
@pytest.mark.parametrize("n", range(3))
def test_all(n): pass
@pytest.mark.parametrize("n", [0, 1, 2, 3, never])
def test_by_its_file(n): pass
def test_alone(): pass
"""


@pytest.mark.parametrize(
    ("selected", "kept"),
    [
        ("not exhaustive", "some[0] some[4] some[7] one[0] all[0] all[1] all[2] by_its_file[0] by_its_file[3] alone"),
        (
            "exhaustive",
            "some[1] some[2] some[3] some[5] some[6] one[1] one[2] by_its_file[1] by_its_file[2] by_its_file[6]",
        ),
    ],
)
def test_sets_that_are_evenly_spread_stay(pytester: pytest.Pytester, selected: str, kept: str) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=FUNCTIONS)
    listed = pytester.runpytest_inprocess("--collect-only", "-q", "-m", selected, "-p", "no:xdist", "-p", "no:cov")
    assert [line.removeprefix("test_it.py::test_") for line in listed.outlines if "::" in line] == kept.split()


def test_a_set_that_is_named_is_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=FUNCTIONS)
    done = pytester.runpytest_inprocess("test_it.py::test_some[2]", "-m", "not exhaustive", "-p", "no:xdist")
    done.assert_outcomes(passed=1)
