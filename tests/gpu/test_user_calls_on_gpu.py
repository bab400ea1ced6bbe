"""Each call that the study of calls times on a GPU is right, with every library of arrays that is installed."""

import importlib.util

import pytest

from repro.operators.user_calls import GROUPS, user_calls
from support.matrices import poisson, real_problem

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("function", GROUPS)
def test_each_call_is_right(gpu, tmp_path, monkeypatch, function, precision):
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    groups = user_calls(real_problem(poisson((40, 40), 5)), precision, (function,), 1, "cuda:0", print)
    arrays = set()
    for call in next(groups):
        with call.contained():
            call.prepare(None)
            call.launch()
            call.erase_result(None)
            assert call.error() <= 1, call.name
        arrays.add(call.columns["arrays"])
        assert call.columns["kernel_seconds"] is None or 0 < call.columns["kernel_seconds"] < 1e-3
        call.release()
    installed = [name for name, module in (("CuPy", "cupy"), ("PyTorch", "torch")) if importlib.util.find_spec(module)]
    assert arrays == ({(*installed, "NumPy")[0]} if function == "set-up-now" else {"NumPy", *installed})
