import pytest

from repro.codegen.targets import TARGETS, get_target
from repro.errors import ReproError
from repro.studies.compound_spmv.schedules import Schedule, paper_space


def test_the_papers_space_on_an_h200_has_sixty_pairs_of_both_kinds():
    space = paper_space(get_target("sm_90"))
    assert len(space) == len(set(space)) == 120
    assert len({(s.n_t, s.n_b) for s in space}) == 60


def test_the_grid_on_the_cpu_has_four_by_three_pairs_of_both_kinds():
    space = paper_space(get_target("cpu"))
    assert len({s.n_t for s in space}) == 4
    assert len({s.n_b for s in space}) == 3
    assert len(space) == 24


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_every_schedule_keeps_the_limits(target):
    for schedule in paper_space(target):
        assert schedule.n_t <= target.threads_per_block
        assert schedule.n_b <= target.blocks_per_sm
        assert schedule.n_t * schedule.n_b <= target.threads_per_sm


def test_names_tell_schedules_apart():
    assert str(Schedule("static", 256, 4)) == "static-256-4"
    assert str(Schedule("dynamic", 64, 2, width=4, unroll=2)) == "dynamic-64-2-w4-u2"


def test_an_unknown_target_names_the_known_ones():
    with pytest.raises(ReproError, match="sm_90"):
        get_target("sm_1")
