"""What is no word for a device opens none."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators import vectors


@pytest.mark.parametrize("device", ["quux", "gpu", "CUDA:0", "opencl:first"])
def test_words_that_name_no_device_are_refused(device):
    matrix = sp.csr_array(np.eye(4))
    with pytest.raises(ReproError, match=rf"no such device\n[\s\S]*opencl:N[\s\S]*'{device}'"):
        repro.operator(matrix, device=device)
    with pytest.raises(ReproError, match="no such device"):
        vectors(4, device=device)


def test_several_devices_are_no_device_of_an_operator():
    with pytest.raises(ReproError, match="one device"):
        repro.operator(sp.csr_array(np.eye(4)), device="opencl:0/2")
