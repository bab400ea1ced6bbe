"""`python -m repro` runs the command `repro`, even if the environment's programs are not on PATH."""

from repro.cli import main

main()
