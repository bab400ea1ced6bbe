import pytest

from repro.errors import ReproError
from repro.formats.layout import REFERENCE, Layout, all_layouts


def test_there_are_sixteen_and_the_reference_is_first():
    layouts = all_layouts()
    assert len(set(layouts)) == 16
    assert layouts[0] == REFERENCE


@pytest.mark.parametrize("layout", all_layouts(), ids=str)
def test_parse_is_the_inverse_of_str(layout):
    assert Layout.parse(str(layout)) == layout


@pytest.mark.parametrize("text", ["", "CSR", "CSR-AoS", "COO-AoS-AoS", "CSR-AoS-aos", "Sl-64-AoS-AoS", "Sl-AoS-AoS"])
def test_what_is_no_layout_is_refused(text):
    with pytest.raises(ReproError, match="unknown layout"):
        Layout.parse(text)
