"""The calls of csrgeam2, made on a library that adds on the host, with its parameters in cuSPARSE's order."""

import ctypes
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.cuda_driver import CudaBuffer
from repro.errors import Unsupported
from repro.sparse.library import cusparse_bindings
from repro.sparse.library.cusparse_bindings import Handle
from repro.studies.dynamic_csr.operands import CsrMemory
from repro.studies.dynamic_csr.runnables_baselines import CubSort, CubSums, Geam, _Addition
from support.update_problems import drawn, growing

pytest_plugins = ("support.rival_fixtures",)
HANDLE, DESCRIPTION, STREAM = 11, 22, 33


def _at(address, count, dtype):
    """The numbers that lie at an address of the host."""
    if not count:
        return np.empty(0, dtype)
    nbytes = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_byte * nbytes).from_address(address), dtype)


class _Library:
    """csrgeam2 in double precision."""

    Operation = SimpleNamespace(NON_TRANSPOSE=0)
    Status = SimpleNamespace()
    cuSPARSEError = RuntimeError  # noqa: N815

    def __init__(self):
        self.sizes, self.destroyed = [], []

    def create(self):
        return HANDLE

    def set_stream(self, handle, stream):
        assert (handle, stream) == (HANDLE, STREAM)

    def create_mat_descr(self):
        return DESCRIPTION

    def destroy(self, handle):
        self.destroyed.append(handle)

    def destroy_mat_descr(self, description):
        self.destroyed.append(description)

    def dcsrgeam2_buffer_size_ext(
        self, handle, m, n, alpha, descr_a, nnz_a, val_a, row_ptr_a, col_ind_a,
        beta, descr_b, nnz_b, val_b, row_ptr_b, col_ind_b, descr_c, val_c, row_ptr_c, col_ind_c,
    ):  # fmt: skip
        self.sizes.append(100 * (nnz_a + nnz_b))
        return self.sizes[-1]

    def _sum(self, m, n, a, b, scales=(1.0, 1.0)):
        matrices = [
            sp.csr_array(
                (scale * (_at(values, nnz, float) if values else np.ones(nnz)), _at(columns, nnz, np.int32),
                 _at(offsets, m + 1, np.int32)), shape=(m, n))
            for scale, (nnz, values, offsets, columns) in zip(scales, (a, b), strict=True)
        ]  # fmt: skip
        for matrix in matrices:
            assert matrix.has_canonical_format
        entries = [matrix.tocoo() for matrix in matrices]
        rows, columns, values = (
            np.concatenate([getattr(one, name) for one in entries]) for name in ("row", "col", "data")
        )
        total = sp.coo_array((values, (rows, columns)), shape=(m, n)).tocsr()
        total.sort_indices()
        return total

    def xcsrgeam2nnz(
        self, handle, m, n, descr_a, nnz_a, row_ptr_a, col_ind_a, descr_b, nnz_b, row_ptr_b, col_ind_b,
        descr_c, row_ptr_c, nnz_total_dev_host_ptr, workspace,
    ):  # fmt: skip
        assert (handle, descr_a, descr_b, descr_c) == (HANDLE, *[DESCRIPTION] * 3)
        assert len(_at(workspace, self.sizes[-1], np.uint8)) == self.sizes[-1]
        total = self._sum(m, n, (nnz_a, 0, row_ptr_a, col_ind_a), (nnz_b, 0, row_ptr_b, col_ind_b))
        _at(row_ptr_c, m + 1, np.int32)[:] = total.indptr
        _at(nnz_total_dev_host_ptr, 1, np.int32)[:] = total.nnz

    def dcsrgeam2(
        self, handle, m, n, alpha, descr_a, nnz_a, val_a, row_ptr_a, col_ind_a,
        beta, descr_b, nnz_b, val_b, row_ptr_b, col_ind_b, descr_c, val_c, row_ptr_c, col_ind_c, p_buffer,
    ):  # fmt: skip
        assert (handle, descr_a, descr_b, descr_c) == (HANDLE, *[DESCRIPTION] * 3)
        scales = _at(alpha, 1, float)[0], _at(beta, 1, float)[0]
        total = self._sum(m, n, (nnz_a, val_a, row_ptr_a, col_ind_a), (nnz_b, val_b, row_ptr_b, col_ind_b), scales)
        _at(col_ind_c, total.nnz, np.int32)[:] = total.indices
        _at(val_c, total.nnz, float)[:] = total.data


class _Device:
    stream = STREAM

    def synchronize(self):
        pass


class _Work:
    """Memory of the host as a GPU's."""

    def __init__(self):
        self.stack, self.arrays = ExitStack(), []

    device = _Device()

    def allocate(self, nbytes, name):
        self.arrays.append(np.zeros(max(nbytes, 1), np.uint8))
        return CudaBuffer(self.arrays[-1].ctypes.data, nbytes)

    def memory(self, matrix):
        arrays = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
        self.arrays += arrays
        return CsrMemory(*(CudaBuffer(array.ctypes.data, array.nbytes) for array in arrays))


def test_the_routine_is_called_as_cusparse_has_it(monkeypatch):
    library, work = _Library(), _Work()
    monkeypatch.setattr(cusparse_bindings, "load", lambda: library)
    monkeypatch.setattr(cusparse_bindings, "gpu", lambda device: device)
    shape = 30, 40
    a, b, c = (
        sp.random_array(shape, density=density, rng=np.random.default_rng(seed), format="csr")
        for seed, density in enumerate((0.2, 0.1, 0.3))
    )
    for matrix in (a, b, c):
        matrix.sort_indices()
    added = _Addition(work, Handle(work.device, work.stack), shape, np.dtype(float))
    most = a.nnz + b.nnz + c.nnz
    targets = [CsrMemory.allocate(work, shape[0], most, 8) for _ in range(2)]
    nnz = added(work.memory(a), a.nnz, work.memory(b), b.nnz, targets[0])
    assert nnz == (a + b).nnz
    nnz = added(targets[0], nnz, work.memory(c), c.nnz, targets[1])
    expected = a + b + c
    assert nnz == expected.nnz
    assert library.sizes == [100 * (a.nnz + b.nnz), 100 * ((a + b).nnz + c.nnz)]
    left = sp.csr_array(
        (_at(targets[1].values.pointer, nnz, float), _at(targets[1].columns.pointer, nnz, np.int32),
         _at(targets[1].offsets.pointer, shape[0] + 1, np.int32)), shape=shape)  # fmt: skip
    np.testing.assert_allclose(left.toarray(), expected.toarray(), rtol=1e-14)
    work.stack.close()
    assert sorted(library.destroyed) == [HANDLE, DESCRIPTION]


@pytest.mark.parametrize("runnable", [Geam({}), CubSums({}), CubSort({})], ids=lambda runnable: runnable.name)
def test_what_needs_a_gpu_says_so_on_the_cpu(work_on, runnable):
    with pytest.raises(Unsupported):
        runnable.prepare(work_on(growing(sp.csr_array(np.eye(5)), [drawn(5, 5, 3)])))
    assert runnable.identity
    assert runnable.columns["routine"]
