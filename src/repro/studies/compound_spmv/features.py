"""What matrices are compared by, where the times of one are to tell of another: pairs that are stored once included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from repro.codegen.precisions import DTYPES
from repro.entries import get_entry
from repro.sparse.features import Array
from repro.sparse.features import features as features_of_a_product
from repro.sparse.symmetry import NOT_SYMMETRIC
from repro.studies.compound_spmv.layout import TILE_ROWS
from repro.studies.compound_spmv.paper import STUDY
from repro.tuning.recordings import Machine


def features(record: Mapping[str, Any], precision: str, machine: Machine) -> Array:
    """Return the features of a matrix by its record, `(13,)`.

    Those of `repro.sparse.features.features`, and of pairs, by what `repro.studies.compound_spmv.facts` counted of the
    matrix in the order that it came in: whether it is symmetric (1, or 0); the share of its entries that is stored once
    for two; and the logarithms of its bytes so stored over those of CSR-AoS, and of the foreign columns that a tile
    reads, over its rows, plus 1. NaN where the record does not say, and the last three of what is not symmetric.
    """
    counted = record.get("facts", {}).get(STUDY, {}).get("pairs")
    of_pairs = np.full(4, np.nan)
    if counted is not None:
        of_pairs[0] = float(bool(counted["symmetry"][precision]))
    if of_pairs[0] == 1:
        statistics, number = record["statistics"], np.dtype(DTYPES[precision]).itemsize
        entry_bytes = len(get_entry(record["entry"]).members) * number
        csr = statistics["nonzeros"] * (entry_bytes + 4) + (statistics["rows"] + 1) * 4
        foreign = counted["foreign_per_tile"] / counted["tile_rows"]
        of_pairs[1:] = counted["inside"], np.log2(counted["bytes"][precision] / csr), np.log2(1 + foreign)
    return np.append(features_of_a_product(record, precision, machine), of_pairs)


def hopeless(rows: pd.DataFrame) -> pd.Series:
    """Say of rows of a search which are of pairs on a matrix that is not symmetric, which a search with a budget skips.

    Parameters
    ----------
    rows
        With the columns `name`, `status` and `message`.
    """
    of_pairs = rows["name"].str.startswith(tuple(f"{outer}-" for outer in TILE_ROWS))
    why = rows["message"].fillna("").astype(str)
    return of_pairs & (rows["status"] == "unsupported") & why.str.startswith(NOT_SYMMETRIC)
