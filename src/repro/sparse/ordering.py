"""Orders of rows and unknowns: recursive bisection of the graph, clusters of rows, and P A Pᵀ.

Bisection halves all parts of the graph at once, repeatedly. The coordinates of a vertex are its distances from a few
landmark vertices. A large part is cut across its longest direction. A small part is cut at the median of a smooth
function: a Chebyshev polynomial of the random walk on the part is applied to the coordinate along the longest
direction. The polynomial damps all but the slowest modes, whose level sets are short (spectral bisection: Fiedler 1975;
Pothen, Simon, Liou 1990). Swaps of vertices then shorten the cut (Kernighan, Lin 1970).

A cluster is a group of rows that read similar entries of x; rows that are too long for a warp are kept out of clusters.
Times of reordered matrices are reported separately from times of matrices in the original order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.grids import find_grid, order_by_boxes

#: Number of landmarks, and number of times a distance is averaged with the neighbours' distances: without averaging,
#: distances within a small part have few different values.
LANDMARKS, AVERAGED = 6, 2
#: A part of at most SMOOTH leaves is cut by a smooth function, and keeps coordinates along its AXES longest directions.
#: A part of at most BOTH leaves also tries the second direction and both diagonals, as a square has no longest
#: direction.
SMOOTH, AXES, BOTH = 16, 3, 8
#: Degree of the Chebyshev polynomial for a part of two leaves, and increase of the degree per doubling of the part.
DEGREE, DEGREE_STEP = 9, 2
#: The polynomial of the random walk on a part's graph damps eigenvectors with eigenvalues up to
#: 1 - (RESOLUTION / degree)²; the constant vector has the eigenvalue 1.
RESOLUTION = 2.5
#: Largest number of swaps per part, and largest number of successive swaps that do not shorten the cut.
SWAPS, PATIENCE = 24, 6
#: Relative regularisation of the covariance of steps to neighbours, so that nearly constant coordinates do not
#: dominate.
WEAKEST = 1e-2
#: Approximate number of sampled vertices per part, from which the directions of the part are computed.
SAMPLE = 4096
SEED = 1

Graph: TypeAlias = Any  # scipy.sparse.csr_array, which has no types
Order = NDArray[np.int64]
Floats = NDArray[np.float32]
T = TypeVar("T", bound=np.generic)


def adjacency(indptr: NDArray[np.int32], indices: NDArray[np.int32]) -> Graph:
    n = len(indptr) - 1
    pattern = sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(n, n))
    transposed = sp.csr_array(pattern.T)
    equal = np.array_equal(transposed.indptr, indptr) and np.array_equal(transposed.indices, indices)
    graph = transposed if equal else sp.csr_array(pattern + transposed)
    graph.data[:] = np.repeat(np.arange(n, dtype=np.int32), np.diff(graph.indptr)) != graph.indices
    graph.eliminate_zeros()
    return graph


def bisect(graph: Graph, leaf: int) -> Order:
    """Return an order of the vertices, int64 `(n,)`, whose aligned runs of 2ᵏ·leaf vertices have few edges to others.

    `graph` is symmetric, float32, with all weights 1 and no diagonal; it need not be connected. The last run may be
    shorter.
    """
    n = graph.shape[0]
    if n <= leaf:
        return np.arange(n)
    order, connected = _traverse(graph)
    places, steps = _coordinates(_renumber(connected, order))
    arrangement = np.arange(n)  # index into `order` of the vertex at each place
    size = leaf
    while size < n:
        size *= 2
    while size > SMOOTH * leaf:
        arrangement = arrangement[_sides(_lower(_axes(places, steps, arrangement, size, 1)[:, 0], size), size)]
        size //= 2
    order, places = order[arrangement], _axes(places, steps, arrangement, size, AXES)
    graph, arrangement = _renumber(graph, order), np.arange(n)  # parts become contiguous
    while size > leaf:
        part = _cut_parts(graph, arrangement, size)
        axes = np.empty((2, n), np.float32)
        axes[:, arrangement] = _axes(places, None, arrangement, size, 2).T
        degree = DEGREE + DEGREE_STEP * ((size // leaf).bit_length() - 2)
        first, *second = _smooth(graph, axes[: 2 if size <= BOTH * leaf else 1], part, degree)
        directions = [direction for other in second for direction in (other, first + other, first - other)]
        arrangement = arrangement[_sides(_shortest(graph, [first, *directions], part, arrangement, size), size)]
        arrangement = arrangement[_sides(_swaps(graph, arrangement, size), size)]
        size //= 2
    return order[arrangement]


def _traverse(graph: Graph) -> tuple[Order, Graph]:
    """Return the vertices in breadth-first order, and a connected graph: components are linked in a chain."""
    order = sp.csgraph.breadth_first_order(graph, 0, return_predecessors=False)
    if len(order) < graph.shape[0]:
        _, label = sp.csgraph.connected_components(graph, directed=False)
        first = np.unique(label, return_index=True)[1]
        order = sp.csgraph.breadth_first_order(
            _link_components(graph, first[:-1], first[1:]), 0, return_predecessors=False
        )
        last = order[-1 - np.unique(label[order[::-1]], return_index=True)[1]]
        graph = _link_components(graph, last[:-1], first[1:])
        order = sp.csgraph.breadth_first_order(graph, 0, return_predecessors=False)
    return order.astype(np.int64), graph


def _link_components(graph: Graph, ends: Order, others: Order) -> Graph:
    links = sp.coo_array((np.ones(len(ends), np.float32), (ends, others)), shape=graph.shape)
    return sp.csr_array(graph + links + links.T)


def _renumber(graph: Graph, order: Order) -> Graph:
    new = np.empty(len(order), np.int32)
    new[order] = np.arange(len(order), dtype=np.int32)
    rows = graph[order]
    rows.indices = new[rows.indices]  # unsorted, which is sufficient here
    return rows


def _coordinates(graph: Graph) -> tuple[Floats, Floats]:
    """Return each vertex's distances from the landmarks, and their differences to a random neighbour's distances.

    Both arrays are `(n, LANDMARKS)`.
    """
    n = graph.shape[0]
    degrees = np.diff(graph.indptr)
    weights = (1 / degrees).astype(np.float32)
    draws = (np.random.default_rng(SEED).random(n) * degrees).astype(np.int64)
    neighbour = graph.indices[graph.indptr[:-1] + draws]
    distances, steps = np.empty((n, LANDMARKS), np.float32), np.empty((n, LANDMARKS), np.float32)
    nearest = np.full(n, np.inf, np.float32)
    searched = graph.astype(np.float64)  # SciPy's search would convert it each time
    landmark = n - 1  # last in breadth-first order, far from the first
    for k in range(LANDMARKS):
        distance = _distances(searched, landmark)
        np.minimum(nearest, distance, out=nearest)
        landmark = int(nearest.argmax())
        for _ in range(AVERAGED):
            distance = (distance + weights * (graph @ distance)) / 2
        distances[:, k] = distance
        steps[:, k] = distance - distance[neighbour]
    return distances, steps


def _distances(graph: Graph, root: int) -> Floats:
    """Return the number of edges from the root to each vertex of a connected graph, `(n,)`."""
    n = graph.shape[0]
    order, parent = sp.csgraph.breadth_first_order(graph, root)
    place = np.empty(n, np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    children = np.bincount(place[parent[order[1:]]], minlength=n)
    # breadth-first order is sorted by distance, and children by parent
    first_children = np.cumsum(children) - children + 1
    first, start = np.zeros(n, np.float32), 1
    while start < n:
        first[start] = 1
        start = first_children[start]
    distances = np.empty(n, np.float32)
    distances[order] = np.cumsum(first)
    return distances


def _blocks(values: NDArray[T], size: int) -> list[NDArray[T]]:
    """Split values into blocks: full parts as `(parts, size, …)`, and an incomplete last part as `(1, rest, …)`."""
    full = len(values) // size * size
    pieces = values[:full], values[full:]
    return [block.reshape(-1, min(size, len(block)), *block.shape[1:]) for block in pieces if len(block)]


def _axes(places: Floats, steps: Floats | None, arrangement: Order, size: int, count: int) -> Floats:
    """Return coordinates of each part along its longest directions, `(n, count)`, longest first.

    `steps` are the differences of coordinates to a neighbour; they set the unit of length along each direction. None:
    the coordinates already have this unit. Each `size` successive vertices of `arrangement` are one part.
    """
    axes = [_equal_axes(places, steps, part, count).reshape(-1, count) for part in _blocks(arrangement, size)]
    return np.concatenate(axes)


def _equal_axes(places: Floats, steps: Floats | None, parts: Order, count: int) -> Floats:
    """Compute `_axes` for parts of equal size; row p of `parts`, `(parts, size)`, has the vertices of part p.

    The directions are computed from a sample of the vertices.
    """
    sample = parts[:, :: max(1, parts.shape[1] // SAMPLE)]
    block = places[sample]
    mean = block.mean(axis=1, keepdims=True)
    block -= mean
    spread = (block.transpose(0, 2, 1) @ block).astype(np.float64)
    whiten = None
    if steps is not None:
        step = steps[sample]
        energy = (step.transpose(0, 2, 1) @ step).astype(np.float64)
        landmarks = steps.shape[1]
        weakest = WEAKEST * np.trace(energy, axis1=1, axis2=2) / landmarks + 1e-6
        whiten = np.linalg.inv(np.linalg.cholesky(energy + weakest[:, None, None] * np.eye(landmarks)))
        spread = whiten @ spread @ whiten.transpose(0, 2, 1)
    longest = np.linalg.eigh(spread).eigenvectors[:, :, : -count - 1 : -1]
    directions = longest if whiten is None else whiten.transpose(0, 2, 1) @ longest
    direction = directions.astype(np.float32)
    return np.asarray(np.take(places, parts, axis=0) @ direction - mean @ direction)


def _cut_parts(graph: Graph, arrangement: Order, size: int) -> NDArray[np.int64]:
    """Remove the edges between parts from `graph`, in place; return the part number of each vertex, `(n,)`."""
    part = np.empty(len(arrangement), np.int32)
    part[arrangement] = np.arange(len(arrangement), dtype=np.int32) // size
    graph.data *= np.repeat(part, np.diff(graph.indptr)) == part[graph.indices]
    graph.eliminate_zeros()
    return part.astype(np.int64)


def _smooth(graph: Graph, axes: Floats, part: NDArray[np.int64], degree: int) -> list[Floats]:
    """Return the low-pass filtered columns of `axes`, `(n, count)`, normalised per part to mean 0 and norm 1."""
    degrees = np.diff(graph.indptr).astype(np.float32)
    total = np.maximum(np.bincount(part, degrees), 1)
    # Chebyshev's recurrence; eigenvalues from -1 to `passband` are mapped to -1 to 1
    passband = 1 - (RESOLUTION / degree) ** 2
    scale, shift = 2 / (passband + 1), np.float32(2 * (passband - 1) / (passband + 1))
    walk = (2 * scale / np.maximum(degrees, 1)).astype(np.float32)

    def centred(scores: Floats) -> Floats:
        return np.asarray(scores - (np.bincount(part, degrees * scores) / total).astype(np.float32)[part])

    smooth = []
    for axis in axes:
        previous_scores = centred(axis)
        scores = (walk * (graph @ previous_scores) - shift * previous_scores) / 2
        for _ in range(degree - 1):
            next_scores = graph @ scores
            next_scores *= walk
            next_scores -= shift * scores
            next_scores -= previous_scores
            previous_scores, scores = scores, next_scores
        scores = centred(scores)
        lengths = np.sqrt(np.bincount(part, scores * scores)) + 1e-30
        smooth.append(scores / lengths.astype(np.float32)[part])
    return smooth


def _shortest(
    graph: Graph, directions: Sequence[Floats], part: NDArray[np.int64], arrangement: Order, size: int
) -> NDArray[np.bool_]:
    """Return which places are in the lower half of their part, `(n,)`.

    Each part uses the direction that cuts fewest edges.
    """
    fewest = np.full(part.max() + 1, np.inf)
    shortest, side = np.zeros(len(arrangement), bool), np.empty(len(arrangement), np.float32)
    for scores in directions:
        lower = _lower(scores[arrangement], size)
        side[arrangement] = np.where(lower, -1, 1)
        cut_sizes = -np.bincount(part, side * (graph @ side))
        better = np.repeat(cut_sizes < fewest, size)[: len(arrangement)]
        shortest[better] = lower[better]
        fewest = np.minimum(fewest, cut_sizes)
    return shortest


def _lower(scores: Floats, size: int) -> NDArray[np.bool_]:
    """Return which places have the `size // 2` lowest scores of their part.

    Among equal scores, earlier places count as lower.
    """
    half, lower = size // 2, []
    for block in _blocks(scores, size):
        if block.shape[1] <= half:
            lower.append(np.ones(block.size, bool))
            continue
        middle = np.partition(block, half - 1, axis=1)[:, half - 1, None]
        is_lower = block <= middle
        tied = np.flatnonzero(np.count_nonzero(is_lower, axis=1) > half)
        smaller, equal = block[tied] < middle[tied], block[tied] == middle[tied]
        missing = half - np.count_nonzero(smaller, axis=1)[:, None]
        is_lower[tied] = smaller | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= missing))
        lower.append(is_lower.ravel())
    return np.concatenate(lower)


def _sides(lower: NDArray[np.bool_], size: int) -> Order:
    """Return a stable order in which the `size // 2` lower vertices of each part come first in the part."""
    full, half = len(lower) // size, size // 2
    first, second = np.flatnonzero(lower), np.flatnonzero(~lower)
    sides = [vertices[: full * half].reshape(full, half) for vertices in (first, second)]
    return np.concatenate([np.hstack(sides).ravel(), first[full * half :], second[full * half :]])


def _swaps(graph: Graph, arrangement: Order, size: int) -> NDArray[np.bool_]:
    """Return which places are in the first half of their part after swaps.

    In each round, each part moves the vertex with the largest gain from the first half to the second, then one vertex
    from the second half to the first. A vertex moves at most once. A few rounds may lengthen the cut; each part keeps
    only the rounds up to its shortest cut.
    """
    n, half = len(arrangement), size // 2
    lower = np.arange(n) % size < half
    side, place = np.empty(n, np.float32), np.empty(n, np.int64)
    side[arrangement], place[arrangement] = np.where(lower, -1, 1), np.arange(n)
    parts = -(-n // size)
    gains = np.full(parts * size, -np.inf, np.float32)  # by place; -inf: moved or absent
    gains[:n] = -(side * (graph @ side))[arrangement]
    gains_by_part = gains.reshape(parts, size)
    total, best = np.zeros(parts, np.float32), np.zeros(parts, np.float32)
    best_round = np.full(parts, -1)
    active, moves = np.arange(parts), []
    for step in range(SWAPS):
        for columns in (slice(0, half), slice(half, size)):
            candidates = gains_by_part if len(active) == parts else gains_by_part[active]
            places = active * size + columns.start + candidates[:, columns].argmax(axis=1)
            present = gains[places] > -np.inf
            active, places = active[present], places[present]
            total[active] += gains[places]
            gains[places] = -np.inf
            moves.append((step, places))
            _move(graph, arrangement[places], side, gains, place)
        better = active[total[active] > best[active]]
        best[better], best_round[better] = total[better], step
        active = active[best_round[active] >= step - PATIENCE]
        if not len(active):
            break
    for move_step, places in moves:
        kept_places = places[best_round[places // size] >= move_step]
        lower[kept_places] = ~lower[kept_places]
    return lower


def _move(graph: Graph, vertices: Order, side: Floats, gains: Floats, place: Order) -> None:
    """Move vertices, at most one per part, to the other half; update the gains of their neighbours."""
    starts = graph.indptr[vertices]
    lengths = graph.indptr[vertices + 1] - starts
    entries = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    neighbours = graph.indices[entries]
    gains[place[neighbours]] += 2 * np.repeat(side[vertices], lengths) * side[neighbours]
    side[vertices] *= -1


#: Rows of a cluster; the last one may have fewer.
CLUSTER = 64
#: A row is long if its length exceeds both this number and this multiple of the mean length; a whole block computes a
#: long row.
MIN_LONG_ROW, LONG_ROW_OF_MEAN = 128, 4


def cluster_rows(problem: Matrix) -> NDArray[np.int64]:
    """Return an order in which neighbouring rows read the same entries of x, int64 `(n,)`.

    If the matrix has the rows of a stencil, the order comes from boxes of its grid, otherwise from bisection: each 64
    successive rows are a cluster, and so are each 128, 256, … rows. Within a cluster of 64, rows are sorted by length.
    Long rows come last, the longest first; they are left out of the graph, since they would connect all rows. The order
    of x and y does not change. A rectangular matrix is bisected as the graph that connects each row with its columns.
    """
    lengths, long = problem.row_lengths, long_rows(problem)
    last = np.flatnonzero(long)
    rows = np.flatnonzero(~long)
    if problem.square and (grid := find_grid(problem, rows)):
        rows = order_by_boxes(grid, rows, CLUSTER)
    elif problem.square:
        graph = adjacency(problem.indptr, problem.indices)
        if len(last):
            graph = graph[rows][:, rows]
        rows = rows[bisect(graph, CLUSTER)]
    else:
        rows = rows[_bisect_bipartite(problem, rows)]
    rows = rows[np.lexsort((-lengths[rows], np.arange(len(rows)) // CLUSTER))]
    return np.concatenate([rows, last[np.argsort(-lengths[last], kind="stable")]])


def _bisect_bipartite(problem: Matrix, rows: NDArray[np.int64]) -> Order:
    """Return an order of `rows` in which neighbours read the same columns, by bisection of both rows and columns."""
    if len(rows) <= CLUSTER:
        return np.arange(len(rows))
    ones = np.ones(problem.nnz, np.float32)
    pattern = sp.csr_array((ones, problem.indices, problem.indptr), shape=problem.shape)[rows]
    pattern = pattern[:, np.unique(pattern.indices)]
    order = bisect(sp.csr_array(sp.block_array([[None, pattern], [pattern.T, None]])), CLUSTER)
    return order[order < len(rows)]


def sort_rows(problem: Matrix) -> NDArray[np.int64]:
    """Return an order in which neighbouring rows are about equally long, int64 `(n,)`.

    Rows are sorted by length, the longest first, within windows of 1024 rows (the σ of SELL-C-σ, Kreutzer et al. 2014).
    Long rows come last.
    """
    long = long_rows(problem)
    order = np.lexsort((np.where(long, 0, -problem.row_lengths), long, np.arange(problem.n) // WINDOW))
    is_long = long[order]
    return np.concatenate([order[~is_long], order[is_long]])


def longest_short(rows: int, entries: int) -> int:
    """Return the most entries of a row that is not long, in a matrix of so many rows and entries."""
    return int(max(MIN_LONG_ROW, LONG_ROW_OF_MEAN * entries / max(rows, 1)))


def long_rows(problem: Matrix) -> NDArray[np.bool_]:
    """Return which rows are so long that their warp would still work after all others have finished, bool `(n,)`."""
    return np.asarray(problem.row_lengths > longest_short(problem.n, problem.nnz))


def rows_with_blocks(rows: int, long: int, group: int) -> int:
    """Return how many rows at the end have a block each, if so many are long, and each `group` rows are padded alike.

    They include rows that share a group with a long one: a thread would read their padding alone.
    """
    return rows - (rows - long) // group * group if long else 0


#: Number of rows per sorting window, a power of two; small windows keep locality.
WINDOW = 1024
#: Orders of the unknowns; `natural` is the original order of the matrix.
UNKNOWNS = ("natural", "rcm", "sorted", "bisected")


def permutation(problem: Matrix, ordering: str) -> NDArray[np.int64]:
    """Return the original row of each new row, int64 `(n,)`.

    Orderings are `natural`; `rcm`: reverse Cuthill–McKee of A + Aᵀ (George 1971); `sorted`: by length, longest first,
    within windows of 1024 rows (the σ of SELL-C-σ, Kreutzer et al. 2014); `sigma`: `sort_rows`; `bisected`:
    `cluster_rows`.
    """
    if ordering == "natural":
        return np.arange(problem.n)
    if ordering == "sorted":
        windows = np.arange(problem.n) // WINDOW
        return np.lexsort((-problem.row_lengths, windows))
    if ordering == "rcm":
        shape = (problem.n, problem.n)
        pattern = sp.csr_array((np.ones(problem.nnz, np.int8), problem.indices, problem.indptr), shape=shape)
        return np.asarray(sp.csgraph.reverse_cuthill_mckee(pattern + pattern.T, symmetric_mode=True), np.int64)
    if ordering == "bisected":
        return cluster_rows(problem)
    if ordering == "sigma":
        return sort_rows(problem)
    raise ReproError("unknown ordering", expected=", ".join(UNKNOWNS), actual=ordering)


def select_rows(problem: Matrix, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row pointers `(n + 1,)` for the order `rows`, and the original index of each entry, `(nnz,)`."""
    lengths = problem.row_lengths[rows].astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return indptr, np.repeat(problem.indptr[rows] - indptr[:-1], lengths) + np.arange(problem.nnz)


def reorder(problem: Matrix, rows: NDArray[np.int64]) -> Matrix:
    """Renumber rows and columns in the same way: new row i is old row ``rows[i]``; columns are sorted again."""
    new = np.empty(problem.n, np.int64)
    new[rows] = np.arange(problem.n)
    indptr, old = select_rows(problem, rows)
    columns = new[problem.indices[old]]
    order = np.lexsort((columns, np.repeat(np.arange(problem.n), np.diff(indptr))))
    return replace(
        problem,
        indptr=indptr.astype(np.int32),
        indices=columns[order].astype(np.int32),
        values=problem.values[old[order]],
    )
