"""The papers' own numbers, as typed into `config/published/<study>-*.csv`, and our targets, `config/targets`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError

FOLDER = Path("config/published")
TARGETS = ("quantity", "prototype", "wanted", "what")
Record = dict[str, str]

COLUMNS = {
    "sizes": ("table", "gpu", "problem", "entry", "rows", "nonzeros"),
    "layouts": ("table", "gpu", "entry", "precision", "problem", "layout", "speedup"),
    "dynamic": ("table", "gpu", "problem", "preferred"),
    "memory": ("table", "gpu", "problem", "csr_size", "csr_unit", "ELL", "Sl-16", "Sl-32", "cuSPARSE"),
    "devices": ("table", "gpu", "name", "compute_capability", "multiprocessors", "cuda", "calls"),
    "text": ("table", "gpu", "quantity", "precision", "value"),
}


@dataclass(frozen=True)
class Published:
    """Published tables of one study, a record a line: a number is kept as the text that was printed.

    Attributes
    ----------
    sizes, layouts, dynamic, memory
        Tables 1, 2 to 7, 8 and 9 of the 2020 paper.
    devices, text
        The papers' GPUs, and the numbers that stand in the text only.
    targets
        What we aim at ourselves; empty where a study aims at nothing.
    """

    sizes: list[Record]
    layouts: list[Record]
    dynamic: list[Record]
    memory: list[Record]
    devices: list[Record]
    text: list[Record]
    targets: list[Record]

    @classmethod
    def load(cls, folder: Path = FOLDER, study: str = "compound_spmv") -> Published:
        """Read all published tables of a study, and its targets beside them.

        Raises
        ------
        ReproError
            A file is missing or has other columns.
        """
        tables = {name: _read(folder / f"{study}-{name}.csv", columns) for name, columns in COLUMNS.items()}
        aims = folder.parent / "targets" / f"{study}.csv"
        return cls(**tables, targets=_read(aims, TARGETS) if aims.exists() else [])

    @property
    def gpus(self) -> list[str]:
        """The papers' GPUs, oldest first."""
        return [device["gpu"] for device in self.devices]

    @property
    def problems(self) -> dict[str, str]:
        """The papers' problems in their order, with the entry of each."""
        return {item["problem"]: item["entry"] for item in self.sizes}

    def quantity(self, name: str, precision: str = "") -> str:
        """Return a number from the text, as printed."""
        return next(item["value"] for item in self.text if item["quantity"] == name and item["precision"] == precision)


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
