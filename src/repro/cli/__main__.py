"""`python -m repro.cli` is `repro`."""

from repro.cli import main

main()
