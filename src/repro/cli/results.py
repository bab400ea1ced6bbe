"""Commands in the panel "Results": tables, figures, reports and comparisons of measured rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from repro.cli.options import (
    DEFAULT_RESULTS,
    AsJson,
    CampaignName,
    Campaigns,
    ConfigFile,
    Receipt,
    RecordedConfig,
    Results,
    StudyName,
    print_json,
)
from repro.package_data import DEFAULT_CONFIG

if TYPE_CHECKING:
    from rich.console import Console

    from repro.export.bundle import Export
    from repro.results.campaign_data import Campaign
    from repro.results.cross_campaign import Comparison
    from repro.results.figure_style import Shape
    from repro.results.registry import Kind


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STUDY/]NAME...", help="`repro list artifacts` prints all; without a study all that have it are meant."
    ),
]
All = Annotated[bool, typer.Option("--all", help="All that the configuration asks for.")]
Beside = Annotated[
    list[str] | None,
    typer.Option(
        "--beside",
        metavar="CAMPAIGN",
        help="Another recorded campaign, of another GPU say: its results stand beside this one's; can be given again. "
        "By default those that the configuration names (`beside`).",
        show_default=False,
    ),
]
Figures = Annotated[Path, typer.Option("--figures", metavar="DIR", help="Folder of the figures.")]
DEFAULT_FIGURES = Path("figures")


def table(
    names: Names = None,
    all_: All = False,
    campaign: CampaignName = None,
    study: StudyName = None,
    results: Results = DEFAULT_RESULTS,
    config: RecordedConfig = None,
    receipt: Receipt = False,
) -> None:
    """Make tables of a measured campaign, ours beside the published, as CSV, Markdown and LaTeX.

    They go to results/<campaign>/tables/<study>/NAME.{csv,md,tex}.

    Examples:

        repro table compound_spmv/table-1 compound_spmv/table-9

        repro table table-targets --campaign h200

        repro table --all --campaign h200 --study compound_spmv
    """
    with _receipt(receipt, config, "tables", study):
        _write_artifacts("table", names or [], all_, campaign, study, results, results, config)


def figure(
    names: Names = None,
    all_: All = False,
    campaign: CampaignName = None,
    study: StudyName = None,
    results: Results = DEFAULT_RESULTS,
    figures: Figures = DEFAULT_FIGURES,
    config: RecordedConfig = None,
    receipt: Receipt = False,
    width: Annotated[
        float | None,
        typer.Option(min=1, max=40, help="Inches; by default each figure's own, 3.45 or 7.1.", show_default=False),
    ] = None,
    font: Annotated[
        str | None, typer.Option(help="An installed font family, such as STIXGeneral.", show_default=False)
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="pdf, svg, png or tex; given again, several. All by default.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make figures of a measured campaign as PDF, SVG and PNG, and a LaTeX file with the caption.

    They go to figures/<campaign>/<study>/NAME.{pdf,svg,png,tex}. With a width, a font or formats of your own they are
    others than the workflow's: name a folder for them with --figures.

    Examples:

        repro figure compressed_coo/figure-5

        repro figure --all --campaign h200 --figures paper/figures

        repro figure compressed_coo/figure-5 --campaign h200 --width 3.3 --font STIXGeneral --format pdf --figures paper
    """
    from repro.errors import ReproError
    from repro.results.figure_style import FORMATS, Shape

    shape = Shape(width, font, tuple(formats or FORMATS))
    if receipt and shape != Shape():
        raise ReproError("--receipt is for figures as the workflow makes them", todo="leave --width, --font, --format")
    with _receipt(receipt, config, "figures", study):
        _write_artifacts("figure", names or [], all_, campaign, study, results, figures, config, shape)


