"""The command line: `repro`, one subcommand a workflow rule, each of use by hand."""

from __future__ import annotations


def main() -> None:
    """Run `repro`."""
    from repro.cli.console import open_streams

    open_streams()  # before anything else is opened
    from repro.cli.app import run

    run()
