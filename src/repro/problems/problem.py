"""Base class of all kinds of problems, with checks and file format; and outlines, which describe unbuilt problems."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.errors import ReproError
from repro.filesystem import replacing
from repro.problems.assembly import Floats, Integers
from repro.untrusted_files import as_dataclass, open_file, parse_json, shown
from repro.words import name_error


@dataclass(frozen=True)
class Outline:
    """Properties of a problem that are known before it is built."""

    name: str
    #: `matrix`, `updates` or `field`.
    kind: str = "matrix"
    #: Entry type of a matrix; None for other kinds.
    entry: str | None = None
    #: Definition as plain data; if it changes, the problem is built again.
    definition: Mapping[str, Any] = field(default_factory=dict)
    #: The user's own files from which the problem is read.
    files: tuple[Path, ...] = ()
    #: Rows and non-zeros of a matrix, or approximate cells and modes of a field; None if unknown before the build.
    size: tuple[int, int] | None = None
    #: Source of the size: `stated`, `at most` (an upper limit), `by vertices` (rows are at most the vertices stated in
    #: the head of a mesh file, non-zeros are guessed from these), or `by length` (guessed from the length of a file).
    size_from: str = "stated"
    #: Number of columns, if known and different from the number of rows.
    columns: int | None = None
    #: Whether the matrix is the stiffness of an elastic body without supports, and therefore singular.
    free_body: bool = False
    #: The error in the file's header, if there is one; the problem will then be unavailable.
    refused: ReproError | None = field(default=None, compare=False)

    @property
    def has_entries(self) -> bool:
        """Whether the matrix is nonempty as far as known, which a product y = A x requires."""
        return self.size is None or 0 not in self.size

    @property
    def multiplies(self) -> bool:
        """Whether the matrix is square and nonempty as far as known, which iterated products y = A x require."""
        return self.columns is None and self.has_entries


def describe_pattern(indptr: Integers, indices: Integers, columns: int | None = None) -> dict[str, Any]:
    """Compute statistics of the pattern of a CSR matrix with arrays `(n + 1,)` and `(nnz,)` and sorted columns.

    Returns
    -------
    dict
        Plain numbers:

        rows, nonzeros, empty_rows
            Counts.
        row_length
            Quantiles (min, q1, median, q3, max) and mean of the number of entries per row (figure 3 of Mueller-Roemer
            et al. 2020).
        bandwidth_percent
            Quantiles and mean of the bandwidth per row: largest minus smallest column index, in percent of the number
            of columns (eq. 3 and figure 4 of Mueller-Roemer et al. 2020); 0 for an empty row.
        ell_factor
            Length of the longest row times n divided by the number of non-zeros. This is the size of ELLPACK relative
            to CSR without row lengths; 0 for an empty matrix.
    """
    n, nnz = len(indptr) - 1, len(indices)
    lengths = np.diff(indptr)
    is_filled = lengths > 0
    span = np.zeros(n)
    span[is_filled] = indices[indptr[1:][is_filled] - 1] - indices[indptr[:-1][is_filled]]
    return {
        "rows": n,
        "nonzeros": nnz,
        "row_length": quantiles(lengths),
        "bandwidth_percent": quantiles(100 * span / max(n if columns is None else columns, 1)),
        "ell_factor": int(lengths.max(initial=0)) * n / nnz if nnz else 0.0,
        "empty_rows": int(n - np.count_nonzero(is_filled)),
    }


def quantiles(values: NDArray[Any] | Floats) -> dict[str, float]:
    """Return min, q1, median, q3, max and mean of `(k,)` numbers; all are zero if k is 0."""
    if not len(values):
        return dict.fromkeys(("min", "q1", "median", "q3", "max", "mean"), 0.0)
    low, q1, median, q3, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
    return {"min": low, "q1": q1, "median": median, "q3": q3, "max": high, "mean": float(np.mean(values))}


def check_array(name: str, items: str, array: NDArray[Any], dtype: DTypeLike, shape: tuple[int, ...]) -> None:
    """Raise `ReproError` for an array with wrong type or shape. `items` names the array's items in the plural, for
    messages.
    """
    expected = np.dtype(dtype)
    if not isinstance(array, np.ndarray):
        raise ReproError(f"the {items} are not an array", where=name, expected=expected, actual=type(array).__name__)
    if (array.dtype, array.shape) != (expected, shape):
        raise ReproError(
            f"the {items} have the wrong dtype or shape",
            where=name,
            expected=f"{expected} {shape}",
            actual=f"{array.dtype} {array.shape}",
        )


def check_pointers(name: str, interval: str, pointers: Integers, end: int) -> None:
    """Raise `ReproError` unless pointers `(intervals + 1,)` ascend from 0 to `end`. `interval` names one interval in
    messages.
    """
    if pointers[0] != 0 or pointers[-1] != end:
        raise ReproError(
            f"the {interval} pointers are wrong",
            where=name,
            expected=f"from 0 to {end}",
            actual=f"from {pointers[0]} to {pointers[-1]}",
        )
    refuse(
        name,
        f"the {interval} pointers decrease",
        pointers[1:] < pointers[:-1],
        location=lambda i: f"{interval} {i}",
        expected="pointers that never decrease",
    )


def refuse(name: str, what: str, mask: NDArray[np.bool_], *, location: Callable[[int], str], expected: str) -> None:
    """Raise `ReproError` if `mask` marks any item; `location` describes the first one by its index."""
    items = np.flatnonzero(mask)
    if items.size:
        raise ReproError(
            what,
            where=f"{name}, first at {location(int(items[0]))} (counted from 0)",
            expected=expected,
            actual=f"{items.size} of {len(mask)} are invalid",
        )


def outside(numbers: Integers, count: int) -> NDArray[np.bool_]:
    """Return a mask of the numbers outside the range from 0 to `count` - 1."""
    mask: NDArray[np.bool_] = (numbers < 0) | (numbers >= count)
    return mask


def infinite(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the items of `(items, ...)` that contain NaN or infinite values."""
    mask: NDArray[np.bool_] = np.any(~np.isfinite(values), axis=tuple(range(1, values.ndim)))
    return mask


