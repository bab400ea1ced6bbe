"""Writing a campaign of fields on tetrahedra that was never measured: each number of its figures can be worked out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from repro.codegen.targets import CPU, Target, get_target
from repro.studies.dg_postprocessing import JOINT, PAPERS
from repro.studies.dg_postprocessing.ids import RegionId, full_width, own_region_ids, paper_region_ids
from repro.studies.dg_postprocessing.regions import region_operations
from support.dg_campaign import Maker

#: Regions of each list, and the width of each degree that is made the fastest.
REGIONS, FASTEST = 2**20, {1: 18, 2: 16}
#: Microseconds of a list with the fastest kernel of a method, by degree.
MICRO = {"vector": {1: 4_000.0, 2: 30_000.0}, "lane": {1: 1_000.0, 2: 6_000.0}, "matrix": {1: 100.0, 2: 200.0}}


def micro(id: RegionId) -> float:
    """Return the time of a kernel: longer the further it is from the fastest width, 8 regions and 4 blocks."""
    best = MICRO[id.method][id.degree]
    if id.method != "vector":
        return best * (1 + 0.01 * abs(id.blocks - 16) + 0.001 * abs(id.regions - 128))
    away = abs(id.width - FASTEST[id.degree]) / full_width(id.degree)
    return best * (1 + away) * (1 + 0.02 * abs(id.regions - 8)) * (1 + 0.01 * abs(id.blocks - 4))


def target_of(backend: str) -> Target:
    """Return the target of the campaign's kernels."""
    return get_target("sm_90") if backend == "cuda" else CPU


def ids_of(degree: int, target: Target) -> list[RegionId]:
    """Return all kernels of a degree that fit."""
    return [*paper_region_ids(degree, target), *own_region_ids(degree, target)]


class RegionMaker(Maker):
    """Writes the raw folder of a campaign with fields on tetrahedra."""

    def __init__(self, root: Path, backend: str = "cuda") -> None:
        super().__init__(root, backend)
        self.target = target_of(backend)

    def cubes(
        self,
        problem: str,
        degree: int,
        cells: int = 6000,
        weight: float = 1.0,
        share: float = 1.0,
        slow: Callable[[RegionId], float] = lambda id: 1.0,
    ) -> None:
        """Write all files of a field: its record, a search of a share of all kernels, the winners, and the choices.

        A kernel takes `weight` and what `slow` says of it times as long as `micro` says.
        """
        modes = {1: 4, 2: 10}[degree]
        quantiles = dict.fromkeys(("min", "q1", "median", "q3", "max", "mean"), 0.1)
        statistics = {"cells": cells, "volume": quantiles, "edge": quantiles, "total_volume": 1.0,
                      "longest_edge": 0.1, "mean_edge": 0.1}  # fmt: skip
        self.record(problem, kind="field", dimension=3, cells=cells, degree=degree, modes=modes, statistics=statistics,
                    origin={"source": "field", "parameters": {"cubes": 10, "degree": degree}})  # fmt: skip
        ids = ids_of(degree, self.target)
        ids = ids[: max(1, round(share * len(ids)))]

        def time(id: RegionId) -> float:
            return micro(id) * slow(id)

        def row(id: RegionId, phase: str, clocks: tuple[str, ...]) -> object:
            return self.row(
                problem, "double", "variant", str(id), weight * time(id), clocks, phase=phase, space=id.space,
                protocol="full", regions=REGIONS, points=50, shared_bytes=id.shared_bytes,
                region_operations=region_operations(id.method, degree), **id.columns,
            )  # fmt: skip

        self.write(problem, "double", "search", [row(id, "search", ("event",)) for id in ids])
        best: dict[str, RegionId] = {}
        for id in sorted(ids, key=time):
            tunings = [id.method] if id.method != "vector" else [PAPERS, f"width/{id.width}"]
            for tuning in (JOINT, *tunings):
                best.setdefault(tuning, id)
        winners = dict.fromkeys(best.values())
        self.write(problem, "double", "report", [row(id, "report", ("event", "graph")) for id in winners])
        self.choose(problem, "double", {(tuning, "event"): (str(id), [str(id)]) for tuning, id in best.items()})
