"""Operators of symmetric matrices by formats that store each pair of entries once."""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse.linalg as sla

import repro
from repro.codegen.targets import get_target
from repro.entries import get_entry
from repro.errors import ReproError
from repro.operators import variant_choice
from repro.operators.product import MatrixSource
from repro.problems.generators import KINDS as GENERATED
from repro.problems.generators import generate
from repro.problems.matrix import Matrix
from repro.sparse.compound.variants import VariantId, extended_layouts, extended_space
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC
from support.symmetric_problems import KINDS, disturbed, symmetric_problem, without_entry

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
PAIRS = "Pairs-64-AoSoA-AoS/direct-64-1-u2"
CLUSTERED = "Pairs-64-AoSoA-AoS@clustered/direct-64-1-u2"


@pytest.mark.parametrize("tuned", [PAIRS, CLUSTERED, PAIRS.replace("/", "@rcm/")])
@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_a_product_is_scipys_and_the_same_bits_again(as_scipy, entry, kind, tuned):
    problem = symmetric_problem(entry, kind)
    matrix = as_scipy(problem)
    A = repro.operator(problem, tuned, device=DEVICE)
    x = np.random.default_rng(1).uniform(-1, 1, matrix.shape[1]).astype(matrix.dtype)
    np.testing.assert_allclose(A @ x, matrix @ x, atol=1e-12)
    np.testing.assert_array_equal(A @ x, A @ x)


@pytest.mark.parametrize("kind", [HERMITIAN, SYMMETRIC])
def test_both_transposes_of_complex_matrices(as_scipy, kind):
    problem = symmetric_problem("complex", kind)
    matrix = as_scipy(problem)
    x = np.random.default_rng(2).uniform(-1, 1, matrix.shape[1]) * (1 + 2j)
    with repro.operator(problem, CLUSTERED, device=DEVICE) as A:
        assert (A.H if kind == HERMITIAN else A.T)._product is A._product
        np.testing.assert_allclose(A.T @ x, matrix.T @ x, atol=1e-12)
        np.testing.assert_allclose(A.H @ x, matrix.conj().T @ x, atol=1e-12)


def test_conjugate_gradients_on_elasticity_take_fewer_bytes(as_scipy):
    made = generate("elasticity_box", cells=(6, 6, 6))
    box = Matrix("box", GENERATED["elasticity_box"].entry, made.n, made.indptr, made.indices, made.values)
    matrix = as_scipy(box)
    A = repro.operator(box, CLUSTERED, device=DEVICE)
    assert A.nbytes < 0.8 * repro.operator(box, "CSR-AoSoA-AoS/direct-64-1", device=DEVICE).nbytes
    b = matrix @ np.random.default_rng(3).uniform(-1, 1, matrix.shape[0])  # a body that nothing holds can drift
    x, failed = sla.cg(A, b, rtol=1e-10, maxiter=3000)
    assert failed == 0
    np.testing.assert_allclose(matrix @ x, b, atol=1e-7 * np.abs(b).max())


@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_on_a_gpu_symmetric_matrices_have_candidates_of_pairs(monkeypatch, entry, kind):
    device = SimpleNamespace(target=get_target("sm_90"), sm_count=132, l2_bytes=50 << 20)

    def candidates(problem, precision="double", seconds=1.0):
        """Names of all candidates, of which none gains."""
        source, timed = MatrixSource(problem), defaultdict(lambda: 1.0)
        monkeypatch.setattr(variant_choice, "MOST_TRIED", 1000)
        monkeypatch.setattr(variant_choice, "LEAST_HOPE", 0.0)
        return list(variant_choice._candidates(source, precision, device, timed, lambda needed: needed <= seconds))

    def pairs(names):
        return {name for name in names if name.startswith("Pairs-")}

    problem = symmetric_problem(entry, kind)
    all_pairs = pairs(map(str, variant_choice.recorded()[0]))
    assert all_pairs and all_pairs == pairs(candidates(problem))
    for other in (disturbed(problem), without_entry(problem)):
        names = candidates(other)
        assert not pairs(names) and any("@clustered" in name for name in names)
    # in single precision what differs in the last bit is the same
    assert all_pairs == pairs(candidates(disturbed(problem), "single"))
    without_orders = candidates(problem, seconds=0.0)
    assert without_orders[0] == "default" and not any("@clustered" in name for name in without_orders)
    for id in map(VariantId.parse, all_pairs):
        assert id.layout.stores_pairs and id.layout in extended_layouts(get_entry("block3"))
        assert id.schedule in extended_space(device.target, id.layout)
        assert id.layout.unknowns == "natural" and id.layout.vector == "AoS", "a user's vectors as they are"
    pattern = replace(symmetric_problem("real", SYMMETRIC), entry="pattern")
    assert not pairs(candidates(replace(pattern, values=np.empty((pattern.nnz, 0)))))


@pytest.mark.wording
def test_what_is_not_symmetric_is_refused_in_words():
    with pytest.raises(ReproError, match="cannot hold the matrix") as refused:
        repro.operator(disturbed(symmetric_problem("real", SYMMETRIC)), PAIRS, device=DEVICE)
    assert "not symmetric: the values of row " in str(refused.value)
