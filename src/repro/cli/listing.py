"""`repro list`: what can be named in a configuration or on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Rows = Iterable[tuple[object, ...]]
CONFIG = Path("config/config.yaml")


class What(StrEnum):
    """What can be listed."""

    problems = "problems"
    sets = "sets"
    entries = "entries"
    layouts = "layouts"
    baselines = "baselines"
    artifacts = "artifacts"
    devices = "devices"
    studies = "studies"


def list_(
    what: Annotated[
        What | None,
        typer.Argument(metavar="WHAT", help="What to list; without it all there is to list.", show_default=False),
    ] = None,
    config: Annotated[
        Path, typer.Option(help="Names the registry and problems of your own; see `repro config --help`.")
    ] = (CONFIG),
) -> None:
    """List problems, sets, entries, layouts, baselines, artifacts, devices or studies.

    Examples:

        repro list

        repro list problems

        repro list artifacts
    """
    from repro.cli.columns import in_columns, terminal_width

    heads, rows = LISTS[what](config) if what else list_lists(config)
    for number, line in enumerate(in_columns(heads, rows, terminal_width())):
        typer.echo(line if number else typer.style(line, bold=True))


def list_lists(config: Path) -> tuple[list[str], Rows]:
    """All that can be listed: how much of it there is, none where it cannot be told, and the command."""
    from repro.errors import ReproError

    rows: list[tuple[object, ...]] = []
    for what, function in LISTS.items():
        count = None
        with suppress(ReproError):  # such as a configuration that cannot be read; the command itself says why
            count = len(list(function(config)[1]))
        rows.append((what.value, count, f"repro list {what.value}"))
    return ["what", "how many", "command"], rows


def list_problems(config: Path) -> tuple[list[str], Rows]:
    """Every registered problem and the configuration's own: name, entry or kind, source and published size."""
    from repro.config import load
    from repro.config.models import OwnProblem
    from repro.problems.registry import MatrixItem, load_registry, own_name

    settings = load(config)
    registry = load_registry(Path(settings.registry))
    rows: list[tuple[object, ...]] = []
    for item in registry.problems:
        size = f"{item.published.rows:,}; {item.published.nonzeros:,}" if item.published else None
        remark = "rebuilt" if item.rebuilt else f"stands in for {item.stand_in}" if item.stand_in else None
        kind = item.kind_of_problem
        what = item.entry if isinstance(item, MatrixItem) and kind == "matrix" else kind
        rows.append((item.name, what, item.source, size, ", ".join(item.sets), remark))
    for study in settings.studies.values():
        for wish in study.problems if not isinstance(study.problems, str) else ():
            if isinstance(wish, OwnProblem):
                meant = wish.entry if wish.kind_of_problem == "matrix" else wish.kind_of_problem
                rows.append((own_name(wish), meant, wish.path, None, None, "your own"))
    return ["problem", "entry", "source", "rows; non-zeros", "sets", "remark"], rows


def list_sets(config: Path) -> tuple[list[str], Rows]:
    """Every set with its members."""
    from repro.config import load
    from repro.problems.registry import load_registry

    registry = load_registry(Path(load(config).registry))
    members = {name: [item.name for item in registry.problems if name in item.sets] for name in registry.sets()}
    rows = {name: ", ".join(items) for name, items in members.items()}
    rows |= {name: f"not resolved yet: `repro resolve {name}`" for name in registry.unresolved()}
    return ["set", "problems"], sorted(rows.items())


def list_entries(_: Path) -> tuple[list[str], Rows]:
    """Every entry with its members."""
    from repro.entries import entries

    rows = [
        (entry.name, ", ".join(entry.members), ", ".join(entry.vector_members), f"{entry.size}×{entry.size}")
        for entry in entries().values()
    ]
    return ["entry", "members", "vector members", "real expansion"], rows


def list_layouts(_: Path) -> tuple[list[str], Rows]:
    """Every layout, study by study: the papers', then ours."""
    from repro.studies import get_study, names

    rows = [(layout, study, remark) for study in names() for layout, remark in get_study(study).layouts()]
    return ["layout", "study", "remark"], rows


def list_baselines(_: Path) -> tuple[list[str], Rows]:
    """Every baseline of every entry, by the device that it runs on."""
    from repro.entries import entries
    from repro.sparse.library import for_problem

    rows = []
    for backend in ("cuda", "opencl"):
        for entry in entries():
            for item in for_problem(entry, backend):
                rows.append((item.name, backend, entry, "yes" if item.columns.get("papers_choice") else None))
    return ["baseline", "device", "entry", "the papers' choice"], rows


def list_artifacts(_: Path) -> tuple[list[str], Rows]:
    """Every table and figure of every study."""
    from repro.campaign.artifacts import all_artifacts
    from repro.studies import names

    rows = [(f"{study}/{item.name}", item.numbering, item.title) for study in names() for item in all_artifacts(study)]
    return ["artifact", "in the paper", "title"], rows


def list_devices(_: Path) -> tuple[list[str], Rows]:
    """Every device that `device:` can name here."""
    from repro.codegen.opencl_runtime import find_devices
    from repro.devices.detect import find_gpus
    from repro.errors import ReproError

    rows: list[tuple[object, ...]] = [(f"cuda:{gpu.ordinal}", gpu.name, gpu.capability) for gpu in find_gpus()]
    with suppress(ReproError):  # `repro doctor` says why there is none
        rows += [(f"opencl:{ordinal}", device.name.strip(), "cpu") for ordinal, device in enumerate(find_devices())]
    return ["device", "name", "target"], rows


def list_studies(_: Path) -> tuple[list[str], Rows]:
    """Every study with the papers it re-runs."""
    from repro.studies import get_study, names

    return ["study", "what it re-runs"], [(name, get_study(name).reference) for name in names()]


LISTS: dict[What, Callable[[Path], tuple[list[str], Rows]]] = {
    What.problems: list_problems,
    What.sets: list_sets,
    What.entries: list_entries,
    What.layouts: list_layouts,
    What.baselines: list_baselines,
    What.artifacts: list_artifacts,
    What.devices: list_devices,
    What.studies: list_studies,
}
