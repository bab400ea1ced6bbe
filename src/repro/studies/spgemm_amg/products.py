"""Whole products by our kernels, and the numeric phase alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import Clock, not_prepared
from repro.bench.workspace import Workspace
from repro.sparse.built import Built
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid.device import Run, rows_of
from repro.sparse.spgemm.coordinates import CoordinateMultiplication
from repro.sparse.spgemm.factors import Factors
from repro.sparse.spgemm.plan import papers_plan
from repro.sparse.spgemm.product import ONE_PHASE, TWO_PHASES, Multiplication, Steps
from repro.sparse.verify import NAN_BYTE
from repro.sparse.work import Work
from repro.studies.spgemm_amg.operands import Multiplied, operands_of
from repro.studies.spgemm_amg.paper import ProductName
from repro.studies.spgemm_amg.plans import Plans
from repro.studies.spgemm_amg.stored import factors_on

#: `one`: rows in segments as they are done; `two`: their sizes first; `paper`: in one phase, by the paper's sorts;
#: `coordinates`: all products sorted by row and column, with which the paper compares.
Way = Literal["one", "two", "paper", "coordinates"]
_STEPS: Mapping[Way, tuple[str, ...]] = {"one": ONE_PHASE, "paper": ONE_PHASE, "two": TWO_PHASES, "coordinates": ()}


class Product(Multiplied):
    """A product on the device by modules of ours.

    Parameters
    ----------
    built
        The modules of a precision by name.
    product
        Which one.
    plans
        What was chosen for the bins of this product; None: what is expected to fit.
    """

    kind = "variant"
    cold = False

    def __init__(self, built: Mapping[str, Built], product: ProductName, plans: Plans | None = None) -> None:
        self._built, self.product, self._plans = built, product, plans
        self._held = ExitStack()
        self._c: Storage | None = None
        self._said: dict[str, Any] = {}
        self._work: Work | None = None

    @property
    def identity(self) -> str:
        """The hashes of all modules, and the kernels that were chosen."""
        return " ".join([*(built.module.hash for built in self._built.values()), str(self._plans or "")])

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is multiplied, and how much it is."""
        return {"product": self.product, **self._said}

    def prepare(self, workspace: Workspace) -> None:
        """Bring the factors to the device.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        self.release()
        with ExitStack() as held:
            self._work = work = Work(workspace, self._built, held)
            factors = factors_on(workspace, self.product)
            self.bind(work, factors)
            self._held = held.pop_all()
        amount, self.moved = operands_of(workspace).amount(self.product)
        self._said |= amount

    def bind(self, work: Work, factors: Factors) -> None:
        """Do what `prepare` does with the factors; what is held is given to `work`."""
        raise NotImplementedError

    def multiplication(self, work: Work, phases: int) -> Multiplication:
        """Return what multiplies in so many phases, with the kernels that were chosen, if any were."""
        target, dtype = work.device.target, operands_of(work.workspace).dtype
        if self._plans is None:
            return Multiplication(work.device, work.program, dtype)
        plans = self._plans
        # what was chosen for one phase may be a sort, which finds no sizes
        in_one = plans.on(target, dtype.itemsize, "one") if phases == 1 else None
        return Multiplication(work.device, work.program, dtype, in_one, plans.on(target, dtype.itemsize, "numeric"))

    def result(self) -> sp.csr_array:
        """Wait, and return the product."""
        assert self._c is not None
        return self._c.download().to_csr()

    def rows_times(self, x: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
        """Wait, and return the entries of each row of the product, and C x, computed where it lies."""
        assert self._c is not None and self._work is not None
        c, work = self._c, self._work
        with ExitStack() as held:
            run = Run(work.device, work.program, c.dtype, held)
            y, given, lanes = run.scalars(c.shape[0]), run.upload(x.astype(c.dtype)), run.lanes(c, c.report().pointer)
            run.cycle(f"multiply_w{lanes}", c.shape[0], c.shape[0], *rows_of(c), given, y, lanes=lanes)
            return run.download(c.sizes, c.shape[0], np.int32), run.download(y, c.shape[0], c.dtype)

    def release(self) -> None:
        """Give all memory back."""
        self._drop()
        self._held, held = ExitStack(), self._held
        held.close()
        self._work = None
        self.launch = not_prepared
        self.stages = dict.fromkeys(self.stages, not_prepared)

    def _drop(self) -> None:
        if self._c is not None:
            self._c.release()
            self._c = None


class WholeProduct(Product):
    """A product from its factors on the device to C there, memory allocated on the way.

    Parameters
    ----------
    built, product, plans
        As of `Product`.
    way
        How it is computed.
    """

    clocks: tuple[Clock, ...] = ("host",)

    def __init__(
        self, built: Mapping[str, Built], product: ProductName, way: Way = "one", plans: Plans | None = None
    ) -> None:
        super().__init__(built, product, plans)
        self._way = way
        self.name = f"{product}/{way}{'-tuned' if plans else ''}"
        self.stages = dict.fromkeys(_STEPS[way], not_prepared)
        self._open = ExitStack()

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, which way, and how much memory that takes."""
        method = {"paper": "sort", "coordinates": "coordinates"}.get(self._way, "tuned" if self._plans else "default")
        mode = self._way if self._way in ("two", "coordinates") else "one"
        return {"what": "product", "mode": mode, "method": method, **super().columns}

    def bind(self, work: Work, factors: Factors) -> None:
        """Bind the product, and see how much memory it takes."""
        multiply = self._bind_product(work, factors)

        def launch() -> None:
            self._c = multiply(factors)

        self.launch = launch
        self._said["peak_bytes"] = work.device.pool_growth(lambda: multiply(factors).release())

    def _bind_product(self, work: Work, factors: Factors) -> Callable[[Factors], Storage]:
        if self._way == "coordinates":
            return CoordinateMultiplication(work.device, work.program).multiply
        multiplication = self.multiplication(work, 2 if self._way == "two" else 1)
        if self._way == "paper":
            multiplication.usual = papers_plan(work.device.target, factors.a.dtype.itemsize)
        self._bind_stages(multiplication, factors)
        return multiplication.in_two_phases if self._way == "two" else multiplication.in_one_phase

    def _bind_stages(self, multiplication: Multiplication, factors: Factors) -> None:
        """Bind the steps of a product of its own, which the first of them begins and the last one ends."""
        steps: list[Steps] = []
        names = _STEPS[self._way]

        def stage(name: str) -> Callable[[], None]:
            def launch() -> None:
                if name == names[0]:
                    steps[:] = [self._open.enter_context(multiplication.steps(factors, names))]
                    self._c = steps[0].c  # given back as well where a step fails
                steps[0].all[name]()
                if name == names[-1]:
                    self._open.close()

            return launch

        self.stages = {name: stage(name) for name in names}

    def before(self) -> None:
        """Give the product of the launch before back."""
        self._open.close()
        self._drop()

    def release(self) -> None:
        """Give all memory back."""
        self._open.close()
        super().release()


class Refill(Product):
    """The numeric phase alone, into a product of factors with the same patterns."""

    #: Kernels of bins run side by side: in a graph, where they are forked and joined each time, they take longer.
    clocks: tuple[Clock, ...] = ("event",)

    def __init__(self, built: Mapping[str, Built], product: ProductName, plans: Plans | None = None) -> None:
        super().__init__(built, product, plans)
        self.name = f"{product}/refill{'-tuned' if plans else ''}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done."""
        return {
            "what": "numeric",
            "mode": "refill",
            "method": "tuned" if self._plans else "default",
            **super().columns,
        }

    def bind(self, work: Work, factors: Factors) -> None:
        """Multiply once, for the pattern, and bind what fills it."""
        multiplication = self.multiplication(work, 2)
        self._c = c = multiplication.in_two_phases(factors)
        bound = ExitStack()
        work.at_end(bound.close)
        self.launch = bound.enter_context(multiplication.refilled(factors, c))
        work.device.fill(c.values, NAN_BYTE)  # so that what is left out is seen
