"""Sets that a query of the collection's index makes: what fits, how it is spread, the file, the command."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from repro.cli import app
from repro.cli.campaign import list_sets
from repro.config.models import Config, Fetch
from repro.errors import ReproError
from repro.problems.registry import (
    Collection,
    Indexed,
    Query,
    Suitesparse,
    evenly_spaced,
    load_collection,
    load_registry,
    read_csv,
    select,
)
from repro.problems.repositories import read_index

SHIPPED = Path(__file__).parents[2] / "config"
MORE = 900_000

# group, name, rows, columns, non-zeros, real, binary, and the kind; what fits, in another order than that of non-zeros
FITTING = [
    ("Janna", "Large", 1_500_000, 1_500_000, 60_000_000, 1, 0, "structural problem"),
    ("McRae", "Ecology", 1_000_000, 1_000_000, 4_996_000, 1, 0, "2D/3D problem"),
    ("Bodendiek", "Just_more", 900_001, 900_001, 9_000_000, 1, 0, "subsequent 2D/3D problem"),
    ("AMD", "Circuit", 1_585_478, 1_585_478, 7_660_826, 1, 0, "circuit simulation problem"),
    ("Vision", "Graphics", 1_000_001, 1_000_001, 5_000_000, 1, 0, "computer graphics/vision problem"),
]
OTHERS = [
    ("Few", "exactly", 900_000, 900_000, 5_000_000, 1, 0, "2D/3D problem"),
    ("Few", "small", 500, 500, 2000, 1, 0, "2D/3D problem"),
    ("Shape", "tall", 1_000_000, 999_999, 5_000_000, 1, 0, "least squares problem"),
    ("Shape", "wide", 999_999, 1_000_000, 5_000_000, 1, 0, "linear programming problem"),
    ("Values", "complex", 1_000_000, 1_000_000, 5_000_000, 0, 0, "electromagnetics problem"),
    ("Values", "pattern", 1_000_000, 1_000_000, 5_000_000, 1, 1, "2D/3D problem"),
    ("Graph", "undirected", 1_000_000, 1_000_000, 5_000_000, 1, 0, "undirected weighted graph"),
    ("Graph", "directed", 1_000_000, 1_000_000, 5_000_000, 1, 0, "directed graph sequence"),
    ("Graph", "multi", 1_000_000, 1_000_000, 5_000_000, 1, 0, "directed temporal multigraph"),
    ("Graph", "random", 1_000_000, 1_000_000, 5_000_000, 1, 0, "Random Unweighted Graph"),
    ("Graph", "within", 1_000_000, 1_000_000, 5_000_000, 1, 0, "undirected graph with communities"),
]
BY_NONZEROS = ["Ecology", "Graphics", "Circuit", "Just_more", "Large"]

# stands in for the package's name that is used
PACKAGE = """
class Matrix:
    def __init__(self, id, group, name, rows, cols, nnz, real, binary, kind):
        self.id, self.group, self.name, self.rows, self.cols, self.nnz, self.kind = (
            id, group, name, rows, cols, nnz, kind)
        self.dtype = "binary" if binary else "real" if real else "complex"

    def url(self, format):
        return ""

def search(name=None, limit=10):
    return [Matrix(i, *m) for i, m in enumerate(MATRICES) if name is None or name in m[1]][:limit]
