"""Ways of which a launch would take minutes are left out before anything is launched."""

from typing import get_args

import pytest

from repro.errors import Unsupported
from repro.studies.dg_postprocessing.ids import FilterId, FilterMethod
from repro.studies.dg_postprocessing.study import MIN_LAUNCHES, PEAK_SHARES, predicted_seconds, refuse_long

H200 = {"target": "sm_90", "multiprocessors": 132, "max_sm_clock_mhz": 1980}


def test_every_way_and_degree_has_a_share_that_grows_with_the_degree():
    assert set(PEAK_SHARES) == set(get_args(FilterMethod))
    for shares in PEAK_SHARES.values():
        assert len(shares) == 4
        assert list(shares) == sorted(shares)


def test_seconds_are_operations_over_a_share_of_the_peak():
    edges = FilterId.parse("edges-t128-c1-b64")
    seconds = predicted_seconds(edges, 2, 10**12, H200)
    assert seconds == pytest.approx(1e12 / (2 * 64 * 132 * 1.98e9 * PEAK_SHARES["edges"][2]))
    assert predicted_seconds(FilterId.parse("point-t64-c1-b1"), 2, 10**12, H200) > 10 * seconds
    assert predicted_seconds(edges, 2, 10**12, {"target": "cpu"}) is None


@pytest.mark.parametrize("sizes", ["t32-c{}-b1", "t64-c{}-b1", "t256-c{}-b1", "t64-c0.5-b32", "t128-c1-b4"])
def test_both_published_methods_are_left_out_by_one_rule(sizes):
    point, element = (
        predicted_seconds(FilterId.parse(f"{way}-{sizes.format(cell)}"), 1, 10**12, H200)
        for way, cell in (("point", 1), ("element", 0.5))
    )
    assert point == element
    one = predicted_seconds(FilterId.parse("point-t64-c1-b1"), 1, 10**12, H200)
    assert one / 3 <= point <= 2 * one


def test_shares_of_the_peak_become_the_devices() -> None:
    """A card with few lanes in double precision does as much per cycle, up to what its arithmetic allows."""
    few = {"target": "sm_86", "multiprocessors": 132, "max_sm_clock_mhz": 1980}
    assert predicted_seconds(FilterId.parse("point-t64-c1-b1"), 0, 10**12, few) == pytest.approx(
        predicted_seconds(FilterId.parse("point-t64-c1-b1"), 0, 10**12, H200)
    )
    slower = predicted_seconds(FilterId.parse("edges-t128-c1-b64"), 3, 10**12, few) / predicted_seconds(
        FilterId.parse("edges-t128-c1-b64"), 3, 10**12, H200
    )
    assert slower == pytest.approx(32)


@pytest.mark.wording
def test_what_outlasts_the_time_out_is_refused():
    refuse_long(None, 1.0)
    refuse_long(0.9 / MIN_LAUNCHES, 1.0)
    with pytest.raises(Unsupported, match="would outlast the time-out, 1 s"):
        refuse_long(1.1 / MIN_LAUNCHES, 1.0)
