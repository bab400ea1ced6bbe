"""Commands in the panel "Results" that show measured rows: tables, figures, reports, winners, claims, comparisons."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from repro.bench.campaign_folder import RESULTS, CampaignFolder
from repro.cli import options
from repro.package_data import DEFAULT_CONFIG

if TYPE_CHECKING:
    from rich.console import Console

    from repro.results.campaign_data import Campaign
    from repro.results.cross_campaign import Comparison
    from repro.results.figure_style import Shape
    from repro.results.registry import Kind


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="STUDY/NAME, or NAME for all studies that have it; `repro list artifacts` prints them. A campaign's name "
        "may follow, instead of --campaign.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Everything that the configuration requests.")]
Beside = Annotated[
    list[str] | None,
    typer.Option(
        "--beside",
        metavar="CAMPAIGN",
        help="Another recorded campaign, for example on another GPU, to show beside this one; repeatable. By default "
        "those that the configuration names (`beside`).",
        show_default=False,
    ),
]

Figures = Annotated[Path, typer.Option("--figures", metavar="DIR", help="Folder of the figures.")]
DEFAULT_FIGURES = Path("figures")


def table(
    names: Names = None,
    all_: All = False,
    campaign: options.CampaignName = None,
    study: options.StudyName = None,
    results: options.Results = RESULTS,
    config_file: options.RecordedConfig = None,
    receipt: options.Receipt = False,
    show: Annotated[
        bool | None,
        typer.Option(
            "--show/--no-show",
            help="Print the named tables, only the first columns and rows of large ones; by default on a terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make tables of a measured campaign, with our numbers beside the published ones, as CSV and LaTeX.

    The files are results/<campaign>/tables/<study>/NAME.{csv,tex}.

    Examples:

        repro table compound_spmv/table-1 compound_spmv/table-9

        repro table table-targets h200

        repro table --all --campaign h200 --study compound_spmv
    """
    with _receipt(receipt, config_file, "tables", study):
        shown = bool(names) and (sys.stdout.isatty() if show is None else show)
        _write_artifacts("table", names or [], all_, campaign, study, results, results, config_file, show=shown)


