"""The application with all commands; failures are printed as one message, with a traceback only on request."""

from __future__ import annotations

import errno
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

from repro.cli.console import INTERRUPTED, STDOUT, TERMINATED, handle_signals
from repro.errors import ReproError

DEBUG = "--debug"


class Command(NamedTuple):
    """A command's panel, its function, its line in `repro --help`, and its exit code on failure."""

    panel: str
    module: str
    function: str
    line: str
    failed: int = 1
    #: Meanings of this command's exit codes that differ from `EXIT_CODES`.
    codes: Mapping[int, str] = {}


#: Meanings of the exit codes of all commands.
EXIT_CODES = {
    0: "done",
    1: "refused or failed: one message on standard error says what, where, and what to do",
    2: "the command line is wrong: an unknown command, option or argument",
    INTERRUPTED: "interrupted, by SIGINT or Ctrl-C",
    TERMINATED: "terminated, by SIGTERM",
}


#: All commands, in the order of use in a campaign. Only the module of the called command is imported.
COMMANDS = {
    "doctor": Command(
        "Before a run", "doctor", "doctor", "Show what this machine has and what to install.",
        codes={0: "a device can be used", 1: "no usable device"},
    ),
    "list": Command("Before a run", "campaign", "list_", "List what can be named in a configuration."),
    "config": Command("Before a run", "campaign", "config", "Print the configuration in full, or write its schema."),
    "plan": Command("Before a run", "campaign", "plan", "Show what a campaign will do and what it needs."),
    "run": Command(
        "A run", "campaign", "run", "Run all steps of a campaign in this folder.",
        codes={0: "everything was made", 1: "something failed or is missing, or the configuration is refused"},
    ),
    "fetch": Command("Problems", "problems", "fetch", "Fetch the input files of problems."),
    "resolve": Command("Problems", "problems", "resolve", "Look up the matrices of a set in a collection's index."),
    "problem": Command("Problems", "problems", "problem", "Build a problem into one file."),
    "render": Command("Kernels", "kernels", "render", "Print the source of one module."),
    "compile": Command("Kernels", "kernels", "compile_", "Compile modules, without a device."),
    "rival": Command("Measuring", "kernels", "rival", "Check your own kernel on small matrices."),
    "measure": Command("Measuring", "measurement", "measure", "Verify and time all variants on one problem."),
    "batch": Command("Measuring", "measurement", "batch", "Build or measure many small problems in one job."),
    "launch": Command("Measuring", "measurement", "launch", "Launch the named kernels a few times, for a profiler."),
    "counters": Command("Measuring", "measurement", "counters", "Read a profiler's counters for the named kernels."),
    "table": Command("Results", "results", "table", "Make tables of a measured campaign."),
    "figure": Command("Results", "results", "figure", "Make figures of a measured campaign."),
    "report": Command("Results", "results", "report", "Write the report of a measured campaign."),
    "best": Command("Results", "results", "best", "Print the fastest kernel on each problem and how to use it."),
    "claims": Command("Results", "results", "claims", "Judge the papers' claims by the measured rows."),
    "compare": Command(
        "Results", "results", "compare", "Compare two campaigns: same, faster, slower, undecided.", 2,
        {
            0: "no row is slower; always so with `--across-devices`",
            1: "at least one row is slower",
            2: "the campaigns cannot be compared, or the command line is wrong",
        },
    ),
    "results": Command(
        "Results", "records", "results_", "Print measured rows, also for NVBench's and Kernel Tuner's tools."
    ),
    "record": Command("Results", "records", "record", "Store a campaign as a record: one file per study and step."),
    "verify": Command(
        "Results", "records", "verify", "Check a record's files and whether its tables follow from them.",
        codes={0: "files and tables are as recorded", 1: "some are not, or it is refused"},
    ),
    "merge": Command("Results", "records", "merge", "Merge campaigns that were measured separately."),
    "export": Command("Results", "records", "export", "Write a tuned kernel as a C++ library."),
    "check": Command(
        "Results", "records", "check", "Fail if any part of a campaign is missing or failed.",
        codes={0: "the campaign is complete", 1: "something is missing, failed or out of date, or it is refused"},
    ),
}  # fmt: skip


#: Failures of the system that often name no file.
_SYSTEM_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE)


def explain(error: OSError) -> ReproError | None:
    """Return a message for a failure to read or write that a user can resolve; None for others, which are bugs."""
    if error.filename == STDOUT and error.errno == errno.EBADF:
        todo = "leave it open, or send it to a file or to /dev/null"
        return ReproError("standard output is closed, and there is something to print", todo=todo)
    path = error.filename2 or error.filename
    if not path and error.errno not in _SYSTEM_FAILURES:
        return None
    return ReproError("a file cannot be read or written", where=path, actual=error.strerror)


