"""A variant's product for other vectors than its own."""

import pytest

from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.entries import entries
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import Layout, Schedule, VariantId
from support.product_checks import check_products

SCHEDULES = [Schedule("static", 16, 3), Schedule("dynamic", 32, 2)]


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_a_variant_multiplies_other_vectors(tmp_path, templates, make_bench, small_problem, entry, precision):
    """Of each vector order, with and without a counter to reset, and with the unknowns renumbered."""
    bench = make_bench(small_problem(entry), precision)
    for layout in (Layout.parse("CSR-AoS-AoS"), Layout.parse("Sl-16-SoA-SoA")):
        source = render_module(templates, entry, precision, layout, SCHEDULES, CPU, "tests")
        module = compile_module(source, CPU, tmp_path / f"{layout}.json")
        for schedule in SCHEDULES:
            variant = Variant(VariantId(layout, schedule), module, tmp_path)
            check_products(bench, variant)
            check_products(bench, variant.reordered("rcm"))
    bench.release()
