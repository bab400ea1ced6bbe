"""The command line: `repro`, one subcommand a workflow rule, each of use by hand."""
