import hashlib
from collections import Counter

import pytest

from repro.codegen.targets import TARGETS, get_target
from repro.entries import entries
from repro.errors import ReproError
from repro.sparse.compound.variants import Layout, Schedule, extended_layouts, extended_space, paper_space

#: Of every entry's matrices.
LAYOUTS = sorted({layout for entry in entries().values() for layout in extended_layouts(entry)})


def test_the_papers_space_on_an_h200_has_sixty_pairs_of_both_kinds():
    space = paper_space(get_target("sm_90"))
    assert len(space) == len(set(space)) == 120
    assert len({(s.block_size, s.blocks_per_sm) for s in space}) == 60


def test_the_grid_on_the_cpu_has_four_by_three_pairs_of_both_kinds():
    space = paper_space(get_target("cpu"))
    assert len({s.block_size for s in space}) == 4
    assert len({s.blocks_per_sm for s in space}) == 3
    assert len(space) == 24


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_every_schedule_keeps_the_limits(target):
    for space in (paper_space(target), *(extended_space(target, layout) for layout in LAYOUTS)):
        assert len(set(space)) == len(space)
        for schedule in space:
            assert schedule.block_size <= target.threads_per_block
            assert schedule.blocks_per_sm <= target.blocks_per_sm
            assert schedule.block_size * schedule.blocks_per_sm <= target.threads_per_sm


@pytest.mark.parametrize(
    ("rows", "blocks"),
    [
        (64, {64: [16, 8, 24, 20], 128: [8, 4, 12, 10]}),
        (128, {128: [8, 4, 12, 10], 256: [4, 2, 6, 5]}),
        (256, {256: [4, 2, 6, 5], 512: [2, 1, 3]}),
    ],
)
def test_tiles_on_an_h200_have_registers_for_half_and_a_quarter_and_for_more(rows, blocks):
    space = extended_space(get_target("sm_90"), Layout(f"Pairs-{rows}", "AoSoA", "AoS"))
    for n_t, n_b in blocks.items():
        assert list(dict.fromkeys(s.blocks_per_sm for s in space if s.block_size == n_t)) == n_b
    assert {s.block_size for s in space} == set(blocks)


def test_our_space_on_an_h200_is_the_recorded_one():
    """Names of recorded rows, in the order in which they were tried: what a recorded search is learnt from by.

    Slices of 32 rows, sorted slices and schedules that split rows came later.
    """
    space = [(layout, schedule) for layout in LAYOUTS for schedule in extended_space(get_target("sm_90"), layout)]
    later = [
        (layout, schedule)
        for layout, schedule in space
        if layout.outer == "Sl-32" or layout.ordering == "sigma" or schedule.kind == "split"
    ]
    names = [f"{layout}/{schedule}" for layout, schedule in space if (layout, schedule) not in later]
    assert Counter(f"{layout}/{schedule.kind}" for layout, schedule in later) == {
        "Sl-32-AoSoA-AoS/direct": 24, "Sl-32-AoSoA-AoS@sigma/direct": 24, "Sl-8-AoSoA-AoS@sigma/direct": 24,
        "CSR-AoSoA-AoS/split": 12, "CSR-AoSoA-Padded/split": 12,
    }  # fmt: skip
    assert hashlib.sha256("\n".join(names).encode()).hexdigest() == (
        "8b54c3d300c54a4a1d4565575d666d409e5144cb86c825b38fdd650e99eefd47"
    )


def test_names_tell_schedules_apart():
    assert str(Schedule("static", 256, 4)) == "static-256-4"
    assert str(Schedule("dynamic", 64, 2, width=4, in_flight=2)) == "dynamic-64-2-w4-u2"


def test_an_unknown_target_names_the_known_ones():
    with pytest.raises(ReproError, match="sm_90"):
        get_target("sm_1")