def report(
    campaign: Campaigns = None,
    study: StudyName = None,
    results: Results = DEFAULT_RESULTS,
    config: RecordedConfig = None,
    beside: Beside = None,
    receipt: Receipt = False,
) -> None:
    """Write results/<campaign>/report.html: all tables and figures on one page that needs no network.

    Beside it lies the reproduction report, reproduction.md and .tex: what was re-run, on what, and each claim.

    With --beside, or several campaigns, the page has a name of its own, report-beside-CAMPAIGN.html.

    Examples:

        repro report

        repro report --campaign h200

        repro report --campaign h200 --beside repeat-h200

        repro report --campaign h200 --campaign repeat-h200
    """
    from repro.campaign.artifacts import Asked
    from repro.campaign.report import report as write
    from repro.cli.console import Progress
    from repro.errors import ReproError

    named = campaign or []
    # each campaign once; by default those of the configuration
    beside = [*dict.fromkeys([*named[1:], *(beside or ())])] or None
    if receipt and beside:
        raise ReproError(
            "--receipt is for the page that the configuration asks for",
            actual=f"--beside {' --beside '.join(beside)}",
            todo="name the campaigns under `beside` in the configuration",
        )
    page = "-".join(["report", *(f"beside-{name}" for name in beside or ())])
    with _receipt(receipt, config, "report", None):
        asked = Asked.of(named[0] if named else None, results, config, beside)
        with Progress(f"report {asked.campaign}") as progress:
            path = write(asked, study, progress, page)
        typer.echo(f"wrote {path}")


@contextmanager
def _receipt(
    wanted: bool, config: Path | None, what: Literal["tables", "figures", "report"], study: str | None
) -> Iterator[None]:
    """If `wanted`, write the receipt for a study's tables or figures, or for the report."""
    if not wanted:
        yield
        return
    from repro.campaign.configuration import load
    from repro.campaign.plan import make_plan
    from repro.campaign.receipts import making
    from repro.campaign.steps import presenting, reporting

    plan = make_plan(load(config or DEFAULT_CONFIG))
    with making(reporting(plan) if what == "report" or study is None else presenting(plan, study, what)):
        yield


def _write_artifacts(
    kind: Kind,
    names: list[str],
    all_: bool,
    campaign: str | None,
    study: str | None,
    results: Path,
    target: Path,
    config: Path | None,
    shape: Shape | None = None,
) -> None:
    """Write tables or figures for each selected study into subfolders of `target`."""
    from repro.campaign.artifacts import Asked, all_artifacts, find_artifacts, published_of
    from repro.cli.console import Progress
    from repro.errors import ReproError
    from repro.results.output import figures_folder, tables_folder, write

    asked = Asked.of(campaign, results, config)
    studies = asked.studies(study)
    if bool(names) == all_:
        choice = [f"{name}/{artifact.name}" for name in studies for artifact in all_artifacts(name, kind)]
        raise ReproError(
            "both names and --all are given" if names else f"no {kind} is named",
            expected=f"--all, or some of {', '.join(choice)}",
        )
    chosen = {name: asked.artifacts(name, kind) for name in studies} if all_ else find_artifacts(names, kind, studies)
    folder = tables_folder if kind == "table" else figures_folder
    with Progress(f"{kind}s {asked.campaign}") if all_ else nullcontext(lambda *_: None) as progress:
        for name, artifacts in chosen.items():
            progress(name, 0, len(artifacts))
            data, published = asked.read(name), published_of(name)
            for done, artifact in enumerate(artifacts, 1):
                for path in write(artifact, data, published, folder(target, asked.campaign, name), shape):
                    typer.echo(f"wrote {path}")
                progress(name, done, len(artifacts))


