"""Campaigns that stand beside one in its tables: whether they are there, and the files that are read of them."""

from __future__ import annotations

from pathlib import Path

from repro.config import Config
from repro.errors import ReproError


def raw_of(campaign: str) -> Path:
    """Return where all lies that a campaign's artifacts are made from."""
    return Path("results", campaign, "raw")


def recorded(raw: Path) -> tuple[Path, ...]:
    """Return the files of a campaign that artifacts are made from, as they are now."""
    return tuple(sorted(path for path in raw.rglob("[!.]*") if path.suffix in (".json", ".parquet")))


def check_beside(config: Config) -> None:
    """Refuse campaigns that cannot stand beside this one.

    Raises
    ------
    ReproError
        One of them is this one, or is not there.
    """
    for name in config.beside:
        if name == config.campaign:
            raise ReproError("a campaign cannot stand beside itself", where="beside", actual=name)
        if not raw_of(name).is_dir():
            raise ReproError(
                "no such campaign to stand beside this one",
                where=raw_of(name),
                todo="measure it first, or leave it out of `beside`; `--config 'beside=[]'` leaves all out",
            )
