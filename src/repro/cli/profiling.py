"""`repro launch` and `repro counters`: a few launches of what is named, and what a profiler counts in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repro.cli.measuring import DEFAULT_CONFIG, ConfigFile, Precision, ProblemName, StudyName

Runnables = Annotated[
    list[str],
    typer.Argument(
        metavar="RUNNABLE...",
        help="Variants of any space, `floor`, and routines of the library, as the tables name them.",
        show_default=False,
    ),
]
Launches = Annotated[int, typer.Option(min=1, help="Launches of each.")]


def launch(
    study: StudyName,
    problem: ProblemName,
    precision: Precision,
    runnables: Runnables,
    config: ConfigFile = DEFAULT_CONFIG,
    launches: Launches = 4,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what was launched as JSON.", show_default=False)
    ] = None,
) -> None:
    """Prepare and verify what is named, then launch each a few times; nothing is timed.

    To be run under a profiler or a sanitizer. An empty kernel is launched before each of them and after the last. A
    variant that no compiled module holds is compiled by itself. `floor` is the fastest recorded configuration of the
    streaming kernel, floor/256-4 where none is recorded.

    Examples:

        repro launch compound_spmv dirac_torus single CSR-AoS-AoS/static-256-4 floor

        compute-sanitizer repro launch compound_spmv fem/nut_37k double CSR-AoSoA-Padded/direct-64-16-w8

        ncu --set full -o nut repro launch compound_spmv fem/nut_37k double cusparse/bsrmv/real3
    """
    import json

    from repro.campaign import launching
    from repro.config import load

    rows = launching.launch(load(config), study, problem, precision, runnables, launches)
    if record is not None:
        record.write_text(json.dumps([row.as_dict() for row in rows]))
    for row in rows:
        verified = "nothing to verify" if row.error is None else f"verified, error {row.error:.2g} of its bound"
        typer.echo(f"{row.name}: {verified}, launched {launches} times")


def counters(
    study: StudyName,
    problem: ProblemName,
    precision: Precision,
    runnables: Runnables,
    config: ConfigFile = DEFAULT_CONFIG,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parquet file; counters.parquet beside the measured rows by default."),
    ] = None,
    launches: Launches = 4,
) -> None:
    """Run `repro launch` under NVIDIA's profiler `ncu` and keep its counters, a row for each of what is named.

    Time on the GPU, bytes from memory and from L2, hit rates, occupancy, stalls, registers, requests and sectors:
    medians over the launches after the first, with a warm cache. Rows of the same names are replaced, others stay;
    `repro table table-counters` prints them. Needs `ncu` and the permission to read counters.

    Example:

        repro counters compound_spmv fem/nut_37k single CSR-AoS-AoS/static-256-4 floor cusparse/bsrmv/real3
    """
    from repro.campaign.counting import count
    from repro.config import load

    path = count(load(config), config, study, problem, precision, runnables, launches, output)
    typer.echo(f"wrote {path}")
