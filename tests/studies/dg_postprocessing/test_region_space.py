"""The space of kernels that integrate regions."""

import pytest

from repro.codegen.targets import CPU, Target, get_target
from repro.errors import ReproError
from repro.studies.dg_postprocessing.ids import (
    REGION_BLOCKS,
    REGIONS_PER_BLOCK,
    WIDTHS,
    RegionId,
    full_width,
    own_region_ids,
    paper_region_ids,
    region_bytes,
    region_module_keys,
    width_region_pairs,
)

H200 = get_target("sm_90")
K20C = Target("sm_35", 32, 1024, 2048, 16)


def test_shared_memory_is_the_papers():
    assert [region_bytes(degree, full_width(degree)) for degree in (1, 2)] == [3048, 20_568]
    assert 2 * region_bytes(2, 150) < 48 * 1024 < 3 * region_bytes(2, 150)


def test_the_space_has_eight_hundred_of_each_degree():
    assert [len(widths) * len(REGIONS_PER_BLOCK) * len(REGION_BLOCKS) for widths in WIDTHS.values()] == [800, 800]


@pytest.mark.parametrize(("target", "counts"), [(K20C, [97, 27]), (H200, [100, 63])], ids=["48 kB", "227 kB"])
def test_so_many_pairs_fit(target, counts):
    assert [len(width_region_pairs(degree, target)) for degree in (1, 2)] == counts
    assert [len(paper_region_ids(degree, target)) for degree in (1, 2)] == [8 * count for count in counts]


def test_what_the_papers_gpu_has_no_room_for():
    every = {(width, regions) for width in WIDTHS[1] for regions in REGIONS_PER_BLOCK}
    assert every - set(width_region_pairs(1, K20C)) == {(32, 20), (36, 18), (36, 20)}


@pytest.mark.parametrize("target", [CPU, H200], ids=["cpu", "sm_90"])
@pytest.mark.parametrize("degree", [1, 2])
def test_names_are_read_back_and_are_different(target, degree):
    ids = [*paper_region_ids(degree, target), *own_region_ids(degree, target)]
    assert len({str(id) for id in ids}) == len(ids)
    for id in ids:
        assert RegionId.parse(str(id)) == id
        assert id.module in region_module_keys(degree, target)
        assert id.threads <= target.threads_per_block and id.shared_bytes <= target.shared_bytes
    assert {id.space for id in ids} == {"paper", "extended"}
    assert set(region_module_keys(degree, target, "paper")) == {id.module for id in ids if id.space == "paper"}


def test_memory_that_a_text_may_declare_is_not_given_by_the_launch():
    ids = paper_region_ids(2, H200)
    assert {id.launched_bytes for id in ids if id.shared_bytes <= 48 * 1024} == {0}
    assert RegionId(2, "vector", 150, 6, 1).launched_bytes == 6 * 20_568


@pytest.mark.wording
@pytest.mark.parametrize(
    "text",
    ["", "p1/vector-w0-r2-b1", "p3/vector-w16-r2-b1", "p1/lane-w2-r64-b4", "p1/vector-w016-r2-b1", "p1/other-w1-r2-b1"],
)
def test_what_is_no_kernel_is_refused(text):
    with pytest.raises(ReproError, match="unknown kernel of regions"):
        RegionId.parse(text)