TOLERANCE = 0.02
REGRESSION = 1
WORST_SHOWN = 10
CONSOLE_WIDTH = 200
GROUP = ["phase", "cache", "kind"]


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A campaign: its name, or its folder.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one of the same device.", show_default=False)],
    search: Annotated[
        bool, typer.Option("--search", help="Compare what the search timed in full, too, and not the report alone.")
    ] = False,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="The smallest change that matters, as a fraction; less is the same.")
    ] = TOLERANCE,
    across_devices: Annotated[
        bool, typer.Option("--across-devices", help="Give ratios, and no verdicts, for different devices.")
    ] = False,
    worst: Annotated[int, typer.Option(min=0, help="So many of what got slower are printed.")] = WORST_SHOWN,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write every compared row.", show_default=False)
    ] = None,
    results: Results = DEFAULT_RESULTS,
) -> None:
    """Compare two campaigns row by row: same, faster, slower or undecided.

    A row is one variant, baseline or yardstick on one problem, at one precision and in one state of the cache. B is

      faster     if all clocks of the row say so, by more than the tolerance and than runs scatter, and

      slower     likewise; of all rows that are called either, no more than 5 % are expected to be neither

      same       if not, and its medians are within the tolerance of A's

      undecided  otherwise: the medians differ, but no more than one of many rows does from run to run

    How much runs scatter is taken from the rows that are compared (docs/reading-the-tables.md). Winners agree where
    they are the same variant or a tie, as A's configuration has it.

    Exit code: 0 if no row is slower (always with --across-devices), 1 if any is, 2 if the campaigns cannot be compared.

    Examples:

        repro compare h200 h200-again

        repro compare results/before results/after --search --csv changes.csv

        repro compare h200 a100 --across-devices
    """
    import sys

    from rich.console import Console

    from repro.results.cross_campaign import compare_campaigns as run
    from repro.results.cross_campaign import find_campaign

    comparison = run(
        find_campaign(first, results),
        find_campaign(second, results),
        tolerance=tolerance,
        search=search,
        across_devices=across_devices,
        load=_read_study,
    )
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else CONSOLE_WIDTH)
    _print_comparison(comparison, worst, tolerance, console)
    if csv is not None:
        _write_comparison(comparison, csv)
        console.print(f"wrote {csv}")
    if len(comparison.slower):
        raise typer.Exit(REGRESSION)


def _read_study(raw: Path, study: str) -> Campaign:
    from repro.campaign.artifacts import Asked

    folder = raw.resolve().parent
    return Asked.of(folder.name, folder.parent).read(study)


def _print_comparison(comparison: Comparison, worst: int, tolerance: float, console: Console) -> None:
    from repro.results.cross_campaign import VERDICTS

    for letter, name, device in zip("AB", (comparison.first, comparison.second), comparison.devices, strict=True):
        console.print(f"{letter}: {name} ({device})")
    console.print()
    for key, (mine, theirs) in comparison.changes.items():
        console.print(f"differs: {key}: {mine} → {theirs}")
    if comparison.changes:
        console.print()
    _print_groups(comparison, tolerance, console)
    _print_worst(comparison, worst, console)
    _print_winners(comparison, worst, console)
    for why, count in comparison.uncompared.items():
        console.print(f"not compared: {count} {'row' if count == 1 else 'rows'} {why}")
    if not comparison.across:
        counts = [f"{(comparison.rows['verdict'] == verdict).sum()} {verdict}" for verdict in VERDICTS]
        _print_spreads(comparison, console)
        _print_mean(comparison, console)
        console.print(f"{len(comparison.rows)} rows: {', '.join(counts)}")


def _print_spreads(comparison: Comparison, console: Console) -> None:
    from repro.bench.rows import ALL_CLOCKS

    spreads = {clock: comparison.rows[f"{clock}_spread"].dropna() for clock in ALL_CLOCKS}
    texts = [f"{clock} {100 * s.min():.2f} to {100 * s.max():.2f} %" for clock, s in spreads.items() if len(s)]
    console.print(f"spread between runs, by rows of like duration: {', '.join(texts)}")


def _print_mean(comparison: Comparison, console: Console) -> None:
    from repro.results.cross_campaign import CASE

    mean, interval = comparison.mean_ratio()
    cases = len(comparison.rows[CASE].drop_duplicates())
    sure = f", 95 % interval {interval[0]:.4f} to {interval[1]:.4f} over {cases} cases" if interval else ""
    low, high = comparison.rows["ratio"].quantile([0.025, 0.975])
    rows = f"of 95 % of the rows from {low:.3f} to {high:.3f}"
    console.print(f"B/A, geometric mean of all rows: {mean:.4f}{sure}; {rows}")


