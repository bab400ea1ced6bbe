"""The registry of problems: models of `config/problems.yaml`, rules for names, and look-up by name.

Problem names are used in file names and as values of Snakemake wildcards.

A collection is a set of problems selected by a query to the SuiteSparse index. The file of a collection contains the
query. `repro resolve SET` sends the query once and adds the matrices found, so that every user gets the same set.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, PrivateAttr, WithJsonSchema, model_validator

from repro.config import dump_yaml, read_yaml, resolve_input_path, validate
from repro.config.models import EntryName, FieldFile, FilePath, Model, OwnProblem, UpdateBatches, expected
from repro.errors import MissingFileError, ReproError
from repro.filesystem import write_whole
from repro.package_data import shipped
from repro.problems.matrix_market import is_matrix_market
from repro.problems.meshes import format_of
from repro.words import MAX_NAME_LENGTH, MAX_PART_LENGTH, NAME, name_error, nearest_file, shorten

#: Maximum number of names that the message for an unknown one shows.
NAMED = 5


def check_name(name: str, where: object) -> str:
    """Return the problem name, or raise `ReproError` if its characters, length or trailing repetitions are invalid."""
    if limitation := name_error(name):
        shown_name = repr(name) if len(name) <= MAX_NAME_LENGTH else f"{name[:40]!r}… of {len(name)} characters"
        raise ReproError(
            "invalid name of a problem", where=where, expected=limitation, actual=shown_name, todo="give it a `name:`"
        )
    return name


LICENCE = "CC-BY 4.0"
CREDIT = "SuiteSparse Matrix Collection (Davis and Hu 2011, doi 10.1145/2049662.2049663)"

#: Kinds of values in the index of the SuiteSparse collection.
Values = Literal["real", "complex", "binary"]
ENTRY_OF_VALUES: dict[Values, str] = {"real": "real", "complex": "complex", "binary": "pattern"}

# Matches "undirected weighted graph" and "directed temporal multigraph", but not "computer graphics/vision problem".
_GRAPH = re.compile(r"graphs?\b", re.IGNORECASE)
_HEAD = """\
# Made by `repro resolve {name}`. It queries the index and rewrites this file: edit only the query.
# More: docs/add-a-problem.md.
"""


@dataclass(frozen=True)
class Indexed:
    """A matrix listed in the index of the SuiteSparse collection."""

    group: str
    name: str
    rows: int
    columns: int
    #: Number of non-zeros without explicit zeros.
    nonzeros: int
    #: Kind of values; `binary` means that all values are one.
    dtype: Values
    #: Field of application, such as `structural problem`.
    kind: str


class Query(Model):
    """Criteria for selecting matrices. Matrices must be square; by default they are real and do not represent
    graphs.
    """

    more_rows_than: int = Field(0, ge=0, description="A matrix has more rows than this.")
    nonzeros_at_most: int | None = Field(None, ge=1, description="A matrix has no more non-zeros; absent: any number.")
    values: Annotated[tuple[Values, ...], Field(min_length=1)] = Field(
        ("real",), description="What its values are; binary: all are one, and it is taken as a pattern."
    )
    graphs: bool = Field(False, description="Whether matrices of graphs are taken as well.")
    matrices: int | None = Field(
        None, ge=1, description="So many of those that fit, spread evenly over their order by non-zeros; absent: all."
    )

    @property
    def text(self) -> str:
        rows = f" of more than {self.more_rows_than:,} rows" if self.more_rows_than else ""
        nonzeros = f" of at most {self.nonzeros_at_most:,} non-zeros" if self.nonzeros_at_most else ""
        return (
            f"{' or '.join(self.values)} square matrices{rows}{nonzeros}{'' if self.graphs else ' that are no graphs'}"
        )


class CollectionSource(Model):
    """The index that answered a query, and when."""

    name: str = Field(description="Where it was read from.")
    matrices: int = Field(description="How many it has.")
    dated: str | None = Field(None, description="When it was made, as it says itself.")
    fitting: int = Field(description="How many of them fit the query.")


class Member(Model):
    """A matrix that belongs to a collection."""

    group: str
    matrix: str
    rows: int
    nonzeros: int
    kind: str
    values: Values = "real"


class Collection(Model):
    """A set of matrices defined by a query; the members are empty until the query is resolved."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$"), expected("letters, digits and _")] = Field(
        description="The name of the set."
    )
    title: str = Field(description="What the set is for.")
    query: Query
    resolved: bool = Field(description="Whether the index has been asked.")
    date: str | None = Field(None, description="When it was.")
    index: CollectionSource | None = None
    problems: tuple[Member, ...] = ()

    @model_validator(mode="after")
    def _check_resolution(self) -> Collection:
        if any(bool(part) != self.resolved for part in (self.problems, self.date, self.index)):
            raise ValueError("resolved is true with a date, an index and problems, and false without")
        return self

    def items(self) -> list[dict[str, Any]]:
        """Return the matrices as registry items. Each belongs to the set, and to `<set>_<entry>` if entry types
        vary.
        """
        has_several_values = len(self.query.values) > 1
        return [
            {
                "name": f"{member.group}/{member.matrix}",
                "source": "suitesparse",
                "entry": ENTRY_OF_VALUES[member.values],
                "group": member.group,
                "matrix": member.matrix,
                "published": {"rows": member.rows, "nonzeros": member.nonzeros},
                "licence": LICENCE,
                "credit": CREDIT,
                "sets": [self.name, *([f"{self.name}_{ENTRY_OF_VALUES[member.values]}"] if has_several_values else [])],
            }
            for member in self.problems
        ]

    def resolve(self, matrices: Iterable[Indexed], source: str, dated: str | None, query_date: str) -> Collection:
        """Return the collection with all matrices that match the query; raise `ReproError` if none match."""
        everything = list(matrices)
        fitting = select(everything, self.query)
        if not fitting:
            raise ReproError(
                "nothing in the index matches the query",
                where=source,
                expected=self.query.text,
                actual=f"none among {len(everything)} matrices",
            )
        return Collection(
            name=self.name,
            title=self.title,
            query=self.query,
            resolved=True,
            date=query_date,
            index=CollectionSource(name=source, matrices=len(everything), dated=dated, fitting=len(fitting)),
            problems=tuple(
                Member(
                    group=matrix.group,
                    matrix=matrix.name,
                    rows=matrix.rows,
                    nonzeros=matrix.nonzeros,
                    kind=matrix.kind,
                    values=matrix.dtype,
                )
                for matrix in evenly_spaced(fitting, self.query.matrices)
            ),
        )

    def write(self, path: Path) -> None:
        """Write the collection to its file atomically, with one line for each matrix."""
        text = _HEAD.format(name=self.name) + dump_yaml(
            self.model_dump(mode="json", exclude_defaults=True), default_flow_style=None, width=200
        )
        write_whole(path, text)


