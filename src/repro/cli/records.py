"""Commands in the panel "Results" that store a campaign or use parts of it: records, parts, exports, checks, rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repro.bench.campaign_folder import RESULTS, CampaignFolder
from repro.cli.options import (
    AsJson,
    CampaignArgument,
    CampaignName,
    ConfigFile,
    RecordedConfig,
    Results,
    named_campaign,
    print_json,
)
from repro.package_data import DEFAULT_CONFIG

if TYPE_CHECKING:
    from repro.campaign.completeness import Missing
    from repro.campaign.plan import Plan
    from repro.export.bundle import Export


def record(
    campaign: Annotated[str, typer.Argument(help="Folder below --results.", show_default=False)],
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Also record rows whose code is in no commit.")
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Store a campaign as a record: one file per study and step.

    The rows of all problems go to results/<campaign>/raw/<study>/<step>.parquet, and the files of single problems are
    deleted. Tables, figures, report and comparison read both forms. Run it again to merge problems measured
    later. It fails while a run is using the folder.

    results/<campaign>/commits.json maps the hash of the sources that measured rows to the commit of this checkout's
    history with these sources. Rows whose sources are in no commit are refused; --uncommitted stores null for them.
    ro-crate-metadata.json lists the measured files with their checksums, for `repro verify`.

    Example:

        repro record h200
    """
    from repro.bench.environment import checkout
    from repro.bench.records import code_of, read_environments
    from repro.campaign.archive import pack, record_commits, write_crate
    from repro.campaign.workflow import hold_run_lock

    folder = CampaignFolder.named(campaign, results)
    raw = folder.raw
    # no run may write files between reading and deleting, since they would be lost; `pack` reports a missing campaign
    with hold_run_lock(campaign, results) if raw.is_dir() else nullcontext():
        sizes_before, repository, commits = _sizes(raw), checkout(), {}

        def find_commits() -> None:
            if repository is not None:
                commits.update(record_commits(folder, repository, allow_uncommitted=uncommitted))

        for path in pack(folder, find_commits):
            typer.echo(f"{path}: {_mib(path.stat().st_size)}")
        sizes_after = _sizes(raw)
        if repository is not None:
            for code_text, names in code_of(read_environments(folder), commits).items():
                typer.echo(f"{code_text}: environment {', '.join(names)}")
        typer.echo(f"wrote {write_crate(folder)}")
    text = f"{len(sizes_before)} files of {_mib(sum(sizes_before))} before"
    typer.echo(f"{text}, {len(sizes_after)} of {_mib(sum(sizes_after))} now")


def verify(
    campaign: Annotated[str, typer.Argument(help="A record below --results.", show_default=False)],
    results: Results = RESULTS,
) -> None:
    """Check a record: whether its measured files are those that were recorded, and whether its tables follow from them.

    Each file is compared with its checksum in results/<campaign>/ro-crate-metadata.json, and each stored table with the
    table that is made from the rows now. No GPU is needed. Exit with 1 if anything differs.

    Example:

        repro verify h200
    """
    from repro.campaign.archive import find_damage, find_other_tables
    from repro.campaign.artifacts import CampaignSelection
    from repro.cli.console import Progress
    from repro.errors import ReproError

    selection = CampaignSelection.of(campaign, results)
    selection.check_measured()
    damage, names = find_damage(selection.folder), []
    for line in damage:
        typer.echo(line)
    changes = 0
    with Progress(f"verify {campaign}") as progress:
        for name, difference in find_other_tables(selection):
            names.append(name)
            progress(name, len(names), len(names))
            if difference:
                changes += 1
                typer.echo(f"{name}: {difference}")
    if damage or changes:
        raise ReproError(
            "the record is damaged",
            where=selection.folder.path,
            actual=f"{len(damage)} files and {changes} of {len(names)} tables differ",
            todo="restore the files from git; if only tables differ, this version makes different tables: replay "
            "the record's configuration",
        )
    typer.echo(f"{campaign}: all files are as recorded, and {len(names)} tables follow from them")


def _sizes(raw: Path) -> list[int]:
    from repro.untrusted_files import files_below

    return [path.lstat().st_size for path in files_below(raw, "*.parquet")]


def _mib(size: int) -> str:
    return f"{size / 2**20:.2f} MiB"


