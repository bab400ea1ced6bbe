import numpy as np
import pytest

from repro.entries import entries, get_entry
from repro.errors import ReproError

RANDOM = np.random.default_rng(3)


def multiply_by_statements(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Run the C statements of an entry as Python, on one entry."""
    entry = get_entry(name)

    class Members:
        def __init__(self, names, values):
            self.__dict__.update(zip(names, values, strict=True))

    c = Members(entry.vector_members, np.zeros(entry.size))
    scope = {"a": Members(entry.members, a), "b": Members(entry.vector_members, b), "c": c}
    for statement in entry.mac:
        exec(statement, scope)
    return np.array([getattr(c, member) for member in entry.vector_members])


@pytest.mark.parametrize("name", sorted(entries()))
def test_the_statements_agree_with_the_expansion(name):
    entry = get_entry(name)
    a = RANDOM.normal(size=(1, len(entry.members)))
    b = RANDOM.normal(size=entry.size)
    np.testing.assert_allclose(multiply_by_statements(name, a[0], b), entry.expand(a)[0] @ b)


def test_quaternions_multiply_as_hamilton_said():
    expand = get_entry("quaternion").expand
    one, i, j, k = np.eye(4)
    np.testing.assert_array_equal(expand(i[None])[0] @ j, k)
    np.testing.assert_array_equal(expand(j[None])[0] @ i, -k)
    np.testing.assert_array_equal(expand(i[None])[0] @ i, -one)


@pytest.mark.wording
def test_an_unknown_entry_is_one_message():
    with pytest.raises(ReproError, match=r"unknown entry\n.*block3, complex, pattern, quaternion, real\n.*octonion"):
        get_entry("octonion")