"""


def csv_text(matrices: list[tuple[object, ...]], more: str = "") -> str:
    """Return an index in the form of ssstats.csv: the older form, or with `more` after the kind."""
    lines = [",".join(map(str, [*m[:7], 1, 0, 1, 0.5, m[7]])) + more for m in matrices]
    return "\n".join([str(len(matrices)), "31-Jan-2020 12:00:00", *lines]) + "\n"


def indexed(count: int) -> list[Indexed]:
    return [Indexed("G", f"m{i}", 10, 10, i, "real", "2D/3D problem") for i in range(count)]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "ssstats.csv"
    path.write_text(csv_text(FITTING + OTHERS))
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with one problem and one set that is not resolved, in a folder that is the current one."""
    (tmp_path / "config/collections").mkdir(parents=True)
    (tmp_path / "config/config.yaml").write_text("fetch: {timeout: 5}\nstudies: {compound_spmv: {}}\n")
    (tmp_path / "config/studies").symlink_to(SHIPPED / "studies")
    (tmp_path / "config/problems.yaml").write_text(
        "collections: [collections/some.yaml]\n"
        "problems: [{name: toy, source: generated, entry: real, kind: poisson, sets: [s]}]\n"
    )
    (tmp_path / "config/collections/some.yaml").write_text(
        "{name: some, title: Some, query: {more_rows_than: 900000, matrices: 3}, resolved: false}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config"


def repro(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        app.run(words)
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("more", ["", ",12345"], ids=["12 columns", "13 columns"])
def test_only_large_square_real_matrices_of_no_graph_fit(tmp_path: Path, more: str) -> None:
    path = tmp_path / "index.csv"
    path.write_text(csv_text(FITTING + OTHERS, more))
    matrices, dated = read_csv(path)
    assert len(matrices) == len(FITTING) + len(OTHERS)
    assert dated == "31-Jan-2020 12:00:00"
    assert [each.name for each in select(matrices, Query(more_rows_than=MORE))] == BY_NONZEROS


@pytest.mark.parametrize("reason", [other[1] for other in OTHERS])
def test_what_does_not_fit_does_not_for_one_reason(tmp_path: Path, reason: str) -> None:
    """Each of the others alone: none hides behind another."""
    (tmp_path / "one.csv").write_text(csv_text([other for other in OTHERS if other[1] == reason]))
    matrices, _ = read_csv(tmp_path / "one.csv")
    assert len(matrices) == 1
    assert not select(matrices, Query(more_rows_than=MORE))


def test_a_query_may_ask_for_all_values_for_graphs_and_for_no_more_than_so_many_nonzeros() -> None:
    matrices = [
        Indexed(group, name, *sizes, "binary" if binary else "real" if real else "complex", kind)
        for group, name, *sizes, real, binary, kind in FITTING + OTHERS
    ]
    matrices.append(Indexed("Few", "empty", 1_000_000, 1_000_000, 0, "real", "2D/3D problem"))

    def taken(**query: object) -> set[str]:
        return {each.name for each in select(matrices, Query.model_validate(query))}

    square = {name for _, name, rows, columns, *_ in FITTING + OTHERS if rows == columns}
    assert taken(values=["real", "complex", "binary"], graphs=True) == square
    assert taken(values=["complex", "binary"]) == {"complex", "pattern"}
    assert taken(nonzeros_at_most=5_000_000) == {"Ecology", "Graphics", "exactly", "small"}
    assert taken(nonzeros_at_most=4_999_999) == {"Ecology", "small"}
    with pytest.raises(ValueError, match="values"):
        Query.model_validate({"values": ["integer"]})


@pytest.mark.parametrize(
    ("there", "count", "places"),
    [
        (5, 60, range(5)),
        (5, 5, range(5)),
        (5, None, range(5)),
        (9, 5, [0, 2, 4, 6, 8]),
        (10, 4, [0, 3, 6, 9]),
        (4, 2, [0, 3]),
    ],
)
def test_matrices_are_spread_at_equal_distances(there: int, count: int, places: list[int]) -> None:
    assert [each.nonzeros for each in evenly_spaced(indexed(there), count)] == list(places)


def test_a_spread_takes_each_once_however_many_there_are() -> None:
    for there in range(60, 200, 7):
        taken = [each.nonzeros for each in evenly_spaced(indexed(there), 60)]
        assert len(taken) == len(set(taken)) == 60
        assert (taken[0], taken[-1]) == (0, there - 1)
        steps = {after - before for before, after in pairwise(taken)}
        assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not an index of the collection"),
        ("<html>not found</html>\n", "not an index of the collection"),
        ("1\ntoday\nA,b,3,3\n", "not an index of the collection"),
        ("1\ntoday\n" + "A" * 200_000, "not an index of the collection"),
        (csv_text(FITTING).replace("1500000", "many"), "not an index of the collection"),
        ("\n".join(csv_text(FITTING).splitlines()[:-1]), r"incomplete[\s\S]*5 matrices\n  actual: 4"),
    ],
    ids=["empty", "a page", "short", "long", "words", "cut off"],
)
def test_a_file_that_is_no_index(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "index.csv"
    path.write_text(text)
    with pytest.raises(ReproError, match=said):
        read_csv(path)
    with pytest.raises(ReproError, match="cannot be read"):
        read_csv(tmp_path / "nowhere.csv")


def test_all_of_the_index_is_read_through_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssgetpy.py").write_text(f"MATRICES = {FITTING + OTHERS!r}\n{PACKAGE}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "index.csv").write_text(csv_text(FITTING + OTHERS))
    assert read_index(Fetch(cache=str(tmp_path / "cache"), timeout=5)) == read_csv(tmp_path / "index.csv")[0]


def test_a_set_is_resolved_into_its_file_and_then_in_the_registry(
    project: Path, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        ReproError, match=r"set is not resolved[\s\S]*repro resolve some`; without a network, add --index"
    ):
        load_registry(project / "problems.yaml").expand(["toy", "some"])
    assert dict(list_sets(project / "config.yaml")[1])["some"] == "not resolved yet: `repro resolve some`"

    assert repro("resolve", "some", "--index", str(index)) == 0
    assert "some: 3 of 16 matrices" in capsys.readouterr().out
    kept = yaml.safe_load((project / "collections/some.yaml").read_text())
    assert kept["resolved"] is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["date"])
    assert kept["index"] == {"name": "ssstats.csv", "matrices": 16, "dated": "31-Jan-2020 12:00:00", "fitting": 5}
    assert kept["query"] == {"more_rows_than": MORE, "matrices": 3}

    items = load_registry(project / "problems.yaml").expand("some")
    assert [item.name for item in items] == ["McRae/Ecology", "AMD/Circuit", "Janna/Large"]
    first = items[0]
    assert isinstance(first, Suitesparse)
    assert (first.entry, first.group, first.matrix, first.sets) == ("real", "McRae", "Ecology", ("some",))
    assert first.published is not None
    assert (first.published.rows, first.published.nonzeros) == (1_000_000, 4_996_000)
    assert first.licence and first.credit
    assert "McRae/Ecology" in dict(list_sets(project / "config.yaml")[1])["some"]

    # again, from the same index, to the same matrices
    before = (project / "collections/some.yaml").read_text()
    assert repro("resolve", "some", "--index", str(index)) == 0
    assert (project / "collections/some.yaml").read_text() == before


