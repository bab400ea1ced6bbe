"""`repro export`: a tuned kernel as C++, to be used without Python."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from repro.export.render import Export

DEFAULT_CONFIG = Path("config/config.yaml")


class Precision(StrEnum):
    """The precisions."""

    single = "single"
    double = "double"


#: The study whose kernels can be taken away.
EXPORTED = "compound_spmv"


def export(
    precision: Annotated[Precision, typer.Option(help="Precision of the kernel.", show_default=False)],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder to make.", show_default=False)],
    problem: Annotated[
        str | None, typer.Argument(metavar="[PROBLEM]", help="Whose tuned kernel; not needed with --variant.")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option(help="Folder below --results; the configuration's by default.", show_default=False)
    ] = None,
    tuning: Annotated[
        str | None,
        typer.Option(help="Which of the campaign's choices: extended (or else joint), static, …", show_default=False),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="A variant by name, for example Sl-32-SoA-AoS/static-256-4.", show_default=False),
    ] = None,
    entry: Annotated[
        str | None, typer.Option(help="With --variant: real, complex, quaternion or block3.", show_default=False)
    ] = None,
    target: Annotated[str, typer.Option(help="With --variant: the GPU generation.")] = "sm_90",
    name: Annotated[
        str | None, typer.Option(help="Namespace, library and files; ENTRY_PRECISION by default.", show_default=False)
    ] = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Also write the problem's matrix, for the example to multiply with.")
    ] = False,
    study: Annotated[str, typer.Option(help="Study of the campaign.")] = EXPORTED,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = Path("results"),
    config: Annotated[Path, typer.Option(help="Names campaign and templates.")] = DEFAULT_CONFIG,
) -> None:
    """Write the kernel that a campaign chose for a problem as a C++ library: matrix class, vector class, product.

    The folder has a header, a CUDA source, a CMake file, an example, and a README that says where it came from.

    Examples:

        repro export surfaces/bunny --precision single --campaign h200 --to bunny

        repro export --variant Sl-32-SoA-AoS/static-256-4 --entry quaternion --precision double --to quaternions
    """
    from repro.config import load
    from repro.errors import ReproError
    from repro.export.render import render_export
    from repro.export.write import write_folder
    from repro.problems.names import campaign_folder

    if study != EXPORTED:
        raise ReproError("the kernels of this study cannot be exported", expected=EXPORTED, actual=study)
    settings = load(config)
    campaign = settings.campaign if campaign is None else campaign
    if variant is not None:
        wanted = _by_hand(variant, entry, precision.value, target, name)
    else:
        wanted = _of_campaign(results, campaign, study, problem, precision.value, tuning, entry, name)
    binaries = _matrix(campaign_folder(results, campaign) / "problems", problem, wanted) if matrix else {}
    for path in write_folder(to, render_export(Path(settings.kernels), wanted), binaries):
        typer.echo(f"wrote {path}")


def _matrix(folder: Path, problem: str | None, wanted: Export) -> dict[str, Callable[[Path], None]]:
    """Return what writes the problem's matrix, by its file."""
    from repro.errors import ReproError
    from repro.export.matrix_file import write_matrix
    from repro.problems.matrix import Matrix
    from repro.problems.names import check_name

    if problem is None:
        raise ReproError("--matrix needs a problem", todo="name one that the campaign has built")
    built = Matrix.load(folder / f"{check_name(problem, 'PROBLEM')}.npz")
    if built.entry != wanted.entry:
        raise ReproError("the problem has another entry", where=problem, expected=wanted.entry, actual=built.entry)
    return {f"{wanted.name}.matrix": lambda path: write_matrix(built, wanted.precision, path)}


def _by_hand(variant: str, entry: str | None, precision: str, target_name: str, name: str | None) -> Export:
    from repro.codegen.targets import get_target
    from repro.entries import get_entry
    from repro.errors import ReproError
    from repro.export.names import parse_variant
    from repro.export.render import Export

    if entry is None:
        raise ReproError("a variant needs an entry", where="--variant", todo="say what the non-zeros are with --entry")
    get_entry(entry)
    target = get_target(target_name)
    if target.dialect != "cuda":
        raise ReproError("only kernels for GPUs can be exported", expected="--target sm_…", actual=target_name)
    id = parse_variant(variant, target)
    provenance = [
        ("chosen", "by hand"),
        ("layout", str(id.layout)),
        ("schedule", str(id.schedule)),
        ("target", target_name),
    ]
    return Export(
        f"{entry}_{precision}" if name is None else name, entry, precision, id.layout, id.schedule, target, provenance
    )


def _of_campaign(
    results: Path,
    campaign: str,
    study: str,
    problem: str | None,
    precision: str,
    tuning: str | None,
    entry: str | None,
    name: str | None,
) -> Export:
    from repro.errors import ReproError
    from repro.export.chosen import find_chosen
    from repro.export.names import parse_variant
    from repro.export.render import Export

    if problem is None or entry is not None:
        raise ReproError(
            "--entry is the campaign's" if problem else "nothing to export",
            todo="name a problem of a campaign, or a variant with --variant and --entry",
        )
    chosen = find_chosen(results, campaign, study, problem, precision, tuning)
    if chosen.target.dialect != "cuda":
        raise ReproError(
            "the campaign was measured on a CPU, and its winner is no GPU's",
            where=f"campaign {campaign}",
            todo="name a campaign of a GPU with --campaign, or a variant with --variant",
        )
    id = parse_variant(chosen.name, chosen.target)
    time = "not timed again" if chosen.seconds is None else f"{chosen.seconds * 1e6:.3f} µs (median, graph clock, warm)"
    provenance = [
        ("campaign", chosen.campaign),
        ("problem", f"{problem}, {chosen.entry}, {precision} precision"),
        ("chosen", f"by {chosen.tuning} tuning"),
        ("layout", str(id.layout)),
        ("schedule", str(id.schedule)),
        ("measured time", time),
        ("GPU", f"{chosen.device or 'not recorded'} ({chosen.target.name})"),
        ("environment record", str(chosen.environment)),
    ]
    return Export(
        f"{chosen.entry}_{precision}" if name is None else name,
        chosen.entry,
        precision,
        id.layout,
        id.schedule,
        chosen.target,
        provenance,
    )
