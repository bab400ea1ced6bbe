"""A program that ends with objects on a GPU that it still holds says nothing at its end."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]

#: A finalizer of another library, made before the GPU is opened, runs all finalizers after the GPU is closed.
BEFORE = "from weakref import finalize; other = finalize(type, int); import numpy as np, scipy.sparse as sp"
MATRIX = """
import repro
A = sp.csr_array(sp.diags_array([np.full(399, -1.0), np.full(400, 2.5), np.full(399, -1.0)], offsets=[-1, 0, 1]))
b = np.ones(400)
"""
HELD = {
    "operator": "op = repro.operator(A, device='cuda:0'); y = op @ b",
    "hierarchy": "ml = repro.amg(A, refreshable=True, device='cuda:0'); x = ml.solve(b); ml.refresh(2 * A)",
    "level": "ml = repro.amg(A, max_coarse=20, device='cuda:0').levels[1]; P = ml.P if hasattr(ml, 'P') else ml.A",
    "plan": "C, plan = repro.spgemm(A, A, 'cuda:0', plan=True); D = plan.refill(2 * A.data)",
    "dynamic": "d = repro.DynamicCSR.from_csr(A, device='cuda:0'); d.insert([0], [5], [1.0]); s = d.to_scipy()",
    "vectors": "v = repro.vectors(400, device='cuda:0'); x = v.put(b)",
    "solve": "x = repro.solve(A, b, device='cuda:0')",
}


@pytest.mark.parametrize("name", HELD)
def test_a_program_ends_in_silence_with_what_it_still_holds(name):
    done = subprocess.run(
        [sys.executable, "-c", f"{BEFORE}\n{MATRIX}\n{HELD[name]}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", "")