def figure(
    names: Names = None,
    all_: All = False,
    campaign: options.CampaignName = None,
    study: options.StudyName = None,
    results: options.Results = RESULTS,
    figures: Figures = DEFAULT_FIGURES,
    config_file: options.RecordedConfig = None,
    receipt: options.Receipt = False,
    width: Annotated[
        float | None,
        typer.Option(
            min=1, max=40, help="Width in inches; by default the figure's own, 3.45 or 7.1.", show_default=False
        ),
    ] = None,
    font: Annotated[
        str | None, typer.Option(help="An installed font family, such as STIXGeneral.", show_default=False)
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="pdf, svg, png or tex; repeatable. All by default.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make figures of a measured campaign as PDF, SVG and PNG, and a LaTeX file with the caption.

    The files are figures/<campaign>/<study>/NAME.{pdf,svg,png,tex}. Figures with your own width, font or formats differ
    from the workflow's, so name another folder for them with --figures.

    Examples:

        repro figure compressed_coo/figure-5 h200

        repro figure --all --campaign h200 --figures paper/figures

        repro figure compressed_coo/figure-5 --campaign h200 --width 3.3 --font STIXGeneral --format pdf --figures paper
    """
    from repro.errors import ReproError
    from repro.results.figure_style import FORMATS, Shape

    shape = Shape(width, font, tuple(formats or FORMATS))
    if receipt and shape != Shape():
        raise ReproError("--receipt is for figures as the workflow makes them", todo="leave --width, --font, --format")
    with _receipt(receipt, config_file, "figures", study):
        _write_artifacts("figure", names or [], all_, campaign, study, results, figures, config_file, shape)


def report(
    named: options.CampaignArgument = None,
    campaign: options.Campaigns = None,
    study: options.StudyName = None,
    results: options.Results = RESULTS,
    config_file: options.RecordedConfig = None,
    beside: Beside = None,
    receipt: options.Receipt = False,
) -> None:
    """Write results/<campaign>/report.html: all tables and figures on one page that needs no network.

    The reproduction report, reproduction.md, is written beside it: re-run papers, device, and each claim.

    With --beside, or several campaigns, the page has a name of its own, report-beside-CAMPAIGN.html.

    Examples:

        repro report

        repro report h200

        repro report h200 --beside repeat-h200

        repro report --campaign h200 --campaign repeat-h200
    """
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.report import report as write
    from repro.cli.console import Progress
    from repro.errors import ReproError

    arguments = campaign or []
    names = [named, *arguments[arguments[:1] == [named] :]] if named else arguments
    first, other_names = (names[0], names[1:]) if names else (None, [])
    # without repetitions; by default the configured campaigns
    beside = [*dict.fromkeys([*other_names, *(beside or ())])] or None
    if receipt and beside:
        raise ReproError(
            "--receipt is only for the report that the configuration requests",
            actual=f"--beside {' --beside '.join(beside)}",
            todo="name the campaigns under `beside` in the configuration",
        )
    page = "-".join(["report", *(f"beside-{name}" for name in beside or ())])
    with _receipt(receipt, config_file, "report", None):
        selection = CampaignSelection.of(first, results, config_file, beside)
        with Progress(f"report {selection.campaign}") as progress:
            path = write(selection, study, progress, page)
        typer.echo(f"wrote {path}")


@contextmanager
def _receipt(
    with_receipt: bool, config_file: Path | None, kind: Literal["tables", "figures", "report"], study: str | None
) -> Iterator[None]:
    """If `with_receipt`, write the receipt for a study's tables or figures, or for the report."""
    if not with_receipt:
        yield
        return
    from repro.campaign.configuration import load
    from repro.campaign.plan import make_plan
    from repro.campaign.receipts import record_step
    from repro.campaign.steps import presenting, reporting

    plan = make_plan(load(config_file or DEFAULT_CONFIG))
    with record_step(reporting(plan) if kind == "report" or study is None else presenting(plan, study, kind)):
        yield


def _write_artifacts(
    kind: Kind,
    names: list[str],
    all_: bool,
    campaign: str | None,
    study: str | None,
    results: Path,
    target: Path,
    config_file: Path | None,
    shape: Shape | None = None,
    show: bool = False,
) -> None:
    """Write tables or figures for each selected study into subfolders of `target`; with `show` print the tables.

    A last name that is a campaign's selects that campaign. A line on stderr says which campaign measured a study again.
    """
    from repro.campaign.artifacts import CampaignSelection, all_artifacts, find_artifacts, published_of
    from repro.cli.console import Progress, print_table
    from repro.errors import ReproError
    from repro.results.output import figures_folder, tables_folder, write
    from repro.results.report import is_empty
    from repro.results.tables import Table
    from repro.words import some_of

    last = names[-1] if names else ""
    is_name = last.startswith(f"{kind}-") or "/" in last
    if names and not is_name and (all_ or len(names) > 1 or CampaignFolder.of(last, results).raw.is_dir()):
        names, campaign = names[:-1], options.named_campaign(last, campaign)
    selection = CampaignSelection.of(campaign, results, config_file)
    studies = selection.studies(study)
    if bool(names) == all_:
        choice = [f"{name}/{artifact.name}" for name in studies for artifact in all_artifacts(name, kind)]
        some = some_of(choice, names[0] if names else "", "`repro list artifacts`")
        fault = "both names and --all are given" if names else f"no {kind} is named"
        raise ReproError(fault, expected=f"--all, or {some}")
    artifacts_by_study = (
        {name: selection.artifacts(name, kind) for name in studies} if all_ else find_artifacts(names, kind, studies)
    )
    folder = tables_folder if kind == "table" else figures_folder
    with Progress(f"{kind}s {selection.campaign}") if all_ else nullcontext(lambda *_: None) as progress:
        for name, artifacts in artifacts_by_study.items():
            progress(name, 0, len(artifacts))
            data, published = selection.read(name), published_of(name)
            artifact_folder = folder(target, selection.campaign, name)
            for number, artifact in enumerate(artifacts, 1):
                content = artifact.make(data, published)
                if not all_ and is_empty(artifact, content, data):
                    typer.echo(f"{name}/{artifact.name}: the campaign measured nothing that it shows", err=True)
                if show and isinstance(content, Table):
                    print_table(artifact, content)
                for path in write(artifact, content, data, artifact_folder, shape):
                    typer.echo(f"wrote {path}")
                progress(name, number, len(artifacts))
            if data.later:
                typer.echo(f"{name}: measured again later: campaign {data.later.name}", err=True)


TOLERANCE = 0.02
REGRESSION = 1
WORST_SHOWN = 10
CONSOLE_WIDTH = 200
GROUP_COLUMNS = ["phase", "cache", "kind"]


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A campaign: its name, or its folder.", show_default=False)],
    second: Annotated[
        str, typer.Argument(metavar="B", help="Another campaign on the same device.", show_default=False)
    ],
    search: Annotated[bool, typer.Option("--search", help="Also compare rows that the search timed in full.")] = False,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="The smallest relevant change, as a fraction.")
    ] = TOLERANCE,
    across_devices: Annotated[
        bool, typer.Option("--across-devices", help="Allow different devices: print ratios but no verdicts.")
    ] = False,
    worst: Annotated[int, typer.Option(min=0, help="Number of slower rows to print.")] = WORST_SHOWN,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write every compared row.", show_default=False)
    ] = None,
    results: options.Results = RESULTS,
) -> None:
    """Compare two campaigns row by row: same, faster, slower or undecided.

    A row is one variant, baseline or yardstick on one problem, in one precision and one cache state. Row by row, B is

      faster     if B's times are lower by all clocks, by more than the tolerance and the noise between runs;

      slower     if they are higher; at most 5 % of the rows labelled faster or slower are expected to be wrong;

      same       otherwise, if B's medians are within the tolerance of A's;

      undecided  otherwise: the medians differ, but noise between runs can explain the difference.

    The noise between runs is estimated from the compared rows (docs/reading-the-tables.md). Winners agree if they are
    the same variant or a tie by A's configuration.

    Exit code: 0 if no row is slower (always with --across-devices), 1 if any is, 2 if the campaigns cannot be compared.

    Examples:

        repro compare h200 h200-again

        repro compare results/before results/after --search --csv changes.csv

        repro compare h200 a100 --across-devices
    """

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


