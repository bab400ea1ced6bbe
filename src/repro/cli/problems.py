"""Commands in the panel "Problems": `repro fetch`, `resolve` and `problem`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from repro.campaign.configuration import load
from repro.campaign.plan import plan_of_cases
from repro.campaign.problem_files import build_problem
from repro.campaign.problem_files import record_unavailable as write_unavailable
from repro.campaign.receipts import Receipt, RunningStep, record_step, stale_reason
from repro.campaign.steps import building, building_into
from repro.cli.app import reason_of
from repro.cli.options import ConfigFile
from repro.cli.options import Receipt as WithReceipt
from repro.config.models import Config, OwnProblem
from repro.errors import ReproError
from repro.package_data import DEFAULT_CONFIG
from repro.problems.assembly import definiteness
from repro.problems.builder import find, mesh_of
from repro.problems.fetch import Found
from repro.problems.files import mesh_checksum
from repro.problems.own_problems import planned
from repro.problems.problem import Problem, load_problem
from repro.problems.registry import ProblemSpec, Recipe, Registry, Stanford, Suitesparse, Tetmesh, load_registry
from repro.problems.repositories import MeshFile, read_stanford, read_suitesparse, read_tetmesh, write_mesh

_out, _err = Console(soft_wrap=True, highlight=False), Console(stderr=True, soft_wrap=True, highlight=False)


def fetch(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Problems or sets.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything in the registry.")] = False,
    config_file: ConfigFile = DEFAULT_CONFIG,
) -> None:
    """Fetch the input files of problems from mirrors, or else from their original URLs.

    Generated problems need no input files. Fetched files are read and checked; a failure message lists all places
    that were tried.

    Examples:

        repro fetch mhd1280b surfaces/bunny

        repro fetch papers

        REPRO_MIRROR=/data/mirror repro fetch --all
    """
    _talk()
    config = load(config_file)
    registry = load_registry(Path(config.registry))
    if bool(names) == all_:
        raise ReproError(
            "both names and --all are given" if names else "nothing to fetch is named",
            expected="names of problems or sets, or --all",
            todo="`repro list problems` prints all names and sets",
        )
    items = list(registry.problems) if all_ else registry.expand(names or [])
    selected_items: dict[str, ProblemSpec] = {}
    for item in items:
        if not isinstance(item, OwnProblem):
            inputs = item.inputs if isinstance(item, Recipe) else ()
            selected_items.update({spec.name: spec for spec in (*map(registry.find, inputs), item)})
    failed_names = []
    for name, item in selected_items.items():
        try:
            _out.print(f"{name}: {_fetch(item, config)}", markup=False)
        except ReproError as error:
            failed_names.append(name)
            _err.print(str(error), markup=False)
    if failed_names:
        raise ReproError(
            f"{len(failed_names)} of {len(selected_items)} could not be fetched",
            actual=", ".join(failed_names),
            todo="the messages above say where to put the files by hand",
        )


def _talk() -> None:
    """Log downloads on standard error, one line each."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("repro.problems").setLevel(logging.INFO)


def _fetch(item: ProblemSpec, config: Config) -> str:
    """Fetch the file of a problem and return a text on its source."""
    source: Any
    keep_settings = config.fetch.model_copy(update={"keep": True})
    match item:
        case Suitesparse():
            source = read_suitesparse(item, keep_settings, config.limits)
        case Stanford():
            source = read_stanford(item, keep_settings, config.limits)
        case Tetmesh():
            source = read_tetmesh(item, keep_settings, config.limits)
        case _:
            return f"{item.source}, nothing to fetch"
    return f"{source.address} ({source.content.checksum['state']})"


def problem(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A registered problem, or one of the configuration's.")],
    config_file: ConfigFile = DEFAULT_CONFIG,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file to write; by default <fetch.cache>/problems/NAME.npz."
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Also write everything but the arrays to a JSON file."),
    ] = None,
    mesh: Annotated[
        Path | None,
        typer.Option(
            "--mesh",
            metavar="FILE",
            help="Write only the mesh on which the problem is assembled: .meshb, .meshb.gz or .meshb.xz.",
        ),
    ] = None,
    info: Annotated[
        bool, typer.Option("--info", help="Print a description of the problem; build it if it is out of date.")
    ] = False,
    record_unavailable: Annotated[
        bool,
        typer.Option(
            "--record-unavailable", help="If it is unavailable, write a file with the reason and exit with 0."
        ),
    ] = False,
    receipt: WithReceipt = False,
) -> None:
    """Build a problem into one file: its content, statistics, origin and checksums.

    Examples:

        repro problem surfaces/bunny --output bunny.npz

        repro problem helmholtz_box --info

        repro problem mhd1280b --output mhd1280b.npz --record mhd1280b.json

        repro problem my_matrix --config my_campaign.yaml

        repro problem fem/nut_37k --mesh /data/mirror/recipe/nut_37k.meshb.xz
    """
    _talk()
    config = load(config_file)
    item = find(name, config)
    if mesh is not None:
        if output or record or info:
            raise ReproError("--mesh writes only the mesh", todo="omit --output, --record and --info")
        _write_mesh(mesh, mesh_of(item, config))
        return
    problems_folder = Path(config.fetch.cache) / "problems"
    path = output or problems_folder / f"{name}.npz"
    step = None
    if receipt:
        step = building(plan_of_cases(config, [name]), name)
    elif output is None and not record_unavailable:
        outline = planned(item, load_registry(Path(config.registry)), config.limits)
        step = building_into((path,), problems_folder / "receipts" / f"{name}.json", outline, config)
        earlier_receipt = Receipt.load(step.receipt)
        if info and not record and earlier_receipt and not stale_reason(step, {step.receipt: earlier_receipt}, {}):
            _out.print(describe(load_problem(path, name), path))
            return
    with record_step(step) if step else nullcontext() as running_step:
        if record_unavailable:
            problem_file = build_or_record(name, config, path, record, running_step)
        else:
            problem_file = build_problem(name, config, path, record)
    if problem_file is None:
        return
    if not info:  # with `info`, notes are printed with everything else
        for note in problem_file.origin.get("notes", ()):
            _err.print(f"note: {note}", markup=False)
    sizes = ", ".join(" ".join(row) for row in problem_file.info())
    _out.print(describe(problem_file, path) if info else f"{name}: {sizes} -> {path}")


