"""Products as operations of PyTorch, on the host: gradients, `torch.compile`, `torch.export`, and what is refused."""

import gc
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.matrices import draw, random

torch = pytest.importorskip("torch")

from repro.torch import spmv, spmv_values  # noqa: E402

pytestmark = pytest.mark.medium
DTYPES = [np.float64, np.complex128]


def made(dtype=np.float64, n=12):
    matrix = sp.csr_array(random(n, n, 0.3), dtype=dtype)
    if np.dtype(dtype).kind == "c":
        matrix.data += 1j * draw(matrix.nnz, float, 5)
    return repro.operator(matrix, device="opencl:0"), matrix


def tensor(n, dtype=np.float64, seed=1, requires_grad=True):
    return torch.from_numpy(draw(n, dtype, seed)).requires_grad_(requires_grad)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_is_that_of_the_dense_matrix(dtype):
    A, matrix = made(dtype)
    dense, x = torch.from_numpy(matrix.toarray()), tensor(12, dtype)
    for product in (lambda x: spmv(A, x), lambda x: A @ x, A.matvec):
        y = product(x)
        torch.testing.assert_close(y, dense @ x)
        (found,) = torch.autograd.grad((y * y.conj()).real.sum(), x)
        (expected,) = torch.autograd.grad(((dense @ x) * (dense @ x).conj()).real.sum(), x)
        torch.testing.assert_close(found, expected)
    assert torch.autograd.gradcheck(lambda x: spmv(A, x), x)
    assert torch.autograd.gradgradcheck(lambda x: spmv(A, x), x)
    assert torch.autograd.gradcheck(lambda x: A.H @ x, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_by_values_is_that_of_the_dense_matrix(dtype):
    A, matrix = made(dtype)
    values, x = torch.from_numpy(matrix.data.copy()).requires_grad_(), tensor(12, dtype)
    torch.testing.assert_close(spmv_values(A, values, x), torch.from_numpy(matrix.toarray()) @ x)
    assert torch.autograd.gradcheck(lambda v, x: spmv_values(A, v, x), (values, x))
    assert torch.autograd.gradgradcheck(lambda v, x: spmv_values(A, v, x), (values, x))


def test_the_registrations_are_as_pytorch_asks():
    A, matrix = made()
    values, x = torch.from_numpy(matrix.data.copy()).requires_grad_(), tensor(12)
    torch.library.opcheck(torch.ops.repro.spmv, (A._handle, x, False))
    torch.library.opcheck(torch.ops.repro.spmv_values, (A._handle, values, x, False))
    torch.library.opcheck(torch.ops.repro.spmv_outer, (A._handle, x, tensor(12, seed=2)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_is_compiled_without_a_graph_break(backend):
    A, matrix = made()
    dense, values = torch.from_numpy(matrix.toarray()), torch.from_numpy(matrix.data.copy()).requires_grad_()

    def energy(A, values, x):
        return (torch.sin(spmv(A, 2 * x)) * spmv_values(A, values, x)).sum()

    x = tensor(12)
    found = torch.compile(energy, fullgraph=True, backend=backend)(A, values, x)
    expected = (torch.sin(dense @ (2 * x)) * (dense @ x)).sum()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(result, x)[0] for result in (found, expected)))


def test_another_operator_is_not_taken_for_the_compiled_one():
    compiled = torch.compile(spmv, fullgraph=True, backend="aot_eager")
    x = tensor(12, requires_grad=False)
    for scale in (1.0, 2.0, 3.0):
        _, matrix = made()
        B = repro.operator(scale * matrix, device="opencl:0")
        torch.testing.assert_close(compiled(B, x), torch.from_numpy(scale * matrix.toarray()) @ x)


def test_an_exported_program_multiplies():
    A, matrix = made()

    class Layer(torch.nn.Module):
        def forward(self, x):
            return spmv(A, x) + 1

    x = tensor(12, requires_grad=False)
    program = torch.export.export(Layer(), (x,))
    torch.testing.assert_close(program.module()(x), torch.from_numpy(matrix @ x.numpy()) + 1)


def test_what_comes_in_goes_out():
    A, matrix = made()
    x = tensor(12, requires_grad=False)
    expected = torch.from_numpy(matrix @ x.numpy())
    for y in (A @ x, A.matvec(x), A.dot(x), A @ torch.nn.Parameter(x), (A @ x[:, None])[:, 0]):
        torch.testing.assert_close(y.detach(), expected)
    out = torch.empty_like(x)
    assert A.matvec(x, out=out) is out
    torch.testing.assert_close(out, expected)
    with torch.no_grad():
        y = A @ torch.nn.Parameter(x)
    assert not y.requires_grad
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(torch.func.vmap(lambda x: spmv(A, x))(torch.stack([x, 2 * x]))[1], 2 * expected)


def test_gradients_of_any_layout_are_multiplied():
    A, matrix = made()
    x = tensor(12)
    (A @ x).sum().backward()  # an expanded gradient, without memory of its own for each number
    torch.testing.assert_close(x.grad, torch.from_numpy(matrix.toarray().sum(0)))
    weights, x.grad = tensor(24, requires_grad=False)[::2], None
    (A @ x).backward(weights)
    torch.testing.assert_close(x.grad, torch.from_numpy(matrix.toarray().T) @ weights)


def test_no_gradient_is_lost_silently():
    A, _ = made()
    x, out = tensor(12), torch.zeros(12, dtype=torch.float64)
    for call in (
        lambda: A.matvec(x, out=out),
        lambda: A.matvec(x, stream=3),
        lambda: A.matvec(x.detach(), out=torch.zeros_like(x, requires_grad=True)),
        lambda: A.solve(x),
        lambda: repro.DynamicCSR.from_csr(sp.eye_array(12).tocsr(), device="opencl:0") @ x,
    ):
        with pytest.raises(ReproError, match="gradient"):
            call()


def test_a_saved_tensor_is_not_overwritten_silently():
    A, _ = made()
    weight, out = tensor(12), torch.ones(12, dtype=torch.float64)
    loss = (weight * out).sum()
    A.matvec(out.clone(), out=out)
    with pytest.raises(RuntimeError, match="inplace operation"):
        loss.backward()


def test_what_does_not_fit_is_refused():
    A, _ = made()
    with pytest.raises(ReproError, match="dtype"):
        spmv(A, torch.ones(12))
    with pytest.raises(ReproError, match="size"):
        spmv(A, torch.ones(11, dtype=torch.float64))
    with pytest.raises(ReproError, match="not an operator"):
        spmv(sp.eye_array(12), tensor(12))
    with pytest.raises(ReproError, match="size"):
        spmv_values(A, torch.ones(3, dtype=torch.float64), tensor(12))
    blocks = repro.operator(sp.bsr_array(np.ones((6, 6)), blocksize=(3, 3)), device="opencl:0")
    with pytest.raises(ReproError, match="block3"):
        spmv_values(blocks, torch.ones(4, dtype=torch.float64), tensor(6))
    A.close()
    with pytest.raises(ReproError, match="closed"):
        spmv(A, tensor(12))


def test_an_operator_lives_as_long_as_a_gradient_needs_it_and_no_longer():
    A, matrix = made()
    handle, x = A._handle, tensor(12)
    y = A @ x
    del A
    gc.collect()
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.from_numpy(matrix.toarray().sum(0)))
    del y
    gc.collect()
    with pytest.raises(ReproError, match="was deleted"):
        torch.ops.repro.spmv(handle, x, False)


def test_pytorch_is_imported_only_when_asked_for():
    code = "import sys, repro, repro.operators; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
