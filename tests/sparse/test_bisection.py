"""The order by repeated bisection of a graph: valid for any graph, and better than cuts in the middle on meshes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from repro.problems.generators import generate
from repro.sparse import ordering
from repro.sparse.ordering import adjacency, bisect
from support.python_calls import python_calls

pytestmark = pytest.mark.medium

LEAF = 64


def graph_of(edges: NDArray[np.int64], n: int) -> sp.csr_array:
    """Return the graph of some edges `(count, 2)` between n vertices."""
    pattern = sp.coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    return adjacency(pattern.indptr.astype(np.int32), pattern.indices.astype(np.int32))


def chain(n: int) -> NDArray[np.int64]:
    return np.column_stack([np.arange(n - 1), np.arange(1, n)])


def star(n: int) -> NDArray[np.int64]:
    return np.column_stack([np.zeros(n - 1, np.int64), np.arange(1, n)])


def lattice(*points: int) -> NDArray[np.int64]:
    number = np.arange(np.prod(points)).reshape(points)
    pairs = [(np.delete(number, -1, axis), np.delete(number, 0, axis)) for axis in range(len(points))]
    return np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in pairs])


def shuffled(edges: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.random.default_rng(3).permutation(n)[edges]


def inside(graph: sp.csr_array, order: NDArray[np.int64], size: int) -> float:
    """Return the share of edges with both ends in one aligned run of so many vertices."""
    part = np.empty(graph.shape[0], np.int64)
    part[order] = np.arange(graph.shape[0]) // size
    return float((np.repeat(part, np.diff(graph.indptr)) == part[graph.indices]).mean())


def halved_in_the_middle(graph: sp.csr_array) -> NDArray[np.int64]:
    """Return the order of rows that was measured in `h200`: parts cut in the middle of their Cuthill–McKee order.

    It has as many rows in all parts, so that they are no aligned runs of 64.
    """
    n = graph.shape[0]
    part, parts = np.zeros(n, np.int64), 1
    edges = graph.tocoo()
    i, j = edges.coords
    while n > LEAF * parts:
        kept = part[i] == part[j]
        i, j = i[kept], j[kept]
        place = np.empty(n, np.int64)
        left = sp.csr_array((np.ones(len(i), np.int8), (i, j)), shape=(n, n))
        place[reverse_cuthill_mckee(left, symmetric_mode=True)] = np.arange(n)
        order = np.lexsort((place, part))
        sizes = np.bincount(part, minlength=parts)
        within = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        part[order] = 2 * part[order] + (2 * within >= np.repeat(sizes, sizes))
        parts *= 2
    return np.lexsort((-np.diff(graph.indptr), part))


GRAPHS = {
    "nothing": (np.zeros((0, 2), np.int64), 0),
    "one vertex": (np.zeros((0, 2), np.int64), 1),
    "one leaf": (chain(LEAF), LEAF),
    "a vertex more than a leaf": (chain(LEAF + 1), LEAF + 1),
    "no edges": (np.zeros((0, 2), np.int64), 1000),
    "chain": (shuffled(chain(5000), 5000), 5000),
    "star": (star(3000), 3000),
    "two stars and a chain": (np.concatenate([star(700), 700 + star(801), 1501 + chain(900)]), 2401),
    "pairs": (np.arange(4000).reshape(-1, 2), 4000),
    "a lattice and vertices alone": (shuffled(lattice(30, 30), 1500), 1500),
    "all with all": (np.column_stack(np.triu_indices(300, 1)), 300),
    "larger than what is cut by smooth functions": (shuffled(lattice(150, 151), 22650), 22650),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_each_vertex_comes_once_and_always_at_the_same_place(name: str) -> None:
    edges, n = GRAPHS[name]
    order = bisect(graph_of(edges, n), LEAF)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(bisect(graph_of(edges, n), LEAF), order)


def test_a_chain_is_cut_into_pieces() -> None:
    edges, n = GRAPHS["chain"]
    graph = graph_of(edges, n)
    assert inside(graph, bisect(graph, LEAF), LEAF) > 0.97  # of 4,999 edges 78 have to be cut


def test_pairs_stay_together() -> None:
    edges, n = GRAPHS["pairs"]
    graph = graph_of(edges, n)
    assert inside(graph, bisect(graph, LEAF), LEAF) == 1


@pytest.mark.parametrize(("lattices", "points", "wanted"), [(10, (32, 64), 0.84), (1000, (5, 6), 0.94)])
def test_components_are_not_mixed(lattices: int, points: tuple[int, int], wanted: float) -> None:
    """One lattice alone has 0.89 of its edges inside, one of 5 × 6 points all of them."""
    each = points[0] * points[1]
    edges = np.concatenate([lattice(*points) + each * i for i in range(lattices)])
    graph = graph_of(shuffled(edges, lattices * each), lattices * each)
    assert inside(graph, bisect(graph, LEAF), LEAF) > wanted


MESHES = {
    "tetrahedra": (lambda: generate("elasticity_mapped", cells=(20, 20, 20)), 0.06),
    "surface": (lambda: generate("dirac_torus", rings=192, segments=96), 0.02),
}


@pytest.mark.parametrize("numbers", ["as they came", "shuffled"])
@pytest.mark.parametrize("mesh", MESHES)
def test_more_edges_are_inside_than_with_parts_cut_in_the_middle(mesh: str, numbers: str) -> None:
    make, margin = MESHES[mesh]
    made = make()
    graph = adjacency(made.indptr, made.indices)
    if numbers == "shuffled":
        edges = np.column_stack(graph.tocoo().coords)
        graph = graph_of(shuffled(edges, made.n), made.n)
    order, before = bisect(graph, LEAF), halved_in_the_middle(graph)
    shares = [(inside(graph, order, size), inside(graph, before, size)) for size in (64, 128, 256)]
    assert all(now > then + margin for now, then in shares), shares


def test_coarse_cuts_by_coordinates_are_nearly_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = lattice(160, 160)
    graph = graph_of(shuffled(edges, 160**2), 160**2)
    with_coordinates = inside(graph, bisect(graph, LEAF), LEAF)
    monkeypatch.setattr(ordering, "SMOOTH", 2**20)
    assert with_coordinates > inside(graph, bisect(graph, LEAF), LEAF) - 0.01


def test_directions_of_a_sample_are_as_good_as_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(shuffled(lattice(150, 200), 30000), 30000)
    monkeypatch.setattr(ordering, "SAMPLE", 2**20)
    with_all = inside(graph, bisect(graph, LEAF), LEAF)
    monkeypatch.setattr(ordering, "SAMPLE", 1024)
    assert inside(graph, bisect(graph, LEAF), LEAF) > with_all - 0.005


def test_distances_are_counted_in_edges() -> None:
    points = np.indices((7, 9)).reshape(2, -1)
    distances = ordering._distances(graph_of(lattice(7, 9), 63), 0)
    np.testing.assert_array_equal(distances, points.sum(axis=0))


def test_swapping_shortens_the_cut_and_keeps_the_sizes() -> None:
    graph = graph_of(lattice(8, 16), 128)
    at = np.random.default_rng(2).permutation(128)
    lower = ordering._swaps(graph, at, 128)
    assert lower.sum() == 64
    part = np.empty(128, bool)
    part[at] = np.arange(128) < 64

    def cut() -> int:
        return int((np.repeat(part, np.diff(graph.indptr)) != part[graph.indices]).sum())

    first = cut()
    part[at] = lower
    assert cut() < 0.6 * first


def test_there_is_no_loop_over_vertices() -> None:
    graph = graph_of(lattice(40, 40, 40), 40**3)
    assert python_calls(lambda: bisect(graph, LEAF)) < 40**3 / 4
