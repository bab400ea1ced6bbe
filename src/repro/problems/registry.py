"""The registry of problems: what `config/problems.yaml` may say, and looking things up in it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, WithJsonSchema, model_validator

from repro.config.load import shown, validate
from repro.config.models import LONGEST, Batches, EntryName, FieldFile, FilePath, Model, OwnProblem
from repro.config.yaml_file import read_yaml
from repro.errors import ReproError
from repro.problems.collection import load_collection
from repro.problems.names import LONGEST_NAME, NAME, check_name, flaw
from repro.shipped import shipped

REGISTRY = Path("config/problems.yaml")
_EXPECTED = "a registry of problems, as docs/add-a-problem.md explains it: a mapping with `problems`, a list"

Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _check_name(name: str) -> str:
    if wanted := flaw(name):
        raise ValueError(f"not a name for a problem; expected {wanted}")
    return name


Name = Annotated[str, AfterValidator(_check_name), WithJsonSchema({"pattern": NAME, "type": "string"})]
#: A file's name in a mirror, without its suffix.
FileName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9_][A-Za-z0-9._+-]{{0,{LONGEST - 1}}}$")]


class Size(Model):
    """Rows and non-zeros of a built matrix, counted in its entries."""

    rows: int = Field(gt=0)
    nonzeros: int = Field(gt=0)
    columns: int | None = Field(None, gt=0, description="Columns; absent: as many as rows.")


class Item(Model):
    """What every problem in the registry says of itself."""

    name: Name
    published: Size | None = Field(None, description="Size that the papers or the collection print.")
    checksum: Checksum | None = Field(None, description="SHA-256 of the content; absent: recorded at first use.")
    licence: str = Field("", description="Terms of the data.")
    credit: str = Field("", description="Whom to name.")
    sets: tuple[str, ...] = ()
    stand_in: str | None = Field(None, description="The problem that this one stands in for.")
    note: str | None = Field(None, description="What a reader of a table should know.")

    @property
    def rebuilt(self) -> bool:
        """Whether the original is not public and this is a reconstruction of it."""
        return False

    @property
    def kind_of_problem(self) -> str:
        """What is built: a `matrix`, `updates` of one, or a `field`."""
        return "matrix"


class MatrixItem(Item):
    """A matrix, or what grows from one."""

    entry: EntryName


class Growing(MatrixItem):
    """A matrix that entries may be inserted into."""

    updates: Batches | None = Field(None, description="Entries to insert; the matrix has to be real.")

    @model_validator(mode="after")
    def _grows_if_real(self) -> Growing:
        if self.updates and self.entry != "real":
            raise ValueError(f"updates are of real matrices, and the entry is {self.entry}")
        return self

    @property
    def kind_of_problem(self) -> str:
        """What is built: a `matrix`, or `updates` of one."""
        return "updates" if self.updates else "matrix"


class Suitesparse(Growing):
    """A matrix of the SuiteSparse Matrix Collection."""

    source: Literal["suitesparse"]
    group: FileName
    matrix: FileName
    urls: tuple[str, ...] = Field((), description="Addresses tried before the one that the index gives.")
    stored: Literal["lower"] | None = Field(
        None, description="lower: of a symmetric file the lower triangle alone, which is what it stores."
    )


class Stanford(MatrixItem):
    """A surface of the Stanford 3D Scanning Repository; its matrix is the Dirac operator."""

    source: Literal["stanford"]
    entry: Literal["quaternion"] = "quaternion"
    model: FileName = Field(description="Name of the file in a mirror: stanford/<model>.ply[.gz|.xz].")
    urls: tuple[str, ...] = ()
    member: str | None = Field(None, description="The file's path inside the archive that `urls` lead to.")
    subdivide: int = Field(0, ge=0, le=4, description="Times that each triangle is cut into four.")
    rho: float | None = Field(None, description="Constant curvature potential; absent: a smooth seeded field.")


class Tetmesh(MatrixItem):
    """A tetrahedral mesh in a file; its matrix is linear elasticity."""

    source: Literal["tetmesh"]
    entry: Literal["block3"] = "block3"
    mesh: FileName = Field(description="Name of the file in a mirror: tetmesh/<mesh>.*.")
    parts: tuple[str, ...] = Field((".msh",), min_length=1, description="Suffixes of the files it consists of.")
    urls: tuple[tuple[str, ...], ...] = Field((), description="Addresses, each a list with one for each part.")
    young: float = Field(1.0, gt=0)
    poisson: float = Field(0.3, gt=-1, lt=0.5)

    @model_validator(mode="after")
    def _one_address_a_part(self) -> Tetmesh:
        if any(len(urls) != len(self.parts) for urls in self.urls):
            raise ValueError(f"each item of urls needs {len(self.parts)} addresses, one for each of {self.parts}")
        return self


class Recipe(MatrixItem):
    """A mesh that a named recipe makes: one of the papers', which are not public, or a larger one of the kind."""

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
    def rebuilt(self) -> bool:
        """Whether it is one of the papers' meshes, whose size is published."""
        return self.published is not None