def load_collection(path: Path) -> Collection:
    """Read a collection's file; raise `ReproError` if the file is missing or invalid."""
    return validate(Collection, read_yaml(path, "file of a set"), (path,), _PAGE)


def select(matrices: Iterable[Indexed], query: Query) -> list[Indexed]:
    """Return the square, nonempty matrices that match a query, sorted by number of non-zeros."""
    limit = query.nonzeros_at_most
    fitting = [
        matrix
        for matrix in matrices
        if matrix.rows == matrix.columns
        and matrix.rows > query.more_rows_than
        and matrix.nonzeros > 0
        and (limit is None or matrix.nonzeros <= limit)
        and matrix.dtype in query.values
        and (query.graphs or not _GRAPH.search(matrix.kind))
    ]
    return sorted(fitting, key=lambda matrix: (matrix.nonzeros, matrix.group, matrix.name))


def evenly_spaced(sorted_matrices: list[Indexed], count: int | None) -> list[Indexed]:
    """Return `count` evenly spaced items including the first and the last; all items if `count` is None or too
    large.
    """
    if count is None or len(sorted_matrices) <= count:
        return sorted_matrices
    return [sorted_matrices[index] for index in np.linspace(0, len(sorted_matrices) - 1, count).round().astype(int)]


def read_csv(path: Path) -> tuple[list[Indexed], str]:
    """Read a file in the format of SuiteSparse's `ssstats.csv`; return its matrices and its date.

    Two lines state the count and the date. Each further line describes one matrix: group, name, rows, columns, non-
    zeros, flags `real_flag` and `binary` and a third flag, two symmetries, kind, and possibly more. Raises
    `ReproError`: the file is missing, malformed, or does not have the number of lines that it states.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line]
        count, dated = int(lines[0][0]), lines[1][0]
        matrices = []
        for line in lines[2:]:
            rows, columns, nonzeros, real_flag, binary = map(int, line[2:7])
            dtype: Values = "binary" if binary else "real" if real_flag else "complex"
            matrices.append(Indexed(line[0], line[1], rows, columns, nonzeros, dtype, line[11]))
    except OSError as error:
        raise ReproError("the index cannot be read", where=path, actual=error.strerror) from None
    except (ValueError, IndexError, csv.Error) as error:
        raise ReproError(
            "the file is not an index of the collection",
            where=path,
            expected="the format of ssstats.csv: count, date, then one line per matrix",
            actual=error,
        ) from None
    if count != len(matrices):
        raise ReproError(
            "the index is incomplete", where=path, expected=f"{count} matrices", actual=f"{len(matrices)} matrices"
        )
    return matrices, dated


REGISTRY = Path("config/problems.yaml")
#: Explains the registry and files of sets.
_PAGE = "docs/add-a-problem.md"

Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), expected("64 hexadecimal digits in small letters")]


def _check_name(name: str) -> str:
    if error := name_error(name):
        raise ValueError(f"expected {error}")
    return name


Name = Annotated[str, AfterValidator(_check_name), WithJsonSchema({"pattern": NAME, "type": "string"})]
#: Name of a file on a mirror, without suffix.
FileName = Annotated[
    str,
    Field(pattern=rf"^[A-Za-z0-9_][A-Za-z0-9._+-]{{0,{MAX_PART_LENGTH - 1}}}$"),
    expected(f"a letter, a digit or _, then also . + and -, at most {MAX_PART_LENGTH} characters"),
]


class Size(Model):
    """Size of an assembled matrix: rows and non-zeros, counted in entries."""

    rows: int = Field(gt=0)
    nonzeros: int = Field(gt=0)
    columns: int | None = Field(None, gt=0, description="Columns; absent: as many as rows.")


class Item(Model):
    """Properties that every problem in the registry has."""

    name: Name
    published: Size | None = Field(None, description="Size that the papers or the collection print.")
    checksum: Checksum | None = Field(None, description="SHA-256 of the content; absent: recorded at first use.")
    licence: str = Field("", description="Terms of the data.")
    credit: str = Field("", description="Whom to name.")
    sets: tuple[str, ...] = ()
    stand_in: str | None = Field(None, description="The problem that this one stands in for.")
    note: str | None = Field(None, description="What a reader of a table should know.")

    @property
    def is_rebuilt(self) -> bool:
        """Whether the problem reconstructs an original that is not public."""
        return False

    @property
    def kind_of_problem(self) -> str:
        return "matrix"


class MatrixItem(Item):
    """A matrix, or a problem that is built from a matrix."""

    entry: EntryName


class UpdatableMatrixItem(MatrixItem):
    """A matrix into which batches of entries may be inserted."""

    updates: UpdateBatches | None = Field(None, description="Entries to insert; the matrix has to be real.")

    @model_validator(mode="after")
    def _check_batches(self) -> UpdatableMatrixItem:
        if self.updates and self.entry != "real":
            raise ValueError(f"updates are of real matrices, and the entry is {self.entry}")
        return self

    @property
    def kind_of_problem(self) -> str:
        return "updates" if self.updates else "matrix"


class Suitesparse(UpdatableMatrixItem):
    """A matrix of the SuiteSparse Matrix Collection."""

    source: Literal["suitesparse"]
    group: FileName
    matrix: FileName
    urls: tuple[str, ...] = Field((), description="Addresses tried before the one that the index gives.")
    stored: Literal["lower"] | None = Field(
        None, description="lower: of a symmetric file the lower triangle alone, which is what it stores."
    )


class Stanford(MatrixItem):
    """A surface of the Stanford 3D Scanning Repository; the matrix is the Dirac operator on this surface."""

    source: Literal["stanford"]
    entry: Literal["quaternion"] = "quaternion"
    model: FileName = Field(description="Name of the file in a mirror: stanford/<model>.ply[.gz|.xz].")
    urls: tuple[str, ...] = ()
    member: str | None = Field(None, description="The file's path inside the archive that `urls` lead to.")
    subdivide: int = Field(0, ge=0, le=4, description="Times that each triangle is cut into four.")
    rho: float | None = Field(None, description="Constant curvature potential; absent: a smooth seeded field.")


class Tetmesh(MatrixItem):
    """A tetrahedral mesh from a file; the matrix is linear elasticity on this mesh."""

    source: Literal["tetmesh"]
    entry: Literal["block3"] = "block3"
    mesh: FileName = Field(description="Name of the file in a mirror: tetmesh/<mesh>.*.")
    parts: tuple[str, ...] = Field((".msh",), min_length=1, description="Suffixes of the files it consists of.")
    urls: tuple[tuple[str, ...], ...] = Field((), description="Addresses, each a list with one for each part.")
    young: float = Field(1.0, gt=0)
    poisson: float = Field(0.3, gt=-1, lt=0.5)

    @model_validator(mode="after")
    def _check_addresses(self) -> Tetmesh:
        if any(len(urls) != len(self.parts) for urls in self.urls):
            raise ValueError(f"each item of urls needs {len(self.parts)} addresses, one for each of {self.parts}")
        return self


class Recipe(MatrixItem):
    """A mesh built by a named recipe: a reconstruction of an unpublished mesh from the papers, or a larger similar
    mesh.
    """

    source: Literal["recipe"]
    entry: Literal["block3"] = "block3"
    recipe: FileName = Field(
        description="Name of the recipe, and of its mesh in a mirror: recipe/<recipe>.meshb[.gz|.xz]."
    )
    inputs: tuple[str, ...] = Field((), description="Problems of the registry whose files the recipe starts from.")
    made: str | None = Field(None, description="How the mesh of that checksum was made: from what, and with what.")
    young: float = Field(1.0, gt=0)
    poisson: float = Field(0.3, gt=-1, lt=0.5)

    @property
    def is_rebuilt(self) -> bool:
        """Whether the mesh reconstructs one from the papers, for which a size is published."""
        return self.published is not None


class Generated(UpdatableMatrixItem):
    """A matrix that is generated by code, without input files."""

    source: Literal["generated"]
    kind: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class LocalFile(UpdatableMatrixItem):
    """A local Matrix Market file or mesh, registered under a name."""

    source: Literal["own"]
    path: FilePath

    @property
    def wanted_entry(self) -> str:
        return self.entry


class FieldItem(Item):
    """A discontinuous Galerkin field on a mesh. Fields have no entry type and no published size."""

    published: None = None

    @property
    def kind_of_problem(self) -> str:
        return "field"


class GeneratedField(FieldItem):
    """A field that is generated by code, without input files."""

    source: Literal["field"]
    kind: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class OwnField(FieldItem, FieldFile):
    """A local file with a mesh and the modes of a field, registered under a name."""

    source: Literal["own_field"]
    checksum: None = None


ProblemSpec = Annotated[
    Suitesparse | Stanford | Tetmesh | Recipe | Generated | LocalFile | GeneratedField | OwnField,
    Field(discriminator="source"),
]


class Registry(Model):
    """All problems that a user can select by name."""

    defaults: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="YAML anchors that the problems share; not read by themselves."
    )
    problems: tuple[ProblemSpec, ...] = Field(min_length=1)
    collections: tuple[str, ...] = Field(
        (), description="Files, from the registry's folder, of sets that a query of a collection makes."
    )
    _unresolved: dict[str, Path] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check_unique_names(self) -> Registry:
        known_names: set[str] = set()
        for item in self.problems:
            if item.name in known_names:
                raise ValueError(f"two problems are called {item.name}")
            known_names.add(item.name)
        if shared_names := known_names & self.sets():
            raise ValueError(f"both a problem and a set: {', '.join(sorted(shared_names))}")
        for item in self.problems:
            references = {*getattr(item, "inputs", ()), *([item.stand_in] if item.stand_in else [])}
            if unknown_names := references - known_names:
                raise ValueError(f"{item.name} names problems that are not registered: {sorted(unknown_names)}")
        return self

    def names(self) -> list[str]:
        return [item.name for item in self.problems]

    def sets(self) -> set[str]:
        """Return the names of all sets that have members."""
        return {name for item in self.problems for name in item.sets}

    def unresolved(self) -> dict[str, Path]:
        """Return the file of each set whose query is not resolved yet."""
        return dict(self._unresolved)

    def find(self, name: str) -> ProblemSpec:
        """Return the problem with the given name; the `ReproError` for an unknown name suggests similar names."""
        for item in self.problems:
            if item.name == name:
                return item
        raise self._unknown_name_error(name, self.names())

    def expand(
        self, selection: str | Iterable[str | OwnProblem], where: str | None = None
    ) -> list[ProblemSpec | OwnProblem]:
        """Return the problems selected by a study's key `problems`, without repetitions, in the given order.

        `selection` is the name of a set, or a list of sets, problem names and own problems. `where` names the key in
        messages. Raises `ReproError`: a name or set is unknown, a set is not resolved, or a user's problem has the name
        of another problem.
        """
        items_by_name, sets = {item.name: item for item in self.problems}, self.sets()
        problems: dict[str, ProblemSpec | OwnProblem] = {}
        for number, requested in enumerate([selection] if isinstance(selection, str) else selection):
            location = where if isinstance(selection, str) or where is None else f"{where}.{number}"
            if isinstance(requested, OwnProblem):
                file_location = f"{location}: {requested.path}" if location else requested.path
                try:
                    name = own_name(requested)
                except ReproError as error:
                    raise error.at(file_location) from None
                if name in items_by_name or problems.get(name, requested) != requested:
                    raise ReproError(
                        "the name of a problem is taken", where=file_location, actual=name, todo="give it a `name:`"
                    )
                problems[name] = requested
            elif requested in sets:
                problems.update({item.name: item for item in self.problems if requested in item.sets})
            elif requested in items_by_name:
                problems[requested] = items_by_name[requested]
            elif requested in self._unresolved:
                raise ReproError(
                    "the set is not resolved: its matrices are not known yet",
                    where=f"{location}: {self._unresolved[requested]}" if location else self._unresolved[requested],
                    expected="`resolved: true` and the matrices",
                    actual=requested,
                    todo=f"run `repro resolve {requested}`; without a network, add --index FILE, a copy of the "
                    "collection's ssstats.csv",
                )
            else:
                raise self._unknown_name_error(requested, [*items_by_name, *sorted(sets)], location)
        return list(problems.values())

    def _unknown_name_error(self, name: str, names: list[str], where: str | None = None) -> ReproError:
        # A user may type `bunny` for `surfaces/bunny`, so the last part of names is compared too.
        word = name[:MAX_NAME_LENGTH]  # comparing takes quadratic time
        exists = os.path.isfile(word)  # noqa: PTH113, `Path.is_file` raises for a part that is too long
        if exists or is_matrix_market(Path(word)) or format_of(Path(word)):
            return ReproError(
                "a file was named in place of a registered problem",
                where=where,
                expected=f"a file in `problems` needs a key: `- path: {shorten(name)}`",
                actual=shorten(name),
                todo="add `path:` before it; a mesh also needs an `entry:` (docs/inputs.md)",
            )
        names_by_last_part = {full.rsplit("/", 1)[-1]: full for full in names}
        suggestions = [names_by_last_part[part] for part in get_close_matches(word, list(names_by_last_part), n=3)]
        suggestions = list(dict.fromkeys([*suggestions, *get_close_matches(word, names, n=3)]))
        return ReproError(
            "unknown problem",
            where=where,
            expected=f"one of the registry's {len(names)} problems and sets, such as {', '.join(names[:NAMED])}",
            actual=f"{shorten(name)}; did you mean {' or '.join(suggestions)}?" if suggestions else shorten(name),
            todo="`repro list problems` and `repro list sets` print all; add --config for those of a configuration",
        )


def own_name(problem: OwnProblem) -> str:
    """Return the name of a user's own problem, by default the file name without suffixes; `ReproError` if invalid."""
    name = Path(problem.path).name.split(".", 1)[0] if problem.name is None else problem.name
    return check_name(name, problem.path)