def index_range_text(count: int) -> str:
    """Format the range from 0 to `count` - 1."""
    return f"0 to {count - 1}" if count else "none, since there are none to name"


SCHEMA = 2

_KINDS: dict[str, type[Problem]] = {}


@dataclass(frozen=True)
class Problem(ABC):
    """A problem that a study runs on, with its origin and statistics.

    Each kind of problem is a frozen dataclass in a module of its own. Its fields are the keys of `arrays` and `traits`,
    so that the contents of a file can be passed to its constructor.
    """

    kind: ClassVar[str]

    name: str
    #: Source, address, parameters, counts, licence; also `stand_in` or `rebuilt` for a substitute of another problem.
    origin: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    #: Statistics as returned by `describe`.
    statistics: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        if "kind" in vars(cls):
            _KINDS[cls.kind] = cls

    def __repr__(self) -> str:
        """Return name and sizes in one line, and no arrays."""
        return f"<{type(self).__name__} {self.name}: {', '.join(f'{label} {text}' for label, text in self.info())}>"

    @abstractmethod
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the problem's arrays by field name."""

    @abstractmethod
    def traits(self) -> Mapping[str, Any]:
        """Return the fields that are not arrays, as plain data for JSON."""

    @abstractmethod
    def validate(self) -> Self:
        """Return the problem if its content is valid; otherwise raise `ReproError` with the first error found."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return statistics of the problem's content, as plain data for JSON."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Return the problem's sizes for records and tables, as plain data for JSON."""

    @abstractmethod
    def info(self) -> list[tuple[str, str]]:
        """Return the problem's sizes as pairs of label and text, for printing."""

    def outline(self) -> Outline:
        """Return the outline of this problem, as for an unbuilt problem but with exact sizes.

        `definition` and `files` are empty, since a problem's file does not store them.
        """
        return Outline(self.name, self.kind)

    def complete(self) -> Self:
        """Validate the problem and return it with its statistics."""
        return replace(self.validate(), statistics=self.describe())

    def checksum(self) -> str:
        """SHA-256 of the problem's content; it does not depend on name and file format."""
        digest = hashlib.sha256(self._heading().encode())
        for array in self.arrays().values():
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _heading(self) -> str:
        """Return the data, besides the arrays, that enter the checksum."""
        shapes = {name: [array.dtype.str, *array.shape] for name, array in self.arrays().items()}
        return json.dumps([self.kind, dict(self.traits()), shapes], sort_keys=True)

    def save(self, path: Path) -> None:
        """Write the problem atomically to one `.npz` file."""
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
    def load(cls, path: str | Path) -> Self:
        """Read a problem of this kind; for errors see `load_problem`."""
        problem = load_problem(path)
        if not isinstance(problem, cls):
            raise ReproError("the problem is of a different kind", where=path, expected=cls.kind, actual=problem.kind)
        return problem


