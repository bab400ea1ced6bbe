import numpy as np
import pytest

import repro
from repro.entries import entries, get_entry
from repro.errors import ReproError
from repro.operators.arrays import VectorType

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
ORDERS = [(entry, order) for entry in sorted(entries()) for order in ("AoS", "SoA")] + [("block3", "Padded")]
WITH_MEMBERS = [(entry, order) for entry, order in ORDERS if get_entry(entry).members]
LENGTHS = [1, 63, 64, 1000]
PRECISIONS = {"single": 1e-6, "double": 1e-14}

every = pytest.mark.parametrize(("entry", "order"), ORDERS)
both = pytest.mark.parametrize("precision", PRECISIONS)


def draw(vectors, seed):
    random = np.random.default_rng(seed)
    members = random.uniform(-1, 1, (vectors.n, vectors.kind.algebra.size)).astype(vectors.kind.scalar)
    return vectors.kind.vector(members)


def left(vectors, entry, x):
    """Multiply a host vector by an entry from the left, in double precision."""
    kind = vectors.kind
    block = kind.algebra.expand(np.asarray(entry, float).reshape(1, -1))[0]
    return VectorType(kind.entry, "double").vector(kind.members(x, "x").astype(float) @ block.T)


@both
@every
def test_a_vector_comes_back_as_it_went(entry, order, precision):
    vectors = repro.vectors(77, entry, precision, order, DEVICE)
    x = draw(vectors, 1)
    assert x.dtype == vectors.kind.dtype
    np.testing.assert_array_equal(vectors.get(vectors.put(x)), x)
    assert not vectors.get(vectors.zeros()).any()


@pytest.mark.sampled(22)
@pytest.mark.slow
@both
@every
@pytest.mark.parametrize("n", LENGTHS)
def test_axpby_with_numbers(entry, order, precision, n):
    vectors = repro.vectors(n, entry, precision, order, DEVICE)
    x, y = draw(vectors, 1), draw(vectors, 2)
    on_device = vectors.put(y)
    assert vectors.axpby(1.5, vectors.put(x), -0.25, on_device) is on_device
    np.testing.assert_allclose(vectors.get(on_device), 1.5 * x - 0.25 * y, atol=4 * PRECISIONS[precision])
    vectors.axpby(2, on_device, 1, on_device)
    np.testing.assert_allclose(vectors.get(on_device), 3 * (1.5 * x - 0.25 * y), atol=16 * PRECISIONS[precision])


@both
@pytest.mark.parametrize(("entry", "order"), WITH_MEMBERS)
def test_axpby_with_entries_from_the_left(entry, order, precision):
    vectors = repro.vectors(301, entry, precision, order, DEVICE)
    x, y = draw(vectors, 1), draw(vectors, 2)
    a, b = np.random.default_rng(3).uniform(-1, 1, (2, len(get_entry(entry).members)))
    on_device = vectors.put(y)
    vectors.axpby(a, vectors.put(x), b, on_device)
    close = {"atol": 40 * PRECISIONS[precision]}
    np.testing.assert_allclose(vectors.get(on_device), left(vectors, a, x) + left(vectors, b, y), **close)
    vectors.axpby(a, vectors.put(x), 2, on_device)
    expected = left(vectors, a, x) + 2 * (left(vectors, a, x) + left(vectors, b, y))
    np.testing.assert_allclose(vectors.get(on_device), expected, **close)


def test_a_complex_factor_is_an_entry():
    vectors = repro.vectors(50, "complex", device=DEVICE)
    x, y = draw(vectors, 1), draw(vectors, 2)
    on_device = vectors.put(y)
    vectors.axpby(1j, vectors.put(x), 2 - 3j, on_device)
    np.testing.assert_allclose(vectors.get(on_device), 1j * x + (2 - 3j) * y, atol=1e-14)