def test_the_network_is_asked_without_a_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "collections/some.yaml").read_text()
    (project / "ssgetpy.py").write_text("raise OSError('no route')")
    monkeypatch.setenv("PYTHONPATH", str(project))
    assert repro("resolve", "some") == 1
    said = capsys.readouterr().err
    assert "no route" in said
    assert "--index" in said
    assert (project / "collections/some.yaml").read_text() == before

    (project / "ssgetpy.py").write_text(f"MATRICES = {FITTING + OTHERS!r}\n{PACKAGE}")
    assert repro("resolve", "some") == 0
    assert load_collection(project / "collections/some.yaml").index.name == "ssgetpy"


def test_what_cannot_be_resolved(project: Path, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (project / "collections/some.yaml").read_text()
    assert repro("resolve", "s", "--index", str(index)) == 1
    assert re.search(r"no collection has this name[\s\S]*expected: some\n  actual: s\n", capsys.readouterr().err)
    index.write_text(csv_text(OTHERS))
    assert repro("resolve", "some", "--index", str(index)) == 1
    assert "nothing in the index matches the query" in capsys.readouterr().err
    assert (project / "collections/some.yaml").read_text() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("resolved: true", "resolved is true with a date, an index and problems"),
        ("resolved: false, problems: [{group: A, matrix: b, rows: 1, nonzeros: 1, kind: c}]", "and false without"),
        ("resolved: false, rows: 3", "rows: unknown key"),
        ("problems: []", "resolved: missing in"),
    ],
)
def test_a_file_that_does_not_fit(project: Path, text: str, said: str) -> None:
    file = project / "collections/some.yaml"
    file.write_text(f"{{name: some, title: Some, query: {{more_rows_than: 9, matrices: 3}}, {text}}}\n")
    with pytest.raises(ReproError) as caught:
        load_registry(project / "problems.yaml")
    assert said in f"{caught.value.where}: {caught.value.actual}"
    assert str(caught.value.where).startswith(str(file))


def test_two_sets_may_have_a_matrix_in_common(project: Path, index: Path) -> None:
    registry = project / "problems.yaml"
    registry.write_text(registry.read_text().replace("some.yaml]", "some.yaml, collections/every.yaml]"))
    (project / "collections/every.yaml").write_text(
        "{name: every, title: Every, query: {values: [real, complex, binary], graphs: true}, resolved: false}\n"
    )
    for name in ("some", "every"):
        assert repro("resolve", name, "--index", str(index)) == 0
    kept = load_registry(registry)
    assert len(kept.expand("some")) == 3
    assert len(kept.expand("every")) == 14
    assert kept.find("AMD/Circuit").sets == ("some", "every", "every_real")
    assert {item.entry for item in kept.expand("every") if isinstance(item, Suitesparse)} == {
        "real",
        "complex",
        "pattern",
    }
    assert [item.name for item in kept.expand(["every_complex", "every_pattern"])] == [
        "Values/complex",
        "Values/pattern",
    ]
    assert "values" not in (project / "collections/some.yaml").read_text(), "what a query leaves out stays so"

    # the same name with another size is no common matrix
    every = project / "collections/every.yaml"
    every.write_text(every.read_text().replace("nonzeros: 7660826", "nonzeros: 7660827"))
    with pytest.raises(ReproError, match="two problems are called AMD/Circuit"):
        load_registry(registry)


def test_a_matrix_that_is_registered_already_is_named(project: Path, index: Path) -> None:
    assert repro("resolve", "some", "--index", str(index)) == 0
    registry = project / "problems.yaml"
    registry.write_text(registry.read_text().replace("name: toy", "name: AMD/Circuit"))
    with pytest.raises(ReproError, match="two problems are called AMD/Circuit"):
        load_registry(registry)


def test_the_set_in_the_repository_is_what_it_says(make_config: Callable[..., Config]) -> None:
    kept: Collection = load_collection(SHIPPED / "collections/coo_papers.yaml")
    assert (kept.name, kept.query.more_rows_than, kept.query.matrices) == ("coo_papers", MORE, 60)
    registry = load_registry(Path(make_config().registry))
    if not kept.resolved:
        assert kept.name in registry.unresolved()
        return
    assert len(registry.expand("coo_papers")) == 60
    again = [Indexed(m.group, m.matrix, m.rows, m.rows, m.nonzeros, "real", m.kind) for m in kept.problems]
    assert select(again, Query(more_rows_than=MORE)) == again, "sorted, and every one fits"