def _print_groups(comparison: Comparison, tolerance: float, console: Console) -> None:
    """Print for each group the ratios and the number of rows per verdict (across devices: number of rows)."""
    from rich.table import Table

    from repro.results.cross_campaign import VERDICTS
    from repro.results.significance import geometric_mean

    title = f"Rows by verdict, B against A, tolerance {100 * tolerance:g} %"
    if comparison.across:
        title = "B's time over A's; different devices, so no verdicts"
    heads = ("rows",) if comparison.across else VERDICTS
    table = Table(title=title, box=None, title_justify="left")
    for head in GROUP:
        table.add_column(head)
    for head in (*heads, "B/A, geometric mean", "least", "largest"):
        table.add_column(head, justify="right")
    for group in comparison.rows[GROUP].drop_duplicates().sort_values(GROUP).to_numpy():
        part = comparison.rows[(comparison.rows[GROUP] == group).all(axis=1)]
        counts = [len(part)] if comparison.across else [int((part["verdict"] == verdict).sum()) for verdict in VERDICTS]
        ratios = list(part["ratio"])
        numbers = (geometric_mean(ratios), min(ratios), max(ratios))
        table.add_row(*group, *map(str, counts), *(f"{number:.3f}" for number in numbers))
    console.print(table)
    console.print()


def _print_worst(comparison: Comparison, worst: int, console: Console) -> None:
    from rich.table import Table

    from repro.bench.rows import ALL_CLOCKS

    slower = comparison.slower
    if not len(slower) or not worst:
        return
    table = Table(title=f"Slower, the worst {min(worst, len(slower))} of {len(slower)}", box=None, title_justify="left")
    for head in ("problem", "precision", "name", "phase", "cache"):
        table.add_column(head, overflow="fold")
    clocks = [clock for clock in ALL_CLOCKS if slower[f"{clock}_first"].notna().any()]
    for head in (*(head for clock in clocks for head in (f"{clock} A [µs]", "B")), "B/A", "p, adjusted"):
        table.add_column(head, justify="right")
    for row in slower.head(worst).to_dict("records"):
        times = [row[f"{clock}_{side}"] for clock in clocks for side in ("first", "second")]
        numbers = f"{row['ratio']:.3f}", f"{row['adjusted']:.1g}"
        table.add_row(
            row["problem"], row["precision"], row["name"], row["phase"], row["cache"],
            *(f"{1e6 * time:.2f}" if time > 0 else "–" for time in times), *numbers,
        )  # fmt: skip
    console.print(table)
    console.print()


def _print_winners(comparison: Comparison, worst: int, console: Console) -> None:
    from rich.table import Table

    apart = [winner for winner in comparison.winners if not winner.agree]
    same = sum(winner.first == winner.second for winner in comparison.winners)
    console.print(
        f"winners: {len(comparison.winners)} choices in both; {same} are the same variant, "
        f"{len(comparison.winners) - same - len(apart)} a tie, {len(apart)} apart"
    )
    if not apart or not worst:
        console.print()
        return
    table = Table(box=None)
    for head in ("problem", "precision", "clock", "tuning", "A", "B"):
        table.add_column(head, overflow="fold")
    table.add_column("loss", justify="right")
    for winner in sorted(apart, key=lambda winner: -(winner.loss or 0))[:worst]:
        loss = "not timed" if winner.loss is None else f"{100 * winner.loss:.1f} %"
        choice = (winner.problem, winner.precision, winner.clock, winner.tuning)
        table.add_row(*choice, winner.first, winner.second, loss)
    console.print(table)
    console.print()


def _write_comparison(comparison: Comparison, path: Path) -> None:
    from pandas.api.types import is_numeric_dtype

    from repro.results.output import as_text, replacing

    texts = comparison.rows.apply(lambda values: values if is_numeric_dtype(values) else values.map(as_text))
    with replacing(path) as partial:
        texts.to_csv(partial, index=False)