def merge(
    parts: Annotated[
        list[str], typer.Argument(metavar="PART", help="Campaigns: their names, or their folders.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="The merged campaign's name.", show_default=False)],
    keep_apart: Annotated[
        bool, typer.Option("--keep-apart", help="Also merge rows of different code, protocols or environments.")
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Merge campaigns that were measured on several hosts or at several times (parts) into one campaign.

    The parts are not changed. The merged campaign is a record, results/NAME: the rows of all parts in one file per
    study and step, with a configuration of all their problems, which can be replayed. If several parts have the same
    case, its rows must be equal; otherwise the merge is refused.

    The rows of a study must have the same protocol, code and environment. If they differ, --keep-apart merges them
    nevertheless: each row keeps its environment record, and NOTES.md lists the differences. Rows of different devices
    are never merged.

    Examples:

        repro merge first-half second-half --to whole

        repro merge /mnt/node1/results/large /mnt/node2/results/large --to large --keep-apart
    """
    from shlex import join

    from repro.campaign.parts import merge as run
    from repro.errors import ReproError

    if len(parts) < 2:
        raise ReproError("nothing to merge", expected="at least two parts", actual=", ".join(parts))
    result = run(parts, results, to, keep_apart)
    for part in result.parts:
        counts = ", ".join(f"{study} {len(cases)}" for study, cases in part.cases.items())
        omission_text = f"; {part.left_out} that its configuration does not name are left out" if part.left_out else ""
        typer.echo(f"{part.name}: cases of {counts}{omission_text}")
    typer.echo(f"{result.folder}: cases of {', '.join(f'{study} {count}' for study, count in result.cases.items())}")
    if result.differences:
        count = len(result.differences)
        typer.echo(f"kept apart: {count} {'difference' if count == 1 else 'differences'}, in {result.folder}/NOTES.md")
    command = ["snakemake", "--cores", "4", "all", "--configfile", f"{result.folder}/config.yaml"]
    typer.echo(f"tables, figures and report: {join(command)}")


class Precision(StrEnum):
    """Floating-point precision of a kernel."""

    single = "single"
    double = "double"


def export(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder to create.", show_default=False)],
    problem: Annotated[
        str | None,
        typer.Argument(
            metavar="PROBLEM", help="The problem whose tuned kernel is exported; not needed with --variant."
        ),
    ] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Precision of the kernel; by default the campaign's, where it has one.", show_default=False),
    ] = None,
    campaign: CampaignName = None,
    tuning: Annotated[
        str | None,
        typer.Option(help="The choice to export: extended (default, or else joint), static, …", show_default=False),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="A variant by name, for example Sl-32-SoA-AoS/static-256-4.", show_default=False),
    ] = None,
    entry: Annotated[
        str | None, typer.Option(help="With --variant: real, complex, quaternion or block3.", show_default=False)
    ] = None,
    target: Annotated[str, typer.Option(help="With --variant: the GPU generation.")] = "sm_90",
    name: Annotated[
        str | None, typer.Option(help="Name of namespace, library, files; else ENTRY_PRECISION.", show_default=False)
    ] = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Also write the problem's matrix, for the example.")] = False,
    study: Annotated[
        str | None,
        typer.Option(
            help="Study of the campaign; by default the one whose kernels can be exported.", show_default=False
        ),
    ] = None,
    results: Results = RESULTS,
    config_file: ConfigFile = DEFAULT_CONFIG,
) -> None:
    """Write the kernel that a campaign chose for a problem as a C++ library with a matrix, a vector and their product.

    The folder has a header, a CUDA source, a CMake file, an example, and a README that states the kernel's origin.

    Examples:

        repro export surfaces/bunny --precision single --campaign h200 --to bunny

        repro export --variant Sl-32-SoA-AoS/static-256-4 --entry quaternion --precision double --to quaternions
    """
    from repro.campaign.configuration import load
    from repro.errors import ReproError
    from repro.export.bundle import render_export, write_folder
    from repro.export.campaign_choice import EXPORTED_STUDY

    study = study or EXPORTED_STUDY
    if study != EXPORTED_STUDY:
        raise ReproError("the kernels of this study cannot be exported", expected=EXPORTED_STUDY, actual=study)
    config = load(config_file)
    campaign = config.campaign if campaign is None else campaign
    if variant is not None:
        if precision is None:
            raise ReproError("a variant needs a precision", where="--variant", todo="add --precision single or double")
        bundle = _by_name(variant, entry, precision.value, target, name)
    else:
        precision_name = precision.value if precision else None
        bundle = _of_campaign(results, campaign, study, problem, precision_name, tuning, entry, name)
    binaries = _matrix_writers(CampaignFolder.named(campaign, results), problem, bundle) if matrix else {}
    for path in write_folder(to, render_export(Path(config.kernels), bundle), binaries):
        typer.echo(f"wrote {path}")


def _matrix_writers(campaign: CampaignFolder, problem: str | None, bundle: Export) -> dict[str, Callable[[Path], None]]:
    """Return a function that writes the problem's matrix for the exported kernel, by file name."""
    from repro.errors import ReproError
    from repro.export.bundle import write_matrix
    from repro.problems.matrix import Matrix
    from repro.problems.registry import check_name
    from repro.sparse.compound.product import is_square_only

    if problem is None:
        raise ReproError("--matrix needs a problem", todo="name one that the campaign has built")
    matrix = Matrix.load(campaign.problem(check_name(problem, "PROBLEM")))
    if matrix.entry != bundle.entry:
        raise ReproError("the problem has a different entry", where=problem, expected=bundle.entry, actual=matrix.entry)
    if not matrix.square and is_square_only(bundle.layout, bundle.entry):
        raise ReproError(
            "the layout needs a square matrix",
            where=bundle.layout,
            actual="{} x {}".format(*matrix.shape),
            todo="export the choice `--tuning operator`, or a variant with vectors in AoS order and without pairs",
        )
    return {f"{bundle.name}.matrix": lambda path: write_matrix(matrix, bundle.precision, path)}


def _by_name(variant: str, entry: str | None, precision: str, target_name: str, name: str | None) -> Export:
    from repro.codegen.targets import get_target
    from repro.entries import get_entry
    from repro.errors import ReproError
    from repro.export.bundle import Export, parse_variant

    if entry is None:
        raise ReproError("a variant needs an entry", where="--variant", todo="describe the non-zeros with --entry")
    get_entry(entry)
    target = get_target(target_name)
    if target.dialect != "cuda":
        raise ReproError("only kernels for GPUs can be exported", expected="--target sm_…", actual=target_name)
    id = parse_variant(variant, target)
    provenance = [
        ("chosen", "by its name, with `--variant`: nothing here says how fast it is"),
        ("layout", str(id.layout)),
        ("schedule", str(id.schedule)),
        ("target", target_name),
    ]
    return Export(
        f"{entry}_{precision}" if name is None else name, entry, precision, id.layout, id.schedule, target, provenance
    )


def _of_campaign(
    results: Path,
    campaign: str,
    study: str,
    problem: str | None,
    precision: str | None,
    tuning: str | None,
    entry: str | None,
    name: str | None,
) -> Export:
    from repro.errors import ReproError
    from repro.export.bundle import Export, parse_variant
    from repro.export.campaign_choice import campaign_precision, find_campaign_choice

    if problem is None or entry is not None:
        raise ReproError(
            "the campaign determines the entry; omit --entry" if problem else "nothing to export",
            todo="name a problem of a campaign, or a variant with --variant and --entry",
        )
    precision = precision or campaign_precision(results, campaign, problem)
    choice = find_campaign_choice(results, campaign, study, problem, precision, tuning)
    if choice.target.dialect != "cuda":
        raise ReproError(
            "the campaign was measured on a CPU, so its winner is not a GPU kernel",
            where=f"campaign {campaign}",
            todo="name a campaign measured on a GPU with --campaign, or a variant with --variant; `repro best "
            f"{campaign}` prints a line with one",
        )
    id = parse_variant(choice.name, choice.target)
    time = "not timed again" if choice.seconds is None else f"{choice.seconds * 1e6:.3f} µs (median, graph clock, warm)"
    provenance = [
        ("campaign", choice.campaign),
        ("problem", f"{problem}, {choice.entry}, {precision} precision"),
        ("chosen", f"by the campaign's search, as the fastest of its choice `{choice.tuning}`"),
        ("layout", str(id.layout)),
        ("schedule", str(id.schedule)),
        ("measured time", time),
        ("GPU", f"{choice.device or 'not recorded'} ({choice.target.name})"),
        ("environment", f"`raw/environment/{choice.environment}.json` of the campaign"),
    ]
    return Export(
        f"{choice.entry}_{precision}" if name is None else name,
        choice.entry,
        precision,
        id.layout,
        id.schedule,
        choice.target,
        provenance,
    )


#: What to do about times that another program disturbed: a run leaves them, since its campaign is complete.
TIME_AGAIN = "another program ran meanwhile; to time these again: repro measure"


def check(
    config_file: RecordedConfig = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write this file if nothing is missing.")] = None,
    each: Annotated[bool, typer.Option("--each", help="List each failure instead of counting equal reasons.")] = False,
    named: CampaignArgument = None,
    campaign: CampaignName = None,
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Count the problems, modules and rows of a campaign that are unavailable, failed or out of date; exit with 1 if
    any is.

    A campaign is complete if no step failed and if, according to the receipts beside its files, every file was made
    from the present configuration and has not changed since. The next run repeats failed steps. Disturbed times on a
    CPU are printed too, but do not make the campaign incomplete.

    A record (one file per study and step) can be checked on any machine, without a device or receipts. Without a
    configuration, only failures are counted.

    For each environment record, the commit of the code is printed, and whether the working tree had changes. In a
    record, the commit comes from commits.json, which `repro record` writes.

    Example:

        repro check default
    """
    from repro.bench.records import code_of, read_commits, read_environments
    from repro.bench.store import check_measured
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.completeness import find_missing, find_missing_of_record, merge_equal_causes
    from repro.campaign.plan import make_plan
    from repro.campaign.receipts import record_step
    from repro.campaign.steps import Freshness
    from repro.config import add_place_to_errors
    from repro.errors import ReproError
    from repro.untrusted_files import files_below

    campaign_name = named_campaign(named, campaign)
    selection = CampaignSelection.of(campaign_name, results, config_file)
    # merged rows (one file per study and step) have no receipts: they were measured on another machine or an earlier
    # day
    tables = {
        path.relative_to(selection.folder.raw).parts[1:] for path in files_below(selection.folder.raw, "*.parquet")
    }
    record, config = bool(tables) and all(len(parts) == 1 for parts in tables), selection.config
    if record and config is not None:
        config = config.model_copy(update={"campaign": selection.campaign, "replay": True})
    plan: Plan | None = None
    freshness: Freshness | None = None
    source = config_file or (DEFAULT_CONFIG if campaign_name is None else selection.folder.config)
    if config is not None:
        with add_place_to_errors((source,)):
            plan = make_plan(config)
        if not selection.folder.raw.is_dir():
            raise ReproError(f"campaign {selection.campaign} was never run: `repro run --config {source}` runs it")
        freshness = None if plan.config.replay else Freshness(plan)
        missing_parts = find_missing(plan, freshness)
    elif record:
        missing_parts = find_missing_of_record(selection.folder)
    else:
        check_measured(selection.folder)
        raise ReproError(
            "the campaign's configuration was not found",
            where=selection.folder.config,
            todo="pass its configuration with --config",
        )
    code = code_of(read_environments(selection.folder), read_commits(selection.folder))
    if as_json:
        print_json({"campaign": selection.campaign, "named": [asdict(part) for part in missing_parts], "code": code})
    else:
        shown_parts = missing_parts if each else merge_equal_causes(missing_parts)
        _print_missing(shown_parts, plan if not record else None, selection.folder)
        for code_text, names in code.items():
            typer.echo(f"{code_text}: environment {', '.join(names)}")
    failures = [part for part in missing_parts if not part.remark]
    if not failures:
        completion = f"campaign {selection.campaign} is complete"
        if output is not None:
            # only the planned output of the check step has a receipt
            steps = freshness.steps[-1:] if freshness else ()
            own_steps = [step for step in steps if output.absolute() in (path.absolute() for path in step.outputs)]
            with record_step(own_steps[0]) if own_steps else nullcontext():
                output.write_text(f"{completion}\n")
        typer.echo(completion, err=as_json)
        return
    raise ReproError(
        f"missing or failed: {len(failures)}",
        where=f"campaign {selection.campaign}; all else is in {results / selection.campaign} and "
        f"figures/{selection.campaign}",
        todo="see the messages above; `--each` lists all; "
        + ("records are not changed" if record else "the next run retries whatever can be retried"),
    )


def _print_missing(parts: Iterable[Missing], plan: Plan | None, folder: CampaignFolder) -> None:
    """Print what is missing, with the log of a case and what to do; `plan` is None of a record, which has neither."""
    from repro.campaign.completeness import log_of
    from repro.campaign.plan import ProblemBatches

    batches = ProblemBatches(plan) if plan else None
    for part in parts:
        log = log_of(batches, part.case) if batches and part.case else None
        todo = ""
        if plan is not None and part.case and part.remark and " disturbed" in part.reason:
            todo = f"  what to do: {TIME_AGAIN} {' '.join(part.case)} --receipt --config {folder.config}\n"
        typer.echo(f"{part.what}: {part.reason}\n" + (f"  log: {log}\n" if log else "") + todo, err=True)


def results_(
    named: CampaignArgument = None,
    campaign: CampaignName = None,
    study: Annotated[str | None, typer.Option("--study", help="A study of the campaign; all by default.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON: all columns and the samples.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV: all columns but the samples.")] = False,
    nvbench: Annotated[bool, typer.Option("--nvbench", help="Print the JSON of NVBench, for its tools.")] = False,
    t4: Annotated[
        Path | None,
        typer.Option(
            "--t4",
            metavar="DIR",
            help="Write the searches in Kernel Tuner's format T4 to DIR/<study>/<problem>/<precision>.json instead.",
        ),
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", help="Only rows of this step: search, baseline, report.")
    ] = None,
    problem: Annotated[str | None, typer.Option("--problem", help="Only rows on this problem.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="Only rows in this precision.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only rows of this kind: variant, baseline, rival, floor, …")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Print each row, even on a terminal and without a selection.")
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Print the measured rows of a campaign, as a short table or for other programs (JSON, CSV, NVBench's JSON), or
    write its searches in Kernel Tuner's format.

    A row is one tried variant, baseline, rival or yardstick. The table has a line for each, with its median times and
    the error of its result divided by the bound. On a terminal, if no option selects rows, the number of rows per
    problem is printed instead. In JSON and CSV times are in seconds, sizes in bytes; docs/reference/columns.md explains
    the columns.

    Examples:

        repro results h200 --study compound_spmv --csv > rows.csv

        repro results h200 --step report --problem fem/nut_37k --kind variant

        repro results h200 --step report --nvbench > h200.json

        repro results h200 --t4 build/t4
    """
    from repro.bench.rows import SCHEMA
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.row_export import (
        COMMON_IN_ROWS,
        SPARE_COLUMNS,
        check_filters,
        count_lines,
        exported_rows,
        nvbench_of,
        row_lines,
        studies_of,
        t4_of,
        write_csv,
    )
    from repro.cli.console import in_columns, leave_out_columns, terminal_width, wrapped
    from repro.errors import ReproError
    from repro.filesystem import write_whole

    formats = [option for option, on in (("--json", json_), ("--csv", csv), ("--nvbench", nvbench), ("--t4", t4)) if on]
    if len(formats) > 1:
        choice = "one of --json, --csv, --nvbench, --t4"
        raise ReproError("only one format at a time", expected=choice, actual=" ".join(formats))
    selected = CampaignSelection.of(named_campaign(named, campaign), results)
    selected.check_measured()
    campaign_folder = selected.folder
    studies = studies_of(campaign_folder, study)
    columns = {"step": step, "problem": problem, "precision": precision, "kind": kind}
    filters = {name: value for name, value in columns.items() if value is not None}
    check_filters(campaign_folder, studies, filters)
    if csv:
        write_csv(campaign_folder, studies, sys.stdout, filters)
    elif nvbench:
        typer.echo(json.dumps(nvbench_of(campaign_folder, studies, filters), indent=1))
    elif t4 is not None:
        for folder in studies:
            for case, search in t4_of(campaign_folder, folder, filters).items():
                path = t4 / folder.name / case[0] / f"{case[1]}.json"
                write_whole(path, json.dumps(search) + "\n")
                typer.echo(f"{path}: {len(search['results'])} variants")
    elif json_:
        rows = [row for folder in studies for row in exported_rows(campaign_folder, folder, filters)]
        typer.echo(json.dumps({"schema": SCHEMA, "campaign": selected.campaign, "rows": rows}))
    elif sys.stdout.isatty() and not filters and not all_:
        for line in in_columns(*count_lines(campaign_folder, studies), terminal_width()):
            typer.echo(line)
        typer.echo(
            "numbers of rows; each row: --all; some: --step, --problem, --precision, --kind; all columns: --csv, --json"
        )
    else:
        all_headers, all_rows = row_lines(campaign_folder, studies, filters)
        headers, lines, left_out = leave_out_columns(all_headers, all_rows, SPARE_COLUMNS, COMMON_IN_ROWS, "message")
        for line in in_columns(headers, lines, terminal_width()):
            typer.echo(line)
        if left_out:
            said = f"not shown: {', '.join(left_out.values())}; --csv and --json have all"
            typer.echo("\n".join(wrapped(said, terminal_width())))
