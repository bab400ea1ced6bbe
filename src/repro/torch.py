"""Products as operations of PyTorch, with gradients, for `torch.compile`, `torch.export` and CUDA graphs.

`import repro.torch` registers them. A product of a tensor that requires a gradient, `A @ x`, needs no import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, brief
from repro.operators.arrays import product_shape
from repro.operators.base import OPERATORS, DeviceOperator, LengthError, public

__all__ = ["spmv", "spmv_values"]

Tensor = Any
#: Bytes that the address of a vector is a multiple of, for every kernel.
_ALIGNMENT = 16


@public
def spmv(A: DeviceOperator, x: Tensor) -> Tensor:
    """Return A x as a tensor; its gradient is the product with the conjugate transpose.

    The gradient of a real matrix is `A.T @ g`. `A.H` is made when a gradient first needs it.

    Parameters
    ----------
    A
        What `repro.operator` returns. Graphs of PyTorch do not keep it alive.
    x
        A tensor of the operator's dtype and size, in any shape, on the operator's GPU or on the host.

    Raises
    ------
    ReproError
        x has another dtype or size, lies on another GPU, or the operator was closed.
    """
    return torch.ops.repro.spmv(_handle(A), x, False)


@public
def spmv_values(A: DeviceOperator, values: Tensor, x: Tensor) -> Tensor:
    """Return the product of a matrix with the pattern of A and other values, with gradients by the values and by x.

    It runs PyTorch's operations, not a kernel of this project: an operator keeps the values that it was made of. The
    gradient by the value at row i and column j is `g[i] * conj(x[j])`.

    Parameters
    ----------
    A
        What `repro.operator` returns for a real or complex matrix, or for a pattern.
    values
        A tensor `(nnz,)` of the values in the order of SciPy's CSR with sorted columns.
    x
        A tensor `(columns,)` of the same dtype, on the same device.

    Raises
    ------
    ReproError
        Entries of A are blocks or quaternions, or the tensors have other sizes or dtypes, or lie on two devices.
    """
    return torch.ops.repro.spmv_values(_handle(A), values, x, False)


def _handle(A: Any) -> int:
    handle: int | None = getattr(A, "_handle", None)
    if not isinstance(A, DeviceOperator) or handle is None:
        raise ReproErrorOfType("not an operator", where="A", expected="the result of repro.operator", actual=brief(A))
    return handle


def _operator(handle: int) -> Any:
    try:
        return OPERATORS[handle]
    except KeyError:
        raise ReproError(
            "the operator of a graph was deleted", todo="keep a reference to it while the graph is in use"
        ) from None


def _check(A: Any, subject: str, tensor: Tensor, size: int, dtype: Any = None) -> None:
    dtype = dtype or torch.from_numpy(np.empty(0, A.dtype)).dtype
    if tensor.dtype != dtype:
        todo = f"take `{subject}.to({dtype})`"
        raise ReproErrorOfValue(
            "a tensor has the wrong dtype", where=subject, expected=dtype, actual=tensor.dtype, todo=todo
        )
    if tensor.numel() != size:
        raise LengthError("a tensor has the wrong size", where=subject, expected=size, actual=tuple(tensor.shape))


def _registered(schema: str, fake: Callable[..., Tensor]) -> Callable[[Callable[..., Tensor]], Any]:
    """Register a function as an operation of PyTorch; `fake` makes an empty result of it."""

    def register(function: Callable[..., Tensor]) -> Any:
        name, _, signature = schema.partition("(")
        operation = torch.library.custom_op(name, function, mutates_args=(), schema=f"({signature}")
        operation.register_fake(fake)
        return operation

    return register


def _empty_product(handle: int, x: Tensor, adjoint: bool) -> Tensor:
    A = _operator(handle)
    rows, columns = A.shape[::-1] if adjoint else A.shape
    _check(A, "x", x, columns)
    return x.new_empty(product_shape(x.shape, rows, columns))


@_registered("repro::spmv(int handle, Tensor x, bool adjoint) -> Tensor", _empty_product)
def _product(handle: int, x: Tensor, adjoint: bool) -> Tensor:
    A = _operator(handle)
    if adjoint:
        A = A.H
    rows, columns = A.shape
    _check(A, "x", x, columns)
    vector = x.detach().resolve_conj().resolve_neg().contiguous()
    if x.device.type == "cpu":
        y = torch.from_numpy(A.matvec(vector.numpy().reshape(-1)))
        return y.reshape(product_shape(x.shape, rows, columns))
    if vector.data_ptr() % _ALIGNMENT:  # such as a gradient that is a part of another
        vector = vector.clone()
    return A.matvec(vector)


def _save_product(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.handle, x, ctx.adjoint = inputs
    ctx.shape = x.shape
    ctx.operator = _operator(ctx.handle)  # alive until the gradient is no longer needed


def _product_gradient(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    return None, torch.ops.repro.spmv(ctx.handle, g, not ctx.adjoint).reshape(ctx.shape), None


def _many_products(info: Any, dimensions: tuple[Any, ...], handle: int, x: Tensor, adjoint: bool) -> tuple[Tensor, int]:
    vectors = x.unbind(dimensions[1])
    return torch.stack([torch.ops.repro.spmv(handle, vector, adjoint) for vector in vectors]), 0


_product.register_autograd(_product_gradient, setup_context=_save_product)
_product.register_vmap(_many_products)


# With other values v the product y = P(v, x), its adjoint and the outer product on the pattern are linear in each
# argument, and the gradients of each are the others.


def _check_values(handle: int, values: Tensor, x: Tensor, adjoint: bool) -> Any:
    A = _operator(handle)
    if A.entry not in ("real", "complex", "pattern"):
        raise ReproErrorOfValue("values of this entry are not supported", where="A", expected="numbers", actual=A.entry)
    _check(A, "values", values, len(A._problem.indices), values.dtype)
    size = A.shape[0 if adjoint else 1]
    _check(A, "x", x, size, values.dtype)
    if x.dim() != 1 or x.device != values.device:
        expected, actual = f"({size},) on {values.device}", f"{tuple(x.shape)} on {x.device}"
        raise ReproErrorOfValue("a tensor does not match the values", where="x", expected=expected, actual=actual)
    return A


def _places(A: Any, device: Any) -> tuple[Tensor, Tensor]:
    """Return row and column of each value, on a device; they are kept with the operator."""
    kept = A.__dict__.setdefault("_places_of_values", {})
    if device not in kept:
        rows = np.repeat(np.arange(A.n), np.diff(A._problem.indptr))
        columns = A._problem.indices.astype(np.int64)
        kept[device] = tuple(torch.from_numpy(array).to(device) for array in (rows, columns))
    rows, columns = kept[device]
    return rows, columns


def _empty_product_of_values(handle: int, values: Tensor, x: Tensor, adjoint: bool) -> Tensor:
    A = _check_values(handle, values, x, adjoint)
    return x.new_empty((A.shape[1 if adjoint else 0],))


def _empty_outer(handle: int, g: Tensor, x: Tensor) -> Tensor:
    return g.new_empty((len(_operator(handle)._problem.indices),))


@_registered(
    "repro::spmv_values(int handle, Tensor values, Tensor x, bool adjoint) -> Tensor", _empty_product_of_values
)
def _product_of_values(handle: int, values: Tensor, x: Tensor, adjoint: bool) -> Tensor:
    A = _check_values(handle, values, x, adjoint)
    rows, columns = _places(A, values.device)
    y = x.new_zeros((A.shape[1 if adjoint else 0],))
    if adjoint:
        return y.index_add_(0, columns, values.conj() * x[rows])
    return y.index_add_(0, rows, values * x[columns])


@_registered("repro::spmv_outer(int handle, Tensor g, Tensor x) -> Tensor", _empty_outer)
def _outer(handle: int, g: Tensor, x: Tensor) -> Tensor:
    rows, columns = _places(_operator(handle), g.device)
    return g[rows] * x[columns].conj()


def _save_values(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.handle, values, x, ctx.adjoint = inputs
    ctx.operator = _operator(ctx.handle)
    ctx.save_for_backward(values, x)


def _values_gradient(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    values, x = ctx.saved_tensors
    left, right = (x, g) if ctx.adjoint else (g, x)
    by_values = torch.ops.repro.spmv_outer(ctx.handle, left, right) if ctx.needs_input_grad[1] else None
    by_x = torch.ops.repro.spmv_values(ctx.handle, values, g, not ctx.adjoint) if ctx.needs_input_grad[2] else None
    return None, by_values, by_x, None


def _save_outer(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.handle, g, x = inputs
    ctx.operator = _operator(ctx.handle)
    ctx.save_for_backward(g, x)


def _outer_gradient(ctx: Any, h: Tensor) -> tuple[Any, ...]:
    g, x = ctx.saved_tensors
    return (
        None,
        torch.ops.repro.spmv_values(ctx.handle, h, x, False),
        torch.ops.repro.spmv_values(ctx.handle, h, g, True),
    )


_product_of_values.register_autograd(_values_gradient, setup_context=_save_values)
_outer.register_autograd(_outer_gradient, setup_context=_save_outer)