class Generated(Growing):
    """A problem computed on the spot."""

    source: Literal["generated"]
    kind: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Own(Growing):
    """A local Matrix Market file or mesh, registered under a name."""

    source: Literal["own"]
    path: FilePath

    @property
    def wanted_entry(self) -> str:
        """What its non-zeros are to be."""
        return self.entry


class FieldItem(Item):
    """A discontinuous Galerkin field on a mesh; it has neither entry nor published size."""

    published: None = None

    @property
    def kind_of_problem(self) -> str:
        """What is built: a `field`."""
        return "field"


class GeneratedField(FieldItem):
    """A field computed on the spot."""

    source: Literal["field"]
    kind: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class OwnField(FieldItem, FieldFile):
    """A local file with a mesh and the modes of a field, registered under a name."""

    source: Literal["own_field"]
    checksum: None = None


Spec = Annotated[
    Suitesparse | Stanford | Tetmesh | Recipe | Generated | Own | GeneratedField | OwnField,
    Field(discriminator="source"),
]


class Registry(Model):
    """All problems that can be asked for by name."""

    defaults: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="YAML anchors that the problems share; not read by themselves."
    )
    problems: tuple[Spec, ...] = Field(min_length=1)
    collections: tuple[str, ...] = Field(
        (), description="Files, from the registry's folder, of sets that a query of a collection makes."
    )
    _unresolved: dict[str, Path] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Registry:
        seen: set[str] = set()
        for item in self.problems:
            if item.name in seen:
                raise ValueError(f"two problems are called {item.name}")
            seen.add(item.name)
        if both := seen & self.sets():
            raise ValueError(f"both a problem and a set: {', '.join(sorted(both))}")
        for item in self.problems:
            asked = {*getattr(item, "inputs", ()), *([item.stand_in] if item.stand_in else [])}
            if unknown := asked - seen:
                raise ValueError(f"{item.name} names problems that are not registered: {sorted(unknown)}")
        return self

    def names(self) -> list[str]:
        """Return all names, in the registry's order."""
        return [item.name for item in self.problems]

    def sets(self) -> set[str]:
        """Return the names of all sets that have members."""
        return {name for item in self.problems for name in item.sets}

    def unresolved(self) -> dict[str, Path]:
        """Return the sets whose query has not been asked yet, with their files."""
        return dict(self._unresolved)

    def find(self, name: str) -> Spec:
        """Return the problem of that name.

        Raises
        ------
        ReproError
            There is none; close names are suggested.
        """
        for item in self.problems:
            if item.name == name:
                return item
        raise self._unknown(name, self.names())

    def expand(self, asked: str | Iterable[str | OwnProblem], where: str | None = None) -> list[Spec | OwnProblem]:
        """Return the problems that a study's `problems:` means, each once, in the order asked for.

        Parameters
        ----------
        asked
            A set, or a list of sets, registered names and problems of the user's own.
        where
            The key that asks for them, for messages.

        Raises
        ------
        ReproError
            An unknown name or set, one whose query has not been asked yet, or a problem of the user's own under a
            name that is taken.
        """
        by_name, sets = {item.name: item for item in self.problems}, self.sets()
        problems: dict[str, Spec | OwnProblem] = {}
        for wish in [asked] if isinstance(asked, str) else asked:
            if isinstance(wish, OwnProblem):
                name = own_name(wish)
                if name in by_name or problems.get(name, wish) != wish:
                    raise ReproError(
                        "the name of a problem is taken", where=wish.path, actual=name, todo="give it a `name:`"
                    )
                problems[name] = wish
            elif wish in sets:
                problems.update({item.name: item for item in self.problems if wish in item.sets})
            elif wish in by_name:
                problems[wish] = by_name[wish]
            elif wish in self._unresolved:
                raise ReproError(
                    "the set is not resolved: its matrices have not been asked for",
                    where=self._unresolved[wish],
                    expected="`resolved: true` and the matrices",
                    actual=wish,
                    todo=f"with a network, run `repro resolve {wish}`; without, add --index FILE, a copy of the "
                    "collection's ssstats.csv",
                )
            else:
                raise self._unknown(wish, [*by_name, *sorted(sets)], where)
        return list(problems.values())

    def _unknown(self, name: str, names: list[str], where: str | None = None) -> ReproError:
        # people remember `bunny`, the papers print `surfaces/bunny`: compare with the last part as well
        asked = name[:LONGEST_NAME]  # comparing takes time with the square of the length
        last = {full.rsplit("/", 1)[-1]: full for full in names}
        close = [last[part] for part in get_close_matches(asked, list(last), n=3)]
        close = list(dict.fromkeys([*close, *get_close_matches(asked, names, n=3)]))
        return ReproError(
            "unknown problem",
            where=where,
            expected=f"{', '.join(close)}?" if close else f"one of {', '.join(names)}",
            actual=shown(name),
            todo="`repro list problems` prints all names and sets",
        )


