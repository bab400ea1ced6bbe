"""The products of libraries: which there are, SciPy's as it is timed, and cuSPARSE's with a library of the host's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from repro.codegen.targets import CPU, get_target
from repro.config.models import StudySettings
from repro.errors import IncorrectError, ReproError, Unsupported
from repro.sparse.library.cusparse_csr import SPGEMM_ALGORITHMS
from repro.studies import get_study
from repro.studies.spgemm_amg import STUDY_NAME
from repro.studies.spgemm_amg.operands import make_operands
from repro.studies.spgemm_amg.runnables_products import REUSE, ROUTINES, ScipyProduct, library_products, routines
from support.amg_problems import PROBLEMS


def test_routines_that_are_asked_for():
    assert routines(StudySettings(), "cuda") == [*SPGEMM_ALGORITHMS, REUSE]
    assert routines(StudySettings(), "opencl") == ["csr"]
    assert routines(StudySettings(baselines=()), "cuda") == []
    # in the order of the routines, however they are named
    assert routines(StudySettings(baselines=(REUSE, SPGEMM_ALGORITHMS[1])), "cuda") == [SPGEMM_ALGORITHMS[1], REUSE]


@pytest.mark.parametrize(("target", "name"), [(CPU, REUSE), (CPU, "none"), (get_target("sm_90"), "csr")])
def test_a_routine_that_there_is_not_is_one_message(target, name):
    with pytest.raises(ReproError, match="unknown baseline") as refused:
        get_study(STUDY_NAME).check_on(StudySettings(baselines=(name,)), [], target)
    assert refused.value.where == f"studies.{STUDY_NAME}.baselines"
    assert refused.value.actual == name
    assert all(there in refused.value.expected for there in ROUTINES[target.dialect])
    get_study(STUDY_NAME).check_on(StudySettings(baselines=ROUTINES[target.dialect][:1]), [], target)


def test_every_routine_is_a_runnable_and_one_that_reuses_two():
    whole = library_products(ROUTINES["cuda"], "cuda", "AP")
    assert [runnable.name for runnable in whole] == [
        *(f"cusparse/spgemm-{name.lower()}/AP" for name in (*SPGEMM_ALGORITHMS, REUSE)),
        "cusparse/spgemm-reuse-compute/AP",
    ]
    assert [runnable.columns["what"] for runnable in whole] == [*["product"] * (len(SPGEMM_ALGORITHMS) + 1), "numeric"]
    assert [runnable.clocks for runnable in whole[-2:]] == [("host",), ("event",)]
    assert {runnable.kind for runnable in whole} == {"baseline"}
    assert [runnable.routine for runnable in library_products(SPGEMM_ALGORITHMS[:1], "cuda", "AA")] == [
        SPGEMM_ALGORITHMS[0]
    ]
    assert library_products((), "cuda", "AP") == []
    assert library_products((), "opencl", "AP") == []
    [only] = library_products(("csr",), "opencl", "RAP")
    assert only.name == "scipy/spgemm-csr/RAP"


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("problem", ["five points", "blocks", "rows of all sizes"])
def test_scipys_product_is_right(workspace_of, problem, precision):
    operands = make_operands(PROBLEMS[problem], precision, 1)
    workspace = workspace_of(operands)
    for name in operands.products:
        product = ScipyProduct(name)
        product.prepare(workspace)
        assert operands.check(product, workspace) <= 1
        expected = operands.expected(name)
        assert product.columns == {
            "what": "product", "product": name, "routine": "csr", "format": "csr",
            "products": expected.products.sum(), "nonzeros": expected.sizes.sum(), "rows": len(expected.sizes),
        }  # fmt: skip
        assert product.identity == f"{scipy.__version__} {product.name}"
        factors = operands.factor(name)
        written = operands.bytes_of_csr(len(expected.sizes), int(expected.sizes.sum()))
        assert product.bytes_moved == sum(map(operands.bytes_of, factors)) + written
        launch = product.launch

        def wrong(product=product, launch=launch):
            launch()
            product._c.data[-1] = np.nan

        product.launch = wrong
        with pytest.raises(IncorrectError, match="1 of"):
            operands.check(product, workspace)
        product.release()


def test_a_product_that_there_is_not_is_unsupported(workspace_of):
    workspace = workspace_of(make_operands(PROBLEMS["not made coarser"], "double", 1))
    for product in ("AP", "RAP"):
        with pytest.raises(Unsupported, match="not made coarser"):
            ScipyProduct(product).prepare(workspace)
