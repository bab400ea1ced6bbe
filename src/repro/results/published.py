"""Reading the papers' numbers (`config/published/<study>/*.csv`) and our targets (`config/targets`)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError
from repro.package_data import shipped

FOLDER = Path("config")
Record = dict[str, str]


@dataclass(frozen=True)
class Published:
    """Published numbers for one study, with one record per line; numbers are kept as printed text."""

    #: Records of each file, by file name.
    tables: Mapping[str, list[Record]]
    #: Our own performance targets; empty if the study has none.
    targets: list[Record]

    @classmethod
    def load(
        cls, study_name: str, files: Mapping[str, tuple[str, ...]], targets: tuple[str, ...] = (), folder: Path = FOLDER
    ) -> Published:
        """Read the published numbers and targets of a study; raise `ReproError` if a file is missing or malformed.

        `files` has the expected columns of each `published/<study>/<file>.csv`, `targets` those of
        `targets/<study>.csv`. Both are in `folder`, or in the package if the current folder lacks them.
        """
        published = folder / "published" / study_name
        tables = {name: read_records(published / f"{name}.csv", columns) for name, columns in files.items()}
        return cls(tables, read_records(folder / "targets" / f"{study_name}.csv", targets) if targets else [])

    def __getitem__(self, name: str) -> list[Record]:
        return self.tables[name]

    @property
    def problems(self) -> dict[str, str]:
        """Names and entry types of the papers' problems in order; empty if there is no file `sizes.csv`."""
        return {item["problem"]: item["entry"] for item in self.tables.get("sizes", [])}

    def quantity(self, name: str, precision: str = "", gpu: str = "") -> str:
        """Return a number from the running text of a paper, as printed."""
        row_key = (name, precision, gpu)
        return next(i["value"] for i in self.tables["text"] if (i["quantity"], i["precision"], i["gpu"]) == row_key)


def read_records(path: Path, columns: tuple[str, ...]) -> list[Record]:
    """Read a CSV file with the given columns; raise `ReproError` if it is missing or malformed."""
    path = shipped(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            header = tuple(reader.fieldnames or ())
            records = list(reader)
    except FileNotFoundError:
        raise ReproError(
            "the file of published numbers was not found", where=path, todo="run from the root of the repository"
        ) from None
    except (csv.Error, ValueError, OSError) as error:
        raise ReproError("the file of published numbers cannot be read", where=path, actual=error) from None
    if header != columns:
        raise ReproError(
            "a file of published numbers has the wrong columns",
            where=path,
            expected=", ".join(columns),
            actual=", ".join(header),
        )
    for line, record in enumerate(records, start=2):
        if None in record or None in record.values():  # csv.DictReader marks too many or too few cells by None
            raise ReproError(
                "a line of published numbers has the wrong number of columns",
                where=f"{path}:{line}",
                expected=len(columns),
            )
    return records