def own_name(problem: OwnProblem) -> str:
    """Return the name of a user's own problem: as given, else the file's name without its suffixes.

    Raises
    ------
    ReproError
        It cannot be the name of a file of results.
    """
    name = Path(problem.path).name.split(".", 1)[0] if problem.name is None else problem.name
    return check_name(name, problem.path)


def load_registry(path: Path = REGISTRY) -> Registry:
    """Read the registry, and the sets that its `collections` name; the package's own where none is there.

    Raises
    ------
    ReproError
        A file is missing, is not YAML, or says something that a problem cannot have.
    """
    path = shipped(path)
    data = read_yaml(path, "registry of problems (`registry:` of the configuration)")
    registry = validate(Registry, data, path, _EXPECTED)
    if not registry.collections:
        return registry
    files = {path.parent / name: load_collection(path.parent / name) for name in registry.collections}
    queried = _by_name(item for collection in files.values() for item in collection.items())
    registry = validate(Registry, {**data, "problems": [*data["problems"], *queried]}, path, _EXPECTED)
    registry._unresolved.update(
        {collection.name: file for file, collection in files.items() if not collection.resolved}
    )
    return registry


def _by_name(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return items once that several sets have, with the sets of all; two that differ otherwise both."""
    unique: dict[str, dict[str, Any]] = {}
    others = []
    for item in items:
        first = unique.setdefault(item["name"], item)
        if {**first, "sets": ()} != {**item, "sets": ()}:
            others.append(item)  # of one name, which is refused
        elif first is not item:
            first["sets"] = [*first["sets"], *item["sets"]]
    return [*unique.values(), *others]


def problem_names(registry: Registry, asked: str | Iterable[str | OwnProblem]) -> list[str]:
    """Return the names of the problems that a study's `problems:` means; see `Registry.expand`."""
    return [own_name(item) if isinstance(item, OwnProblem) else item.name for item in registry.expand(asked)]
