"""Orders of rows and unknowns: boxes of a grid, recursive bisection of the graph, clusters of rows, and P A Pᵀ.

The rows of a stencil on a structured grid have their columns at the same few distances from the diagonal: 1, m and
their sums on a plane with lines of m points. These distances give each row's coordinates, and boxes of the grid read
the fewest entries of x (blocking for locality: Irigoin, Triolet 1988; Wolf, Lam 1991). No graph has to be bisected.

Bisection halves all parts of the graph at once, repeatedly. The coordinates of a vertex are its distances from a few
landmark vertices. A large part is cut across its longest direction. A small part is cut at the median of a smooth
function: a Chebyshev polynomial of the random walk on the part is applied to the coordinate along the longest
direction. The polynomial damps all but the slowest modes, whose level sets are short (spectral bisection: Fiedler 1975;
Pothen, Simon, Liou 1990). Swaps of vertices then shorten the cut (Kernighan, Lin 1970).

A cluster is a group of rows that read similar entries of x; rows that are too long for a warp are kept out of clusters.
Times of reordered matrices are reported separately from times of matrices in the original order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.matrix import Matrix

#: Seed of all random numbers here.
SEED = 1
#: Approximate number of entries of the rows that are sampled for a stencil.
SAMPLED = 2**20
#: A distance from the diagonal belongs to the stencil if its entries, on both sides of the diagonal together, are at
#: least this many per row; the stencil has at most MOST distances, which cover at least the share COVERED of all
#: entries.
COMMON, COVERED, MOST = 0.5, 0.9, 128
#: Smallest number of points of a grid: in smaller ones too many boxes are cut off by the boundary.
SMALLEST = 2**17
#: Largest number of directions of a grid.
DIRECTIONS = 4
#: Clusters of a run; a run is as close to a cube as the grid allows.
RUN = 64


@dataclass(frozen=True)
class Grid:
    """A grid whose points are numbered line by line and plane by plane."""

    #: Difference of row numbers between neighbours in each direction, ascending.
    strides: tuple[int, ...]
    #: Largest number of steps that the stencil takes in each direction.
    reach: tuple[int, ...]
    #: Number of points in each direction.
    points: tuple[int, ...]

    def coordinate(self, rows: NDArray[np.int64], direction: int) -> NDArray[np.int64]:
        """Return the coordinates of rows in a direction."""
        within = rows if direction == len(self.strides) - 1 else rows % self.strides[direction + 1]
        return within // self.strides[direction]


def find_grid(problem: Matrix, rows: NDArray[np.int64]) -> Grid | None:
    """Return the grid of a stencil; None unless it is large and most `rows` have columns at the same distances."""
    distances = _common_distances(problem, rows) if len(rows) >= SMALLEST else {}
    if not distances:
        return None
    strides, reach, spanned = [1], [0], {0}
    remaining = sorted(distances)
    while remaining:
        if reach[-1]:  # the next direction's stride is the most common one of the distances around it
            near = [distance for distance in remaining if distance <= remaining[0] + 2 * max(spanned)]
            strides.append(max(near, key=lambda distance: distances[distance]))
            reach.append(0)
        known = {sign * distance for distance in spanned for sign in (-1, 1)}
        reach[-1] = 1
        while any((reach[-1] + 1) * strides[-1] + distance in distances for distance in known):
            reach[-1] += 1
        spanned = {abs(step * strides[-1] + distance) for step in range(reach[-1] + 1) for distance in known}
        remaining = [distance for distance in remaining if distance not in spanned]
        if remaining and len(strides) == DIRECTIONS:
            return None
    ends = [*strides[1:], problem.n]
    points = tuple(-(-end // stride) for stride, end in zip(strides, ends, strict=True))
    return Grid(tuple(strides), tuple(reach), points)


def _common_distances(problem: Matrix, rows: NDArray[np.int64]) -> dict[int, int]:
    """Return how many entries of sampled rows are at each distance of the stencil, without 0, on both sides together.

    The result is empty if there is no stencil.
    """
    if problem.nnz > SAMPLED:
        rows = np.random.default_rng(SEED).choice(rows, min(len(rows), SAMPLED * problem.n // problem.nnz + 1))
    lengths = problem.row_lengths[rows].astype(np.int64)
    entries = np.repeat(problem.indptr[rows] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    distances, counts = np.unique(np.abs(problem.indices[entries] - np.repeat(rows, lengths)), return_counts=True)
    common = counts >= COMMON * len(rows)
    if common.sum() > MOST or counts[common].sum() < COVERED * counts.sum():
        return {}
    pairs = zip(distances[common].tolist(), counts[common].tolist(), strict=True)
    return {distance: occurrences for distance, occurrences in pairs if distance}


def order_by_boxes(grid: Grid, rows: NDArray[np.int64], leaf: int) -> NDArray[np.int64]:
    """Return ascending `rows` in an order whose aligned runs of 2ᵏ·leaf rows, up to RUN·leaf, are boxes of the grid.

    Rows are sorted along one direction after the other: slabs of the grid, bars of a slab, runs of a bar, and in the
    same way the boxes of a run.
    """
    run, directions = RUN * leaf, range(len(grid.strides))
    sides = _sides_of_a_box(grid, run)
    sizes = [run]  # rows of a run, bar, slab
    for points, side in zip(grid.points[:-1], sides, strict=False):
        sizes.append(sizes[-1] * max(1, round(points / side)))
    slabs = len(rows) // sizes[-1] * sizes[-1]
    if 0 < slabs < len(rows):  # what is left is thinner than a slab, and has boxes of other sides
        thin = replace(grid, points=(*grid.points[:-1], -(-(len(rows) - slabs) // grid.strides[-1])))
        parts = (grid, rows[:slabs]), (thin, rows[slabs:])
        return np.concatenate([order_by_boxes(part, part_rows, leaf) for part, part_rows in parts])
    for direction in reversed(directions[:-1]):
        rows = _sorted_along(grid, rows, direction, sizes[direction + 1])
    halved = _directions_of_cuts(grid, sides)
    size = run
    for direction in reversed(directions):
        rows = _sorted_along(grid, rows, direction, size)
        size >>= halved.count(direction)
    # the boxes of a run are now numbered direction by direction, and shall be numbered cut by cut
    nested = sorted(range(len(halved)), key=lambda cut: (-halved[cut], cut))
    axes = [1 + nested.index(cut) for cut in range(len(halved))]
    full = len(rows) // run * run
    boxes = rows[:full].reshape(-1, *[2] * len(halved), leaf).transpose(0, *axes, len(halved) + 1)
    return np.concatenate([boxes.ravel(), rows[full:]])


def _sorted_along(grid: Grid, rows: NDArray[np.int64], direction: int, size: int) -> NDArray[np.int64]:
    """Sort each `size` successive rows by their coordinate in a direction, and by number where it is the same."""
    keys = grid.coordinate(rows, direction) << 32 | rows
    full = len(keys) // size * size
    keys[:full].reshape(-1, size).sort(axis=1)
    keys[full:].sort()
    return keys & (2**32 - 1)


def _sides_of_a_box(grid: Grid, volume: float) -> list[float]:
    """Return the sides of a box of the grid with `volume` points that reads the fewest entries of x.

    A box also reads its surroundings up to the stencil's reach, so each side is the same multiple of the reach in its
    direction, or the whole grid where that is shorter.
    """
    sides = [float(points) for points in grid.points]
    free = set(range(len(sides)))
    while free:
        rest = volume / float(np.prod([sides[k] for k in range(len(sides)) if k not in free]))
        unit = (rest / float(np.prod([grid.reach[k] for k in free]))) ** (1 / len(free))
        flat = {k for k in free if unit * grid.reach[k] >= grid.points[k]}
        if not flat:
            for k in free:
                sides[k] = unit * grid.reach[k]
            break
        free -= flat
    return sides


def _directions_of_cuts(grid: Grid, sides: Sequence[float]) -> list[int]:
    """Return the directions across which a run is halved into clusters, so that these read the fewest entries of x."""
    directions = range(len(sides))

    def read(cuts: Iterable[int]) -> float:
        counts = Counter(cuts)
        boxes = [sides[k] / 2 ** counts[k] for k in directions]
        faces = [2 * grid.reach[k] * (boxes[k] < grid.points[k]) for k in directions]
        return float(np.prod(np.add(boxes, faces)))

    cuts = list(min(combinations_with_replacement(directions, RUN.bit_length() - 1), key=read))
    halved, left = list[int](), list(sides)
    while cuts:  # the longest side first, so that pairs of clusters read little as well
        longest = max(cuts, key=lambda k: (left[k] / grid.reach[k], k))
        cuts.remove(longest)
        halved.append(longest)
        left[longest] /= 2
    return halved


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
    """Return the largest number of entries of a row that does not count as long."""
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