def load_registry(path: Path = REGISTRY) -> Registry:
    """Read the registry and its collections, by default those of this package; raise `ReproError` if they are
    invalid.
    """
    path = shipped(path)
    if not path.exists():
        raise MissingFileError(
            "no such registry of problems", path=path, where=f"registry: {path}", actual=nearest_file(path)
        )
    data = read_yaml(path, "registry of problems (`registry:` of the configuration)")
    for item in data["problems"] if isinstance(data, dict) and isinstance(data.get("problems"), list) else ():
        if isinstance(item, dict) and isinstance(item.get("path"), str):
            item["path"] = resolve_input_path(path.parent, item["path"])
    registry = validate(Registry, data, (path,), _PAGE)
    if not registry.collections:
        return registry
    files = {path.parent / name: load_collection(path.parent / name) for name in registry.collections}
    queried_items = _items_by_name(item for collection in files.values() for item in collection.items())
    registry = validate(Registry, {**data, "problems": [*data["problems"], *queried_items]}, (path,), _PAGE)
    registry._unresolved.update(
        {collection.name: file for file, collection in files.items() if not collection.resolved}
    )
    return registry


def _items_by_name(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge items that occur in several sets. Items with equal names but other differences are kept separate."""
    unique: dict[str, dict[str, Any]] = {}
    other_items = []
    for item in items:
        first = unique.setdefault(item["name"], item)
        if {**first, "sets": ()} != {**item, "sets": ()}:
            other_items.append(item)  # a duplicate name, rejected later
        elif first is not item:
            first["sets"] = [*first["sets"], *item["sets"]]
    return [*unique.values(), *other_items]


def problem_names(registry: Registry, selection: str | Iterable[str | OwnProblem]) -> list[str]:
    """Return the names of the problems selected by `selection`; see `Registry.expand`."""
    return [own_name(item) if isinstance(item, OwnProblem) else item.name for item in registry.expand(selection)]
