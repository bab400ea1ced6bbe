"""Poisson's equation on grids, as SciPy's matrices."""

import scipy.sparse as sp

from repro.problems.generators import assemble_diffusion


def poisson(points, stencil):
    assembled = assemble_diffusion(points, stencil)
    n = len(assembled.indptr) - 1
    return sp.csr_array((assembled.values[:, 0], assembled.indices, assembled.indptr), shape=(n, n))


PROBLEMS = {"5": ((40, 40), 5), "9": ((40, 40), 9), "7": ((12, 12, 12), 7), "27": ((12, 12, 12), 27)}
