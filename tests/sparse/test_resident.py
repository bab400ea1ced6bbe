import numpy as np
import pytest

from repro.sparse.expansions import representations, to_bsr, to_csr
from repro.sparse.library import cusparse
from repro.sparse.library.cusparse import ARRAYS, SharedRepresentation


@pytest.fixture
def workspace(make_bench, small_problem):
    bench = make_bench(small_problem("quaternion"))
    yield bench.workspace
    bench.release()


def test_formats_share_what_they_have_in_common(workspace):
    shared = SharedRepresentation(representations("quaternion")[0], "natural")
    csr, coo, sell = (shared.take(workspace, name) for name in ("csr", "coo", "sell"))
    assert csr[1:] == coo[1:]
    assert shared.take(workspace, "csr") == csr
    assert csr[-1] is sell[-1]  # x


def test_the_arrays_are_those_of_the_reordered_matrix(workspace):
    representation = representations("quaternion")[0]
    *buffers, x = SharedRepresentation(representation, "rcm").take(workspace, "csr")
    expected = to_csr(to_bsr(workspace.operands.reordered("rcm"), representation, np.dtype(np.float64)))
    for buffer, array in zip(buffers, expected, strict=True):
        got = np.empty_like(array)
        workspace.device.download(buffer, got)
        np.testing.assert_array_equal(got, array)
    got = np.empty(workspace.operands.x.size)
    workspace.device.download(x, got)
    np.testing.assert_array_equal(got, workspace.operands.x[workspace.operands.permutation("rcm")].ravel())


def test_what_nobody_uses_is_released_and_made_again_when_asked_for(workspace, monkeypatch):
    made = []
    monkeypatch.setattr(cusparse, "to_csr", lambda bsr: made.append(1) or to_csr(bsr))
    shared = SharedRepresentation(representations("quaternion")[0], "natural")
    for name in ARRAYS:
        shared.take(workspace, name)
    assert len(made) == 1
    for name in ARRAYS:
        shared.give_back(name)
    assert not shared._buffers
    assert shared._csr is None
    shared.take(workspace, "coo")
    assert set(shared._buffers) == {*ARRAYS["coo"], "x"}
    assert len(made) == 2


def test_a_failed_upload_leaves_nothing_behind(workspace, monkeypatch):
    shared = SharedRepresentation(representations("quaternion")[0], "natural")
    kept = shared.take(workspace, "csr")
    upload = workspace.device.upload

    def full(array):
        if array.dtype == np.float64:
            raise MemoryError
        return upload(array)

    monkeypatch.setattr(workspace.device, "upload", full)
    with pytest.raises(MemoryError):
        shared.take(workspace, "bsr")
    assert set(shared._buffers) == {*ARRAYS["csr"], "x"}
    assert shared.take(workspace, "csr") == kept
