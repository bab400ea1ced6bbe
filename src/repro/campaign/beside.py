"""Campaigns that one reads beside itself: those that stand in its tables, and those that its searches learn from."""

from __future__ import annotations

from pathlib import Path

from repro.config import Config
from repro.errors import ReproError
from repro.reading import files_below


def raw_of(campaign: str) -> Path:
    """Return where all lies that a campaign's artifacts are made from."""
    return Path("results", campaign, "raw")


def recorded(raw: Path) -> tuple[Path, ...]:
    """Return the files of a campaign that artifacts are made from, as they are now."""
    return tuple(sorted([*files_below(raw, "*.json"), *files_below(raw, "*.parquet")]))


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


def check_training(config: Config) -> None:
    """Refuse predicted searches that have nothing to learn from, before anything is fetched or compiled for them.

    What is recorded is read when a case is measured; a search that finds too little in it fails there.

    Raises
    ------
    ReproError
        A campaign to learn from is this one, or has nothing of the study; or no other one has been searched.
    """
    for study, settings in config.studies.items():
        if settings.search != "predicted" or config.replay:
            continue
        where = f"studies.{study}.training"
        if settings.training == "all" or not settings.training:
            searches = Path("results").glob(f"[!.]*/raw/{study}/**/search.parquet") if settings.training else ()
            if not any(path.parts[1] != config.campaign for path in searches):
                raise ReproError(
                    "no recorded campaign to learn from",
                    where=where,
                    expected=f"a searched campaign of {study} in results, other than {config.campaign}",
                    todo="measure one with `search: exhaustive` first",
                )
            continue
        for name in settings.training:
            if name == config.campaign:
                raise ReproError("a campaign cannot learn from itself", where=where, actual=name)
            if not (raw_of(name) / study).is_dir():
                raise ReproError(
                    "no such campaign to learn from",
                    where=where,
                    actual=raw_of(name) / study,
                    todo="measure it first, leave it out of `training`, or use another `search`",
                )
