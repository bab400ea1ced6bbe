"""Heat in a plate whose conductivity follows its temperature: other values in the same matrix at each time step.

    python examples/nonlinear_heat.py --cells 96 --steps 20
    python examples/nonlinear_heat.py --cells 1024 --steps 40 --device cuda:0

The unit square is cold at first; its left side is held at 1, its right side at 0, and the others let no heat through.
A cell conducts by (0.2 + u)², where it lies in the inclusions by a hundredth of that. Finite volumes, implicit Euler
steps with the conductivity of the step before. Multigrid is refreshed at each step, and beside it set up anew.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from numpy.typing import NDArray

import repro
from repro.errors import ReproError

Floats = NDArray[np.float64]
HOT, COLD = 1.0, 0.0
#: Centres and radii of the inclusions.
INCLUSIONS = ((0.3, 0.65, 0.16), (0.62, 0.3, 0.18), (0.75, 0.75, 0.12))
MAPS = 4  # in the picture


class Step(NamedTuple):
    """One time step: seconds of the three parts, and iterations of conjugate gradients with either hierarchy."""

    time: float
    set_up: float
    refresh: float
    solve: float
    iterations_anew: int
    iterations: int
    #: Heat in the plate, and what went in and out through its sides in this step.
    heat: float
    gain: float


class Plate:
    """A unit square of `cells` × `cells` cells, numbered row by row from below, with heat capacity 1 per area."""

    def __init__(self, cells: int, contrast: float) -> None:
        self.cells, self.area = cells, 1 / cells**2
        at = (np.arange(cells) + 0.5) / cells
        x, y = np.meshgrid(at, at)
        self.material = np.ones(cells**2)
        for center_x, center_y, radius in INCLUSIONS:
            self.material[(np.hypot(x - center_x, y - center_y) < radius).ravel()] = 1 / contrast
        number = np.arange(cells**2).reshape(cells, cells)
        pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
        self._one, self._other = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
        self._left, self._right = number[:, 0], number[:, -1]

    def walls(self, u: Floats) -> tuple[Floats, Floats]:
        """Return how well heat passes from each cell to the hot and to the cold side, `(cells²,)` each."""
        hot, cold = np.zeros(len(u)), np.zeros(len(u))
        for conductance, side, wall in ((hot, self._left, HOT), (cold, self._right, COLD)):
            conductance[side] = 2 * self.material[side] * conductivity((u[side] + wall) / 2)
        return hot, cold

    def system(self, u: Floats, duration: float) -> tuple[sp.csr_array, Floats]:
        """Return matrix and right side of the step from temperatures `u`; the matrix has the same pattern each time."""
        one, other = self._one, self._other
        means = 2 / (1 / self.material[one] + 1 / self.material[other])
        conductance = means * conductivity((u[one] + u[other]) / 2)
        hot, cold = self.walls(u)
        diagonal = self.area / duration + hot + cold
        np.add.at(diagonal, one, conductance)
        np.add.at(diagonal, other, conductance)
        cells = np.arange(len(u))
        rows, columns = np.concatenate([cells, one, other]), np.concatenate([cells, other, one])
        matrix = sp.coo_array((np.concatenate([diagonal, -conductance, -conductance]), (rows, columns)))
        return sp.csr_array(matrix), self.area / duration * u + HOT * hot + COLD * cold

    def gain(self, before: Floats, u: Floats, duration: float) -> float:
        """Return the heat that came in through the sides in a step."""
        hot, cold = self.walls(before)
        return float(duration * (hot @ (HOT - u) + cold @ (COLD - u)))


def conductivity(u: Floats) -> Floats:
    """Return what a homogeneous plate conducts by."""
    return (0.2 + u) ** 2


def heat_up(
    plate: Plate, steps: int, duration: float, tolerance: float, theta: float, device: str
) -> tuple[Floats, list[Step], str]:
    """Do all time steps; return temperatures `(steps + 1, cells²)`, what each step took, and the device's name."""
    temperatures = np.zeros((steps + 1, plate.cells**2))
    ml = repro.amg(plate.system(temperatures[0], duration)[0], theta=theta, refreshable=True, device=device)
    print(f"{plate.cells**2:,} cells, {len(ml.levels)} levels on {ml.device_name}; milliseconds:")
    of_hierarchies = f"{'set-up':>10}{'refresh':>10}{'share':>8}"
    print(f"{'step':>4}{'time':>8}{of_hierarchies}{'solve':>10}{'iterations, anew':>18}{'heat':>9}")
    done = []
    for step in range(steps):
        u = temperatures[step]
        matrix, right = plate.system(u, duration)
        start = time.perf_counter()
        anew = repro.amg(matrix, theta=theta, device=device)
        made = time.perf_counter()
        of_anew: list[float] = []
        anew.solve(right, u, rtol=tolerance, residuals=of_anew)
        del anew
        begun = time.perf_counter()
        ml.refresh(matrix)
        refreshed = time.perf_counter()
        residuals: list[float] = []
        temperatures[step + 1] = ml.solve(right, u, rtol=tolerance, residuals=residuals)
        seconds = made - start, refreshed - begun, time.perf_counter() - refreshed
        iterations = len(of_anew) - 1, len(residuals) - 1
        heat = plate.area * temperatures[step + 1].sum()
        gain = plate.gain(u, temperatures[step + 1], duration)
        done.append(Step((step + 1) * duration, *seconds, *iterations, heat, gain))
        show(step + 1, done[-1])
    return temperatures, done, ml.device_name