def _read_study(campaign: CampaignFolder, study: str) -> Campaign:
    from repro.campaign.artifacts import CampaignSelection

    folder = campaign.raw.resolve().parent
    return CampaignSelection.of(folder.name, folder.parent).read(study)


def _print_comparison(comparison: Comparison, worst: int, tolerance: float, console: Console) -> None:
    from repro.results.cross_campaign import VERDICTS

    for letter, name, device in zip("AB", (comparison.first, comparison.second), comparison.devices, strict=True):
        console.print(f"{letter}: {name} ({device})")
    console.print()
    for key, (first_value, second_value) in comparison.changes.items():
        console.print(f"differs: {key}: {first_value} → {second_value}")
    if comparison.changes:
        console.print()
    _print_groups(comparison, tolerance, console)
    _print_worst(comparison, worst, console)
    _print_winners(comparison, worst, console)
    for reason, count in comparison.uncompared.items():
        console.print(f"not compared: {count} {'row' if count == 1 else 'rows'} {reason}")
    if not comparison.across:
        counts = [f"{(comparison.rows['verdict'] == verdict).sum()} {verdict}" for verdict in VERDICTS]
        _print_spreads(comparison, console)
        _print_mean(comparison, console)
        console.print(f"{len(comparison.rows)} row{'s' * (len(comparison.rows) != 1)}: {', '.join(counts)}")


def _print_spreads(comparison: Comparison, console: Console) -> None:
    from repro.bench.rows import ALL_CLOCKS

    spreads = {clock: comparison.rows[f"{clock}_spread"].dropna() for clock in ALL_CLOCKS}
    texts = [f"{clock} {100 * s.min():.2f} to {100 * s.max():.2f} %" for clock, s in spreads.items() if len(s)]
    console.print(f"spread between runs, by rows of like duration: {', '.join(texts)}")


def _print_mean(comparison: Comparison, console: Console) -> None:
    from repro.results.cross_campaign import CASE

    mean, interval = comparison.mean_ratio()
    cases = len(comparison.rows[CASE].drop_duplicates())
    interval_text = f", 95 % interval {interval[0]:.4f} to {interval[1]:.4f} over {cases} cases" if interval else ""
    low, high = comparison.rows["ratio"].quantile([0.025, 0.975])
    rows = f"of 95 % of the rows from {low:.3f} to {high:.3f}"
    console.print(f"B/A, geometric mean of all rows: {mean:.4f}{interval_text}; {rows}")


