"""Stages of the set-up as one launch each: the same as with a launch for each phase, by a GPU's emulator."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.sparse.device_primitives import Stage
from repro.sparse.multigrid.reference import MultigridSettings
from support.hierarchies import bit_count, launch_each_phase, with_hubs
from support.matrices import poisson

pytestmark = pytest.mark.medium
CASES = {
    "9 points": (poisson((14, 14), 9), None, 1, {}),
    "hubs": (with_hubs(13, 2), None, 1, {}),
    "strong connections alone": (poisson((14, 14), 5) + 0.01 * poisson((196, 1), 5), None, 1, {"theta": 0.08}),
    "several unknowns": (
        sp.kron(poisson((9, 9), 5), np.eye(2) + 0.1),
        np.random.default_rng(1).random((162, 3)),
        2,
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_launch_gives_the_same_bits_as_one_for_each_phase(device, levels_of, monkeypatch, name):
    if device.backend != "cuda":
        pytest.skip("blocks cannot wait for each other")
    matrix, near, unknowns, given = CASES[name]
    settings = MultigridSettings(coarsest=20, **given)
    together = bit_count(device, levels_of(sp.csr_array(matrix), near, unknowns, settings))
    launch_each_phase(monkeypatch)
    apart = bit_count(device, levels_of(sp.csr_array(matrix), near, unknowns, settings))
    assert len(together) > 10 and together == apart


def test_a_stage_has_no_more_blocks_than_are_resident(device, load):
    run = type("Run", (), {"device": device, "load": staticmethod(load("double"))})()
    names = "begin", "multiply", "subtract", "finish"
    few, many = (Stage(run, "radius", "spectral_radius_w1", names, n) for n in (10, 10**7))
    assert few.parts == 1
    assert many.parts == (4 if device.backend == "cuda" else 4 * device.sm_count)