def reason_of(failure: Exception) -> str:
    """Return the reason to record for a failure; print the traceback of a bug, and add its line in a study's code."""
    from repro.studies.registry import failed_line

    if isinstance(failure, OSError) and (explain(failure) or failure.errno == errno.EPIPE):
        raise failure
    if isinstance(failure, ReproError):
        return str(failure)
    traceback.print_exception(failure)
    first, newline, further_lines = f"{type(failure).__name__}: {failure}".partition("\n")
    line = failed_line(failure)
    return f"{first} (at {line}){newline}{further_lines}" if line else f"{first}{newline}{further_lines}"


def report_errors(command: Callable[..., None], exit_code: int = 1) -> Callable[..., None]:
    """Wrap a command: errors that a user can resolve are printed as one message on stderr, with an exit code."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except ReproError as error:
            _fail(error, error, exit_code)
        except OSError as error:
            _fail_for_file(error, exit_code)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except MemoryError as error:
            todo = "run it on a machine with more, or raise the limit, `ulimit -v`"
            _fail(ReproError("not enough memory", actual=str(error) or None, todo=todo), error, exit_code)

    return run


def _fail_for_file(error: OSError, exit_code: int) -> NoReturn:
    """Print a message on a file system error and exit; print none if the reader of our output pipe has ended."""
    if error.errno == errno.EPIPE:  # as in `repro list … | head`
        raise typer.Exit(exit_code) from None
    explained = explain(error)
    if explained is None:
        raise error
    _fail(explained, error, exit_code)


def _fail(message: ReproError, error: Exception, code: int) -> NoReturn:
    if _state["debug"]:
        raise error
    # quotations from untrusted files must not control the terminal
    text = "".join(
        letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in str(message)
    )
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {text}", err=True)
    raise typer.Exit(code) from None


_state = {"debug": False}


def _version(asked: bool) -> None:
    if asked:
        from repro import __version__

        typer.echo(f"sparse-repro {__version__}")
        raise typer.Exit


def _options(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of a failure.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Re-run published experiments on sparse-matrix GPU kernels, and print their tables beside the published ones.

    The workflow calls these commands (`snakemake --cores 8 all`); each can also be called by hand. The help of each
    command, `repro COMMAND --help`, has examples. If `repro` is not on PATH, use `python -m repro` with the
    environment's Python.
    """
    _state["debug"] = debug


def unwrapped(function: Callable[..., None]) -> str:
    """Return a docstring with each paragraph in one line, which help wraps to the terminal, and examples in one block.

    Typer would keep the ends of the source's lines.
    """
    paragraphs: list[str] = []
    for paragraph in inspect.cleandoc(function.__doc__ or "").split("\n\n"):
        is_example = paragraph.startswith("    ")
        if is_example and paragraphs and paragraphs[-1].startswith("    "):
            paragraphs[-1] += f"\n{paragraph}"
        else:
            paragraphs.append(paragraph if is_example else " ".join(paragraph.split()))
    return "\n\n".join(paragraphs)


class _Group(TyperGroup):
    """The commands, whose errors of options lose the prefix of Pydantic that Typer leaves in them."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def build(names: Collection[str] = tuple(COMMANDS)) -> typer.Typer:
    """Return the Typer application; only `names` commands are imported, the others are just listed in the help."""
    app = typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=unwrapped(_options))(_options)
    for name, command in COMMANDS.items():
        if name in names:
            function = getattr(import_module(f"repro.cli.{command.module}"), command.function)
            app.command(name, rich_help_panel=command.panel, help=unwrapped(function), short_help=command.line)(
                report_errors(function, command.failed)
            )
        else:
            app.command(name, rich_help_panel=command.panel, help=command.line)(_not_loaded)
    app.command("demo", hidden=True)(report_errors(_demo, 2))
    return app


def _demo() -> None:
    raise ReproError(
        "no such command: demo", todo="`make demo` in a checkout; elsewhere, `repro run --config config/demo.yaml`"
    )


def _not_loaded() -> None:
    raise AssertionError("a command was run that was not on the line")


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the application; `--debug` is accepted at any position."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if DEBUG in tokens:
        tokens = [DEBUG, *(token for token in tokens if token != DEBUG)]
    # for completion, a shell passes the words of the command line in environment variables
    completion_tokens = " ".join(os.environ.get(name, "") for name in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")).split()
    with handle_signals():
        try:
            try:
                build([*tokens, *completion_tokens])(tokens, prog_name="repro")
            finally:
                sys.stdout.flush()  # may fail because the disk is full
        except OSError as error:  # `report_errors` handles errors in commands; these are from printing help or version
            try:
                _fail_for_file(error, 1)
            except typer.Exit as ended:
                raise SystemExit(ended.exit_code) from None