def record(
    campaign: Annotated[str, typer.Argument(help="Folder below --results.", show_default=False)],
    results: Results = DEFAULT_RESULTS,
) -> None:
    """Keep a campaign as a record: one file a study and step.

    The rows of all problems go to results/<campaign>/raw/<study>/<step>.parquet, and the files of single problems are
    deleted. Tables, figures, report and comparison read either. A problem that is measured again later is merged by the
    same command. It is refused while a run works in the folder.

    results/<campaign>/commits.json says of each hash of a source in the environment records which commit of this
    checkout's history has it, or that none does.

    Example:

        repro record h200
    """
    from repro.bench.environment import checkout
    from repro.bench.records import code_of, read_environments
    from repro.campaign.archive import pack, record_commits
    from repro.campaign.workflow import hold_run_lock
    from repro.problems.registry import campaign_folder

    raw = campaign_folder(results, campaign) / "raw"
    # lock out runs: files written between reading and deleting would be lost; `pack` reports a missing campaign
    with hold_run_lock(campaign, results) if raw.is_dir() else nullcontext():
        before = _sizes(raw)
        for path in pack(raw):
            typer.echo(f"{path}: {_mib(path.stat().st_size)}")
        after = _sizes(raw)
        repository = checkout()
        if repository is not None:
            commits = record_commits(raw.parent, repository)
            for words, names in code_of(read_environments(raw), commits).items():
                typer.echo(f"{words}: environment {', '.join(names)}")
    typer.echo(f"{len(before)} files of {_mib(sum(before))} before, {len(after)} of {_mib(sum(after))} now")


def _sizes(raw: Path) -> list[int]:
    from repro.untrusted_files import files_below

    return [path.lstat().st_size for path in files_below(raw, "*.parquet")]


def _mib(size: int) -> str:
    return f"{size / 2**20:.2f} MiB"


