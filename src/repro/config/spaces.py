"""The spaces of variants that a study searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

#: `paper`: what the paper describes, to the letter; what it leaves open is tried alike for all its methods.
#: `paper_tuned`: the paper's kernels with choices that it does not make, such as unrolled loops or more blocks.
#: `extended`: our kernels.
Space = Literal["paper", "paper_tuned", "extended"]
SPACES: tuple[Space, ...] = get_args(Space)
PAPER, PAPER_TUNED, EXTENDED = SPACES
#: Prefix of tunings that choose among `paper_tuned` instead of `paper`.
TUNED = "tuned_"
#: Prefix of the names of tunings, for each space of the paper's kernels.
TUNING_PREFIXES: Mapping[Space, str] = {PAPER: "", PAPER_TUNED: TUNED}


def find_space(name: str) -> Space | None:
    """Return the space of this name, None if there is none."""
    return next((space for space in SPACES if space == name), None)
