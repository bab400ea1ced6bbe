"""What can be run on: the envelope that all kinds of problems share, its checks, and the file that keeps it.

An outline is what is known of a problem before it is built.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import AfterValidator, BaseModel, ValidationError

from repro.atomic_write import replacing
from repro.errors import ReproError
from repro.problems.assembly import Floats, Integers
from repro.problems.registry import flaw
from repro.untrusted_files import open_file, parse_json, shown


@dataclass(frozen=True)
class Outline:
    """A problem that some study runs on.

    Attributes
    ----------
    name, kind
        Its name, and its kind: `matrix`, `updates` or `field`.
    entry
        What a matrix's non-zeros are; None for other kinds.
    definition
        Plain data that says what it is: when it changes, the problem is built again.
    files
        The user's own files that it is read from; none for a problem that is fetched or generated.
    size
        Rows and non-zeros that the registry or the file states, of a field about how many cells and modes in all;
        None where only building it tells.
    at_most
        Whether that is a bound: the non-zeros may be fewer.
    columns
        Columns where they are stated and others than the rows.
    """

    name: str
    kind: str = "matrix"
    entry: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    size: tuple[int, int] | None = None
    at_most: bool = False
    columns: int | None = None

    @property
    def multiplies(self) -> bool:
        """Whether it may be a matrix for products y = A x time and again, for all that is known: square, not empty."""
        return self.columns is None and (self.size is None or 0 not in self.size)


def describe_pattern(indptr: Integers, indices: Integers, columns: int | None = None) -> dict[str, Any]:
    """Describe the pattern of a CSR matrix.

    Parameters
    ----------
    indptr, indices
        CSR arrays `(n + 1,)` and `(nnz,)`, columns sorted within each row.
    columns
        Columns of the matrix; None: as many as rows.

    Returns
    -------
    dict
        Plain numbers, ready for JSON:

        rows, nonzeros, empty_rows
            Counts.
        row_length
            Quantiles (min, q1, median, q3, max) and mean of the entries in a row (figure 3).
        bandwidth_percent
            The same of a row's bandwidth: largest minus smallest column index, in percent of the columns (eq. 3
            and figure 4 of Mueller-Roemer et al. 2020); 0 for an empty row.
        ell_factor
            Longest row times n over the non-zeros: how much larger ELLPACK is than CSR, row lengths aside. 0 for a
            matrix without entries.
    """
    n, nnz = len(indptr) - 1, len(indices)
    lengths = np.diff(indptr)
    filled = lengths > 0
    span = np.zeros(n)
    span[filled] = indices[indptr[1:][filled] - 1] - indices[indptr[:-1][filled]]
    return {
        "rows": n,
        "nonzeros": nnz,
        "row_length": quantiles(lengths),
        "bandwidth_percent": quantiles(100 * span / max(n if columns is None else columns, 1)),
        "ell_factor": int(lengths.max(initial=0)) * n / nnz if nnz else 0.0,
        "empty_rows": int(n - np.count_nonzero(filled)),
    }


def quantiles(values: NDArray[Any] | Floats) -> dict[str, float]:
    """Return min, q1, median, q3, max and mean of numbers `(k,)`; zeros if there are none."""
    if not len(values):
        return dict.fromkeys(("min", "q1", "median", "q3", "max", "mean"), 0.0)
    low, q1, median, q3, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
    return {"min": low, "q1": q1, "median": median, "q3": q3, "max": high, "mean": float(np.mean(values))}


def check_array(name: str, what: str, array: NDArray[Any], dtype: DTypeLike, shape: tuple[int, ...]) -> None:
    """Check that an array has the type and shape that the problem asks for.

    Parameters
    ----------
    name
        Of the problem.
    what
        What the array holds, in the plural.
    array, dtype, shape
        The array, and what it should be.

    Raises
    ------
    ReproError
        It is of another type or shape.
    """
    expected = np.dtype(dtype)
    if not isinstance(array, np.ndarray):
        raise ReproError(f"the {what} are no array", where=name, expected=expected, actual=type(array).__name__)
    if (array.dtype, array.shape) != (expected, shape):
        raise ReproError(
            f"the {what} do not fit",
            where=name,
            expected=f"{expected} {shape}",
            actual=f"{array.dtype} {array.shape}",
        )


def check_pointers(name: str, what: str, pointers: Integers, end: int) -> None:
    """Check that pointers start at 0, never decrease, and end at the number of items.

    Parameters
    ----------
    name
        Of the problem.
    what
        What an interval between two pointers is: `row`, `batch`.
    pointers
        `(intervals + 1,)`.
    end
        Number of items.

    Raises
    ------
    ReproError
        They do not.
    """
    if pointers[0] != 0 or pointers[-1] != end:
        raise ReproError(
            f"the {what} pointers do not fit",
            where=name,
            expected=f"from 0 to {end}",
            actual=f"from {pointers[0]} to {pointers[-1]}",
        )
    refuse(
        name,
        f"the {what} pointers decrease",
        pointers[1:] < pointers[:-1],
        place=lambda i: f"{what} {i}",
        expected="pointers that never decrease",
    )


def refuse(
    name: str,
    what: str,
    bad: NDArray[np.bool_],
    *,
    place: Callable[[int], str],
    expected: str,
) -> None:
    """Raise an error if any item is marked.

    Parameters
    ----------
    name
        Of the problem.
    what
        What is wrong with a marked item.
    bad
        `(items,)`, which ones are wrong.
    place
        Says of the first one where it is.
    expected
        What all items should be.

    Raises
    ------
    ReproError
        An item is marked.
    """
    items = np.flatnonzero(bad)
    if items.size:
        raise ReproError(
            what,
            where=f"{name}, first at {place(int(items[0]))} (counted from 0)",
            expected=expected,
            actual=f"{items.size} of {len(bad)} are not so",
        )


def outside(numbers: Integers, count: int) -> NDArray[np.bool_]:
    """Return which numbers are none of 0 to `count` - 1."""
    marked: NDArray[np.bool_] = (numbers < 0) | (numbers >= count)
    return marked


def infinite(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which items have NaN or infinite values, `(items,)` of `(items, ...)`."""
    marked: NDArray[np.bool_] = np.any(~np.isfinite(values), axis=tuple(range(1, values.ndim)))
    return marked


def allowed(count: int) -> str:
    """Say which numbers are 0 to `count` - 1."""
    return f"0 to {count - 1}" if count else "none, since there are none to name"


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
