"""What a set-up of multigrid is asked for. The defaults are those of CUSP 0.5.1, on which King 2017 built."""

from __future__ import annotations

from dataclasses import dataclass

from repro.errors import ReproError

#: Steps of Arnoldi's process, a column of whose numbers is read at once.
MOST_STEPS = 30


@dataclass(frozen=True)
class Settings:
    """How a hierarchy is made.

    Attributes
    ----------
    theta
        Entries a_ij count as strong where |a_ij| > θ √(|a_ii a_jj|).
    omega
        The prolongator is (I − ω/ρ D⁻¹A) T, ρ the spectral radius of D⁻¹A.
    coarsest
        A matrix of so few rows is not made coarser.
    levels
        The most levels.
    ritz_steps
        Steps of Arnoldi's process by which ρ is estimated.
    stall
        A level that would have more than this part of the rows of the one before is not made.

    Raises
    ------
    ReproError
        A number makes no sense.
    """

    theta: float = 0.0
    omega: float = 4 / 3
    coarsest: int = 100
    levels: int = 20
    ritz_steps: int = 8
    stall: float = 0.9

    def __post_init__(self) -> None:
        limits = {
            "theta": (0 <= self.theta < 1, "from 0 to below 1"),
            "omega": (0 <= self.omega < 2, "from 0, for no smoothing, to below 2"),
            "coarsest": (self.coarsest >= 1, "at least 1"),
            "levels": (self.levels >= 1, "at least 1"),
            "ritz_steps": (1 <= self.ritz_steps <= MOST_STEPS, f"1 to {MOST_STEPS}"),
            "stall": (0 < self.stall <= 1, "above 0, at most 1"),
        }
        for name, (sensible, expected) in limits.items():
            if not sensible:
                raise ReproError(
                    "a setting of multigrid makes no sense", where=name, expected=expected, actual=getattr(self, name)
                )
