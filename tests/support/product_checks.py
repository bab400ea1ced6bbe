"""Checking that a runnable multiplies other vectors than its own; for the tests of both kinds of device."""

from __future__ import annotations

import numpy as np

from repro.bench.trial import Bench
from repro.sparse.operands import CompiledProduct, expand, operands_of


def check_products(bench: Bench, runnable: CompiledProduct) -> None:
    """Multiply two vectors alternately, with the runnable's own launch between; all three results must stay right."""
    operands, device = operands_of(bench.workspace), bench.device
    bench.prepare(runnable)
    matrix = expand(operands.problem, operands.values)
    given = np.random.default_rng(8).uniform(-1, 1, (2, *operands.x.shape)).astype(operands.dtype)
    x = [device.upload(runnable.arrange(vector).astype(operands.dtype)) for vector in given]
    y = [device.upload(np.full_like(runnable.arrange(vector), np.nan)) for vector in given]
    products = [runnable.product(*pair) for pair in zip(x, y, strict=True)]
    for launch in (*products, runnable.launch, *products):
        launch()
    for vector, result in zip(given, y, strict=True):
        expected = runnable.arrange((matrix @ vector.ravel().astype(np.float64)).reshape(vector.shape))
        actual = np.empty(len(expected), operands.dtype)
        device.download(result, actual)
        scale = np.abs(runnable.arrange(operands.bound)).max()  # that of x, which is drawn from the same numbers
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2 * scale, err_msg=runnable.name)
    assert bench.check(runnable) <= 1
    runnable.release()
    for buffer in (*x, *y):
        buffer.release()
