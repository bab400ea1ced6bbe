"""`repro resolve`: ask a collection's index which matrices a set of the registry has."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

CONFIG = Path("config/config.yaml")


def resolve(
    name: Annotated[str, typer.Argument(metavar="SET", help="A set that one of the registry's collections makes.")],
    index: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A copy of the collection's ssstats.csv, in place of the network."),
    ] = None,
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="Configuration that names the registry.")
    ] = CONFIG,
) -> None:
    """Ask the index of the SuiteSparse collection for the matrices of a set, and write them into its file.

    The file holds the query, the date and the index's size as well, and belongs in the repository: a set stays the
    same until it is resolved again.

    Examples:

        repro resolve coo_papers

        repro resolve coo_papers --index ssstats.csv
    """
    from repro.config import load
    from repro.errors import ReproError
    from repro.problems.collection import load_collection, read_csv
    from repro.problems.registry import load_registry
    from repro.problems.suitesparse import read_index
    from repro.shipped import PACKED, shipped

    settings = load(config)
    registry = shipped(settings.registry)
    files = [registry.parent / path for path in load_registry(registry).collections]
    collections = {collection.name: (collection, file) for file in files for collection in [load_collection(file)]}
    if name not in collections:
        raise ReproError("no such set that a query makes", where=registry, expected=", ".join(collections), actual=name)
    collection, file = collections[name]
    if PACKED in file.parents:
        raise ReproError(
            "the set's file belongs to the installed package",
            where=file,
            expected="a registry of your own",
            todo=f"copy the configurations here, `cp -r {PACKED / 'config'} .`, and give the command again",
        )
    if index is not None:
        (matrices, dated), source = read_csv(index), index.name
    else:
        try:
            matrices, dated, source = read_index(settings.fetch), None, "ssgetpy"
        except ReproError as error:
            todo = "try again with a network, or name a copy of the collection's ssstats.csv with --index"
            raise ReproError(error.what, actual=error.actual, todo=todo) from None
    resolved = collection.resolve(matrices, source, dated, date.today().isoformat())
    resolved.write(file)
    typer.echo(f"{name}: {len(resolved.problems)} of {len(matrices)} matrices -> {file}")
