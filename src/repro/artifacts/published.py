"""The papers' own numbers, as typed into `config/published/<study>-*.csv`, and our targets, `config/targets`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError

FOLDER = Path("config/published")
Record = dict[str, str]

#: The files of each study and their columns; a study without published numbers has none.
FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "compound_spmv": {
        "sizes": ("table", "gpu", "problem", "entry", "rows", "nonzeros"),
        "layouts": ("table", "gpu", "entry", "precision", "problem", "layout", "speedup"),
        "dynamic": ("table", "gpu", "problem", "preferred"),
        "memory": ("table", "gpu", "problem", "csr_size", "csr_unit", "ELL", "Sl-16", "Sl-32", "cuSPARSE"),
        "devices": ("table", "gpu", "name", "compute_capability", "multiprocessors", "cuda", "calls"),
        "text": ("table", "gpu", "quantity", "precision", "value"),
    },
    "compressed_coo": {
        "text": ("table", "gpu", "quantity", "precision", "value"),
    },
}
#: What we aim at ourselves: the column `prototype` is there where a prototype was measured before.
TARGETS: Mapping[str, tuple[str, ...]] = {
    "compound_spmv": ("quantity", "prototype", "wanted", "what"),
    "compressed_coo": ("quantity", "wanted", "what"),
}


@dataclass(frozen=True)
class Published:
    """What is printed in the papers of one study, a record a line: a number is kept as the text that was printed.

    Attributes
    ----------
    tables
        Records of each of the study's `FILES`, by the file's name without the study's.
    targets
        What we aim at ourselves; empty where a study aims at nothing.
    """

    tables: Mapping[str, list[Record]]
    targets: list[Record]

    @classmethod
    def load(cls, folder: Path = FOLDER, study: str = "compound_spmv") -> Published:
        """Read all published tables of a study, and its targets beside them.

        Raises
        ------
        ReproError
            A file is missing or has other columns.
        """
        files = FILES.get(study, {})
        tables = {name: _read(folder / f"{study}-{name}.csv", columns) for name, columns in files.items()}
        aims = folder.parent / "targets" / f"{study}.csv"
        return cls(tables, _read(aims, TARGETS[study]) if study in TARGETS and aims.exists() else [])

    def __getitem__(self, name: str) -> list[Record]:
        """Return the records of one file."""
        return self.tables[name]

    @property
    def gpus(self) -> list[str]:
        """The papers' GPUs, oldest first."""
        return [device["gpu"] for device in self["devices"]]

    @property
    def problems(self) -> dict[str, str]:
        """The papers' problems in their order, with the entry of each; empty where the papers' sizes are not typed."""
        return {item["problem"]: item["entry"] for item in self.tables.get("sizes", [])}

    def quantity(self, name: str, precision: str = "", gpu: str = "") -> str:
        """Return a number from the text, as printed."""
        wanted = (name, precision, gpu)
        return next(i["value"] for i in self["text"] if (i["quantity"], i["precision"], i["gpu"]) == wanted)


def _read(path: Path, columns: tuple[str, ...]) -> list[Record]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            found = tuple(reader.fieldnames or ())
            records = list(reader)
    except FileNotFoundError:
        raise ReproError(
            "no such file of published numbers", where=path, todo="run from the root of the repository"
        ) from None
    except (csv.Error, ValueError, OSError) as error:
        raise ReproError("unreadable file of published numbers", where=path, actual=error) from None
    if found != columns:
        raise ReproError(
            "a file of published numbers has other columns",
            where=path,
            expected=", ".join(columns),
            actual=", ".join(found),
        )
    for line, record in enumerate(records, start=2):
        if None in record or None in record.values():  # the reader's marks for too many and too few
            raise ReproError(
                "a line of published numbers has another number of columns",
                where=f"{path}:{line}",
                expected=len(columns),
            )
    return records
