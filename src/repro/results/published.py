"""The papers' own numbers, as typed into `config/published/<study>/*.csv`, and our targets, `config/targets`."""

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
    """What is printed in the papers of one study, a record a line: a number is kept as the text that was printed.

    Attributes
    ----------
    tables
        Records of each of the study's files, by the file's name.
    targets
        What we aim at ourselves; empty where a study aims at nothing.
    """

    tables: Mapping[str, list[Record]]
    targets: list[Record]

    @classmethod
    def load(
        cls,
        study: str,
        files: Mapping[str, tuple[str, ...]],
        targets: tuple[str, ...] = (),
        folder: Path = FOLDER,
    ) -> Published:
        """Read all published tables of a study, and its targets beside them.

        Parameters
        ----------
        study
            Its name.
        files, targets
            Columns of `<folder>/published/<study>/<file>.csv`, by file, and of `<folder>/targets/<study>.csv`; a study
            without published numbers names no file, one that aims at nothing no columns.
        folder
            The folder of configurations; the package's own where the current folder has none.

        Raises
        ------
        ReproError
            A file is missing or has other columns.
        """
        published = folder / "published" / study
        tables = {name: _read(published / f"{name}.csv", columns) for name, columns in files.items()}
        return cls(tables, _read(folder / "targets" / f"{study}.csv", targets) if targets else [])

    def __getitem__(self, name: str) -> list[Record]:
        """Return the records of one file."""
        return self.tables[name]

    @property
    def problems(self) -> dict[str, str]:
        """The papers' problems in their order, with the entry of each; empty where the papers' sizes are not typed."""
        return {item["problem"]: item["entry"] for item in self.tables.get("sizes", [])}

    def quantity(self, name: str, precision: str = "", gpu: str = "") -> str:
        """Return a number from the text, as printed."""
        wanted = (name, precision, gpu)
        return next(i["value"] for i in self["text"] if (i["quantity"], i["precision"], i["gpu"]) == wanted)


def _read(path: Path, columns: tuple[str, ...]) -> list[Record]:
    path = shipped(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            heads = tuple(reader.fieldnames or ())
            records = list(reader)
    except FileNotFoundError:
        raise ReproError(
            "no such file of published numbers", where=path, todo="run from the root of the repository"
        ) from None
    except (csv.Error, ValueError, OSError) as error:
        raise ReproError("unreadable file of published numbers", where=path, actual=error) from None
    if heads != columns:
        raise ReproError(
            "a file of published numbers has other columns",
            where=path,
            expected=", ".join(columns),
            actual=", ".join(heads),
        )
    for line, record in enumerate(records, start=2):
        if None in record or None in record.values():  # the reader's marks for too many and too few
            raise ReproError(
                "a line of published numbers has another number of columns",
                where=f"{path}:{line}",
                expected=len(columns),
            )
    return records