def _print_groups(comparison: Comparison, tolerance: float, console: Console) -> None:
    """Print for each group the ratios and the number of rows per verdict (across devices: number of rows)."""
    from rich.table import Table

    from repro.results.cross_campaign import VERDICTS
    from repro.results.significance import geometric_mean

    title = f"Rows by verdict, B against A, tolerance {100 * tolerance:g} %"
    if comparison.across:
        title = "B's time over A's; different devices, so no verdicts"
    headers = ("rows",) if comparison.across else VERDICTS
    table = Table(title=title, box=None, title_justify="left")
    for header in GROUP_COLUMNS:
        table.add_column(header)
    for header in (*headers, "B/A, geometric mean", "least", "largest"):
        table.add_column(header, justify="right")
    for group in comparison.rows[GROUP_COLUMNS].drop_duplicates().sort_values(GROUP_COLUMNS).to_numpy():
        part = comparison.rows[(comparison.rows[GROUP_COLUMNS] == group).all(axis=1)]
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
    for header in ("problem", "precision", "name", "phase", "cache"):
        table.add_column(header, overflow="fold")
    clocks = [clock for clock in ALL_CLOCKS if slower[f"{clock}_first"].notna().any()]
    for header in (*(header for clock in clocks for header in (f"{clock} A [µs]", "B")), "B/A", "p, adjusted"):
        table.add_column(header, justify="right")
    for row in slower.head(worst).to_dict("records"):
        times = [row[f"{clock}_{side}"] for clock in clocks for side in ("first", "second")]
        numbers = f"{row['ratio']:.3f}", f"{row['adjusted']:.1g}"
        table.add_row(
            row["problem"], row["precision"], row["name"], row["phase"], row["cache"],
            *(f"{1e6 * time:.2f}" if time > 0 else "–" for time in times), *numbers
        )  # fmt: skip
    console.print(table)
    console.print()


def _print_winners(comparison: Comparison, worst: int, console: Console) -> None:
    from rich.table import Table

    different_winners = [winner for winner in comparison.winners if not winner.agree]
    same_count = sum(winner.first == winner.second for winner in comparison.winners)
    console.print(
        f"winners: {len(comparison.winners)} choices in both; {same_count} are the same variant, "
        f"{len(comparison.winners) - same_count - len(different_winners)} a tie, {len(different_winners)} apart"
    )
    if not different_winners or not worst:
        return console.print()
    table = Table(box=None)
    for header in ("problem", "precision", "clock", "tuning", "A", "B"):
        table.add_column(header, overflow="fold")
    table.add_column("loss", justify="right")
    for winner in sorted(different_winners, key=lambda winner: -(winner.loss or 0))[:worst]:
        loss = "not timed" if winner.loss is None else f"{100 * winner.loss:.1f} %"
        choice = (winner.problem, winner.precision, winner.clock, winner.tuning)
        table.add_row(*choice, winner.first, winner.second, loss)
    console.print(table)
    console.print()


def _write_comparison(comparison: Comparison, path: Path) -> None:
    from pandas.api.types import is_numeric_dtype

    from repro.results.output import as_text, replace_artifact

    texts = comparison.rows.apply(lambda values: values if is_numeric_dtype(values) else values.map(as_text))
    with replace_artifact(path) as partial:
        texts.to_csv(partial, index=False)


#: Most problems of which `repro best` prints, unasked, the lines that take their kernels away.
MAX_RECIPES = 3
HOW_TO_TAKE_AWAY = "how to take kernels to C++ and to Python: --problem NAME says it of one problem, --recipes of all"