@every
def test_what_is_scaled_by_zero_is_not_read(entry, order):
    vectors = repro.vectors(100, entry, "double", order, DEVICE)
    x, y = draw(vectors, 1), vectors.put(np.full(100 * vectors.kind.numbers, np.nan))
    vectors.axpby(2, vectors.put(x), 0, y)
    np.testing.assert_array_equal(vectors.get(y), 2 * x)
    y = vectors.put(np.full(100 * vectors.kind.numbers, np.nan))
    members = len(get_entry(entry).members)
    vectors.axpby(np.ones(members) if members else 1, vectors.put(x), 0, y)
    assert np.isfinite(vectors.get(y)).all()


@pytest.mark.sampled(22)
@pytest.mark.slow
@both
@every
@pytest.mark.parametrize("n", LENGTHS)
def test_inner_products(entry, order, precision, n):
    vectors = repro.vectors(n, entry, precision, order, DEVICE)
    x, y = draw(vectors, 1), draw(vectors, 2)
    wide = np.complex128 if entry == "complex" else np.float64
    found = vectors.dot(vectors.put(x), vectors.put(y))
    assert isinstance(found, complex if entry == "complex" else float)
    # of single precision too: the sums are double
    np.testing.assert_allclose(found, np.vdot(x.astype(wide), y.astype(wide)), atol=1e-11)
    np.testing.assert_allclose(vectors.norm(vectors.put(x)), np.linalg.norm(x.astype(wide)), rtol=1e-13)


def test_inner_products_are_the_same_bits_every_time():
    vectors = repro.vectors(10_007, "quaternion", "single", device=DEVICE)
    x, y = vectors.put(draw(vectors, 1)), vectors.put(draw(vectors, 2))
    assert len({vectors.dot(x, y) for _ in range(20)}) == 1


def test_padding_counts_for_nothing():
    vectors = repro.vectors(100, "block3", "double", "Padded", DEVICE)
    x = draw(vectors, 1)
    on_device, dirty = vectors.put(x), vectors.put(x)
    numbers = dirty.get().reshape(-1, 4)
    numbers[:, 3] = np.nan
    vectors.runtime.device.write(dirty.buffer, numbers)
    assert vectors.dot(dirty, dirty) == vectors.dot(on_device, on_device)
    vectors.axpby(1, dirty, 1, on_device)
    np.testing.assert_array_equal(on_device.get().reshape(-1, 4)[:, 3], 0)
    np.testing.assert_array_equal(vectors.get(on_device), 2 * x)


def test_what_does_not_fit_is_refused():
    vectors = repro.vectors(10, "block3", device=DEVICE)
    x = vectors.zeros()
    for wrong in ([1, 2], 1j, np.ones((2, 2))):
        with pytest.raises(ReproError, match="neither a number nor an entry"):
            vectors.axpby(wrong, x, 1, x)
    ones = repro.vectors(10, "pattern", device=DEVICE)
    for wrong in ([], 1j):
        with pytest.raises(ReproError, match=r"expected: a real number\n"):
            ones.axpby(wrong, ones.zeros(), 1, ones.zeros())
    with pytest.raises(ReproError, match="the wrong size"):
        vectors.put(np.ones(29))
    with pytest.raises(ReproError, match="mask"):
        vectors.put(np.ma.masked_less(np.arange(30.0), 3))
    with pytest.raises(ReproError, match="the wrong dtype"):
        vectors.dot(x, repro.vectors(10, "block3", "single", device=DEVICE).zeros())
    with pytest.raises(ReproError, match="not an array on the device"):
        vectors.dot(x, np.zeros(30))
    # of a longer one, int32 indices of the kernels would overflow behind the end
    for wrong in ({"entry": "octonion"}, {"order": "XYZ"}, {"precision": "half"}, {"device": "opencl:7"},
                  {"n": 2**31 - 2**24 + 1}):  # fmt: skip
        with pytest.raises(ReproError):
            repro.vectors(**{"n": 10, "device": DEVICE, **wrong})
