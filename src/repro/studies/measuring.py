"""The three measuring steps of a study: every variant, the baselines, the winners once more beside the baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import pandas as pd

from repro.baselines import for_problem
from repro.bench.floor import Copy, Empty, Floor
from repro.bench.rows import SCHEMA, Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store, read_parquet, write_frame, write_parquet
from repro.bench.trial import Bench
from repro.codegen.render import streams
from repro.config.models import Config, Study
from repro.errors import ReproError
from repro.problems.problem import Problem, Unavailable
from repro.studies.registry import get_study
from repro.studies.session import Folders, open_bench
from repro.tuning.choose import Choice, choose
from repro.tuning.rounds import shuffled_rounds
from repro.tuning.search import Progress, exhaustive

COPIES = 4


def measure(config: Config, study: str, name: str, precision: str, progress: Progress) -> Path:
    """Try every variant on one problem in one precision; write `search.parquet` and return its path.

    Rows that an earlier, killed run stored are not measured again. A problem that could not be had becomes one row that
    says so.
    """

    def variants(problem: Problem, bench: Bench) -> list[list[Runnable]]:
        settings = _settings(config, study)
        return [[*get_study(study).variants(settings, problem.entry, precision, bench.device.target)]]

    return _search("search", variants, config, study, name, precision, progress)


def baseline(config: Config, study: str, name: str, precision: str, progress: Progress) -> Path:
    """Time every baseline, every configuration of the floor, a copy and an empty kernel; write `baseline.parquet`."""

    def groups(problem: Problem, bench: Bench) -> list[list[Runnable]]:
        return [_baselines(config, study, problem, bench), *_yardsticks(bench)]

    return _search("baseline", groups, config, study, name, precision, progress)


def _search(
    step: str,
    groups: Callable[[Problem, Bench], list[list[Runnable]]],
    config: Config,
    study: str,
    name: str,
    precision: str,
    progress: Progress,
) -> Path:
    """Search each group of runnables by itself and write the rows of all to `<step>.parquet`."""
    folders = Folders(config, study, name, precision)
    output = folders.raw / f"{step}.parquet"
    try:
        problem = Problem.load(folders.problem)
    except Unavailable as reason:
        write_parquet([unavailable(study, precision, reason)], output)
        return output
    with (
        Store(folders.store / f"{step}.jsonl") as store,
        open_bench(config, study, problem, precision, folders) as bench,
    ):
        rows = [row for group in groups(problem, bench) for row in exhaustive(bench, group, store, progress)]
        write_parquet(rows, output)
    return output


def select(config: Config, study: str, name: str, precision: str, progress: Progress) -> tuple[Path, Path]:
    """Choose winners and time them again beside the baselines; write `report.parquet` and `choices.parquet`."""
    folders = Folders(config, study, name, precision)
    output, choices_output = folders.raw / "report.parquet", folders.raw / "choices.parquet"
    try:
        problem = Problem.load(folders.problem)
    except Unavailable as reason:
        write_choices([], study, reason.name, reason.entry, precision, choices_output)
        write_parquet([unavailable(study, precision, reason)], output)
        return output, choices_output
    found = load_rows(folders.raw / "search.parquet")
    choices = choose(found, _settings(config, study).protocol.tie)
    layouts = len(get_study(study).layouts(_settings(config, study)))
    with (
        Store(folders.store / "report.jsonl") as store,
        open_bench(config, study, problem, precision, folders, resident=layouts) as bench,
    ):
        variants = get_study(study).variants(_settings(config, study), problem.entry, precision, bench.device.target)
        wanted = {choice.name for choice in choices}
        runnables: list[Runnable] = [v for v in variants if v.name in wanted]
        runnables += _worth_repeating(
            [*_baselines(config, study, problem, bench), *chain(*_yardsticks(bench))],
            load_rows(folders.raw / "baseline.parquet"),
        )
        rows = shuffled_rounds(bench, runnables, store, config.seed, progress)
    write_choices(choices, study, name, problem.entry, precision, choices_output)
    write_parquet(rows, output)
    return output, choices_output


def _settings(config: Config, study: str) -> Study:
    if study not in config.studies:
        raise ReproError("unknown study", expected=f"one of {', '.join(config.studies)}", actual=study)
    return config.studies[study]


def _baselines(config: Config, study: str, problem: Problem, bench: Bench) -> list[Runnable]:
    wanted = _settings(config, study).baselines
    known = for_problem(problem.entry, bench.device.backend)
    if wanted == "all":
        return known
    unknown = set(wanted) - {runnable.name for runnable in known}
    if unknown:
        names = ", ".join(runnable.name for runnable in known)
        raise ReproError("unknown baseline", expected=f"among {names}", actual=", ".join(sorted(unknown)))
    return [runnable for runnable in known if runnable.name in wanted]


def _yardsticks(bench: Bench) -> list[list[Runnable]]:
    """Return what every time is held against, by kind; a few shapes of copy are enough to find what the memory does."""
    shapes = streams(bench.device.target)
    return [[*map(Floor, shapes)], [*map(Copy, shapes[:: len(shapes) // COPIES])], [Empty()]]


def _worth_repeating(runnables: Sequence[Runnable], rows: Sequence[Row]) -> list[Runnable]:
    """Return all baselines, even those that fail, and the best two of each yardstick."""
    names: set[str] = {row.name for row in rows if row.kind == "baseline"}
    for kind in ("floor", "copy", "empty"):
        for clock in ("event_median", "graph_median"):
            ranked = [r for r in rows if r.kind == kind and getattr(r, clock) is not None]
            names |= {row.name for row in sorted(ranked, key=lambda r: getattr(r, clock))[:2]}
    return [runnable for runnable in runnables if runnable.name in names]


def unavailable(study: str, precision: str, reason: Unavailable) -> Row:
    """Return the row of a problem that could not be had."""
    return Row(
        key=f"unavailable {reason.name}",
        study=study,
        problem=reason.name,
        entry=reason.entry,
        precision=precision,
        kind="variant",
        name="-",
        status="unavailable",
        phase="report",
        message=reason.reason,
    )


def load_rows(path: Path) -> list[Row]:
    """Read the rows of one job back."""
    frame = read_parquet(path).astype(object)
    frame = frame.where(frame.notna(), None)
    return [Row(**{str(name): value for name, value in record.items()}) for record in frame.to_dict("records")]


def write_choices(choices: Sequence[Choice], study: str, problem: str, entry: str, precision: str, path: Path) -> None:
    """Write the answers of all tunings to one Parquet file."""
    names = ["study", "problem", "entry", "precision", "clock", "tuning", "name", "ties", "schema"]
    records = [(study, problem, entry, precision, c.clock, c.tuning, c.name, list(c.ties), SCHEMA) for c in choices]
    write_frame(pd.DataFrame(records, columns=names), path)
