"""The command line `repro`: one subcommand for each rule of the workflow, which can also be called by hand."""

from __future__ import annotations


def main() -> None:
    from repro.cli.console import open_streams

    open_streams()  # reopen closed standard streams before any file is opened
    from repro.cli.app import run

    run()
