"""What can be run on: the envelope that all kinds of problems share, and the one file that a problem is kept in."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ValidationError

from repro.errors import ReproError
from repro.problems.names import flaw
from repro.reading import open_file, parse_json, shown
from repro.whole import replacing

SCHEMA = 2

_KINDS: dict[str, type[Problem]] = {}


@dataclass(frozen=True)
class Problem(ABC):
    """What a study runs on, with where it came from and what there is to say of it.

    A kind is a frozen dataclass below this one, in the module of this folder that has the kind's name. Its fields are
    what `arrays` and `traits` return, under the same names: a file is read back by handing them to the class.

    Attributes
    ----------
    kind
        The name of the kind, the same for all problems of a class.
    name
        Its name in the registry.
    origin
        Where it came from: source, address, parameters, counts, licence; `stand_in` or `rebuilt` where it is one.
    statistics
        What `describe` says of the content.
    """

    kind: ClassVar[str]

    name: str
    origin: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    statistics: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        if "kind" in vars(cls):
            _KINDS[cls.kind] = cls

    @abstractmethod
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays that the problem consists of, by the names of their fields."""

    @abstractmethod
    def traits(self) -> Mapping[str, Any]:
        """Return the other fields of the content, plain data for JSON."""

    @abstractmethod
    def validate(self) -> Self:
        """Return the problem itself if its content is sound.

        Raises
        ------
        ReproError
            It is not; the first thing wrong is named.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return statistics of the content, plain data for JSON."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Return the sizes that records and tables show, plain data for JSON."""

    @abstractmethod
    def info(self) -> list[tuple[str, str]]:
        """Return the same for a reader: heads and texts."""

    def complete(self) -> Self:
        """Return the problem with its statistics, after checking it.

        Raises
        ------
        ReproError
            As `validate`.
        """
        return replace(self.validate(), statistics=self.describe())

    def checksum(self) -> str:
        """SHA-256 of the content, whatever name and wrapping it came with."""
        digest = hashlib.sha256(self._heading().encode())
        for array in self.arrays().values():
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _heading(self) -> str:
        """Return what the checksum has to cover beside the bytes of the arrays."""
        shapes = {name: [array.dtype.str, *array.shape] for name, array in self.arrays().items()}
        return json.dumps([self.kind, dict(self.traits()), shapes], sort_keys=True)

    def save(self, path: Path) -> None:
        """Write the problem to one `.npz` file, whole or not at all."""
        meta = {
            "schema": SCHEMA,
            "status": "ok",
            "kind": self.kind,
            "name": self.name,
            "traits": dict(self.traits()),
            "origin": dict(self.origin),
            "statistics": dict(self.statistics),
            "checksum": self.checksum(),
        }
        _write(path, meta, self.arrays())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a problem of this kind back.

        Raises
        ------
        Unavailable
            The file records that the problem could not be had.
        ReproError
            The problem is of another kind, or as `load_problem`.
        """
        problem = load_problem(path)
        if not isinstance(problem, cls):
            raise ReproError("the problem is of another kind", where=path, expected=cls.kind, actual=problem.kind)
        return problem


def _named(name: str) -> str:
    if expected := flaw(name):
        raise ValueError(f"not a name for a problem: {expected}")
    return name


class _Meta(BaseModel):
    """What is relied on of what a file says beside its arrays; there is less where the problem could not be had."""

    name: Annotated[str, AfterValidator(_named)]
    kind: str
    status: Literal["ok", "unavailable"] = "ok"
    reason: str = ""
    traits: dict[str, Any] = {}
    origin: dict[str, Any] = {}
    statistics: dict[str, Any] = {}
    checksum: str = ""


class Unavailable(ReproError):
    """A problem that could not be fetched or built, with the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"problem {name} is unavailable", actual=reason)


