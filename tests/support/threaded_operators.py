"""Whatever `repro` gives, used by several threads at once, each with numbers of its own: on the CPU and on a GPU."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.triangulations import hexagonal

#: By a thread's number: what it asks for, and whether the answer is the right one.
Call = Callable[[int], bool]
THREADS = 8
#: A layout whose vectors are not a user's, so that a product passes through arrays in its own order.
REORDERED = "ELL-SoA-Padded/static-64-3"
N = 96


def blocks(size: int) -> sp.bsr_array:
    """Return a matrix of blocks, and of quaternions where they are 4×4."""
    rng = np.random.default_rng(size)
    pattern = sp.random_array((N // size, N // size), density=0.2, rng=rng, format="csr")
    values = rng.integers(-4, 4, (pattern.nnz, size, size)).astype(float)
    if size == 4:
        w, x, y, z = values[:, 0].T
        values = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]]).transpose(2, 0, 1)
    return sp.bsr_array((values, pattern.indices, pattern.indptr), shape=(N, N))


def matrices() -> dict[str, Any]:
    """Return a matrix of each entry."""
    rng = np.random.default_rng(0)
    real = sp.random_array((N, N), density=0.1, rng=rng, format="csr")
    complex_ = (real + 1j * sp.random_array((N, N), density=0.1, rng=rng)).tocsr()
    return {"real": real, "complex": complex_, "block3": blocks(3), "quaternion": blocks(4)}


def poisson(n: int) -> sp.csr_array:
    """Return the Laplacian of a square grid."""
    line = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))


def near(actual: Any, expected: Any, tolerance: float = 1e-10) -> bool:
    """Say whether numbers are as they should be, but for rounding."""
    return bool(np.abs(np.asarray(actual) - expected).max() <= tolerance * max(np.abs(expected).max(), 1))


def draw(k: int, n: int = N) -> np.ndarray:
    """Return a thread's own vector."""
    return np.random.default_rng(k).uniform(-1, 1, n)


def products_in_turn(matrix: Any, device: str) -> Call:
    """Return products with a matrix, its transpose, a layout in another order, and vectors on the device, in turn."""
    xs = [draw(k) for k in range(THREADS)]
    A, reordered = (repro.operator(matrix, tuned, device=device) for tuned in ("default", REORDERED))
    expected, transposed = [matrix @ x for x in xs], [matrix.T @ x for x in xs]
    on_device = [A.vectors.put(x) for x in xs]
    ways = ((A, xs, expected), (reordered, xs, expected), (A.T, xs, transposed), (A, on_device, expected))
    turn = [0] * THREADS

    def call(k: int) -> bool:
        operator, x, wanted = ways[turn[k] % len(ways)]
        turn[k] += 1
        return near(operator @ x[k], wanted[k])

    return call


def operator_calls(device: str) -> Iterator[tuple[str, Call]]:
    """Give products of all entries, and of a transpose that is closed."""
    xs = [draw(k) for k in range(THREADS)]
    for entry, matrix in matrices().items():
        yield f"operator: {entry}", products_in_turn(matrix, device)
    real = matrices()["real"]
    shared = repro.operator(real, device=device)

    def transpose(k: int) -> bool:
        """Close the transposes that others use, and ask for new ones."""
        if k == 0:
            shared.T.close()
            return True
        try:
            return near(shared.T @ xs[k], real.T @ xs[k])
        except ReproError as error:
            return "closed" in str(error)

    yield "operator: a transpose that another thread closes", transpose


