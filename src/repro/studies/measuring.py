"""Measuring one problem of a study in one precision: every variant, the yardsticks, then the winners once more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from repro.baselines import for_problem
from repro.bench.floor import Copy, Empty, Floor, floor_bytes
from repro.bench.rows import CLOCKS, SCHEMA, Row
from repro.bench.runnable import Candidate, Runnable
from repro.bench.store import Store, write_frame, write_parquet
from repro.bench.trial import Bench
from repro.codegen.render import streams
from repro.config.models import Config, Study
from repro.errors import ReproError
from repro.problems.problem import Problem, Unavailable
from repro.studies.registry import all_variants, get_study
from repro.studies.session import Folders, check_study, open_bench
from repro.studies.strategy import strategy
from repro.tuning.choose import Choice
from repro.tuning.pareto import choose_by_memory
from repro.tuning.rounds import shuffled_rounds
from repro.tuning.search import Progress, Search

COPIES = 4
#: So many of each yardstick are timed again, by each clock.
REPEATED = 2


def measure(config: Config, study: str, name: str, precision: str, progress: Progress) -> tuple[Path, ...]:
    """Measure a problem in one precision; return the paths of all that was written.

    `search.parquet` has every variant, `baseline.parquet` the yardsticks (floor, copy, empty kernel), `report.parquet`
    winners, yardsticks and the library's routines timed side by side, `choices.parquet` which variant each tuning
    chose. Rows that an earlier, killed run stored are not measured again. A problem that could not be had becomes one
    row that says so.

    Raises
    ------
    ReproError
        A study or a baseline that there is not, a problem that is not built, a module that is not compiled, or a device
        that cannot be opened.
    """
    check_study(config, study)
    folders = Folders(config, study, name, precision)
    try:
        problem = Problem.load(folders.problem)
    except Unavailable as reason:
        row = unavailable(study, precision, reason)
        paths = [write_parquet([row], folders.raw / f"{step}.parquet") for step in ("search", "baseline", "report")]
        return *paths, write_choices([], row, folders.raw / "choices.parquet")
    with (
        Store(folders.store / "rows.jsonl") as store,
        open_bench(config, study, problem, precision, folders) as bench,
    ):
        return _Measuring(config, study, problem, bench, store, progress).all(folders.raw)


class _Measuring:
    """The steps, on one open device."""

    def __init__(
        self, config: Config, study: str, problem: Problem, bench: Bench, store: Store, progress: Progress
    ) -> None:
        self._settings: Study = config.studies[study]
        self._study = get_study(study)
        self._problem = problem
        self._bench = bench
        self._store = store
        self._progress = progress
        self._seed = config.seed
        self._search = Search(bench, store, self._settings.cache == "cold", progress)
        self._strategy = strategy(config, study, bench)

    def all(self, folder: Path) -> tuple[Path, ...]:
        """Take all steps; write the files of each when it is done."""
        baselines = self._baselines()  # the names are checked first
        variants, found = self._variants()
        searched = write_parquet(found, folder / "search.parquet")
        yardsticks = self._yardsticks()
        rows = [row for _, row in yardsticks]
        baselined = write_parquet(rows, folder / "baseline.parquet")
        tie = self._bench.protocol.tie
        choices = [*self._study.choose(found, tie), *choose_by_memory(found, self._settings.memory_weight)]
        wanted = {choice.name for choice in choices}
        repeated = _fastest(rows)
        for ordering in worthwhile_orderings(choices, found, tie):
            baselines += self._baselines(ordering)
        runnables: list[Runnable] = [
            *(variant for variant in variants if variant.name in wanted),
            *(runnable for runnable, row in yardsticks if row.name in repeated),
            *baselines,
        ]
        report = self._rounds(runnables)
        sequels = self._study.sequels(runnables, report, self._bench.operands.precision, self._bench.device.target)
        report += self._rounds(sequels) if sequels else []
        chosen = write_choices(choices, report[0], folder / "choices.parquet")
        return searched, baselined, write_parquet(report, folder / "report.parquet"), chosen

    def _rounds(self, runnables: Sequence[Runnable]) -> list[Row]:
        """Time runnables side by side."""
        self._bench.workspace.resident = len(runnables)
        return shuffled_rounds(self._bench, runnables, self._store, self._seed, self._progress)

    def _variants(self) -> tuple[list[Candidate], list[Row]]:
        """Search each space by itself, then reordered matrices with what was fastest on the matrix as it came."""
        operands, target = self._bench.operands, self._bench.device.target
        variants = all_variants(self._study, self._settings, self._problem.entry, operands.precision, target)
        rows: list[Row] = []
        if self._settings.search != "exhaustive":  # it jumps from layout to layout: none is packed twice
            held = self._bench.device.free_bytes() // (2 * sum(floor_bytes(operands)))  # half for all else
            self._bench.workspace.resident = max(1, min(len({variant.packing for variant in variants}), held))
        for space in self._study.spaces(self._settings):
            rows += self._search.by(self._strategy, [v for v in variants if v.space == space], f"{space} space")
        best = {row.name for row in _ranked(rows)[: self._bench.protocol.finalists]}
        reordered = self._study.reordered(variants, best)
        if reordered:
            rows += self._search.exhaustive(reordered, "reordered")
        return [*variants, *reordered], rows

    def _yardsticks(self) -> list[tuple[Runnable, Row]]:
        """Time what every time is held against; a few shapes of copy are enough to find what the memory does."""
        shapes = streams(self._bench.device.target)
        floors, copies = [*map(Floor, shapes)], [*map(Copy, shapes[:: len(shapes) // COPIES])]
        empty = [Empty()]
        rows = self._search.exhaustive(floors, "floor")
        rows += self._search.screened(copies, "copy")  # long enough for a few launches to say which is best
        rows += self._search.exhaustive(empty, "empty kernel")
        return list(zip([*floors, *copies, *empty], rows, strict=True))

    def _baselines(self, ordering: str = "natural") -> list[Runnable]:
        """Return the library's routines that are asked for."""
        wanted = self._settings.baselines
        entry, backend = self._problem.entry, self._bench.device.backend
        if wanted == "all":
            return for_problem(entry, backend, ordering)
        known = [runnable.name for runnable in for_problem(entry, backend)]
        unknown = set(wanted) - set(known)
        if unknown:
            expected, actual = f"among {', '.join(known)}", ", ".join(sorted(unknown))
            raise ReproError("unknown baseline", expected=expected, actual=actual)
        runnables = zip(known, for_problem(entry, backend, ordering), strict=True)
        return [runnable for name, runnable in runnables if name in wanted]


