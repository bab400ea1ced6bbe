"""What searches of the kernels that integrate regions are compared by, where one learns from those of other fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.galerkin.basis import mode_count
from repro.studies.dg_postprocessing.regions import regions_of
from repro.tuning.recordings import Machine


def features(record: Mapping[str, Any], precision: str, machine: Machine) -> NDArray[np.float64]:
    """Return what fields are compared by, by their records, `(4,)`.

    Dimension, degree, and logarithms of regions per thread that the device can hold, and of the modes' bytes over those
    of the cache.
    """
    dimension, degree, cells = record["dimension"], record["degree"], record["cells"]
    logarithms = np.log2([
        regions_of(cells) / (machine.n_s * machine.threads_per_sm),
        8 * cells * mode_count(degree, dimension) / machine.cache_bytes,
    ])  # fmt: skip
    return np.array([dimension, degree, *logarithms], np.float64)
