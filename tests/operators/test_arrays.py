"""What other libraries show of their arrays is read as the interface's definition says; no GPU is needed for that."""

import numpy as np
import pytest

import repro
from repro.errors import ReproError
from repro.operators.arrays import ExternalArray, is_on_device, view

DOUBLE = np.dtype(np.float64)


class Array:
    """What CuPy and PyTorch show."""

    def __init__(self, shape, typestr="<f8", pointer=4096, **more):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (pointer, False),
            "version": 3,
            **more,
        }


def test_an_array_is_taken_where_it_lies():
    array = Array((4, 3), stream=7)
    seen = view(array, "x", DOUBLE, 12, 8)
    assert seen.buffer == ExternalArray(4096, 96, array)
    assert (seen.stream, seen.shape) == (7, (4, 3))
    assert view(Array((4,)), "x", DOUBLE, 4).stream is None


@pytest.mark.parametrize(("shape", "strides"), [((4, 3), None), ((4, 3), (24, 8)), ((1, 3), (1000, 8))])
def test_contiguous_strides_may_be_given_and_that_of_a_single_row_does_not_matter(shape, strides):
    array = Array(shape, strides=strides)
    seen = view(array, "x", DOUBLE, shape[0] * shape[1])
    assert (seen.buffer, seen.shape) == (ExternalArray(4096, 8 * shape[0] * shape[1], array), shape)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (Array((12,), "<f4"), "the wrong dtype"),
        (Array((12,), ">f8"), "the wrong dtype"),
        (Array((13,)), "the wrong size"),
        (Array((12,), strides=(16,)), "contiguous"),
        (Array((4, 3), strides=(8, 32)), "contiguous"),
        (Array((12,), pointer=4100), "not aligned"),
        (Array((12,), mask=Array((12,))), "mask"),
        (Array((12,), data=(4096, True)), "read-only"),
    ],
)
def test_what_a_kernel_cannot_use_is_refused(array, message):
    with pytest.raises(ReproError, match=message):
        view(array, "x", DOUBLE, 12, 8, write=True)


def test_an_array_of_the_gpu_is_none_of_the_cpus():
    vectors = repro.vectors(4, device="opencl:0")
    assert not hasattr(vectors.zeros(), "__cuda_array_interface__")
    assert is_on_device(vectors.zeros())
    assert not is_on_device(np.zeros(4))
    with pytest.raises(ReproError, match="a different device"):
        vectors.norm(Array((4,)))


def test_an_array_becomes_numpys():
    array = repro.vectors(4, device="opencl:0").put(np.arange(4.0))
    assert np.array_equal(array, np.arange(4.0))
    assert np.asarray(array, np.float32).dtype == np.float32
    assert (array.size, array.nbytes, array.shape) == (4, 32, (4,))
    assert "(4,)" in repr(array)
    with pytest.raises(ValueError, match="copy"):
        array.__array__(copy=False)
