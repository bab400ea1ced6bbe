"""`repro compare`: what got faster and what got slower between two campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from repro.artifacts.compare import Comparison
    from repro.artifacts.data import Campaign

RESULTS = Path("results")
TOLERANCE = 0.02
REGRESSION = 1
WORST = 10
WIDE = 200
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
    worst: Annotated[int, typer.Option(min=0, help="So many of what got slower are printed.")] = WORST,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write every compared row.", show_default=False)
    ] = None,
    results: Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")] = RESULTS,
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

    from repro.artifacts.compare import compare as run
    from repro.artifacts.compare import find_campaign

    comparison = run(
        find_campaign(first, results),
        find_campaign(second, results),
        tolerance=tolerance,
        search=search,
        across_devices=across_devices,
        load=_read,
    )
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)
    _print(comparison, worst, tolerance, console)
    if csv is not None:
        _write(comparison, csv)
        console.print(f"wrote {csv}")
    if len(comparison.slower):
        raise typer.Exit(REGRESSION)


def _read(raw: Path, study: str) -> Campaign:
    """Read a study of a campaign as the configuration beside it says."""
    from repro.campaign.artifacts import Asked

    folder = raw.resolve().parent
    return Asked.of(folder.name, folder.parent).read(study)


def _print(comparison: Comparison, worst: int, tolerance: float, console: Console) -> None:
    from repro.artifacts.compare import VERDICTS

    for letter, name, device in zip("AB", (comparison.first, comparison.second), comparison.devices, strict=True):
        console.print(f"{letter}: {name} ({device})")
    console.print()
    _print_changes(comparison, console)
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
    from repro.artifacts.compare import CASE

    mean, interval = comparison.mean_ratio()
    cases = len(comparison.rows[CASE].drop_duplicates())
    sure = f", 95 % interval {interval[0]:.4f} to {interval[1]:.4f} over {cases} cases" if interval else ""
    low, high = comparison.rows["ratio"].quantile([0.025, 0.975])
    rows = f"of 95 % of the rows from {low:.3f} to {high:.3f}"
    console.print(f"B/A, geometric mean of all rows: {mean:.4f}{sure}; {rows}")


def _print_changes(comparison: Comparison, console: Console) -> None:
    for key, (mine, theirs) in comparison.changes.items():
        console.print(f"differs: {key}: {mine} → {theirs}")
    if comparison.changes:
        console.print()


def _print_groups(comparison: Comparison, tolerance: float, console: Console) -> None:
    """Print how many rows have which verdict (across devices: how many there are), and what the ratios are."""
    from rich.table import Table

    from repro.artifacts.compare import VERDICTS
    from repro.artifacts.numbers import geometric_mean

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


def _write(comparison: Comparison, path: Path) -> None:
    from pandas.api.types import is_numeric_dtype

    from repro.artifacts.render_tables import as_text
    from repro.artifacts.write import replacing

    texts = comparison.rows.apply(lambda values: values if is_numeric_dtype(values) else values.map(as_text))
    with replacing(path) as partial:
        texts.to_csv(partial, index=False)
