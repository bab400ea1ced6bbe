"""Sets of problems that a query of the SuiteSparse collection's index makes, each kept in a file.

A file begins with the query and `resolved: false`; `repro resolve SET` asks the index and writes the matrices into it.
So a set is the same for everyone, and what it was chosen from is known.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import Field, model_validator

from repro.config.load import validate
from repro.config.models import Model
from repro.config.yaml_file import read_yaml
from repro.errors import ReproError
from repro.whole import write_whole

LICENCE = "CC-BY 4.0"
CREDIT = "SuiteSparse Matrix Collection (Davis and Hu 2011, doi 10.1145/2049662.2049663)"

#: What the index says of a matrix's values, and the entry that it is built with.
Values = Literal["real", "complex", "binary"]
ENTRIES: dict[Values, str] = {"real": "real", "complex": "complex", "binary": "pattern"}

# "undirected weighted graph", "directed temporal multigraph", but not "computer graphics/vision problem"
_GRAPH = re.compile(r"graphs?\b", re.IGNORECASE)
_HEAD = """\
# Made by `repro resolve {name}`, which asks the index again and writes the file anew; only the query is for editing.
# docs/add-a-problem.md says more.
"""


@dataclass(frozen=True)
class Indexed:
    """What the collection's index says of one matrix.

    Attributes
    ----------
    group, name
        Its address in the collection.
    rows, columns, nonzeros
        Its size; explicit zeros do not count.
    dtype
        real, complex, or binary: all values are one.
    kind
        The field it is from, such as `structural problem`.
    """

    group: str
    name: str
    rows: int
    columns: int
    nonzeros: int
    dtype: Values
    kind: str


class Query(Model):
    """Which matrices are asked for. All are square, and by default real and not those of graphs."""

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
    def said(self) -> str:
        """What fits, in words."""
        rows = f" of more than {self.more_rows_than:,} rows" if self.more_rows_than else ""
        nonzeros = f" of at most {self.nonzeros_at_most:,} non-zeros" if self.nonzeros_at_most else ""
        return (
            f"{' or '.join(self.values)} square matrices{rows}{nonzeros}{'' if self.graphs else ' that are no graphs'}"
        )


class Source(Model):
    """The index that was asked."""

    name: str = Field(description="Where it was read from.")
    matrices: int = Field(description="How many it has.")
    dated: str | None = Field(None, description="When it was made, as it says itself.")
    fitting: int = Field(description="How many of them fit the query.")


class Member(Model):
    """A matrix of the set."""

    group: str
    matrix: str
    rows: int
    nonzeros: int
    kind: str
    values: Values = "real"


class Collection(Model):
    """A set of matrices that a query made, or will make."""

    name: str = Field(pattern=r"^[A-Za-z0-9_]+$", description="The name of the set.")
    title: str = Field(description="What the set is for.")
    query: Query
    resolved: bool = Field(description="Whether the index has been asked.")
    date: str | None = Field(None, description="When it was.")
    index: Source | None = None
    problems: tuple[Member, ...] = ()

    @model_validator(mode="after")
    def _resolved_means_all_of_it(self) -> Collection:
        if any(bool(part) != self.resolved for part in (self.problems, self.date, self.index)):
            raise ValueError("resolved is true with a date, an index and problems, and false without")
        return self

    def items(self) -> list[dict[str, Any]]:
        """Return the matrices as items of the registry, `<group>/<matrix>` by name.

        They are in the set; and where it asks for several kinds of values also in one of their entry, `<set>_<entry>`.
        """
        several = len(self.query.values) > 1
        return [
            {
                "name": f"{member.group}/{member.matrix}",
                "source": "suitesparse",
                "entry": ENTRIES[member.values],
                "group": member.group,
                "matrix": member.matrix,
                "published": {"rows": member.rows, "nonzeros": member.nonzeros},
                "licence": LICENCE,
                "credit": CREDIT,
                "sets": [self.name, *([f"{self.name}_{ENTRIES[member.values]}"] if several else [])],
            }
            for member in self.problems
        ]

    def resolve(self, matrices: Iterable[Indexed], source: str, dated: str | None, asked: str) -> Collection:
        """Return the set as the query makes it from an index.

        Parameters
        ----------
        matrices
            All of the index.
        source, dated
            Its name and its own date.
        asked
            The day on which it was.

        Raises
        ------
        ReproError
            Nothing in the index fits the query.
        """
        everything = list(matrices)
        fitting = select(everything, self.query)
        if not fitting:
            raise ReproError(
                "nothing in the index fits the query",
                where=source,
                expected=self.query.said,
                actual=f"none among {len(everything)} matrices",
            )
        return Collection(
            name=self.name,
            title=self.title,
            query=self.query,
            resolved=True,
            date=asked,
            index=Source(name=source, matrices=len(everything), dated=dated, fitting=len(fitting)),
            problems=tuple(
                Member(
                    group=matrix.group,
                    matrix=matrix.name,
                    rows=matrix.rows,
                    nonzeros=matrix.nonzeros,
                    kind=matrix.kind,
                    values=matrix.dtype,
                )
                for matrix in spread(fitting, self.query.matrices)
            ),
        )

    def write(self, path: Path) -> None:
        """Write the set to its file, whole or not at all; a matrix is a line."""
        text = _HEAD.format(name=self.name) + yaml.safe_dump(
            self.model_dump(mode="json", exclude_defaults=True),
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=None,
            width=200,
        )
        write_whole(path, text)


def load_collection(path: Path) -> Collection:
    """Read a set's file.

    Raises
    ------
    ReproError
        It is missing, is no YAML, or says something that a set cannot have.
    """
    expected = (
        "a set's file, as docs/add-a-problem.md explains it: a mapping with `name`, `title`, `query` and `resolved`"
    )
    return validate(Collection, read_yaml(path, "file of a set"), path, expected)


def select(matrices: Iterable[Indexed], query: Query) -> list[Indexed]:
    """Return the square matrices that fit a query, by non-zeros; none without any, of which there is no product."""
    most = query.nonzeros_at_most
    fitting = [
        matrix
        for matrix in matrices
        if matrix.rows == matrix.columns
        and matrix.rows > query.more_rows_than
        and matrix.nonzeros > 0
        and (most is None or matrix.nonzeros <= most)
        and matrix.dtype in query.values
        and (query.graphs or not _GRAPH.search(matrix.kind))
    ]
    return sorted(fitting, key=lambda matrix: (matrix.nonzeros, matrix.group, matrix.name))


def spread(ordered: list[Indexed], count: int | None) -> list[Indexed]:
    """Return so many at equal distances, the first and the last among them; all where there are no more, or None."""
    if count is None or len(ordered) <= count:
        return ordered
    return [ordered[place] for place in np.linspace(0, len(ordered) - 1, count).round().astype(int)]


def read_csv(path: Path) -> tuple[list[Indexed], str]:
    """Read a file of the form of the collection's `ssstats.csv`, and return its matrices and its date.

    Two lines with the count and the date, then a line a matrix: group, name, rows, columns, non-zeros, three flags of
    which the first two are `real` and `binary`, another, two symmetries, kind, and maybe more.

    Raises
    ------
    ReproError
        The file is missing, not of this form, or has another number of lines than it says.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line]
        count, dated = int(lines[0][0]), lines[1][0]
        matrices = [_indexed(line) for line in lines[2:]]
    except OSError as error:
        raise ReproError("the index cannot be read", where=path, actual=error.strerror) from None
    except (ValueError, IndexError, csv.Error) as error:
        raise ReproError(
            "the file is no index of the collection",
            where=path,
            expected="the form of ssstats.csv: count, date, then a line a matrix",
            actual=error,
        ) from None
    if count != len(matrices):
        raise ReproError(
            "the index is not whole", where=path, expected=f"{count} matrices", actual=f"{len(matrices)} matrices"
        )
    return matrices, dated


def _indexed(line: list[str]) -> Indexed:
    rows, columns, nonzeros, real, binary = map(int, line[2:7])
    dtype: Values = "binary" if binary else "real" if real else "complex"
    return Indexed(line[0], line[1], rows, columns, nonzeros, dtype, line[11])
