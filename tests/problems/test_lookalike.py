"""Stand-ins for matrices that cannot be had: the published numbers, and what else is promised of them."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.problems.assembly import Assembled
from repro.problems.generators import generate
from repro.problems.registry import Generated, load_registry
from repro.problems.surrogates import LATTICE_REACH, assemble_lookalike
from repro.sparse.compound.packing import count_bytes

pytestmark = pytest.mark.medium

CONFIG = Path(__file__).parents[2] / "config"
STAND_INS = ["like_fem_filter", "like_mono_500Hz"]
SMALL: dict[str, Any] = {"rows": 1000, "nonzeros": 20_000, "longest": 200, "hubs": 4, "spread": 0.3, "seed": 1}


@cache
def item(name: str) -> Generated:
    found = load_registry(CONFIG / "problems.yaml").find(name)
    assert isinstance(found, Generated)
    return found


@cache
def built(name: str) -> Assembled:
    return generate(item(name).kind, **item(name).parameters)


def published(table: str, name: str) -> dict[str, str]:
    with (CONFIG / f"published/compound_spmv/{table}.csv").open() as file:
        return next(row for row in csv.DictReader(file) if row["problem"] == item(name).stand_in)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", STAND_INS)
def test_the_size_is_that_of_table_1(name: str) -> None:
    size = published("sizes", name)
    assert size["entry"] == item(name).entry == "complex"
    assert (built(name).n, len(built(name).indices)) == (int(size["rows"]), int(size["nonzeros"]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", STAND_INS)
def test_the_memory_is_that_of_table_9(name: str) -> None:
    printed = published("memory", name)
    lengths = np.diff(built(name).indptr).astype(np.int32)
    held = {outer: count_bytes(lengths, 2, 8, outer) for outer in ("CSR", "ELL", "Sl-16", "Sl-32")}
    assert printed["csr_unit"] == "MiB"
    assert f"{held['CSR'] / 2**20:.1f}" == printed["csr_size"]
    for outer in ("ELL", "Sl-16", "Sl-32"):
        assert f"{held[outer] / held['CSR']:.1f}" == printed[outer], outer


@pytest.mark.parametrize("name", STAND_INS)
def test_few_rows_are_long(name: str) -> None:
    lengths = np.diff(built(name).indptr)
    assert lengths.max() == item(name).parameters["longest"]
    long = np.flatnonzero(lengths > (2 * LATTICE_REACH + 1) ** 3)
    assert 20 < len(long) <= item(name).parameters["long_rows"]
    assert len(np.unique(long // 32)) > len(long) / 2, "and they are scattered"
    assert np.quantile(lengths, 0.99) < 80


def dense(matrix: Assembled) -> Any:
    return sp.csr_array((matrix.values @ [1, 1j], matrix.indices, matrix.indptr), shape=(matrix.n, matrix.n)).toarray()


def test_values_are_symmetric_and_small_beside_the_diagonal() -> None:
    full = dense(assemble_lookalike(**SMALL))
    assert np.array_equal(full, full.T)
    assert not np.array_equal(full, full.conj().T)
    diagonal = np.abs(np.diag(full))
    assert (diagonal > np.abs(full).sum(axis=1) - diagonal).all()


def test_the_spread_is_that_of_the_row_lengths() -> None:
    even, uneven = (np.diff(assemble_lookalike(**{**SMALL, "spread": spread}).indptr) for spread in (0.0, 1.0))
    assert even.sum() == uneven.sum() == SMALL["nonzeros"]
    assert np.std(uneven[uneven < 120]) > 1.5 * np.std(even[even < 120])


def test_a_hub_has_the_length_asked_for_whatever_is_near() -> None:
    for seed in range(5):
        lengths = np.diff(assemble_lookalike(**{**SMALL, "hubs": 40, "nonzeros": 40_000, "seed": seed}).indptr)
        assert np.count_nonzero(lengths == 200) == 1
        assert lengths.max() == 200


def test_another_seed_is_another_matrix() -> None:
    one, two = (assemble_lookalike(**{**SMALL, "seed": seed}) for seed in (1, 2))
    assert not np.array_equal(one.indices, two.indices)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nonzeros": 20_001}, "an even number more of non-zeros"),
        ({"nonzeros": 1_500}, r"cannot hold this many non-zeros[\s\S]*actual: 1500"),
        ({"nonzeros": 200_000}, r"cannot hold this many non-zeros[\s\S]*actual: 200000"),
        ({"longest": 900, "hubs": 101}, r"hubs do not fit[\s\S]*at most 1000[\s\S]*101 and 900"),
    ],
)
def test_what_cannot_be(change: dict[str, int], message: str) -> None:
    with pytest.raises(ReproError, match=message):
        assemble_lookalike(**{**SMALL, **change})
