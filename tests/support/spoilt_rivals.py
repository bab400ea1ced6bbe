"""Rivals in Python that do right or go wrong, by the names of their classes."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import scipy.sparse as sp

HELD = []


class Right:
    name, version = "right", 3

    def setup(self, problem):
        a = problem.a
        self.problem = problem
        if a.block > 1:
            self.matrix = sp.bsr_array((a.values, a.indices, a.offsets), shape=a.shape)
        else:
            self.matrix = sp.csr_array((a.values, a.indices, a.offsets), shape=a.shape)

    def run(self):
        self.problem.y[:] = self.matrix @ self.problem.x

    def teardown(self):
        self.matrix = self.problem = None


class Wrong(Right):
    def run(self):
        super().run()
        self.problem.y[3] += 1


class Crashing(Right):
    def run(self):
        ctypes.string_at(8)


class Hanging(Right):
    def run(self):
        while True:
            time.sleep(0.01)


class Outside(Right):
    def run(self):
        super().run()
        y = self.problem.y
        ctypes.memset(y.ctypes.data + y.nbytes, 0, 12)


class Inputs(Right):
    def setup(self, problem):
        super().setup(problem)
        ctypes.memset(problem.x.ctypes.data, 1, 2)


class Leaking(Right):
    def setup(self, problem):
        super().setup(problem)
        HELD.append(np.ones(1 << 17))


class Raising(Right):
    def run(self):
        raise ValueError("no such thing")


class Deep(Right):
    def run(self):
        np.linalg.inv(self.problem.x[:, None][:2] * np.zeros((1, 2)))


class Misspelling(Right):
    def setup(self, problem):
        import scipy.sparze  # noqa: F401


class Lacking(Right):
    def setup(self, problem):
        import cupyy  # noqa: F401


class Leaving(Right):
    def setup(self, problem):
        raise SystemExit(2)


class Unable(Right):
    def setup(self, problem):
        raise NotImplementedError("not of blocks")


class Stuck(Right):
    """It fails, and then its teardown fails as well."""

    def run(self):
        raise ValueError("no such thing")

    def teardown(self):
        raise RuntimeError("nor this")


class Refusing(Right):
    """Its teardown cannot follow a set-up that refuses, and fails after another."""

    def setup(self, problem):
        if problem.a.shape[0] > 75:
            raise NotImplementedError("not of blocks")
        super().setup(problem)

    def teardown(self):
        raise RuntimeError(f"{self.problem.a.shape[0]} rows")


class Halfway:
    def setup(self, problem):
        pass


class Adding(Right):
    def setup(self, problem):
        super().setup(problem)
        problem.y[:] = 0

    def run(self):
        self.problem.y[:] += self.matrix @ self.problem.x


class Prepared(Right):
    def setup(self, problem):
        super().setup(problem)
        super().run()

    def run(self):
        pass


class Once(Right):
    """It computes at its first run alone."""

    done = False

    def run(self):
        if not self.done:
            super().run()
        self.done = True


class WhileNan(Right):
    """It computes only while its result is NaN."""

    def run(self):
        if np.isnan(self.problem.y).all():
            super().run()


class WhileOther(Right):
    """It computes only while its result is not the one that it has left."""

    left = None

    def run(self):
        if self.left is None or not np.array_equal(self.problem.y, self.left):
            super().run()
            self.left = self.problem.y.copy()


class Tiring(Right):
    """It is right three times, and writes zeros ever after."""

    runs = 0

    def run(self):
        super().run()
        self.runs += 1
        if self.runs > 3:
            self.problem.y[:] = 0


class Multiplying:
    def setup(self, problem):
        self.problem = problem
        self.a, self.b = (
            sp.csr_array((matrix.values, matrix.indices, matrix.offsets), shape=matrix.shape)
            for matrix in (problem.a, problem.b)
        )

    def run(self):
        c = sp.csr_array(self.a @ self.b)
        self.problem.c = c.indptr, c.indices, c.data

    def teardown(self):
        self.problem.c = self.problem = None


class WrongPlaces(Multiplying):
    def run(self):
        super().run()
        offsets, indices, values = self.problem.c
        self.problem.c = offsets, indices[::-1].copy(), values


class OtherType(Multiplying):
    def run(self):
        super().run()
        offsets, indices, values = self.problem.c
        self.problem.c = offsets, indices, values.astype(np.float16)


class NoProduct(Multiplying):
    def run(self):
        pass


class MultipliedOnce(Multiplying):
    """Its product is made in the set-up, and each run says that it is there."""

    def setup(self, problem):
        super().setup(problem)
        self.c = sp.csr_array(self.a @ self.b)

    def run(self):
        self.problem.c = self.c.indptr, self.c.indices, self.c.data


class Growing:
    """Adds batches by SciPy; a place that cancels stays."""

    def setup(self, problem):
        a = problem.a
        self.problem = problem
        self.matrix = sp.csr_array((a.values, a.indices, a.offsets), shape=a.shape)

    def update(self, batch):
        rows = np.repeat(np.arange(self.matrix.shape[0]), np.diff(self.matrix.indptr))
        parts = (self.matrix.data, batch.values), (rows, batch.rows), (self.matrix.indices, batch.columns)
        values, rows, columns = map(np.concatenate, parts)
        self.matrix = sp.coo_array((values, (rows, columns)), shape=self.matrix.shape).tocsr()

    def run(self):
        self.problem.c = self.matrix.indptr, self.matrix.indices, self.matrix.data

    def teardown(self):
        self.matrix = self.problem = None


class WrongSum(Growing):
    def update(self, batch):
        super().update(batch)
        self.matrix.data[2] += 1


class Twice(Growing):
    """It says the last entry twice."""

    def run(self):
        c, offsets = self.matrix, self.matrix.indptr.copy()
        offsets[-1] += 1
        self.problem.c = offsets, np.append(c.indices, c.indices[-1:]), np.append(c.data, c.data[-1:] * 0)


class Mixing(Growing):
    """It writes into a read-only operand."""

    def update(self, batch):
        super().update(batch)
        ctypes.memset(batch.rows.ctypes.data, 0, 4)


class Keeping(Growing):
    """Its set-up does not begin anew."""

    def setup(self, problem):
        kept = getattr(self, "matrix", None)
        super().setup(problem)
        self.matrix = self.matrix if kept is None else kept

    def teardown(self):
        pass


class Solving:
    def setup(self, problem):
        from scipy.sparse.linalg import factorized

        a = problem.a
        self.problem = problem
        self.solve = factorized(
            sp.csc_array(sp.csr_array((a.values, a.indices, a.offsets), shape=a.shape), dtype=float)
        )

    def run(self):
        self.problem.y[:] = self.solve(self.problem.x)
        self.problem.iterations = 1

    def teardown(self):
        self.solve = self.problem = None


class Unsolved(Solving):
    def run(self):
        self.problem.y[:] = 0
