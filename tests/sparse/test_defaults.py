"""The default variant, by the lengths of the rows."""

import numpy as np
import pytest

from repro.codegen.targets import TARGETS, get_target
from repro.entries import entries
from repro.sparse.compound.defaults import RECORDED, Rows, default_variant
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.variants import fitting

SM_90, CPU = get_target("sm_90"), get_target("cpu")
RNG = np.random.default_rng(4)


def one_longer(count, length, longest):
    lengths = np.full(count, length)
    lengths[count // 2] = longest
    return lengths


LENGTHS = {
    "5 points": np.full(512**2, 5),
    "27 points": np.full(64**3, 27),
    "few rows": np.full(2000, 20),
    "27 points in few rows": np.full(32**3, 27),
    "7 points in few rows": np.full(32**3, 7),
    "uneven": RNG.integers(1, 20, 100_000),
    "more uneven": RNG.geometric(0.2, 100_000),
    "a power law": np.minimum((RNG.pareto(1.2, 500_000) + 1) * 2, 2500).astype(int),
    "an arrow": one_longer(300_000, 2, 300_000),
    "a row of 300": one_longer(2048**2, 5, 300),
    "one row": np.array([50_000]),
    "a small power law": np.minimum((RNG.pareto(1.2, 70_000) + 1), 1400).astype(int),
    "a smaller one": np.minimum((RNG.pareto(1.2, 8000) + 1) * 2, 1400).astype(int),
    "ones": np.ones(100_000, int),
    "no entries": np.zeros(100_000, int),
}


def chosen(lengths, entry="real", precision="double", target=SM_90):
    return default_variant(entry, precision, Rows.of(np.asarray(lengths, np.int32)), target)


@pytest.mark.parametrize(
    ("rows", "entry", "variant"),
    [
        ("5 points", "real", "Sl-32-AoSoA-AoS/direct-256-4-u5"),
        ("27 points", "real", "Sl-32-AoSoA-AoS/direct-256-4-u7-cs"),
        ("27 points", "complex", "Sl-32-AoSoA-AoS/direct-256-4-u5-cs"),
        ("27 points", "pattern", "Sl-32-AoSoA-AoS/direct-256-4-u7"),
        ("ones", "real", "Sl-32-AoSoA-AoS/direct-256-4"),
        ("few rows", "real", "CSR-AoSoA-AoS/direct-128-8-w16-u2"),
        ("27 points in few rows", "real", "Sl-32-AoSoA-AoS/direct-128-8-w2-u7"),
        ("7 points in few rows", "real", "Sl-32-AoSoA-AoS/direct-128-8-w2-u4"),
        ("uneven", "real", "Sl-32-AoSoA-AoS@sigma/direct-256-4-u4"),
        ("more uneven", "real", "Sl-32-AoSoA-AoS@sigma/direct-256-4-u8"),
        ("no entries", "real", "Sl-32-AoSoA-AoS/direct-256-4"),
        ("a power law", "real", "CSR-AoSoA-AoS/split-128-12-u8-cs"),
        ("an arrow", "real", "CSR-AoSoA-AoS/split-128-12-u8"),
        ("an arrow", "complex", "CSR-AoSoA-AoS/split-128-8-u4"),
        ("one row", "real", "CSR-AoSoA-AoS/split-128-8-u8"),
        ("a small power law", "real", "Sl-8-AoSoA-AoS@sigma/direct-128-8-w4-u2"),
        ("a smaller one", "complex", "Sl-8-AoSoA-AoS@sigma/direct-128-8-w8-u2"),
        ("one row", "quaternion", "CSR-AoSoA-AoS/split-128-8-u2"),
        ("a row of 300", "real", "Sl-32-AoSoA-AoS/direct-256-4-u5-cs"),
        ("27 points", "block3", RECORDED["block3", "double"]),
        ("uneven", "quaternion", RECORDED["quaternion", "double"]),
    ],
)
def test_the_lengths_of_the_rows_choose_the_default(rows, entry, variant):
    assert str(chosen(LENGTHS[rows], entry)) == variant


@pytest.mark.parametrize("entry", sorted(entries()))
@pytest.mark.parametrize("precision", ["single", "double"])
def test_no_default_needs_an_order_of_the_host_and_each_fits_its_target(templates, entry, precision):
    for target in TARGETS.values():
        for id in {chosen(lengths, entry, precision, target) for lengths in LENGTHS.values()}:
            layout = id.layout
            assert layout.ordering in ("natural", "sigma") and layout.vector == "AoS" and not layout.stores_pairs
            fitting(id, target)
            if target in (SM_90, CPU):  # refuses what does not fit in shared memory
                render_module(templates, entry, precision, layout, [id.schedule], target, "tests")


def test_on_the_cpu_a_row_with_most_entries_is_split():
    assert str(chosen(LENGTHS["an arrow"], target=CPU)) == "CSR-AoS-AoS/split-64-3-u8"
    for rows in ("5 points", "a power law", "uneven", "no entries"):
        assert str(chosen(LENGTHS[rows], target=CPU)) == "CSR-AoS-AoS/direct-64-3"


def test_recorded_statistics_give_the_choice_that_rows_give():
    for name in ("5 points", "27 points", "few rows", "uneven", "an arrow"):
        lengths = LENGTHS[name]
        quartiles = {"q3": float(np.quantile(lengths, 0.75)), "max": float(lengths.max())}
        rows = Rows.described(len(lengths), int(lengths.sum()), quartiles)
        assert default_variant("real", "double", rows, SM_90) == chosen(lengths), name
    assert Rows.described(100, 450) == Rows(100, 450, 5, 450)
    assert Rows.described(0, 0) == Rows.of(np.zeros(0, np.int32))
