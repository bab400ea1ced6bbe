"""Selecting recorded rows of a case, and finding the fastest of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from repro.bench.rows import ClockName, RecordedRow

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", bound=RecordedRow, default=RecordedRow, covariant=True)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

NOISY = "noisy: the quartiles of this time lie further apart than the protocol allows"


class RecordedChoice(NamedTuple):
    """The variant that a tuning chose by one clock, and the variants that tied with it in the search."""

    tuning: str
    clock: ClockName
    name: str
    ties: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> RecordedChoice:
        values = {name: row[name] for name in cls._fields}
        return cls(**{**values, "ties": tuple(values["ties"] or ())})


@dataclass(frozen=True)
class ReportedTime(Generic[R_co]):
    """A time of the report phase."""

    name: str
    #: Median time by the requested clock.
    seconds: float
    noisy: bool
    #: Names of variants that tied with this one in the search.
    ties: tuple[str, ...]
    row: R_co
    #: Samples in seconds, grouped by valid round; empty if not recorded.
    rounds: Sequence[Sequence[float]] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (NOISY,) if self.noisy else ()

    @property
    def key(self) -> str:
        return self.row.key


@dataclass(frozen=True)
class Selection(Generic[R_co]):
    """A list of recorded rows that can be filtered.

    >>> case.select(kind="solver", layout=("COO", "cCOO")).fastest("graph")  # doctest: +SKIP
    """

    rows: Sequence[R_co]

    def __iter__(self) -> Iterator[R_co]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, predicate: Callable[[R_co], bool] | None = None, /, **columns: object) -> Selection[R_co]:
        """Return the rows that satisfy a predicate and have the given column values.

        Parameters
        ----------
        predicate
            Function that returns whether to keep a row; None keeps all rows.
        columns
            Required value for each named column, or a tuple of allowed values; None stands for an absent value.

        Raises
        ------
        KeyError
            The rows have no such column.
        """
        wanted = [(name, value if isinstance(value, tuple) else (value,)) for name, value in columns.items()]
        rows = [row for row in self.rows if all(row[name] in values for name, values in wanted)]
        return Selection([row for row in rows if predicate(row)] if predicate else rows)

    def fastest(self, clock: ClockName, ties: tuple[str, ...] = ()) -> ReportedTime[R_co] | None:
        """Return the fastest row by a clock (with equal times, the first by name); None if no row has a valid time."""
        timed = [(seconds, row.name, row) for row in self.rows if (seconds := row.seconds(clock)) is not None]
        if not timed:
            return None
        seconds, name, row = min(timed, key=lambda item: item[:2])
        return ReportedTime(name, seconds, row.status == "noisy", ties, row, row.samples(clock))

    @property
    def failure(self) -> str | None:
        """Description of the first row without a valid time, by `failure`; None if all rows have one."""
        return next((failure(row) for row in self.rows if not row.timed), None)


@dataclass(frozen=True)
class Method:
    """A group of comparable rows, represented by the fastest one or a tuning's winner: see `Case.time`."""

    #: Name in the keys of table columns.
    key: str
    #: Printed name.
    title: str
    #: Tuning whose winner is used; if empty, the fastest of the rows selected below.
    tuning: str = ""
    #: Arguments of `Selection.select`: column values and a predicate.
    columns: Mapping[str, object] = field(default_factory=dict, hash=False)
    predicate: Callable[[Any], bool] | None = None
    #: Clock that is always used for this method; None uses the caller's clock.
    clock: ClockName | None = None


def failure(row: RecordedRow) -> str:
    """Describe a failed row by its name, its status, and the first line of its message."""
    message = (row.message or "").partition("\n")[0]
    status = "has no time" if row.timed else row.status.replace("_", " ")
    return one_line(f"{row.name}: {status}{f' ({message})' if message else ''}", 160)


def one_line(text: str, limit: int = 300) -> str:
    """Return a message as one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
