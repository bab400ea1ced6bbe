"""Orders of tuning on times that can be worked out by hand."""

import numpy as np

from repro.sparse.compound.variants import REFERENCE, Layout, Schedule, VariantId
from repro.studies.compound_spmv import searches
from repro.studies.compound_spmv.searches import OrderOutcome
from repro.tuning.recordings import Recording

# CSR likes 64-2, ELL 256-8; under CSR's schedule ELL is slower than CSR
SECONDS = {
    "CSR-AoS-AoS/static-64-2": 5.0, "CSR-AoS-AoS/static-256-8": 6.0, "CSR-AoS-AoS/dynamic-64-2": 7.0,
    "CSR-AoS-AoS/static-128-1": 8.0,
    "ELL-AoS-AoS/static-64-2": 5.5, "ELL-AoS-AoS/static-256-8": 3.0, "ELL-AoS-AoS/dynamic-64-2": 2.0,
    "ELL-AoS-AoS/static-128-1": 4.0,
    "ELL-SoA-AoS/static-64-2": 9.0, "ELL-SoA-AoS/static-256-8": None, "ELL-SoA-AoS/dynamic-64-2": 1.0,
    "ELL-SoA-AoS/static-128-1": 9.0, "ELL-SoA-AoS/direct-128-1-w2": 0.5,
}  # fmt: skip
TIMES = searches.times_of(Recording("p", "real", "single", "cuda", np.zeros(1), SECONDS))


def test_only_the_papers_space_counts():
    assert sum(len(by_pair) for by_pair in TIMES.values()) == 11
    assert Schedule("static", 256, 8) not in TIMES[Layout.parse("ELL-SoA-AoS")]


def test_each_order_ends_where_it_must():
    assert searches.joint_tuning(TIMES) == OrderOutcome(VariantId.parse("ELL-SoA-AoS/dynamic-64-2"), 11)
    assert searches.schedule_alone(TIMES) == OrderOutcome(VariantId.parse("CSR-AoS-AoS/static-64-2"), 4)
    assert searches.layout_alone(TIMES) == OrderOutcome(VariantId.parse("ELL-AoS-AoS/static-256-8"), 2)
    assert searches.schedule_first(TIMES) == OrderOutcome(VariantId.parse("CSR-AoS-AoS/static-64-2"), 4 + 2)
    assert searches.layout_first(TIMES) == OrderOutcome(VariantId.parse("ELL-AoS-AoS/dynamic-64-2"), 2 + 3)


def test_the_customary_schedule_fills_the_multiprocessor():
    assert searches.default_schedule(TIMES) == Schedule("static", 256, 8)
    large = {
        Layout.parse("CSR-AoS-AoS"): {
            Schedule("static", 512, 2): 1.0,
            Schedule("static", 512, 4): 1.0,
            Schedule("dynamic", 64, 8): 1.0,
        }
    }
    assert searches.default_schedule(large) == Schedule("static", 512, 4)
    small = {
        Layout.parse("CSR-AoS-AoS"): {
            Schedule("static", 64, 3): 1.0,
            Schedule("static", 64, 2): 1.0,
            Schedule("static", 32, 3): 1.0,
        }
    }
    assert searches.default_schedule(small) == Schedule("static", 64, 3)


def test_a_product_knows_one_pair():
    # of the product 128 it keeps 128-1, and the dynamic 64-2, which is alone in its kind
    largest, smallest = (
        searches.by_product(lambda pair: -pair.block_size),
        searches.by_product(lambda pair: pair.block_size),
    )
    assert largest(TIMES) == OrderOutcome(VariantId.parse("ELL-SoA-AoS/dynamic-64-2"), 3 + 2 + 3)
    static = {layout: {p: t for p, t in pairs.items() if p.kind == "static"} for layout, pairs in TIMES.items()}
    assert largest(static) == OrderOutcome(VariantId.parse("ELL-AoS-AoS/static-256-8"), 3 + 2)
    cheap = {Layout.parse("CSR-AoS-AoS"): {Schedule("static", 64, 2): 5.0, Schedule("static", 128, 1): 8.0}}
    assert largest(cheap) == OrderOutcome(VariantId.parse("CSR-AoS-AoS/static-128-1"), 1)
    assert smallest(cheap) == OrderOutcome(VariantId.parse("CSR-AoS-AoS/static-64-2"), 1)


def test_without_the_reference_layout_there_is_no_schedule_to_begin_with():
    rest = {layout: pairs for layout, pairs in TIMES.items() if layout != REFERENCE}
    assert searches.schedule_first(rest) == OrderOutcome(None, 0)