def best(
    named: options.CampaignArgument = None,
    campaign: options.CampaignName = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, times in seconds.")] = False,
    study: Annotated[
        str | None, typer.Option("--study", help="A study of the campaign; by default all that choose a kernel.")
    ] = None,
    problem: Annotated[str | None, typer.Option("--problem", help="Only winners on this problem.")] = None,
    recipes: Annotated[
        bool,
        typer.Option(
            "--recipes",
            help=f"Print how to export the kernels of each problem, even for more than {MAX_RECIPES} problems.",
        ),
    ] = False,
    results: options.Results = RESULTS,
    config_file: options.RecordedConfig = None,
) -> None:
    """Print the fastest kernel on each problem, beside the library's, and how to use it in C++ and in Python.

    Times are medians of the shuffled rounds, with a warm cache. A winner keeps the order of the unknowns. An operator
    in Python runs the fastest kernel that reads vectors of NumPy, CuPy and PyTorch without conversion.

    Examples:

        repro best mine

        repro best mine --problem part

        repro best h200 --recipes

        repro best mine --json
    """
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.winners import find_rivals, find_winners, json_text, lines_of_problem, studies_without_winners
    from repro.cli.console import print_table, terminal_width, wrapped
    from repro.cli.end_of_run import print_not_searched, print_rivals, print_winners

    selection = CampaignSelection.of(options.named_campaign(named, campaign), results, config_file, reference_names=())
    winners, rivals = find_winners(selection, study), find_rivals(selection, study)
    if problem is not None:
        winners, rivals = lines_of_problem(problem, winners, rivals)
    if json:
        typer.echo(json_text(winners, rivals))
        return
    if selection.named_by:
        typer.echo(f"campaign {selection.description}\n")
    has_many_problems = problem is None and len({winner.problem for winner in winners if winner.python}) > MAX_RECIPES
    print_winners(winners, "" if recipes or not has_many_problems else HOW_TO_TAKE_AWAY)
    print_rivals(rivals)
    for artifact, table, file in studies_without_winners(selection, study) if problem is None else ():
        said = f"{artifact.study} chooses no single kernel a problem; its times are in {file}:"
        typer.echo("\n" + "\n".join(wrapped(said, terminal_width())))
        print_table(artifact, table, len(table.rows))
    print_not_searched(selection, winners)


def claims(
    named: options.CampaignArgument = None,
    campaign: options.CampaignName = None,
    study: options.StudyName = None,
    as_json: options.AsJson = False,
    report: Annotated[
        bool,
        typer.Option("--report", help="Write results/<campaign>/reproduction.md: papers, device and each claim."),
    ] = False,
    results: options.Results = RESULTS,
    config_file: options.RecordedConfig = None,
) -> None:
    """Print whether each of the papers' claims holds, judged by the rows of a campaign.

    Holds: the measured value is in the published range or within the claim's tolerance. Weaker, stronger: it is beyond
    that. Reversed: the opposite was measured. Not testable here: the campaign has no rows for the claim; the reason is
    printed. The claims are the lines of config/claims/<study>.csv; CPU times give no verdict on claims measured on a
    GPU.

    Examples:

        repro claims h200

        repro claims h100 --study compressed_coo --json

        repro claims h200 --report
    """
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.report import claim_tables, verdict_line, write_reproduction
    from repro.cli.console import INDENT, in_columns, terminal_width, wrapped
    from repro.errors import ReproError
    from repro.results.claims import Verdict, reasons_of

    selection = CampaignSelection.of(options.named_campaign(named, campaign), results, config_file)
    tables = claim_tables(selection, study)
    if not tables:
        raise ReproError(
            "no study has claims",
            where=f"campaign {selection.campaign}",
            expected="a study with a file config/claims/<study>.csv",
            actual=", ".join(selection.studies(study)),
        )
    if as_json:
        keys = {name: [column.key for column in table.columns] for name, (_, table) in tables.items()}
        document = {
            name: [dict(zip(keys[name], (cell.value for cell in row), strict=True)) for row in table.rows]
            for name, (_, table) in tables.items()
        }
        options.print_json({"campaign": selection.campaign, "claims": document})
    else:
        headers = ["verdict", "id", "published", "here", "cases", "kernels", "claim"]
        shown_keys = ("verdict", "id", "published", "measured", "cases", "kernels", "claim")
        for name, (source, table) in tables.items():
            again = f", which measured again what {selection.campaign} had" if source.name != selection.campaign else ""
            campaign_text = f"{source.name}{again}" if again else selection.description
            typer.echo(f"{name} on {source.column}, campaign {campaign_text}: {verdict_line(table)}")
            columns = [column.key for column in table.columns]
            cells = [dict(zip(columns, row, strict=True)) for row in table.rows]
            judged = [line for line in cells if line["verdict"].value != Verdict.NOT_TESTABLE]
            lines = [[line[key].shown for key in shown_keys] for line in judged]
            for text in in_columns(headers, lines, terminal_width()) if lines else ():
                typer.echo(text)
            for reason, ids in reasons_of(table).items():
                which = f"all {len(ids)} claims" if len(ids) == len(cells) else ", ".join(ids)
                said = f"{Verdict.NOT_TESTABLE}: {which}: {reason}"
                typer.echo("\n".join(wrapped(said, terminal_width(), indent=INDENT)))
            typer.echo()
    if report:
        typer.echo(f"wrote {write_reproduction(selection, tables)}", err=as_json)