def merge(
    parts: Annotated[
        list[str], typer.Argument(metavar="PART…", help="Campaigns: their names, or their folders.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="The merged campaign's name.", show_default=False)],
    keep_apart: Annotated[
        bool, typer.Option("--keep-apart", help="Merge rows of other code, another protocol or environment as well.")
    ] = False,
    results: Results = DEFAULT_RESULTS,
) -> None:
    """Make one campaign of parts that were measured on several hosts or at several times.

    The parts stay as they are. The merged campaign is a record, results/NAME: the rows of all parts in one file a study
    and step, with the configuration of all, to be replayed. Each case is of one part; a case that several have is taken
    once if its rows are the same, and refused if they are not.

    The rows of a study must be of one protocol, one code and one environment. Where they are not, --keep-apart merges
    them with the record of the environment that each row was measured in, and says in NOTES.md what differs. Rows of
    several devices are never merged.

    Examples:

        repro merge first-half second-half --to whole

        repro merge /mnt/node1/results/large /mnt/node2/results/large --to large --keep-apart
    """
    from shlex import join

    from repro.campaign.shards import merge as run
    from repro.errors import ReproError

    if len(parts) < 2:
        raise ReproError("nothing to merge", expected="two parts or more", actual=", ".join(parts))
    merged = run(parts, results, to, keep_apart)
    for part in merged.parts:
        counts = ", ".join(f"{study} {len(cases)}" for study, cases in part.cases.items())
        left = f"; {part.left_out} that its configuration does not name are left out" if part.left_out else ""
        typer.echo(f"{part.name}: cases of {counts}{left}")
    typer.echo(f"{merged.folder}: cases of {', '.join(f'{study} {count}' for study, count in merged.cases.items())}")
    if merged.differences:
        count = len(merged.differences)
        typer.echo(f"kept apart: {count} {'difference' if count == 1 else 'differences'}, in {merged.folder}/NOTES.md")
    command = ["snakemake", "--cores", "4", "all", "--configfile", f"{merged.folder}/config.yaml"]
    typer.echo(f"tables, figures and report: {join(command)}")


def environment(
    campaign: CampaignName = None,
    record: Annotated[
        str | None, typer.Option("--record", metavar="HASH", help="One environment record.", show_default=False)
    ] = None,
    results: Results = DEFAULT_RESULTS,
    config: RecordedConfig = None,
) -> None:
    """Print the packages that a campaign was measured with as constraints for pip.

    Comments name what pip does not install: device, driver, CUDA toolkit, compiler, Python. The packages are those that
    times depend on, as the campaign's environment record has them.

    Examples:

        repro environment --campaign h200 > h200.txt

        pip install -c h200.txt -e '.[cuda]'
    """
    from repro.campaign.archive import constraints_of
    from repro.campaign.artifacts import Asked

    typer.echo(constraints_of(Asked.of(campaign, results, config).raw, record))


class Precision(StrEnum):
    """Floating-point precision of a kernel."""

    single = "single"
    double = "double"


#: The study with exportable kernels.
EXPORTED = "compound_spmv"


def export(
    precision: Annotated[Precision, typer.Option(help="Precision of the kernel.", show_default=False)],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder to make.", show_default=False)],
    problem: Annotated[
        str | None, typer.Argument(metavar="[PROBLEM]", help="Whose tuned kernel; not needed with --variant.")
    ] = None,
    campaign: CampaignName = None,
    tuning: Annotated[
        str | None,
        typer.Option(help="Which of the campaign's choices: extended (or else joint), static, …", show_default=False),
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
        str | None, typer.Option(help="Namespace, library and files; ENTRY_PRECISION by default.", show_default=False)
    ] = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Also write the problem's matrix, for the example to multiply with.")
    ] = False,
    study: Annotated[str, typer.Option(help="Study of the campaign.")] = EXPORTED,
    results: Results = DEFAULT_RESULTS,
    config: ConfigFile = DEFAULT_CONFIG,
) -> None:
    """Write the kernel that a campaign chose for a problem as a C++ library: matrix class, vector class, product.

    The folder has a header, a CUDA source, a CMake file, an example, and a README that says where it came from.

    Examples:

        repro export surfaces/bunny --precision single --campaign h200 --to bunny

        repro export --variant Sl-32-SoA-AoS/static-256-4 --entry quaternion --precision double --to quaternions
    """
    from repro.campaign.configuration import load
    from repro.errors import ReproError
    from repro.export.bundle import render_export, write_folder
    from repro.problems.registry import campaign_folder

    if study != EXPORTED:
        raise ReproError("the kernels of this study cannot be exported", expected=EXPORTED, actual=study)
    settings = load(config)
    campaign = settings.campaign if campaign is None else campaign
    if variant is not None:
        wanted = _by_hand(variant, entry, precision.value, target, name)
    else:
        wanted = _of_campaign(results, campaign, study, problem, precision.value, tuning, entry, name)
    binaries = _matrix_writers(campaign_folder(results, campaign) / "problems", problem, wanted) if matrix else {}
    for path in write_folder(to, render_export(Path(settings.kernels), wanted), binaries):
        typer.echo(f"wrote {path}")


def _matrix_writers(folder: Path, problem: str | None, wanted: Export) -> dict[str, Callable[[Path], None]]:
    """Return a function that writes the problem's matrix for the exported kernel, by file name."""
    from repro.errors import ReproError
    from repro.export.bundle import write_matrix
    from repro.problems.matrix import Matrix
    from repro.problems.registry import check_name

    if problem is None:
        raise ReproError("--matrix needs a problem", todo="name one that the campaign has built")
    built = Matrix.load(folder / f"{check_name(problem, 'PROBLEM')}.npz")
    if built.entry != wanted.entry:
        raise ReproError("the problem has another entry", where=problem, expected=wanted.entry, actual=built.entry)
    return {f"{wanted.name}.matrix": lambda path: write_matrix(built, wanted.precision, path)}


def _by_hand(variant: str, entry: str | None, precision: str, target_name: str, name: str | None) -> Export:
    from repro.codegen.targets import get_target
    from repro.entries import get_entry
    from repro.errors import ReproError
    from repro.export.bundle import Export, parse_variant

    if entry is None:
        raise ReproError("a variant needs an entry", where="--variant", todo="say what the non-zeros are with --entry")
    get_entry(entry)
    target = get_target(target_name)
    if target.dialect != "cuda":
        raise ReproError("only kernels for GPUs can be exported", expected="--target sm_…", actual=target_name)
    id = parse_variant(variant, target)
    provenance = [
        ("chosen", "by hand"),
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
    precision: str,
    tuning: str | None,
    entry: str | None,
    name: str | None,
) -> Export:
    from repro.errors import ReproError
    from repro.export.bundle import Export, parse_variant
    from repro.export.campaign_choice import find_campaign_choice

    if problem is None or entry is not None:
        raise ReproError(
            "--entry is the campaign's" if problem else "nothing to export",
            todo="name a problem of a campaign, or a variant with --variant and --entry",
        )
    chosen = find_campaign_choice(results, campaign, study, problem, precision, tuning)
    if chosen.target.dialect != "cuda":
        raise ReproError(
            "the campaign was measured on a CPU, and its winner is no GPU's",
            where=f"campaign {campaign}",
            todo="name a campaign of a GPU with --campaign, or a variant with --variant",
        )
    id = parse_variant(chosen.name, chosen.target)
    time = "not timed again" if chosen.seconds is None else f"{chosen.seconds * 1e6:.3f} µs (median, graph clock, warm)"
    provenance = [
        ("campaign", chosen.campaign),
        ("problem", f"{problem}, {chosen.entry}, {precision} precision"),
        ("chosen", f"by {chosen.tuning} tuning"),
        ("layout", str(id.layout)),
        ("schedule", str(id.schedule)),
        ("measured time", time),
        ("GPU", f"{chosen.device or 'not recorded'} ({chosen.target.name})"),
        ("environment record", str(chosen.environment)),
    ]
    return Export(
        f"{chosen.entry}_{precision}" if name is None else name,
        chosen.entry,
        precision,
        id.layout,
        id.schedule,
        chosen.target,
        provenance,
    )


def check(
    campaign: CampaignName = None,
    config: RecordedConfig = None,
    results: Results = DEFAULT_RESULTS,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write this file where nothing is missing.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Name each one, and do not count those of one reason.")] = False,
    as_json: AsJson = False,
) -> None:
    """Count all of a campaign that is unavailable, failed or out of date; exit with 1 if there is anything.

    A campaign is complete where each of its files was made from what the configuration asks for now, by the receipts
    beside them, nothing was changed since, and nothing failed. What failed is tried again by the next run. A time on a
    CPU that something else disturbed is named too, but the campaign is complete without it.

    Of each environment record it says which commit it is of, and whether the tree had changes: for a record by
    commits.json, which `repro record` writes.

    Example:

        repro check --campaign default
    """
    from repro.bench.records import code_of, read_commits, read_environments
    from repro.campaign.artifacts import Asked
    from repro.campaign.completeness import count_alike, find_missing
    from repro.campaign.plan import make_plan
    from repro.campaign.receipts import making
    from repro.campaign.steps import Freshness
    from repro.errors import ReproError

    asked = Asked.of(campaign, results, config)
    if asked.config is None:
        raise ReproError(
            "no such campaign, or one without a configuration",
            where=results / asked.campaign / "config.yaml",
            todo="name its configuration with --config",
        )
    plan = make_plan(asked.config)
    if not Path(plan.results, "raw").is_dir():
        source = config or (DEFAULT_CONFIG if campaign is None else results / campaign / "config.yaml")
        raise ReproError(f"campaign {plan.config.campaign} was never run: `repro run --config {source}` runs it")
    freshness = None if plan.config.replay else Freshness(plan)
    named = find_missing(plan, freshness)
    folder = Path(plan.results)
    code = code_of(read_environments(folder / "raw"), read_commits(folder))
    if as_json:
        print_json({"campaign": plan.config.campaign, "named": [asdict(part) for part in named], "code": code})
    else:
        for part in named if each else count_alike(named):
            typer.echo(f"{part.what}: {part.reason}\n", err=True)
        for words, names in code.items():
            typer.echo(f"{words}: environment {', '.join(names)}")
    missing = [part for part in named if not part.remark]
    if not missing:
        words = f"campaign {plan.config.campaign} is complete"
        if output is not None:
            # only the planned output of the check step has a receipt
            steps = freshness.steps[-1:] if freshness else ()
            own = [step for step in steps if output.absolute() in (path.absolute() for path in step.outputs)]
            with making(own[0]) if own else nullcontext():
                output.write_text(f"{words}\n")
        typer.echo(words, err=as_json)
        return
    raise ReproError(
        f"missing or failed: {len(missing)}",
        where=f"campaign {plan.config.campaign}; all else is in {plan.results} and {plan.figures}",
        todo="see the messages above, and `--each` for all; a run tries again what can be tried again",
    )