def build_or_record(
    name: str,
    config: Config,
    path: Path,
    record: Path | None,
    running_step: RunningStep | None,
    registry: Registry | None = None,
) -> Problem | None:
    """Build and return a problem; on failure, write a file with the reason and return None."""
    try:
        return build_problem(name, config, path, record, registry)
    except Exception as failure:  # catch bugs and lack of memory too, so that other problems are still built
        reason = reason_of(failure)
        write_unavailable(name, config, reason, path, record, registry)
        if running_step:
            running_step.failed(reason)
        _err.print(f"warning: {name} is unavailable\n{reason}", markup=False)
        return None


def _write_mesh(path: Path, source: Found[MeshFile]) -> None:
    content = source.content
    write_mesh(path, content.vertices, content.cells)
    for note in content.notes:
        _err.print(f"note: {note}", markup=False)
    _out.print(
        f"{len(content.vertices)} vertices, {len(content.cells)} cells from {source.address} -> {path}\n"
        f"checksum sha256 {mesh_checksum(content.vertices, content.cells)}",
        markup=False,
    )


def describe(problem: Problem, path: Path) -> Table:
    """Return a table with size, statistics, origin and checksums of a problem."""
    table = Table(title=f"problem {problem.name}", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    table.add_row("file", str(path))
    table.add_row("kind", problem.kind)
    for row in problem.info():
        table.add_row(*row)
    table.add_row("checksum", f"sha256 {problem.checksum()}", end_section=True)
    for part in (problem.statistics, problem.origin):
        for key, value in part.items():
            # these entries are printed above
            if key == "semidefinite":
                table.add_row("positive", definiteness(problem.origin.get("notes", ())))
            elif key not in ("rows", "nonzeros", "cells"):
                table.add_row(key.replace("_", " "), _text(value))
        table.add_section()
    return table


def _text(value: object) -> str:
    """Format a value of the statistics or the origin."""
    match value:
        case Mapping():
            return ", ".join(f"{key} {_text(part)}" for key, part in value.items())
        case list() | tuple():
            return "\n".join(map(_text, value)) or "-"
        case bool() | None:
            return {True: "yes", False: "no", None: "-"}[value]
        case float():
            return f"{value:.4g}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def resolve(
    name: Annotated[str, typer.Argument(metavar="SET", help="A set of one of the registry's collections.")],
    index: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use this copy of the collection's ssstats.csv instead of the network."),
    ] = None,
    config_file: ConfigFile = DEFAULT_CONFIG,
) -> None:
    """Look up the matrices of a set in the index of the SuiteSparse collection, and write them into the set's file.

    The file also records the query, the date and the index's size. Keep it in the repository, so that a set stays the
    same until it is resolved again.

    Examples:

        repro resolve coo_papers

        repro resolve coo_papers --index ssstats.csv
    """
    from repro.package_data import WHEEL_DATA, shipped
    from repro.problems.registry import load_collection, read_csv
    from repro.problems.repositories import read_index

    config = load(config_file)
    registry = shipped(config.registry)
    files = [registry.parent / path for path in load_registry(registry).collections]
    collections = {collection.name: (collection, file) for file in files for collection in [load_collection(file)]}
    if name not in collections:
        raise ReproError("no collection has this name", where=registry, expected=", ".join(collections), actual=name)
    collection, file = collections[name]
    if WHEEL_DATA in file.parents:
        raise ReproError(
            "the set's file belongs to the installed package",
            where=file,
            expected="your own registry",
            todo=f"copy the configurations here, `cp -r {WHEEL_DATA / 'config'} .`, and give the command again",
        )
    if index is not None:
        (matrices, dated), source = read_csv(index), index.name
    else:
        try:
            matrices, dated, source = read_index(config.fetch), None, "ssgetpy"
        except ReproError as error:
            todo = "try again with a network, or name a copy of the collection's ssstats.csv with --index"
            raise ReproError(error.what, actual=error.actual, todo=todo) from None
    resolved = collection.resolve(matrices, source, dated, date.today().isoformat())
    resolved.write(file)
    typer.echo(f"{name}: {len(resolved.problems)} of {len(matrices)} matrices -> {file}")
