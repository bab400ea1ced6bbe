"""What the levels of a hierarchy on a device have to be."""

import numpy as np

from support.matrices import to_csr


def assert_levels(device, levels, expected, tolerance):
    assert [level.a.shape for level in levels] == [level.a.shape for level in expected]
    for ours, theirs in zip(levels, expected, strict=True):
        scale = abs(theirs.a).max()
        assert abs(to_csr(ours.a) - theirs.a).max() <= tolerance * scale
        assert ours.nnz == ours.a.download().nnz
        if theirs.p is None:
            assert ours.p is None
            continue
        assert abs(to_csr(ours.p) - theirs.p).max() <= tolerance * abs(theirs.p).max()
        assert abs(to_csr(ours.r) - to_csr(ours.p).T).max() == 0
        aggregates = np.empty(len(theirs.aggregates), np.int32)
        device.download(ours.aggregates, aggregates)
        np.testing.assert_array_equal(aggregates, theirs.aggregates)


def read(device, buffer, n, dtype=np.float64):
    """Return the numbers of a buffer."""
    array = np.empty(n, dtype)
    device.download(buffer, array)
    return array
