"""`python -m repro` is `repro`, also where the environment is not on PATH."""

from repro.cli import main

main()
