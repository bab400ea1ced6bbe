"""The comparison of y = A x with its reference, on the CPU through OpenCL and by the text of CUDA's kernel."""

import numpy as np
import pytest

from repro.bench.runnable import Workspace
from repro.codegen.templates import render_common
from repro.devices.device_group import Devices
from repro.errors import IncorrectError
from repro.sparse.operands import ProductRunnable, compare, largest_error, make_operands
from support.emulated_cuda import EmulatedCuda, compile_kernels
from support.emulated_workspace import SM_90, EmulatedWorkspace


class Given(ProductRunnable):
    """A product whose result is given."""

    arrangement = "AoS"

    def __init__(self, device, y):
        self._device, self._given = device, y
        self._y = device.allocate(y.nbytes)

    def launch(self):
        self._device.write(self._y, self._given)

    def result(self):
        return self._y

    def arrange(self, values):
        return values.ravel()


@pytest.fixture
def workspace(device, templates, modules_folder, tmp_path):
    """Open a workspace of some operands."""

    def workspace_of(operands):
        if not isinstance(device, EmulatedCuda):
            return Workspace(Devices([device]), operands, modules_folder)
        verification, *_ = render_common(templates, SM_90).partition("// Reads `read` words")
        workspace = EmulatedWorkspace(operands, verification, tmp_path)
        workspace.common = type("CommonModule", (), {"program": compile_kernels(verification, tmp_path)})
        return workspace

    return workspace_of


@pytest.mark.sampled(4)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(
    ("value", "error", "worst"),
    [
        (np.nan, None, "some are NaN, with which y is filled before it is checked"),
        (np.copysign(np.nan, -1), None, "some are NaN, .*"),
        (np.inf, np.inf, "the largest error is inf of its bound"),
        (-np.inf, np.inf, "the largest error is inf of its bound"),
    ],
    ids=str,
)
def test_wrong_results_are_named_by_the_worst(workspace, device, small_problem, precision, value, error, worst):
    operands = make_operands(small_problem("complex"), precision, 1)
    y = operands.reference.astype(operands.dtype)
    row = int(np.argmax(operands.bound[:, 0]))
    y[row] += np.array([100, 0]) * operands.bound[row]
    y[row - 1, 1] = value
    with pytest.raises(
        IncorrectError, match=rf"^2 of 150 numbers are wrong; {worst}: y\[{2 * row - 1}\] is \S+ and not \S+$"
    ) as wrong:
        compare(operands, Given(device, y), workspace(operands))
    assert wrong.value.error == error


def test_the_largest_error_is_that_of_numpy(workspace, device, small_problem):
    operands = make_operands(small_problem("complex"), "double", 1)
    y = operands.reference + np.linspace(-0.9, 0.9, 150).reshape(75, 2) * operands.bound
    expected = largest_error(np.abs(y - operands.reference), operands.bound, "numbers")
    assert compare(operands, Given(device, y), workspace(operands)) == pytest.approx(expected, rel=1e-6)
    y[:, 0] += 3 * operands.bound[:, 0]
    with pytest.raises(IncorrectError, match="of 150 numbers are wrong") as on_device:
        compare(operands, Given(device, y), workspace(operands))
    with pytest.raises(IncorrectError) as on_host:
        largest_error(np.abs(y - operands.reference), operands.bound, "numbers")
    assert str(on_device.value).partition(": y[")[0] == str(on_host.value)
    assert on_device.value.error == pytest.approx(on_host.value.error, rel=1e-6)


def test_a_number_that_must_be_exact_is_infinitely_wrong(workspace, device, small_problem):
    """A row without entries has a bound of 0."""
    operands = make_operands(small_problem("complex"), "double", 1)
    y = operands.reference.copy()
    row = int(np.argmin(operands.bound[:, 0]))
    assert operands.bound[row, 0] == 0
    y[row, 0] = 1e-300
    with pytest.raises(IncorrectError, match="1 of 150 numbers are wrong; the largest error is inf"):
        compare(operands, Given(device, y), workspace(operands))
