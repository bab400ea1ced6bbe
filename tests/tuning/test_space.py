"""Reading a variant's place from its name, and how alike two places are."""

import numpy as np
import pytest

from repro.codegen.targets import get_target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.sparse.compound.variants import Layout, Schedule, VariantId, all_layouts, paper_space, schedules
from repro.studies.compound_spmv.study import layouts_to_try
from repro.studies.compressed_coo.ids import SPLITS, CoordinateId, blockings
from repro.tuning.strategies import UNLIKE, VariantCovariance
from repro.words import SPACES


def variant_covariance(names):
    return VariantCovariance([VariantId.parse(name).point for name in names])


def test_a_name_is_read():
    one = VariantId.parse("Sl-8-AoSoA-Padded@rcm/direct-256-4-w4-u2-cs").point
    assert one.words == ("Sl", "AoSoA", "Padded", "rcm", "direct", "cs", "")
    assert one.numbers == (3, 8, 2, 2, 1)
    assert VariantId.parse("CSR-AoS-SoA/static-32-1").point.numbers == (0, 5, 0, 0, 0)


def test_a_name_of_coordinates_is_read():
    assert CoordinateId.parse("CCOO-aligned/b128-k8-c2-cs").point.words == ("aligned", "cs")
    assert CoordinateId.parse("CCOO/b256-k4-c1").point.numbers == (8, 2, 0)
    names = {f"{layout}/{blocking}" for layout in SPLITS for blocking in blockings(get_target("sm_90"), layout)}
    assert len({CoordinateId.parse(name).point for name in names}) == len(names) == 288


@pytest.mark.parametrize("entry", ["complex", "block3"])
def test_every_variant_of_both_spaces_has_a_place_of_its_own(entry):
    target = get_target("sm_90")
    names = {
        f"{layout}/{schedule}"
        for space in SPACES
        for layout in layouts_to_try(StudySettings(space="extended"), space, entry)
        for schedule in schedules(target, space, layout)
    }
    assert len(names) > 2000
    assert len({VariantId.parse(name).point for name in names}) == len(names)


def test_what_is_no_variant_is_named():
    for id_class in (VariantId, CoordinateId):
        with pytest.raises(ReproError, match=r"unknown (coordinate )?layout"):
            id_class.parse("cusparse/spmv")


def test_likeness_falls_with_every_difference():
    layout = Layout.parse("Sl-16-AoS-AoS")
    near = f"{layout}/{Schedule('static', 128, 4)}"
    space = [near, "Sl-16-AoS-AoS/static-128-8", "Sl-16-AoS-AoS/static-512-8", "Sl-16-SoA-AoS/static-128-4",
             "Sl-16-SoA-AoS/dynamic-128-4", "Sl-8-AoS-AoS/static-128-4"]  # fmt: skip
    to_first = variant_covariance(space)(0)
    assert to_first == pytest.approx([1, np.exp(-0.5), np.exp(-2.5), UNLIKE, UNLIKE**2, np.exp(-0.5)])


def test_words_are_those_that_some_variants_lack():
    space = ["Sl-8-AoS-AoS/static-128-4", "Sl-16-SoA-AoS/static-128-4", "CSR-AoS-AoS/static-64-4"]
    # CSR, Sl; AoS, SoA: the order of vectors, the ordering and the schedule are the same
    assert sorted(map(tuple, variant_covariance(space).words())) == [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 0)]
    assert variant_covariance(space[:1]).words().shape == (0, 1)


def test_likeness_is_a_covariance():
    target = get_target("cpu")
    space = [f"{layout}/{schedule}" for layout in all_layouts()[:4] for schedule in paper_space(target)]
    likeness = variant_covariance(space)
    matrix = np.array([likeness(index) for index in range(len(space))])
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
