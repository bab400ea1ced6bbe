"""The command line `repro`: one subcommand for each rule of the workflow, which can also be called by hand."""

from __future__ import annotations

import sys
import traceback

#: Modules that packages of the extra `campaign` have; commands import them, operators do not.
CAMPAIGN_MODULES = (
    "filelock", "grimp", "matplotlib", "meshio", "pandas", "pooch", "psutil", "pyarrow", "pydantic", "rich", "skfem",
    "snakemake", "ssgetpy", "typer", "yaml",
)  # fmt: skip


def main() -> None:
    from repro.cli.console import open_streams
    from repro.programs import ensure_utf8

    ensure_utf8()
    open_streams()  # reopen closed standard streams before any file is opened
    from repro.errors import ReproError
    from repro.package_data import require_packages

    try:
        require_packages(CAMPAIGN_MODULES)
    except ReproError as error:
        sys.exit(f"error: {error}")
    try:
        from repro.cli.app import run
        from repro.containment import leave
    except KeyboardInterrupt:  # imports take a second
        print("interrupted", file=sys.stderr)
        sys.exit(130)

    try:
        run()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            leave(ended.code or 0)
        raise
    except BaseException:
        traceback.print_exc()
        leave(1)
        raise SystemExit(1) from None
    leave(0)
