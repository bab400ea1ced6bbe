"""The module that every campaign needs: empty kernel, comparison with a reference, streaming floor, copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from repro.codegen.targets import Target
from repro.codegen.templates import render_template

COMMON = "common"
VERIFY_N_T = {"cuda": 256, "opencl": 64}


@dataclass(frozen=True)
class Stream:
    """One configuration of the streaming kernel that measures the floor."""

    n_t: int
    unroll: int

    @property
    def kernel(self) -> str:
        """Its name in the common module; the copy of the same shape has `copy` for `stream`."""
        return f"stream_{self.n_t}_{self.unroll}"


def streams(target: Target) -> list[Stream]:
    """Return the 16 configurations that the floor is the best of.

    On the CPU a work-group is a loop, and pays for being longer than the kernels' own.
    """
    first = 128 if target.dialect == "cuda" else 64
    growth = 2 if target.dialect == "cuda" else 4
    return [Stream(first * growth**i, unroll) for i in range(4) for unroll in (1, 2, 4, 8)]


def render_common(templates: Path, target: Target) -> str:
    """Return the source of the module that every campaign needs: empty kernel, verification, floor, copy."""
    return render_template(
        templates,
        f"{COMMON}/module.j2",
        dialect=target.dialect,
        title="empty kernel, verification, streaming floor, copy",
        verify_n_t=VERIFY_N_T[target.dialect],
        streams=streams(target),
    )