def load_problem(path: Path, name: str | None = None) -> Problem:
    """Read a problem of any kind back and check its content against its checksum.

    Parameters
    ----------
    path
        Of its file.
    name
        Of the problem that the file has to hold; None: any.

    Raises
    ------
    Unavailable
        The file records that the problem could not be had.
    ReproError
        The file is missing, damaged, of another schema or an unknown kind, or does not match its checksum; or it
        holds another problem than that of the name.
    """
    meta, arrays = _read(path)
    try:
        if name not in (None, meta["name"]):
            raise ReproError(
                "the problem file holds another problem",
                where=path,
                expected=name,
                actual=meta["name"],
                todo="delete the file and build it again",
            )
        if meta["status"] == "unavailable":
            raise Unavailable(meta["name"], meta["reason"])
        kind = _find_kind(meta["kind"], path)
        problem = kind(
            name=meta["name"], origin=meta["origin"], statistics=meta["statistics"], **meta["traits"], **arrays
        )
        expected = meta["checksum"]
    except (KeyError, TypeError) as error:  # a part is missing, or one too many
        raise _damaged(path, error) from error
    actual = problem.checksum()
    if actual != expected:
        raise ReproError(
            "wrong checksum",
            where=path,
            expected=expected,
            actual=actual,
            todo="delete the file and build it again",
        )
    return problem


def save_unavailable(path: Path, name: str, kind: str, entry: str | None, reason: str) -> None:
    """Write, in place of the problem, the record that it could not be had and why.

    Parameters
    ----------
    path
        Of the file.
    name, kind
        Of the problem.
    entry
        Of a matrix; None for every other kind.
    reason
        Why it could not be had.
    """
    meta = {
        "schema": SCHEMA,
        "status": "unavailable",
        "kind": kind,
        "name": name,
        "entry": entry,
        "reason": reason,
    }
    _write(path, meta, {})


def _find_kind(name: str, path: Path) -> type[Problem]:
    """Return the class of a kind, from the module of that name if it was not imported yet."""
    module = f"{__package__}.{name}"
    if name not in _KINDS and name.isidentifier() and find_spec(module):
        import_module(module)
    if name not in _KINDS:
        raise ReproError("the problem file is of an unknown kind", where=path, actual=name)
    return _KINDS[name]


def _write(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    with replacing(path) as partial, partial.open("wb") as file:
        # mypy reads ``**arrays`` as the keyword ``allow_pickle``
        np.savez(file, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        # never of objects, which would be run to be read
        with os.fdopen(open_file(path), "rb") as opened, np.load(opened, allow_pickle=False) as file:
            _refuse_packed(file.zip, os.fstat(opened.fileno()).st_size)
            meta = parse_json(str(file["meta"]).encode(), finite=False)
            if not isinstance(meta, dict):
                raise ValueError(f"meta is no object, but {meta}")
            arrays = {name: file[name] for name in file.files if name != "meta"}
    except FileNotFoundError:
        raise ReproError(
            "no such problem file", where=path, todo=f"build it there: `repro problem NAME --output {path}`"
        ) from None
    except OSError as error:
        raise _damaged(path, error.strerror or error) from error
    except Exception as error:  # np.load raises a dozen kinds on a damaged archive
        raise _damaged(path, error) from error
    if meta.get("schema") != SCHEMA:
        raise ReproError(
            "the problem file has another schema",
            where=path,
            expected=SCHEMA,
            actual=meta.get("schema"),
            todo="delete the file and build it again",
        )
    try:
        _Meta.model_validate(meta)
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None
    return meta, arrays


def _refuse_packed(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive that unpacks to more than it is: ours are not compressed.

    Raises
    ------
    ValueError
        It does.
    """
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two arrays of one name")
    if (whole := sum(member.file_size for member in members)) > size:
        raise ValueError(f"a file of {size:,} bytes that unpacks to {whole:,}")


def _damaged(path: Path, error: object) -> ReproError:
    return ReproError(
        "the problem file is damaged", where=path, actual=shown(error), todo="delete the file and build it again"
    )
