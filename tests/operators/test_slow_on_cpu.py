"""On the CPU an operator says once, by a warning of its own, that SciPy is faster."""

import warnings

import pytest
import scipy.sparse as sp

import repro
from repro.operators import SlowOnCpuWarning, product, spmv

DEVICE = "opencl:0"


@pytest.fixture(autouse=True)
def unsaid():
    """Nothing was said before, and what is said here is not said later."""
    spmv._warn_of_slow_cpu.cache_clear()
    yield
    spmv._warn_of_slow_cpu.cache_clear()


def make():
    return repro.operator(sp.eye_array(4, format="csr"), device=DEVICE)


def test_the_warning_is_given_once_where_the_operator_is_asked_for():
    with pytest.warns(SlowOnCpuWarning, match="SciPy") as said:
        make()
    assert [warning.filename for warning in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().T  # noqa: B018


def test_the_warning_can_be_filtered_by_its_class_or_made_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SlowOnCpuWarning)
        make()
    spmv._warn_of_slow_cpu.cache_clear()
    assert issubclass(SlowOnCpuWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SlowOnCpuWarning)
        for _ in range(2):  # what was refused was not said
            with pytest.raises(SlowOnCpuWarning):
                make()


def test_on_a_gpu_nothing_is_said(monkeypatch):
    class Opened(Exception):
        pass

    def no_further(*_):
        raise Opened

    class Gpu:
        backend = "cuda"

    monkeypatch.setattr(product, "open_runtime", lambda _: type("Runtime", (), {"device": Gpu()}))
    monkeypatch.setattr(product, "_take_copied", lambda *_: None)
    monkeypatch.setattr(spmv, "find_variant", no_further)
    monkeypatch.setattr(Gpu, "target", None, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Opened):
            make()
