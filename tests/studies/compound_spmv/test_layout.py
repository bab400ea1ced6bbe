from itertools import product

import pytest

from repro.errors import ReproError
from repro.sparse.compound.variants import CLUSTERED, ORDER, REFERENCE, Layout, all_layouts


def test_the_papers_sixteen_are_there_once_and_the_reference_is_first():
    layouts = all_layouts()
    papers = {Layout(*parts) for parts in product(("CSR", "ELL", "Sl-16", "Sl-32"), ORDER, ORDER)}
    assert len(papers) == 16
    assert papers <= set(layouts)
    assert len(set(layouts)) == len(layouts)
    assert layouts[0] == REFERENCE


@pytest.mark.parametrize("layout", all_layouts(), ids=str)
def test_parse_is_the_inverse_of_str(layout):
    assert Layout.parse(str(layout)) == layout


@pytest.mark.parametrize("text", ["", "CSR", "CSR-AoS", "COO-AoS-AoS", "CSR-AoS-aos", "Sl-5-AoS-AoS", "Sl-AoS-AoS"])
def test_what_is_no_layout_is_refused(text):
    with pytest.raises(ReproError, match="unknown layout"):
        Layout.parse(text)


@pytest.mark.parametrize(("text", "near"), [("Sl-32-SoA", "Sl-32-SoA-"), ("CSR-AoS-AoS@clusterd", "CSR-AoS-AoS")])
def test_the_nearest_layout_is_named(text, near):
    with pytest.raises(ReproError, match=rf"actual: {text}; did you mean {near}"):
        Layout.parse(text)


def test_only_formats_without_a_stride_are_clustered():
    """A kernel's argument `stride` is then the number of long rows."""
    for outer in CLUSTERED:
        assert Layout.parse(f"{outer}-AoS-AoS@clustered").ordering == "clustered"
    for outer in ("ELL", "ELLPACK"):
        with pytest.raises(ReproError, match="does not support the row order clustered"):
            Layout.parse(f"{outer}-AoS-AoS@clustered")
