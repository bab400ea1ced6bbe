"""`repro run`: the workflow, in the current folder, wherever the package lies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--config", help="A configuration file in place of config/config.yaml; see `repro config --help`."
        ),
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores to use; all of this machine's by default.")] = None,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[-- WORDS...]", help="Further words for Snakemake.")
    ] = None,
) -> None:
    """Run a campaign: `snakemake --cores N all`, also in a folder that is no checkout; all it makes goes there.

    The workflow is that of the package; so are configuration, registry and templates where the folder has none.

    Examples:

        repro run

        repro run --config mine.yaml --cores 8

        repro run --config config/paper.yaml -- --dry-run
    """
    import os
    import sys

    from repro.config.load import read
    from repro.shipped import shipped

    read(*(files or []))  # Snakemake would answer a file that is missing or wrong with a traceback
    given = ["--configfile", *(str(shipped(path)) for path in files)] if files else []
    cores = cores or len(os.sched_getaffinity(0))
    # the files last: a word after them would be one of them
    command = ["--snakefile", str(shipped("Snakefile", here=False)), "--cores", str(cores), *(words or []), *given]
    sys.stdout.flush()
    # without the current folder, whose modules are not meant
    os.execv(sys.executable, [sys.executable, "-P", "-m", "snakemake", *command])