def worthwhile_orderings(choices: Sequence[Choice], rows: Sequence[Row], tie: float) -> list[str]:
    """Return the orderings in which the library is timed as well.

    Those of choices that beat the best in the matrix's own order by more than a tie, by either clock: a reordered
    matrix is compared with a reordered matrix.
    """
    by_name = {row.name: row for row in rows}
    chosen = {(choice.clock, choice.tuning): by_name[choice.name] for choice in choices}
    found = set()
    for clock in CLOCKS:
        natural, reordered = (chosen.get((clock, tuning)) for tuning in ("extended", "reordered"))
        if not natural or not reordered:
            continue
        before, after = natural.median(clock), reordered.median(clock)
        if before and after and after * (1 + tie) < before:
            found.add(reordered.ordering)
    return sorted(found)


def _fastest(rows: Sequence[Row]) -> set[str]:
    """Return the names of the fastest of each kind by each clock."""
    kinds = {row.kind for row in rows}
    return {
        row.name
        for kind in kinds
        for clock in CLOCKS
        for row in _ranked([row for row in rows if row.kind == kind], clock)[:REPEATED]
    }


def _ranked(rows: Sequence[Row], clock: str = "event") -> list[Row]:
    """Return the rows that have a time, rows of the full protocol first, the fastest of them first."""
    timed = [row for row in rows if row.median(clock) is not None]
    return sorted(timed, key=lambda row: (row.protocol != "full", row.median(clock)))


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


def write_choices(choices: Sequence[Choice], of: Row, path: Path) -> Path:
    """Write the answers of all tunings to one Parquet file; study, problem, entry and precision are those of a row."""
    names = ["study", "problem", "entry", "precision", "clock", "tuning", "name", "ties", "schema"]
    case = (of.study, of.problem, of.entry, of.precision)
    records = [(*case, c.clock, c.tuning, c.name, list(c.ties), SCHEMA) for c in choices]
    return write_frame(pd.DataFrame(records, columns=names), path)