@dataclass(frozen=True)
class _Meta:
    """Required metadata in a problem file; a file for an unavailable problem has fewer."""

    name: str
    kind: str
    status: Literal["ok", "unavailable"] = "ok"
    reason: str = ""
    traits: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    checksum: str = ""


class Unavailable(ReproError):
    """A problem could not be downloaded or built; the reason was recorded."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"problem {name} is unavailable", actual=reason)


def load_problem(path: str | Path, name: str | None = None) -> Problem:
    """Read a problem of any kind and verify its checksum, and its name if `name` is given.

    Raises
    ------
    Unavailable
        The file records that the problem could not be fetched or built.
    ReproError
        The file is missing or damaged, or its schema version, name or kind is not the expected one.
    """
    path = Path(path)
    meta, arrays = _read(path)
    try:
        if name not in (None, meta["name"]):
            raise ReproError(
                "the problem file contains a different problem",
                where=path,
                expected=name,
                actual=meta["name"],
                todo="delete the file and build it again",
            )
        if meta["status"] == "unavailable":
            raise Unavailable(meta["name"], meta["reason"])
        kind = meta["kind"]
        module = f"{__package__}.{kind}"
        if kind not in _KINDS and kind.isidentifier() and find_spec(module):
            import_module(module)
        if kind not in _KINDS:
            raise ReproError("the problem file is of an unknown kind", where=path, actual=kind)
        problem = _KINDS[kind](
            name=meta["name"], origin=meta["origin"], statistics=meta["statistics"], **meta["traits"], **arrays
        )
        expected = meta["checksum"]
    except (KeyError, TypeError) as error:  # a field is missing or unknown
        raise _damaged(path, error) from error
    actual = problem.checksum()
    if actual != expected:
        raise ReproError(
            "wrong checksum", where=path, expected=expected, actual=actual, todo="delete the file and build it again"
        )
    return problem


def save_unavailable(path: Path, name: str, kind: str, entry: str | None, reason: str) -> None:
    """Write a file that records why a problem could not be downloaded or built."""
    meta = {"schema": SCHEMA, "status": "unavailable", "kind": kind, "name": name, "entry": entry, "reason": reason}
    _write(path, meta, {})


def _write(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    with replacing(path) as partial, partial.open("wb") as file:
        # mypy mistakes `**arrays` for the argument `allow_pickle`.
        np.savez(file, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        # Loading arrays of Python objects could run malicious code.
        with os.fdopen(open_file(path), "rb") as stream, np.load(stream, allow_pickle=False) as file:
            members, size = file.zip.infolist(), os.fstat(stream.fileno()).st_size
            if len({member.filename for member in members}) < len(members):
                raise ValueError("two arrays of one name")
            if (total_size := sum(member.file_size for member in members)) > size:  # our files are not compressed
                raise ValueError(f"a file of {size:,} bytes that unpacks to {total_size:,}")
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
    except Exception as error:  # np.load raises many exception types for damaged files
        raise _damaged(path, error) from error
    if meta.get("schema") != SCHEMA:
        raise ReproError(
            "the problem file has a different schema",
            where=path,
            expected=SCHEMA,
            actual=meta.get("schema"),
            todo="delete the file and build it again",
        )
    try:
        name = as_dataclass(_Meta, meta).name
        if expected := name_error(name):
            raise ValueError(f"name: not a name for a problem: {expected}")
    except ValueError as error:
        raise _damaged(path, error) from None
    return meta, arrays


def _damaged(path: Path, error: object) -> ReproError:
    return ReproError(
        "the problem file is damaged", where=path, actual=shown(error), todo="delete the file and build it again"
    )
