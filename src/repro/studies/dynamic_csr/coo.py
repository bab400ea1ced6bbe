"""Coordinates that batches are put behind, and that are sorted by row again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from repro.bench.runnable import not_prepared
from repro.sparse.built import Built
from repro.sparse.kernels import in_order
from repro.sparse.work import Work
from repro.studies.dynamic_csr.coordinates import Entries, Resident, SortedCoordinates
from repro.studies.dynamic_csr.rival import Alone, Order, Updates, Updating


class CoordinateUpdate(Updates):
    """Batches into coordinates sorted by row: a copy behind the end, then a stable sort of all."""

    format = "coo"
    modules = ("hybrid", "sort")

    def __init__(
        self, built: Mapping[str, Built], what: Alone = "insert", order: Order = "any", which: int | None = None
    ) -> None:
        super().__init__(built, what, order, which)
        if what == "stream":  # one batch: two stages
            self.stages = {"update": not_prepared, "sort": not_prepared}

    def bind_updates(self, work: Work, plan: Updating) -> None:
        """Bring start and batches to the device, and bind appending and sorting, from side to side."""
        shape, dtype, end = plan.start.shape, plan.start.dtype, int(plan.start.nnz)
        coordinates = SortedCoordinates(work, plan.after, shape[0], dtype)
        self._restore = coordinates.bind_copy(Resident.upload(work, Entries.of(plan.start)), end)
        launches: list[Callable[[], None]] = []
        for i, batch in enumerate(plan.batches):
            count = len(batch.rows)
            launches.append(coordinates.bind_append(Resident.upload(work, batch), count, i % 2, end))
            end += count
            launches.append(coordinates.bind_sort(i % 2, end))
        self._read = lambda: coordinates.read(len(plan.batches) % 2, plan.after).to_csr(shape)
        self.launch = in_order(launches)
        if self.stages:
            self.stages = dict(zip(self.stages, launches, strict=True))

    def before(self) -> None:
        """Take all batches out again."""
        self._restore()