def show(number: int, step: Step) -> None:
    """Print a line."""
    times = (
        f"{1e3 * step.set_up:10.2f}{1e3 * step.refresh:10.2f}{step.refresh / step.set_up:8.2f}{1e3 * step.solve:10.2f}"
    )
    counts = f"{step.iterations} {step.iterations_anew:8}"
    print(f"{number:4}{step.time:8.3f}{times}{counts:>18}{step.heat:9.4f}", flush=True)


def draw(path: Path, temperatures: Floats, steps: list[Step], device: str) -> None:
    """Draw temperatures at some times, and what each step took."""
    cells = round(temperatures.shape[1] ** 0.5)
    figure = Figure(figsize=(13, 3.2), layout="constrained")
    axes = figure.subplots(1, MAPS + 1, width_ratios=[*[1] * MAPS, 1.4])
    for axis, number in zip(axes, np.linspace(1, len(steps), MAPS).round().astype(int), strict=False):
        shown = axis.imshow(
            temperatures[number].reshape(cells, cells), origin="lower", extent=(0, 1, 0, 1), vmin=COLD, vmax=HOT
        )
        axis.set(title=f"t = {steps[number - 1].time:.3g}", xticks=(0, 1), yticks=(0, 1))
    figure.colorbar(shown, ax=axes[:MAPS], label="temperature")
    for name, label in (("set_up", "set-up anew"), ("refresh", "refresh"), ("solve", "solve")):
        axes[MAPS].plot(
            range(1, len(steps) + 1), [1e3 * getattr(step, name) for step in steps], ".-", label=label, linewidth=0.8
        )
    axes[MAPS].set(title=f"milliseconds a step\n{device}", xlabel="step", yscale="log")
    axes[MAPS].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main(arguments: list[str] | None = None) -> tuple[Floats, list[Step]]:
    """Heat the plate, print and draw it; return temperatures `(steps + 1, cells²)`, and the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=96, help="of a side of the plate")
    parser.add_argument("--steps", type=int, default=20, help="time steps")
    parser.add_argument("--time", type=float, default=1.0, help="of all steps; from about 20 on nothing changes")
    parser.add_argument("--contrast", type=float, default=100.0, help="how much worse the inclusions conduct")
    parser.add_argument("--theta", type=float, default=0.0, help="of strong connections, see repro.amg")
    parser.add_argument("--tolerance", type=float, default=1e-8, help="of the residual, relative to the right side")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or opencl:N")
    parser.add_argument("--to", type=Path, default=Path("nonlinear_heat.png"), help="the picture")
    options = parser.parse_args(arguments)
    plate, duration = Plate(options.cells, options.contrast), options.time / options.steps
    try:
        temperatures, steps, name = heat_up(
            plate, options.steps, duration, options.tolerance, options.theta, options.device
        )
    except ReproError as error:
        raise SystemExit(f"error: {error}") from None
    later = steps[1:] or steps  # the first refresh binds all launches
    share = np.median([step.refresh / step.set_up for step in later])
    print(f"from the second step on a refresh takes {share:.2f} of a set-up, in the median")
    draw(options.to, temperatures, steps, name)
    print(f"wrote {options.to}")
    return temperatures, steps


if __name__ == "__main__":
    main()