def vector_calls(device: str) -> Iterator[tuple[str, Call]]:
    """Give sums of vectors and inner products."""
    space = repro.vectors(N // 4, "quaternion", device=device)
    ys = [space.put(draw(k)) for k in range(THREADS)]
    yield "vectors: dot", lambda k: near(space.dot(ys[k], ys[0]), draw(k) @ draw(0))

    def combine(k: int) -> bool:
        x, y = space.put(draw(k)), space.put(draw(k + 1))
        return near(space.get(space.axpby(2.0, x, -1.0, y)), 2 * draw(k) - draw(k + 1))

    yield "vectors: axpby", combine


def growing_calls(device: str) -> Iterator[tuple[str, Call]]:
    """Give a matrix that all threads change, each rows of its own, and readers of it."""
    base = matrices()["real"]
    A = repro.DynamicCSR.from_csr(base, device=device)
    reader = A.reader()
    x = np.ones(N)
    rows = [np.arange(k, N, THREADS) for k in range(THREADS)]
    yield "DynamicCSR: product", lambda k: near(A @ draw(k), base @ draw(k))
    yield "DynamicCSR: one reader of all threads", lambda k: near(reader @ draw(k), base @ draw(k))
    B = repro.DynamicCSR((N, N), device=device)
    changing = B.reader()
    turn = [0] * THREADS

    def change(k: int) -> bool:
        """Insert into and delete from rows that no other thread has, so that their sums are known throughout."""
        turn[k] += 1
        B.insert(rows[k], np.full(len(rows[k]), k), float(turn[k]), mode="unique")
        if not near((B @ x)[rows[k]], turn[k]) or not near((changing @ x)[rows[k]], turn[k]):
            return False
        B.delete(rows[k], np.full(len(rows[k]), k))
        return near((B @ x)[rows[k]], 0)

    yield "DynamicCSR: changes", change


def product_calls(device: str) -> Iterator[tuple[str, Call]]:
    """Give products of two sparse matrices, also of two that grow, in either order."""
    left, right = (sp.random_array((24, 24), density=0.1, rng=np.random.default_rng(i), format="csr") for i in (1, 2))
    wanted = (left @ right).toarray(), (right @ left).toarray()
    grown = [repro.DynamicCSR.from_csr(matrix, device=device) for matrix in (left, right)]
    yield "spgemm", lambda k: near(repro.spgemm(left * k, right, device=device).toarray(), k * wanted[0])

    def crosswise(k: int) -> bool:
        first, second = grown if k % 2 else grown[::-1]
        return near(repro.spgemm(first, second).toarray(), wanted[1 - k % 2])

    yield "spgemm of matrices that grow", crosswise


def multigrid_calls(device: str) -> Iterator[tuple[str, Call]]:
    """Give solutions, and cycles between them."""
    A = poisson(12)
    hierarchy = repro.amg(A, max_coarse=20, device=device)
    n = A.shape[0]
    M = hierarchy.aspreconditioner()
    cycles = [M @ draw(k, n) for k in range(THREADS)]
    yield "amg: cycle", lambda k: near(M @ draw(k, n), cycles[k], 1e-12)

    def solve(k: int) -> bool:
        return near(A @ hierarchy.solve(draw(k, n), rtol=1e-10), draw(k, n), 1e-8)

    yield "amg: solve", solve


def filter_calls(device: str) -> Iterator[tuple[str, Call]]:
    """Give filtered fields, by a matrix and without one."""
    mesh = hexagonal(4)
    points = np.random.default_rng(3).uniform(0, 1, (20, 2))
    for matrix in (True, False):
        smooth = repro.siac((mesh.vertices, mesh.triangles), 1, points, matrix=matrix, device=device)
        fields = [draw(k, smooth.shape[1]) for k in range(THREADS)]
        wanted = [smooth @ field for field in fields]
        yield (
            f"siac, matrix={matrix}",
            lambda k, smooth=smooth, fields=fields, wanted=wanted: near(smooth @ fields[k], wanted[k], 1e-12),
        )


#: What takes some milliseconds a call, where others take less than one.
LONG = ("spgemm", "amg: solve", "DynamicCSR: changes")
GROUPS = (operator_calls, vector_calls, growing_calls, product_calls, multigrid_calls, filter_calls)


@contextmanager
def many_switches() -> Iterator[None]:
    """Make Python switch threads a thousand times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def wrong_answers(call: Call, calls: int) -> tuple[int, list[str]]:
    """Call a function repeatedly in several threads; return the number of wrong answers, and the exceptions."""
    wrong, raised = [0] * THREADS, []
    start = threading.Barrier(THREADS)

    def work(k: int) -> None:
        start.wait()
        try:
            for _ in range(calls):
                wrong[k] += not call(k)
        except Exception as error:
            raised.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    with many_switches():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sum(wrong), raised


def main() -> None:
    """Make everything in a thread that ends, as a server does, and use it from other threads; print failures."""
    device, calls = sys.argv[1], int(sys.argv[2])
    made: list[tuple[str, Call]] = []
    maker = threading.Thread(target=lambda: made.extend(pair for group in GROUPS for pair in group(device)))
    if "--in-a-thread" in sys.argv:
        maker.start()
        maker.join()
    else:
        maker.run()
    for name, call in made:
        began = time.perf_counter()
        wrong, raised = wrong_answers(call, calls)
        seconds = time.perf_counter() - began
        print(f"{name}: {wrong} of {THREADS * calls} wrong, {seconds:.1f} s", *raised[:1], flush=True)
        if wrong or raised:
            sys.exit(1)


if __name__ == "__main__":
    main()
